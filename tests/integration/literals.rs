//! The bytes that the proxy makes of a constant are the ones that Cassandra stores for it.
//!
//! Every constant is put into a column of its type by Cassandra and read back. Where the proxy says nothing, Cassandra may
//! say what it likes; where Cassandra refuses, the proxy must say nothing.

mod samples;

use narrows::schema::{CqlType, literal};
use narrows::statement::term::Literal;

use crate::support::cluster::old_cluster;
use crate::support::random::{Random, seed};
use crate::support::{Cluster, Codec, Keyspace, RawClient, opcode, request, scale, single_cluster};

const TYPES: [&str; 19] = [
    "ascii",
    "bigint",
    "blob",
    "boolean",
    "date",
    "decimal",
    "double",
    "duration",
    "float",
    "inet",
    "int",
    "smallint",
    "text",
    "time",
    "timestamp",
    "timeuuid",
    "tinyint",
    "uuid",
    "varint",
];

#[test]
fn constants_mean_the_bytes_that_cassandra_stores() {
    let seed = seed();
    for cluster in [single_cluster(), old_cluster()] {
        let columns = TYPES.map(|name| format!("c_{name} {name}")).join(", ");
        let create = format!("CREATE TABLE t (k int PRIMARY KEY, {columns})");
        let keyspace = Keyspace::create(&cluster, &[&create]);
        let mut server = Server::new(&cluster, &keyspace);
        for name in TYPES {
            for text in samples::NASTY {
                server.check(name, text, "a nasty one");
            }
        }
        let mut random = Random::new(seed);
        let replay = format!("SEED={seed}");
        let (mut known, tries) = (0, 600 * scale());
        for _ in 0..tries {
            let name = TYPES[random.below(TYPES.len())];
            let text = samples::constant(&mut random, name);
            known += usize::from(server.check(name, &text, &replay));
        }
        assert!(known > tries / 2, "{replay}: {known} of {tries} known");
    }
}

struct Server {
    client: RawClient,
    table: String,
    next_key: i32,
}

impl Server {
    fn new(cluster: &Cluster, keyspace: &Keyspace) -> Self {
        Self {
            client: RawClient::connect(cluster.node(), Codec::V5),
            table: format!("{}.t", keyspace.name),
            next_key: 0,
        }
    }

    /// Checks one constant and says whether the proxy knows its bytes.
    fn check(&mut self, name: &str, text: &str, what: &str) -> bool {
        let ours = literal::encode(&read(text), &CqlType::parse(name));
        // What we say nothing about needs no answer.
        let Some(ours) = ours else {
            return false;
        };
        let stored = self.store(name, text);
        assert_eq!(Some(ours), stored, "{what}: {name} {text}");
        true
    }

    /// What Cassandra makes of the constant; nothing if it refuses it.
    fn store(&mut self, name: &str, text: &str) -> Option<Vec<u8>> {
        self.next_key += 1;
        let (key, table) = (self.next_key, &self.table);
        let insert = format!("INSERT INTO {table} (k, c_{name}) VALUES ({key}, {text})");
        let reply = self
            .client
            .ask(opcode::QUERY, &request::query(Codec::V5, &insert));
        if reply.opcode != opcode::RESULT {
            return None;
        }
        let select = format!("SELECT c_{name} FROM {table} WHERE k = {key}");
        let rows = self.client.query(&select).rows();
        rows.only(&format!("c_{name}")).map(<[u8]>::to_vec)
    }
}

/// The constant that a text is, apart from the proxy's own parser.
fn read(text: &str) -> Literal {
    if let Some(inner) = text.strip_prefix('\'') {
        let inner = inner.strip_suffix('\'').expect("a closing quote");
        return Literal::Text(inner.replace("''", "'"));
    }
    if let Some(digits) = text.strip_prefix("0x") {
        return Literal::Blob(bytes(digits));
    }
    if text.len() == 36 && text.matches('-').count() == 4 {
        let bytes = bytes(&text.replace('-', ""));
        return Literal::Uuid(bytes.try_into().expect("16 bytes"));
    }
    match text.to_ascii_lowercase().as_str() {
        "null" => Literal::Null,
        "true" => Literal::Boolean(true),
        "false" => Literal::Boolean(false),
        "1w" => Literal::Duration(text.into()),
        lower if lower.contains(['.', 'e', 'n']) => Literal::Float(text.into()),
        _ => Literal::Integer(text.into()),
    }
}

fn bytes(digits: &str) -> Vec<u8> {
    let pair = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).expect("hexadecimal");
    (0..digits.len() / 2).map(|index| pair(index * 2)).collect()
}
