//! What Cassandra does with states in corners that the proxy must follow.

use narrows::protocol::Version;
use narrows::rewrite::native::{Mark, NativeState, UNLIMITED};
use narrows::rewrite::state::PagingState;

use super::{CODECS, connect, page, pages, version};
use crate::support::cluster::old_cluster;
use crate::support::request::{Parameters, query_with};
use crate::support::{Cluster, Codec, Keyspace, RawClient, cluster, opcode};

/// Three partitions of the rows 0 to 16.
fn keyspace(cluster: &Cluster) -> Keyspace {
    let table = "CREATE TABLE ints (k int, c int, PRIMARY KEY (k, c))";
    let keyspace = Keyspace::create(cluster, &[table]);
    let mut client = connect(cluster.node(), Codec::V4, &keyspace);
    for k in [1, 2, -3] {
        for c in 0..17 {
            client.query(&format!("INSERT INTO ints (k, c) VALUES ({k}, {c})"));
        }
    }
    keyspace
}

/// Behind `c = 4` of table `ints`.
fn behind_four(key: Option<i32>) -> NativeState {
    NativeState {
        key: key.map_or(Vec::new(), |key| key.to_be_bytes().to_vec()),
        mark: Mark::from_values(&[Some(4_i32.to_be_bytes())]),
        remaining: UNLIMITED,
        remaining_in_partition: UNLIMITED,
    }
}

fn both(test: impl Fn(&Cluster)) {
    test(&cluster());
    test(&old_cluster());
}

/// `k` and `c` of every row.
fn keys(client: &mut RawClient, text: &str, size: i32, state: &[u8]) -> Vec<(i32, i32)> {
    let pages = pages(client, text, size, Some(state));
    let int = |value: &Option<Vec<u8>>| {
        let bytes = value.as_deref().and_then(|bytes| bytes.try_into().ok());
        i32::from_be_bytes(bytes.expect("an int"))
    };
    let rows = pages.iter().flat_map(|page| &page.rows);
    rows.map(|row| (int(&row[0]), int(&row[1]))).collect()
}

fn all(k: i32, range: std::ops::Range<i32>) -> Vec<(i32, i32)> {
    range.map(|c| (k, c)).collect()
}

#[test]
fn a_state_is_ignored_where_the_statement_is_not_paged() {
    both(|cluster| {
        let keyspace = keyspace(cluster);
        for codec in CODECS {
            let mut client = connect(cluster.node(), codec, &keyspace);
            let state = behind_four(None).encode(version(codec), 1).expect("small");
            let select = "SELECT k, c FROM ints WHERE k = 1";
            let cases = [
                ("", 3, all(1, 5..17)),
                // Page sizes that are none, and the one that no LIMIT is said to exceed.
                ("", -1, all(1, 0..17)),
                ("", -2, all(1, 0..17)),
                ("", i32::MIN, all(1, 0..17)),
                ("", i32::MAX, all(1, 0..17)),
                ("", i32::MAX - 1, all(1, 5..17)),
                // Paged, and what is left is the state's word, whatever LIMIT says.
                ("LIMIT 3", 2, all(1, 5..17)),
                // All of it fits into one page.
                ("LIMIT 3", 3, all(1, 0..3)),
                ("LIMIT 3", 100, all(1, 0..3)),
                // The other limit does not count for this, and the state's word holds again.
                ("PER PARTITION LIMIT 3", 2, all(1, 5..17)),
                ("PER PARTITION LIMIT 3", 3, all(1, 5..17)),
                // No page of a partition is longer than this limit, so that the first short one ends it.
                ("PER PARTITION LIMIT 3", 100, all(1, 5..8)),
                ("PER PARTITION LIMIT 3 LIMIT 5", 4, all(1, 5..8)),
                ("PER PARTITION LIMIT 3 LIMIT 5", 5, all(1, 0..3)),
            ];
            for (limits, size, expected) in cases {
                let text = format!("{select} {limits}");
                let found = keys(&mut client, &text, size, &state);
                assert_eq!(found, expected, "{codec:?} {limits} by {size}");
            }
        }
    });
}

#[test]
fn an_aggregate_is_of_the_rows_behind_the_state() {
    both(|cluster| {
        let keyspace = keyspace(cluster);
        for codec in CODECS {
            let mut client = connect(cluster.node(), codec, &keyspace);
            let state = behind_four(None).encode(version(codec), 1).expect("small");
            // The server pages aggregates for itself, so that a page size that is none changes nothing.
            for size in [3, 100, -1, i32::MAX] {
                let text = "SELECT count(*) FROM ints WHERE k = 1";
                let found = page(&mut client, text, size, Some(&state));
                let count = 12_i64.to_be_bytes();
                assert_eq!(found.only("count"), Some(&count[..]), "{codec:?} {size}");
                assert_eq!(found.paging_state, None, "{codec:?} {size}");
            }
        }
    });
}

#[test]
fn the_key_of_a_state_picks_where_several_partitions_go_on() {
    both(|cluster| {
        let keyspace = keyspace(cluster);
        for codec in CODECS {
            let mut client = connect(cluster.node(), codec, &keyspace);
            let mut ask = |key, mark: bool| {
                let mut state = behind_four(key);
                if !mark {
                    state.mark = None;
                }
                let state = state.encode(version(codec), 1).expect("small");
                let text = "SELECT k, c FROM ints WHERE k IN (2, -3, 1)";
                keys(&mut client, text, 4, &state)
            };
            let rest = |k| [all(k, 5..17), all(2, 0..17)].concat();
            assert_eq!(ask(Some(1), true), rest(1), "keys before it are done");
            assert_eq!(ask(Some(2), true), all(2, 5..17));
            let whole = [all(1, 0..17), all(2, 0..17)].concat();
            assert_eq!(ask(Some(1), false), whole, "a partition that has not begun");
            assert_eq!(
                ask(Some(77), true),
                [],
                "a key that the statement does not name"
            );
            assert_eq!(ask(None, true), [], "no key");
        }
    });
}

