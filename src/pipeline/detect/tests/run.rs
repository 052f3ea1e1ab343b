//! The task as a whole, with a sink that remembers.

use std::sync::Mutex;
use std::time::Duration;

use tokio::runtime::Handle;

use super::*;
use crate::filter::{FusePolicy, Policies, TableFilter};
use crate::wide_row::clock::BootClock;
use crate::wide_row::freshness::Freshness;
use crate::wide_row::metrics::TableMetrics;
use crate::wide_row::sighting::Sightings;
use crate::wide_row::slot::{StoreSlot, TableShards};
use crate::wide_row::validate::Validations;
use crate::wide_row::watched::WatchedTable;

#[derive(Clone, Default)]
struct Remembers(Arc<Mutex<Vec<Event>>>);

impl Sink for Remembers {
    fn take(&mut self, watched: &Arc<Watched>, event: Event) {
        assert_eq!(*watched.name(), event.table);
        self.0.lock().unwrap().push(event);
    }
}

fn watched(mode: Mode) -> Arc<Watched> {
    let mut settings = WatchedTable::new(table());
    (settings.mode, settings.wide_bytes, settings.shards) = (mode, WIDE, 2);
    let metrics = TableMetrics::register(&table());
    let reader = TableShards {
        store: Arc::new(StoreSlot::default()),
        table: table(),
    };
    let validations = Validations::new(
        Arc::new(reader),
        settings.shards,
        Handle::current(),
        metrics.validations(),
    );
    let filter = TableFilter::new(Policies::from([Arc::new(FusePolicy) as _]), 2);
    let freshness = Freshness::new(Arc::new(BootClock), Duration::from_secs(60));
    Arc::new(Watched::new(
        settings,
        filter,
        freshness,
        validations,
        metrics,
    ))
}

/// What the sink gets of two wide partitions and one read of a table that is not watched.
async fn taken(mode: Mode) -> Vec<Event> {
    let known = Known::new(Freshness::new(Arc::new(BootClock), Duration::from_secs(60)));
    known.set([watched(mode)]);
    let (sightings, receiver) = Sightings::channel(10);
    let large = page(None, None, WIDE, Duration::ZERO);
    for (name, key) in [("reading", 1), ("other", 2), ("reading", 3), ("reading", 1)] {
        sightings.send(Sighting {
            table: TableName::new("plant", name),
            key: partition(key),
            what: large,
        });
    }
    drop(sightings);
    let sink = Remembers::default();
    run(
        receiver,
        Arc::new(known),
        WideReads::default(),
        sink.clone(),
    )
    .await;
    let taken = sink.0.lock().unwrap();
    taken.clone()
}

#[tokio::test]
async fn only_what_is_served_is_written_down() {
    let both: Vec<Event> = size(1, WIDE).into_iter().chain(size(3, WIDE)).collect();
    for (mode, expected) in [
        (Mode::Off, Vec::new()),
        (Mode::Detect, Vec::new()),
        (Mode::Serve, both),
    ] {
        assert_eq!(taken(mode).await, expected, "{mode:?}");
    }
}
