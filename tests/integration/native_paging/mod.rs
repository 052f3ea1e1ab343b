//! Cassandra continues from paging states that were composed here as from its own.
//!
//! A scan that began on a split may have to end on the original, and sub-reads go on in the middle of a bucket.

mod facts;
mod tables;

use std::net::SocketAddr;

use narrows::protocol::Version;
use narrows::rewrite::native::{Mark, NativeState, UNLIMITED};

use crate::support::cluster::old_cluster;
use crate::support::random::{self, Random};
use crate::support::request::{Parameters, query_with};
use crate::support::response::Rows;
use crate::support::{Cluster, Codec, Keyspace, RawClient, cluster, opcode, scale};
use tables::{ALL, TABLES, Table};

const CODECS: [Codec; 3] = [Codec::V3, Codec::V4, Codec::V5];

fn version(codec: Codec) -> Version {
    Version::from_byte(codec.version).expect("a version of ours")
}

fn keyspace(cluster: &Cluster) -> Keyspace {
    let keyspace = Keyspace::create(cluster, TABLES);
    tables::fill(cluster.node(), &keyspace.name);
    keyspace
}

fn connect(address: SocketAddr, codec: Codec, keyspace: &Keyspace) -> RawClient {
    let mut client = RawClient::connect(address, codec);
    client.query(&format!("USE {}", keyspace.name));
    client
}

fn page(client: &mut RawClient, text: &str, size: i32, state: Option<&[u8]>) -> Rows {
    let parameters = Parameters {
        page_size: Some(size),
        paging_state: state.map(<[u8]>::to_vec),
        ..Parameters::default()
    };
    client.asking = text.to_owned();
    client
        .ask(opcode::QUERY, &query_with(client.codec, text, &parameters))
        .rows()
}

/// All pages from this state on.
fn pages(client: &mut RawClient, text: &str, size: i32, state: Option<&[u8]>) -> Vec<Rows> {
    let mut pages = vec![page(client, text, size, state)];
    while let Some(state) = pages.last().and_then(|page| page.paging_state.clone()) {
        pages.push(page(client, text, size, Some(&state)));
        assert!(pages.len() < 1000, "{text} never ends");
    }
    pages
}

/// One statement with what limits it.
struct Scan<'a> {
    table: &'a Table,
    text: String,
    limit: Option<i32>,
    partition_limit: Option<i32>,
}

impl<'a> Scan<'a> {
    fn of(table: &'a Table) -> Vec<Self> {
        let limits = [
            (None, None),
            (Some(9), None),
            (None, Some(5)),
            (Some(11), Some(6)),
        ];
        let scan = |query: &str, (limit, partition_limit): (Option<i32>, Option<i32>)| {
            let (query, filtering) = match query.strip_suffix(" ALLOW FILTERING") {
                Some(query) => (query, " ALLOW FILTERING"),
                None => (query, ""),
            };
            let clause = |word, limit: Option<i32>| {
                limit.map_or(String::new(), |limit| format!(" {word} {limit}"))
            };
            let text = format!(
                "SELECT * FROM {} WHERE {query}{}{}{filtering}",
                table.name,
                clause("PER PARTITION LIMIT", partition_limit),
                clause("LIMIT", limit)
            );
            Self {
                table,
                text,
                limit,
                partition_limit,
            }
        };
        let queries = table.queries.iter();
        queries
            .flat_map(|query| limits.map(|limits| scan(query, limits)))
            .collect()
    }

    /// Whether the statement names several partitions; then a state says which one it stands in.
    fn several(&self) -> bool {
        let key = |name: &&str| self.text.contains(&format!("{name} IN ("));
        self.table.key.iter().any(key)
    }

    /// The state behind these pages, from nothing but their rows.
    fn state(&self, before: &[Rows], key: bool) -> NativeState {
        let last = before.last().expect("a page");
        let row = last.rows.len() - 1;
        let value = |name: &&str| last.get(row, name).map(<[u8]>::to_vec);
        let clustering: Vec<_> = self.table.clustering.iter().map(value).collect();
        let partition = self.key_of(last, row);
        let rows = || {
            before
                .iter()
                .flat_map(|page| (0..page.rows.len()).map(move |row| (page, row)))
        };
        let in_partition = rows().filter(|(page, row)| self.key_of(page, *row) == partition);
        let left =
            |limit: Option<i32>, used: usize| limit.map_or(UNLIMITED, |limit| limit - used as i32);
        NativeState {
            remaining_in_partition: left(self.partition_limit, in_partition.count()),
            remaining: left(self.limit, rows().count()),
            mark: Mark::from_values(&clustering),
            key: if key { partition } else { Vec::new() },
        }
    }