#[test]
fn a_mark_need_not_be_a_row() {
    both(|cluster| {
        let keyspace = keyspace(cluster);
        for codec in CODECS {
            let mut client = connect(cluster.node(), codec, &keyspace);
            client.query("DELETE FROM ints WHERE k = 1 AND c = 4");
            for (mark, rest) in [(-1, 0..17), (4, 5..17), (15, 16..17), (100, 0..0)] {
                let mut state = behind_four(None);
                state.mark = Mark::from_values(&[Some(i32::to_be_bytes(mark))]);
                let state = state.encode(version(codec), 1).expect("small");
                let found = keys(&mut client, "SELECT * FROM ints WHERE k = 1", 5, &state);
                let mut rest = all(1, rest);
                rest.retain(|key| key.1 != 4);
                assert_eq!(found, rest, "{codec:?} {mark}");
            }
        }
    });
}

#[test]
fn page_size_zero_is_an_error_with_a_state_too() {
    both(|cluster| {
        let keyspace = keyspace(cluster);
        for codec in CODECS {
            let mut client = connect(cluster.node(), codec, &keyspace);
            let state = behind_four(None).encode(version(codec), 1).expect("small");
            let parameters = |state| Parameters {
                page_size: Some(0),
                paging_state: state,
                ..Parameters::default()
            };
            let mut ask = |state| {
                let text = "SELECT k, c FROM ints WHERE k = 1";
                let body = query_with(codec, text, &parameters(state));
                client.ask(opcode::QUERY, &body).error()
            };
            let without = ask(None);
            assert!(without.is_some());
            assert_eq!(ask(Some(state)), without);
        }
    });
}

#[test]
fn our_own_state_is_invalid_to_cassandra() {
    both(|cluster| {
        let keyspace = keyspace(cluster);
        for codec in CODECS {
            let mut client = connect(cluster.node(), codec, &keyspace);
            for length in [0, 1, 50, 1000, 60_000] {
                let state = PagingState {
                    generation: Some(3),
                    bucket: 2,
                    key: None,
                    clustering_columns: 1,
                    mark: Mark::from_values(&[Some(vec![1; length])]).filter(|_| length > 0),
                    limit_left: None,
                    partition_limit_left: Some(7),
                    fingerprint: 1,
                    table: Some(2),
                    is_extended: false,
                };
                let parameters = Parameters {
                    page_size: Some(3),
                    paging_state: Some(state.encode()),
                    ..Parameters::default()
                };
                let body = query_with(codec, "SELECT * FROM ints WHERE k = 1", &parameters);
                let error = client.ask(opcode::QUERY, &body).error();
                assert_eq!(
                    error.map(|error| error.0),
                    Some(0x000A),
                    "{codec:?} {length}"
                );
            }
        }
    });
}

/// A driver may continue with another version than it began with.
#[test]
fn each_form_is_read_on_every_version() {
    both(|cluster| {
        let keyspace = keyspace(cluster);
        for codec in CODECS {
            let mut client = connect(cluster.node(), codec, &keyspace);
            for form in [Version::V3, Version::V4, Version::V5] {
                let state = behind_four(None).encode(form, 1).expect("small");
                let text = "SELECT k, c FROM ints WHERE k = 1";
                let found = keys(&mut client, text, 5, &state);
                assert_eq!(found, all(1, 5..17), "{codec:?} {form:?}");
            }
        }
    });
}

#[test]
fn a_last_page_that_is_full_is_followed_by_an_empty_one() {
    both(|cluster| {
        let keyspace = keyspace(cluster);
        for codec in CODECS {
            let mut client = connect(cluster.node(), codec, &keyspace);
            let mut state = behind_four(None);
            state.mark = Mark::from_values(&[Some(16_i32.to_be_bytes())]);
            let state = state.encode(version(codec), 1).expect("small");
            let last = page(
                &mut client,
                "SELECT * FROM ints WHERE k = 1",
                3,
                Some(&state),
            );
            assert!(
                last.rows.is_empty() && last.paging_state.is_none(),
                "{codec:?}"
            );
        }
    });
}

/// Tables from before CQL have rows whose last clustering columns are null. Their marks say so in v4 and v5; what v3 makes of
/// them is not composed.
#[test]
fn compact_tables_have_marks_that_v3_cannot_say() {
    both(|cluster| {
        let table = "CREATE TABLE compact (k int, c int, d int, v int, PRIMARY KEY (k, c, d)) WITH COMPACT STORAGE";
        let keyspace = Keyspace::create(cluster, &[table]);
        let mut client = connect(cluster.node(), Codec::V4, &keyspace);
        client.query("INSERT INTO compact (k, c, v) VALUES (1, 2, 3)");
        let first = page(&mut client, "SELECT * FROM compact WHERE k = 1", 1, None);
        let state = NativeState::read(&first.paging_state.expect("a full page")).expect("a state");
        let values = state.mark.as_ref().and_then(|mark| mark.values(2));
        assert_eq!(values, Some(vec![Some(vec![0, 0, 0, 2]), None]));
        assert_eq!(state.encode(Version::V3, 2), None);
    });
}
