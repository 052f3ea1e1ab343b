//! `limits.max_page_bytes`: pages of huge rows are cut short, on every version, and no row is lost or repeated by it.

use crate::support::request::{Parameters, execute, query_with};
use crate::support::response::Rows;
use crate::support::{Cluster, Codec, Keyspace, Proxy, RawClient, opcode, single_cluster};

const CODECS: [Codec; 4] = [Codec::V3, Codec::V4, Codec::V4_LZ4, Codec::V5];
const MAX: usize = 256 << 10;
const LARGE: usize = 25_000;
const ROWS: i32 = 60;

/// Partition 1 has large rows, 2 small ones, 3 both.
fn keyspace(cluster: &Cluster) -> Keyspace {
    let table = "CREATE TABLE t (k int, c int, v text, PRIMARY KEY (k, c))";
    let keyspace = Keyspace::create(cluster, &[table]);
    let mut client = RawClient::connect(cluster.node(), Codec::V4);
    client.query(&format!("USE {}", keyspace.name));
    for k in 1..=3 {
        for c in 0..ROWS {
            let is_large = k == 1 || k == 3 && c % 20 > 15;
            let size = if is_large { LARGE } else { 10 };
            let text = "x".repeat(size);
            client.query(&format!(
                "INSERT INTO t (k, c, v) VALUES ({k}, {c}, '{text}')"
            ));
        }
    }
    keyspace
}

fn proxy(cluster: &Cluster, keyspace: &Keyspace, control: &Keyspace) -> Proxy {
    let table = format!("[[table]]\nname = '{}.t'\nshards = 4\n", keyspace.name);
    Proxy::builder(cluster.nodes())
        .set("control.keyspace", &control.name)
        .set("limits.max_page_bytes", "256KiB")
        .toml(&table)
        .start()
}

/// All pages of a scan with their sizes.
fn pages(client: &mut RawClient, codec: Codec, text: &str, size: i32) -> Vec<(Rows, usize)> {
    let prepared = client.prepare(text);
    let mut parameters = Parameters {
        page_size: Some(size),
        ..Parameters::default()
    };
    let mut pages: Vec<(Rows, usize)> = Vec::new();
    loop {
        // Prepared and not by turns: a state is good for both.
        let reply = match pages.len() % 2 {
            0 => client.ask(opcode::QUERY, &query_with(codec, text, &parameters)),
            _ => client.ask(opcode::EXECUTE, &execute(codec, &prepared, &parameters)),
        };
        assert_eq!(reply.error(), None, "{text}");
        let (rows, bytes) = (reply.rows(), reply.body.len());
        parameters.paging_state.clone_from(&rows.paging_state);
        pages.push((rows, bytes));
        if parameters.paging_state.is_none() {
            return pages;
        }
    }
}

fn rows(pages: &[(Rows, usize)]) -> Vec<Vec<Option<Vec<u8>>>> {
    pages
        .iter()
        .flat_map(|(page, _)| page.rows.clone())
        .collect()
}

#[test]
fn pages_of_huge_rows_are_cut_short_and_others_are_not() {
    let cluster = single_cluster();
    let (keyspace, control) = (keyspace(&cluster), Keyspace::create(&cluster, &[]));
    let proxy = proxy(&cluster, &keyspace, &control);
    for codec in CODECS {
        let mut direct = RawClient::connect(cluster.node(), codec);
        let mut through = RawClient::connect(proxy.address(), codec);
        for (clauses, is_cut) in [
            ("WHERE k = 1", true),
            ("WHERE k = 1 ORDER BY c DESC", true),
            ("WHERE k = 1 LIMIT 50", true),
            // It fits into a page, so Cassandra would not go on from anywhere.
            ("WHERE k = 1 LIMIT 40", false),
            ("WHERE k = 1 LIMIT 2", false),
            ("WHERE k = 1 LIMIT 1", false),
            ("WHERE k = 1 AND c < 5", false),
            ("WHERE k = 2", false),
            ("WHERE k = 3", false),
            ("WHERE k IN (1, 2, 3)", true),
            ("WHERE k IN (1, 3) PER PARTITION LIMIT 40", true),
            ("", true),
        ] {
            let text = format!("SELECT * FROM {}.t {clauses}", keyspace.name);
            let expected = pages(&mut direct, codec, &text, 40);
            let found = pages(&mut through, codec, &text, 40);
            assert!(rows(&found) == rows(&expected), "{codec:?} {text}");
            let shape = |pages: &[(Rows, usize)]| -> Vec<usize> {
                pages.iter().map(|(page, _)| page.rows.len()).collect()
            };
            assert_eq!(
                shape(&found) != shape(&expected),
                is_cut,
                "{codec:?} {text}"
            );
            for (page, bytes) in &found {
                assert!(page.rows.len() <= 40, "{codec:?} {text}");
                // The first piece is of sixteen rows, whatever they are.
                let is_small = *bytes < MAX + 16 * (LARGE + 100);
                assert!(is_small || !is_cut, "{bytes} {codec:?} {text}");
                assert_eq!(page.names, expected[0].0.names, "{text}");
            }
        }
        for text in [
            "SELECT count(*) FROM t WHERE k = 1",
            "SELECT nothing FROM t",
        ] {
            let text = text.replace("t ", &format!("{}.t ", keyspace.name));
            let parameters = Parameters {
                page_size: Some(5),
                ..Parameters::default()
            };
            let ask = |client: &mut RawClient| {
                client.ask(opcode::QUERY, &query_with(codec, &text, &parameters))
            };
            assert_eq!(ask(&mut through).body, ask(&mut direct).body, "{text}");
        }
    }
}
