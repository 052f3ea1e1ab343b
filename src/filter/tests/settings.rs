//! Settings that decide what a filter holds: whole keys or prefixes, how few keys are too few, and no policy at all.

use super::*;

pub(super) fn bloom_by_prefix(whole_key_filtering: bool) -> Arc<dyn FilterPolicy> {
    let policy = BloomPolicy::new(Sizing::FalsePositiveRate(0.001)).unwrap();
    let extractor = Arc::new(LeadingColumns::new(1));
    Arc::new(policy.with_prefix_extractor(extractor, whole_key_filtering))
}

fn key(series: u32, day: u32) -> Vec<u8> {
    let series = component(&series.to_be_bytes());
    [series, component(&day.to_be_bytes())].concat()
}

fn series(number: u32) -> Vec<u8> {
    component(&number.to_be_bytes())
}

/// 100 series of 20 days each, and what is said about other days, other series' days and other series.
fn answers(policy: Arc<dyn FilterPolicy>) -> ([usize; 3], usize) {
    let live = (0..2_000).map(|n| key(n / 20, n % 20)).collect();
    let filter = built(&Policies::from([policy]), 1, &live);
    assert_holds(&filter, &live, "built");
    let keys = |shown: &dyn Fn(u32) -> Vec<u8>| {
        let keys = (0..1_000).map(shown);
        keys.filter(|key| filter.might_match(&Target::key(key)))
            .count()
    };
    let other_days = keys(&|n| key(n % 100, 100 + n));
    let other_series = keys(&|n| key(1_000 + n, 1));
    let unknown = (1_000..2_000).filter(|n| filter.might_match(&Target::prefix(&series(*n))));
    let answers = [other_days, other_series, unknown.count()];
    (answers, filter.stats().bytes)
}

/// The three ways of the table "configuration modes" in the RFC.
#[test]
fn whole_keys_prefixes_or_both_are_held_and_asked_for() {
    let few = 0..20;
    let (whole, whole_bytes) = answers(bloom(Sizing::FalsePositiveRate(0.001)));
    assert!(few.contains(&whole[0]) && few.contains(&whole[1]));
    assert_eq!(whole[2], 1_000, "nothing is known of prefixes");

    let (both, both_bytes) = answers(bloom_by_prefix(true));
    assert!(both.iter().all(|wrong| few.contains(wrong)), "{both:?}");

    let (prefixes, prefix_bytes) = answers(bloom_by_prefix(false));
    assert_eq!(prefixes[0], 1_000, "other days of a series that is held");
    assert!(few.contains(&prefixes[1]) && few.contains(&prefixes[2]));

    // 2,000 keys, as many and 100 prefixes, 100 prefixes.
    assert!(whole_bytes < both_bytes && both_bytes < whole_bytes * 11 / 10);
    assert!(prefix_bytes < whole_bytes / 4);
}

/// What one of them has stored must not answer for another.
#[test]
fn each_way_to_hold_keys_has_a_name_of_its_own() {
    let mut random = Random::new();
    let ways = [
        bloom(Sizing::FalsePositiveRate(0.001)),
        bloom_by_prefix(true),
        bloom_by_prefix(false),
    ];
    let live: BTreeSet<_> = random.keys(300).into_iter().collect();
    for stored in &ways {
        let filter = built(&Policies::from([stored.clone()]), 2, &live);
        for read in &ways {
            let policies = Policies::from([read.clone()]);
            let bytes = filter.encode(CONTEXT);
            let restored = TableFilter::decode(&bytes, CONTEXT, policies, 2);
            assert_holds(&restored.filter, &live, "read by another");
            let is_same = stored.name() == read.name();
            assert_eq!(restored.filter.needs_rebuild().is_empty(), is_same);
        }
    }
}

