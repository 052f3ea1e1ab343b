//! If configured, tells detection what nodes list in `system.top_partitions`. This also finds partitions that nobody
//! reads, or that clients read around this proxy.
//!
//! A list may be old: a partition stays on it until the next repair. That does no harm: `plan` reads a nominated
//! partition before anything else happens, and one that it finds narrow is left alone for a day.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use crate::known::slot::StoreSlot;
use crate::known::{Known, Watched};
use crate::schema::names::PartitionKey;
use crate::schema::{TableSchema, key_text};
use crate::sighting::{Seen, Sighting, Sightings};
use crate::watched::Mode;
use crate::wide_row::store::{StoreError, TopPartitions};

/// Pause before the next poll if a table could not be asked about, for example because its schema is not known yet.
const SOON: Duration = Duration::from_secs(2);

pub struct Poll {
    pub every: Duration,
    pub store: Arc<StoreSlot>,
    pub known: Arc<Known>,
    pub sightings: Sightings,
}

impl Poll {
    /// Polls until it is aborted.
    pub async fn run(self) {
        let mut told = String::new();
        loop {
            let mut all = self.known.is_loaded();
            for watched in self.known.tables() {
                if watched.mode() != Mode::Off {
                    all &= self.ask(&watched, &mut told).await;
                }
            }
            let pause = if all { self.every } else { SOON };
            sleep(pause.min(self.every)).await;
        }
    }

    /// Returns whether the nodes could be asked. `told`: the last refusal that was logged; it is logged only once.
    async fn ask(&self, watched: &Watched, told: &mut String) -> bool {
        let (Ok(store), Some(schema)) = (self.store.get(), watched.schema()) else {
            return false;
        };
        let mut listed = store.read_top_partitions(watched.name()).await;
        if let Some(error) = listed.failed.take() {
            tell(error, told);
        }
        let skipped = self.see(watched, &schema, listed);
        if skipped > 0 {
            tracing::debug!(table = %watched.name(), skipped, "skipped ambiguous keys in system.top_partitions");
        }
        true
    }

    /// Returns how many keys could not be read.
    fn see(&self, watched: &Watched, schema: &TableSchema, listed: TopPartitions) -> usize {
        let mut skipped = 0;
        for partition in listed.partitions {
            let Some(key) = read_key(&partition.key, schema) else {
                skipped += 1;
                continue;
            };
            self.sightings.send(Sighting {
                table: watched.name().clone(),
                key,
                what: Seen::Top(partition.top),
            });
        }
        skipped
    }
}

fn read_key(text: &str, schema: &TableSchema) -> Option<PartitionKey> {
    let values = key_text::read(text, &schema.partition_key)?;
    let values: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
    PartitionKey::from_components(&values)
}

/// A node that does not answer will recover. A refusal lasts until somebody grants the right or upgrades to 4.1.
fn tell(error: StoreError, told: &mut String) {
    match error {
        StoreError::Refused(error) if error.to_string() != *told => {
            tracing::warn!(%error, "system.top_partitions cannot be read, so pipeline.poll_top_partitions finds nothing");
            *told = error.to_string();
        }
        error => tracing::debug!(%error, "a node did not list its largest partitions"),
    }
}
