//! What happens between a guard and its copy: the settle wait, then a serial read that finishes open Paxos rounds.

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
/// Approximate size of a request and its reply, which holds one key.
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

    /// Must be called after the guard was published. Every proxy that was already running knows of the guard after its
    /// own `max_staleness`, or forwards no write. A proxy that starts later sees the guard at once. A write takes at
    /// most two write timeouts of its coordinator.
    pub async fn time(&self, store: &Store) -> Result<Duration, StoreError> {
        if let Some(fixed) = self.fixed {
            return Ok(fixed);
        }
        let longest = store.read_max_staleness().await?.unwrap_or_default();
        Ok(self.max_staleness.max(longest) + 2 * self.write_timeout)
    }
}

/// Waits until every proxy knows of the guard, and every write that was already under way has ended.
pub(super) async fn wait(settle: Duration, mut stop: watch::Receiver<bool>) -> Result<(), Halt> {
    let until = Instant::now() + settle;
    tokio::select! {
        () = sleep_until(until) => Ok(()),
        _ = stop.wait_for(|stop| *stop) => Err(Halt::Stopped),
    }
}

/// Finishes open Paxos rounds by a serial read of the partition: an unfinished conditional write could otherwise take
/// effect later. Reading one row is enough. If a row is known, it is `row`, because a read from the beginning could
/// meet too many tombstones. The rounds are finished only if the read is answered.
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