    /// The serialized partition key of a row.
    fn key_of(&self, page: &Rows, row: usize) -> Vec<u8> {
        let value = |name: &&str| page.get(row, name).expect("a key column").to_vec();
        let values: Vec<_> = self.table.key.iter().map(value).collect();
        match &values[..] {
            [only] => only.clone(),
            values => values.iter().flat_map(|value| component(value)).collect(),
        }
    }
}

fn component(value: &[u8]) -> Vec<u8> {
    let length = u16::try_from(value.len()).expect("short").to_be_bytes();
    [&length[..], value, &[0]].concat()
}

type Row = Vec<Option<Vec<u8>>>;

/// The rows of every page, and whether it says that there are more.
fn shape(pages: &[Rows]) -> Vec<(&[Row], bool)> {
    pages
        .iter()
        .map(|page| (&page.rows[..], page.paging_state.is_some()))
        .collect()
}

/// Continues each scan natively and from composed states.
fn continues_from_composed_states(cluster: &Cluster) {
    let keyspace = keyspace(cluster);
    let seed = random::seed();
    let mut random = Random::new(seed);
    for codec in CODECS {
        let mut client = connect(cluster.node(), codec, &keyspace);
        let mut continued = 0;
        for scan in ALL.iter().flat_map(Scan::of) {
            for _ in 0..scale() {
                let size = [1, 2, 3, 5, 7][random.below(5)];
                let native = pages(&mut client, &scan.text, size, None);
                // A scan of one page has nothing to continue.
                if native.len() > 1 {
                    let at = 1 + random.below(native.len() - 1);
                    let seed = format!("SEED={seed}");
                    check(&mut client, &scan, size, &native, at, &seed);
                    continued += 1;
                }
            }
        }
        assert!(continued > 60, "only {continued} continued");
    }
}

fn check(
    client: &mut RawClient,
    scan: &Scan<'_>,
    size: i32,
    native: &[Rows],
    at: usize,
    seed: &str,
) {
    let columns = scan.table.clustering.len();
    // Where the statement names one partition the state's key does not matter.
    let keys: &[bool] = if scan.several() {
        &[true]
    } else {
        &[false, true]
    };
    for key in keys {
        let composed = scan.state(&native[..at], *key);
        let bytes = composed
            .encode(version(client.codec), columns)
            .expect("small");
        let rest = pages(client, &scan.text, size, Some(&bytes));
        let what = format!(
            "{seed} {:?} {} by {size} at {at}, {composed:?}",
            client.codec, scan.text
        );
        assert_eq!(shape(&rest), shape(&native[at..]), "{what}");
    }
}

#[test]
fn cassandra_5_0_continues_from_composed_states() {
    continues_from_composed_states(&cluster());
}

#[test]
fn cassandra_4_1_continues_from_composed_states() {
    continues_from_composed_states(&old_cluster());
}

/// Every state that the server gives is read, says where we think it stands, and is written as it was.
fn reads_the_servers_states(cluster: &Cluster) {
    let keyspace = keyspace(cluster);
    for codec in [Codec::V4, Codec::V5] {
        let mut client = connect(cluster.node(), codec, &keyspace);
        for scan in ALL.iter().flat_map(Scan::of) {
            let native = pages(&mut client, &scan.text, 2, None);
            for at in 1..native.len() {
                let bytes = native[at - 1].paging_state.as_deref().expect("more pages");
                let what = format!("{codec:?} {} at {at}: {bytes:02x?}", scan.text);
                let read = NativeState::read(bytes).unwrap_or_else(|| panic!("{what}"));
                let columns = scan.table.clustering.len();
                assert_eq!(
                    read.encode(version(codec), columns).as_deref(),
                    Some(bytes),
                    "{what}"
                );
                let ours = scan.state(&native[..at], scan.several());
                // Behind the last row that a partition may give, the server already stands at the next one.
                if scan.several() && ours.remaining_in_partition == 0 {
                    assert_eq!(read.mark, None, "{what}");
                    continue;
                }
                assert_eq!((&read.key, &read.mark), (&ours.key, &ours.mark), "{what}");
                if scan.limit.is_some() {
                    assert_eq!(read.remaining, ours.remaining, "{what}");
                }
                if scan.partition_limit.is_some() {
                    assert_eq!(
                        read.remaining_in_partition, ours.remaining_in_partition,
                        "{what}"
                    );
                }
            }
        }
    }
}

#[test]
fn states_of_cassandra_5_0_are_read_and_written_bit_for_bit() {
    reads_the_servers_states(&cluster());
}

#[test]
fn states_of_cassandra_4_1_are_read_and_written_bit_for_bit() {
    reads_the_servers_states(&old_cluster());
}
