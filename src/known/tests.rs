//! What sessions are told about keys, and how that is counted.

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};

use super::*;

fn key(series: &str, day: i32) -> PartitionKey {
    let parts = [series.as_bytes(), &day.to_be_bytes()];
    PartitionKey::from_components(&parts).expect("short enough")
}

/// A table with this filter, of which one day of series `a` is split.
fn watched(filter: &[&str]) -> (Arc<Watched>, PrometheusHandle) {
    let settings = WatchedTable {
        filter: filter.iter().map(|policy| (*policy).to_owned()).collect(),
        ..WatchedTable::new(TableName::new("plant", "reading"))
    };
    let recorder = PrometheusBuilder::new().build_recorder();
    let handle = recorder.handle();
    let watched = ::metrics::with_local_recorder(&recorder, || testing::watched(settings));
    for shard in 0..watched.filter.shards() {
        let keys = [key("a", 1)];
        let installed = watched
            .filter
            .rebuild_shard(shard, keys.iter().map(PartitionKey::bytes));
        assert_eq!(installed, crate::filter::Installed::Yes);
    }
    (watched, handle)
}

fn asked(watched: &Watched, keys: &[PartitionKey]) -> bool {
    watched.might_any_be_split(keys.iter().map(PartitionKey::bytes))
}

/// Answers by kind: prefix no, prefix maybe, point no, point maybe.
fn counted(handle: &PrometheusHandle) -> [u64; 4] {
    let text = handle.render();
    let value = |kind: &str, answer: &str| {
        let labels = [format!("kind=\"{kind}\""), format!("answer=\"{answer}\"")];
        let mut lines = text
            .lines()
            .filter(|line| line.starts_with("narrows_filter_checks_total{"));
        let line = lines.find(|line| labels.iter().all(|label| line.contains(label)));
        let value = line.and_then(|line| line.rsplit(' ').next()?.parse().ok());
        value.unwrap_or(0)
    };
    [
        value("prefix", "no"),
        value("prefix", "maybe"),
        value("point", "no"),
        value("point", "maybe"),
    ]
}

#[tokio::test]
async fn one_look_up_settles_a_list_of_one_series() {
    let (watched, handle) = watched(&["fuse16", "prefix(1)"]);
    let of_b: Vec<_> = (0..50).map(|day| key("b", day)).collect();
    assert!(!asked(&watched, &of_b));
    assert_eq!(counted(&handle), [1, 0, 0, 0]);
    // Of a series with a split, key by key up to the first that might be split.
    assert!(asked(&watched, &[key("a", 7), key("a", 1), key("a", 2)]));
    assert_eq!(counted(&handle), [1, 1, 1, 1]);
    assert!(!asked(&watched, &[key("a", 7), key("a", 8)]));
    assert_eq!(counted(&handle), [1, 2, 3, 1]);
    // One key, and keys of two series.
    assert!(!asked(&watched, &[key("b", 1)]));
    assert!(!asked(&watched, &[key("b", 1), key("c", 1)]));
    assert_eq!(counted(&handle), [1, 2, 6, 1]);
}

#[tokio::test]
async fn without_a_prefix_policy_a_list_is_asked_for_key_by_key() {
    let (watched, handle) = watched(&["fuse16"]);
    assert!(!asked(&watched, &[key("b", 1), key("b", 2)]));
    assert_eq!(counted(&handle), [0, 0, 2, 0]);
}

#[tokio::test]
async fn without_a_filter_everything_might_be_split() {
    let (watched, handle) = watched(&[]);
    assert!(asked(&watched, &[key("b", 1), key("b", 2)]));
    assert_eq!(counted(&handle), [0, 0, 0, 1]);
    assert!(!watched.has_no_splits());
}

/// The leading column of a key with one column is not known to the policy, yet the key is there.
#[tokio::test]
async fn a_prefix_filter_does_not_forget_keys_without_a_prefix() {
    let (watched, _) = watched(&["prefix(2)"]);
    assert!(!watched.has_no_splits());
    let bare = PartitionKey::new(*b"bare");
    for shard in 0..watched.filter.shards() {
        let installed = watched.filter.rebuild_shard(shard, [bare.bytes()]);
        assert_eq!(installed, crate::filter::Installed::Yes);
    }
    assert!(!watched.has_no_splits() && asked(&watched, &[bare]));
}
