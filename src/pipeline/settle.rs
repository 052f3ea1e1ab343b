//! What a guard waits for before anything is copied.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::original::cells::key_is;
use super::original::partition::Partition;
use super::original::requests::Requests;
use super::original::scan::original;
use super::run::report::Halt;
use crate::config::Config;
use crate::protocol::types::Value;
use crate::schema::TableSchema;
use crate::statement::quoted;
use crate::upstream::pool::{PoolError, SubRead};
use crate::wide_row::store::{ClusterPatience, Store, StoreError};

const SERIAL: u16 = 0x0008;
/// About what a key takes.
const BYTES: usize = 64;

/// Duration of the settle wait.
#[derive(Debug, Clone, Copy)]
pub struct Settle {
    fixed: Option<Duration>,
    max_staleness: Duration,
    write_timeout: Duration,
}

impl Settle {
    pub fn new(config: &Config, patience: ClusterPatience) -> Self {
        Self {
            fixed: config.pipeline.settle,
            max_staleness: config.control.max_staleness,
            write_timeout: patience.write_timeout,
        }
    }

    /// Asked after the guard was published: every proxy that began before knows of the guard after its own `max_staleness`
    /// or forwards no write, one that begins later sees it at once, and a write takes no longer than two timeouts of its
    /// coordinator.
    pub async fn time(&self, store: &Store) -> Result<Duration, StoreError> {
        if let Some(fixed) = self.fixed {
            return Ok(fixed);
        }
        let longest = store.read_max_staleness().await?.unwrap_or_default();
        Ok(self.max_staleness.max(longest) + 2 * self.write_timeout)
    }
}

/// Waits until every proxy knows of the guard, and every write that was under way before is over.
pub(super) async fn wait(settle: Duration, mut stop: watch::Receiver<bool>) -> Result<(), Halt> {
    let until = Instant::now() + settle;
    tokio::select! {
        () = sleep_until(until) => Ok(()),
        _ = stop.wait_for(|stop| *stop) => Err(Halt::Stopped),
    }
}

/// A conditional write that nobody finished could take effect later: a serial read of its partition finishes it now. One row
/// is enough, `row` if there is a known one: a read from the beginning could meet too many tombstones. Only a read that
/// was answered has finished it.
pub(super) async fn finish_paxos(
    requests: &Requests,
    schema: &TableSchema,
    partition: &Partition,
    row: &[Box<[u8]>],
) -> Result<(), PoolError> {
    let Some(first) = schema.partition_key.first() else {
        return Ok(());
    };
    let columns = schema.clustering.iter().zip(row);
    let place: String = columns
        .map(|(column, _)| format!(" AND {} = ?", quoted(&column.column.name)))
        .collect();
    let text = format!(
        "SELECT {} FROM {} WHERE {}{place} LIMIT 1",
        quoted(&first.name),
        original(schema),
        key_is(schema)
    );
    let request = SubRead {
        values: partition
            .values()
            .chain(row.iter().map(|value| Value::Bytes(value)))
            .collect(),
        consistency: SERIAL,
        ..SubRead::default()
    };
    let place = (schema.replication.as_slice(), partition.key.bytes());
    requests
        .execute(&text, &request, place, BYTES)
        .await
        .map(drop)
}