#[test]
fn few_keys_are_held_exactly_and_more_by_a_filter() {
    let key = |n: u32| key(n, n);
    for policies in all_policies() {
        if policies.is_empty() {
            continue;
        }
        let filter = TableFilter::new(policies.clone(), 1).with_min_filter_keys(100);
        let held = |count: u32| {
            let installed = filter.rebuild_shard(0, (0..count).chain(0..count).map(key));
            assert_eq!(installed, Installed::Yes);
            let live = (0..count).map(key).collect();
            assert_holds(&filter, &live, &format!("{count} keys of {policies:?}"));
            assert_eq!(filter.needs_rebuild(), Vec::<usize>::new());
            let stats = filter.stats();
            (stats.keys, stats.overlay_keys, stats.shards_unknown)
        };
        assert_eq!(held(0), (0, 0, 0));
        assert_eq!(held(99), (99, 99, 0));
        let wrong = (1_000..100_000).find(|n| filter.might_match(&Target::key(&key(*n))));
        assert_eq!(wrong, None, "exact, by {policies:?}");
        // A restart keeps them.
        let bytes = filter.encode(CONTEXT);
        let restored = TableFilter::decode(&bytes, CONTEXT, policies.clone(), 1).filter;
        assert!((0..99).all(|n| restored.might_match(&Target::key(&key(n)))));
        assert!(!restored.might_match(&Target::key(&key(99))));
        assert_eq!(restored.needs_rebuild(), Vec::<usize>::new());

        assert_eq!(held(100), (100, 0, 0));
        assert_eq!(held(99), (99, 99, 0), "and back");
    }
}

/// As many as may be held exactly ask for no rebuild, so that there is no end of rebuilding.
#[test]
fn the_largest_number_of_few_keys_is_no_overlay_grown_too_large() {
    let most = MIN_FILTER_KEYS_MAX as u32;
    let filter = TableFilter::new(Policies::from([fuse()]), 1).with_min_filter_keys(usize::MAX);
    let keys = || (0..most - 1).map(u32::to_be_bytes);
    assert_eq!(filter.rebuild_shard(0, keys()), Installed::Yes);
    assert_eq!(filter.stats().overlay_keys, MIN_FILTER_KEYS_MAX - 1);
    filter.insert(&most.to_be_bytes());
    assert_eq!(filter.needs_rebuild(), Vec::<usize>::new());
    filter.insert(&(most + 1).to_be_bytes());
    assert_eq!(filter.needs_rebuild(), [0]);
    let more = keys().chain([most.to_be_bytes(), (most + 1).to_be_bytes()]);
    assert_eq!(filter.rebuild_shard(0, more), Installed::Yes);
    assert_eq!(filter.stats().overlay_keys, 0);
}

/// Callers take "no keys" for "nothing is split", so every key must count, and nothing known is not nothing there.
#[test]
fn no_filter_without_answers_says_that_there_are_no_keys() {
    let bare = || [b"one".as_slice(), b"two"];
    let none = TableFilter::new(Policies::from([]), 2);
    for shard in 0..2 {
        assert_eq!(none.rebuild_shard(shard, bare()), Installed::Yes);
    }
    assert!(none.might_match(&Target::key(b"one")) && none.might_match(&Target::key(b"else")));
    assert_eq!(none.stats().shards_unknown, 2);
    assert_eq!(none.needs_rebuild(), Vec::<usize>::new());

    // Keys of one column have no leading columns.
    for policy in [prefix(1), bloom_by_prefix(false)] {
        let filter = TableFilter::new(Policies::from([policy]), 1);
        assert_eq!(filter.rebuild_shard(0, bare()), Installed::Yes);
        assert!(filter.might_match(&Target::key(b"one")));
        assert_eq!(filter.stats().keys, 2);
    }
}

#[test]
fn keys_that_begin_alike_are_asked_for_by_their_prefix_where_that_is_cheap() {
    let shared = |policies: &[Arc<dyn FilterPolicy>], shards: usize, keys: &[Vec<u8>]| {
        let filter = TableFilter::new(policies.into(), shards);
        let keys = keys.iter().map(Vec::as_slice);
        let found = filter.snapshot().shared_prefix(keys);
        found.map(<[u8]>::to_vec)
    };
    let days = [key(7, 1), key(7, 2), key(7, 0x0100_0000)];
    let one_column = [fuse(), prefix(1)];
    // The length of the next column is the same, too, and changes nothing.
    let found = shared(&one_column, 16, &days).expect("one series");
    assert!(found.starts_with(&series(7)) && days.iter().all(|key| key.starts_with(&found)));
    assert!(shared(&[bloom_by_prefix(true)], 16, &days).is_some());
    assert!(shared(&one_column, 48, &days).is_some());
    // Too many shards for three keys, one key, two series, no policy that knows prefixes, or longer ones.
    assert_eq!(shared(&one_column, 64, &days), None);
    assert_eq!(shared(&one_column, 1, &days[..1]), None);
    assert_eq!(shared(&one_column, 1, &[]), None);
    assert_eq!(shared(&one_column, 1, &[key(7, 1), key(8, 1)]), None);
    assert_eq!(shared(&[fuse()], 1, &days), None);
    assert_eq!(shared(&[prefix(2)], 1, &days), None);
    assert_eq!(shared(&[], 1, &days), None);
}
