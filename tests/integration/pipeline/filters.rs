//! Whatever policies a table's filter has, splits are found and read; and a list of keys of one series costs one look-up.

use super::world::{Client, SERIES, World, until_answered, until_completed};
use crate::support::{Codec, Proxy, eventually, single_cluster};

const ROWS: i32 = 200;
const LISTS: [(&str, bool); 4] = [
    ("['fuse16', 'prefix(2)']", true),
    ("['bloom(bits_per_key = 12, prefix = 1)']", true),
    (
        "['bloom(bits_per_key = 12, prefix = 1, whole_key_filtering = false)']",
        true,
    ),
    ("[]", false),
];

/// Look-ups by prefix and by key that were answered so.
fn checks(proxy: &Proxy, answer: &str) -> [u64; 2] {
    ["prefix", "point"].map(|kind| {
        let label = format!("kind=\"{kind}\",answer=\"{answer}\"");
        proxy.metric_sum("narrows_filter_checks_total", &label)
    })
}

#[test]
fn every_kind_of_filter_finds_splits_and_lists_of_one_series_take_one_look_up() {
    let cluster = single_cluster();
    for (filter, has_prefixes) in LISTS {
        let settings = format!("wide_bytes = '64KiB'\ntarget_bytes = '64KiB'\nfilter = {filter}\n");
        let world = World::create(&cluster, Codec::V4, 1, &[SERIES]);
        let mut world = world.with_settings(&settings);
        world.fill_series(3, ROWS);
        world.fill_series(4, 5);
        let list = world.select_series("IN (3, 4, 5)");
        let expected = world.direct.scan(&list);
        assert_eq!(expected.len(), ROWS as usize + 5);
        let proxy = world.splitter().start();
        let (control, id) = (world.control(), world.series_id(3));
        control.nominate(&id);
        until_completed(&control, &id);
        let mut through = Client::connect(proxy.address(), Codec::V4);
        until_answered(&proxy, &mut through, &list, &expected);
        // What is not split is not taken for it, whatever the filter says.
        let one = world.select_series("= 4");
        assert_eq!(through.scan(&one), world.direct.scan(&one), "{filter}");

        let other = list.replace("'a'", "'b'");
        if !has_prefixes {
            assert!(through.scan(&other).is_empty());
            assert_eq!(checks(&proxy, "no"), [0, 0], "there is no filter");
            assert_eq!(checks(&proxy, "maybe")[0], 0, "and no prefix in it");
            continue;
        }
        // Metrics are read while nobody else asks the filter.
        let [prefixes, points] = eventually("it is ruled out by its series", || {
            let before = checks(&proxy, "no");
            assert!(through.scan(&other).is_empty());
            let after = checks(&proxy, "no");
            (after[0] > before[0]).then_some([after[0] - before[0], after[1] - before[1]])
        });
        assert_eq!((prefixes, points), (1, 0), "{filter}");
    }
}

/// The shards of a small table hold their keys exactly, or by filters if that is wanted.
#[test]
fn few_keys_make_no_filter_and_are_found() {
    let cluster = single_cluster();
    for min_filter_keys in ["0", "1024"] {
        let mut world = World::create(&cluster, Codec::V4, 1, &[SERIES]);
        world.fill_series(3, ROWS);
        let text = world.select_series("= 3");
        let expected = world.direct.scan(&text);
        let splitter = || {
            world
                .splitter()
                .set("control.min_filter_keys", min_filter_keys)
        };
        let proxy = splitter().start();
        let (control, id) = (world.control(), world.series_id(3));
        control.nominate(&id);
        until_completed(&control, &id);
        let mut through = Client::connect(proxy.address(), Codec::V4);
        until_answered(&proxy, &mut through, &text, &expected);
        // Loaded from the store, not inserted.
        let proxy = proxy.restart(splitter());
        let mut through = Client::connect(proxy.address(), Codec::V4);
        until_answered(&proxy, &mut through, &text, &expected);
        assert_eq!(proxy.metric_sum("narrows_filter_keys", ""), 1);
    }
}
