//! Two event buckets of one series are two partitions, and one of them is rolled back and split again at once, under scans
//! that live through it.

use narrows::wide_row::state::State;

use super::world::{Client, SERIES, SPLIT_PATIENCE, World, until_answered, until_completed};
use crate::exactness::wire::Row;
use crate::support::request::Parameters;
use crate::support::{Codec, eventually_within, single_cluster};

const ROWS: i32 = 300;
const ROWS_PER_PAGE: i32 = 10;

/// A scan in small pages that takes its time.
struct Scan {
    text: String,
    parameters: Parameters,
    rows: Vec<Row>,
    is_done: bool,
}

impl Scan {
    fn new(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            parameters: Parameters {
                page_size: Some(ROWS_PER_PAGE),
                ..Parameters::default()
            },
            rows: Vec::new(),
            is_done: false,
        }
    }

    fn next(&mut self, client: &mut Client) {
        if self.is_done {
            return;
        }
        let page = client.page(&self.text, &self.parameters);
        self.rows.extend(page.rows);
        self.is_done = page.paging_state.is_none();
        self.parameters.paging_state = page.paging_state;
    }
}

#[test]
fn a_key_is_rolled_back_and_split_again_at_once_under_scans() {
    let cluster = single_cluster();
    let codec = Codec::V5;
    let mut world = World::create(&cluster, codec, 1, &[SERIES]);
    world.fill_series(3, ROWS);
    world.fill_series(4, ROWS);
    let texts = ["= 3", "= 4", "IN (3, 4)"].map(|buckets| world.select_series(buckets));
    let expected = texts.each_ref().map(|text| world.direct.scan(text));
    assert_eq!(expected.each_ref().map(Vec::len), [300, 300, 600]);
    let proxy = world.splitter().start();
    let mut through = Client::connect(proxy.address(), codec);
    let control = world.control();
    let ids = [3, 4].map(|event_bucket| world.series_id(event_bucket));
    let first = ids.each_ref().map(|id| control.nominate(id));
    for id in &ids {
        until_completed(&control, id);
    }
    for (text, expected) in texts.iter().zip(&expected) {
        until_answered(&proxy, &mut through, text, expected);
    }
    let mut scans = Vec::new();
    // At each point of its life new ones begin, and those before go on.
    let mut turn = |through: &mut Client| {
        scans.extend(texts.iter().map(|text| Scan::new(text)));
        scans.iter_mut().for_each(|scan| scan.next(through));
    };
    turn(&mut through);
    assert!(control.invalidate(&ids[0], first[0]), "was in service");
    turn(&mut through);
    let second = control.nominate(&ids[0]);
    assert_eq!(second.0, first[0].0 + 1);
    let mut seen = None;
    eventually_within(SPLIT_PATIENCE, "it is split again", || {
        let state = control.standing(&ids[0])?.state;
        if seen.replace(state) != Some(state) {
            turn(&mut through);
        }
        (state == State::Completed).then_some(())
    });
    until_answered(&proxy, &mut through, &texts[0], &expected[0]);
    turn(&mut through);
    while scans.iter().any(|scan| !scan.is_done) {
        scans.iter_mut().for_each(|scan| scan.next(&mut through));
    }
    for (number, scan) in scans.iter().enumerate() {
        let expected = &expected[number % texts.len()];
        assert!(scan.rows == *expected, "scan {number}: {}", scan.text);
    }
    let generations = ids.map(|id| control.standing(&id).map(|standing| standing.generation));
    assert_eq!(generations, [Some(second), Some(first[1])]);
    for (text, expected) in texts.iter().zip(&expected) {
        until_answered(&proxy, &mut through, text, expected);
    }
}
