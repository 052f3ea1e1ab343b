//! The task as a whole, with a sink that remembers.

use std::sync::Mutex;
use std::time::Duration;

use super::*;
use crate::known::testing;
use crate::sighting::Sightings;
use crate::watched::WatchedTable;

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
    testing::watched(settings)
}

/// What the sink gets of two wide partitions and one read of a table that is not watched.
async fn taken(mode: Mode) -> Vec<Event> {
    let known = testing::known();
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
