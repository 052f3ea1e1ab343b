//! Every kind of statement that writes, with what it leaves of a partition.

use crate::support::request::{self, Item, LOGGED, Parameters, UNLOGGED, Value};
use crate::support::{Codec, Frame, RawClient, opcode};

/// `c`, `v` and `w` of a row.
pub(super) type Row = (i32, Option<i32>, Option<&'static str>);

/// What a partition has before, written long ago.
pub(super) const BEFORE: [Row; 2] = [(1, Some(10), Some("a")), (2, Some(20), Some("b"))];
const FIRST: Row = BEFORE[0];
const SECOND: Row = BEFORE[1];

/// How it is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Literal,
    Bound,
    Named,
    Executed,
}

impl Way {
    pub(super) const ALL: [Self; 4] = [Self::Literal, Self::Bound, Self::Named, Self::Executed];
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Packed {
    Alone,
    /// `BEGIN BATCH … APPLY BATCH`, in one text.
    Text,
    /// The opcode BATCH of this kind.
    Batch(u8),
}

/// One kind. In its texts `{}` is the table, `?` the key, and `#` a key that is not split.
pub(super) struct Kind {
    pub(super) name: &'static str,
    packed: Packed,
    texts: &'static [&'static str],
    pub(super) after: &'static [Row],
}

const fn alone(name: &'static str, texts: &'static [&'static str], after: &'static [Row]) -> Kind {
    packed(name, Packed::Alone, texts, after)
}

const fn packed(
    name: &'static str,
    packed: Packed,
    texts: &'static [&'static str],
    after: &'static [Row],
) -> Kind {
    Kind {
        name,
        packed,
        texts,
        after,
    }
}

const TWO: &[&str] = &[
    "UPDATE {} SET v = 11 WHERE k = # AND c = 1",
    "UPDATE {} SET v = 11 WHERE k = ? AND c = 1",
];
const UPDATED: &[Row] = &[(1, Some(11), Some("a")), SECOND];
const INSERTED: &[Row] = &[FIRST, SECOND, (3, Some(30), None)];

pub(super) const KINDS: [Kind; 24] = [
    alone(
        "INSERT",
        &["INSERT INTO {} (k, c, v) VALUES (?, 3, 30)"],
        INSERTED,
    ),
    alone(
        "INSERT with TTL",
        &["INSERT INTO {} (k, c, v) VALUES (?, 3, 30) USING TTL 9000"],
        INSERTED,
    ),
    alone(
        "INSERT JSON",
        &[r#"INSERT INTO {} JSON '{"k": ?, "c": 3, "v": 30}'"#],
        INSERTED,
    ),
    alone(
        "INSERT long ago",
        &["INSERT INTO {} (k, c, v) VALUES (?, 1, 99) USING TIMESTAMP 1"],
        &BEFORE,
    ),
    alone(
        "UPDATE",
        &["UPDATE {} SET v = 11 WHERE k = ? AND c = 1"],
        UPDATED,
    ),
    alone(
        "UPDATE of IN on rows",
        &["UPDATE {} SET v = 11 WHERE k = ? AND c IN (1, 2)"],
        &[(1, Some(11), Some("a")), (2, Some(11), Some("b"))],
    ),
    alone(
        "UPDATE of IN on keys",
        &["UPDATE {} SET v = 11 WHERE k IN (#, ?) AND c = 1"],
        UPDATED,
    ),
    alone(
        "DELETE of a row",
        &["DELETE FROM {} WHERE k = ? AND c = 1"],
        &[SECOND],
    ),
    alone(
        "DELETE of a range",
        &["DELETE FROM {} WHERE k = ? AND c >= 2"],
        &[FIRST],
    ),
    alone(
        "DELETE of a column",
        &["DELETE v FROM {} WHERE k = ? AND c = 1"],
        &[(1, None, Some("a")), SECOND],
    ),
    alone(
        "DELETE of a partition",
        &["DELETE FROM {} WHERE k = ?"],
        &[],
    ),
    alone(
        "DELETE of IN on keys",
        &["DELETE FROM {} WHERE k IN (?, #)"],
        &[],
    ),
    alone(
        "INSERT IF NOT EXISTS",
        &["INSERT INTO {} (k, c, v) VALUES (?, 3, 30) IF NOT EXISTS"],
        INSERTED,
    ),
    alone(
        "INSERT IF NOT EXISTS that exists",
        &["INSERT INTO {} (k, c, v) VALUES (?, 1, 30) IF NOT EXISTS"],
        &BEFORE,
    ),
    alone(
        "UPDATE IF",
        &["UPDATE {} SET v = 11 WHERE k = ? AND c = 1 IF v = 10"],
        UPDATED,
    ),
    alone(
        "DELETE IF EXISTS",
        &["DELETE FROM {} WHERE k = ? AND c = 1 IF EXISTS"],
        &[SECOND],
    ),
    packed("text BATCH", Packed::Text, TWO, UPDATED),
    packed(
        "text BATCH with IF",
        Packed::Text,
        &["UPDATE {} SET v = 11 WHERE k = ? AND c = 1 IF v = 10"],
        UPDATED,
    ),
    packed(
        "BATCH of one",
        Packed::Batch(LOGGED),
        &["DELETE FROM {} WHERE k = ?"],
        &[],
    ),
    packed("logged BATCH", Packed::Batch(LOGGED), TWO, UPDATED),
    packed("unlogged BATCH", Packed::Batch(UNLOGGED), TWO, UPDATED),
    packed(
        "BATCH with JSON",
        Packed::Batch(UNLOGGED),
        &[r#"INSERT INTO {} JSON '{"k": ?, "c": 3, "v": 30}'"#],
        INSERTED,
    ),
    packed(
        "BATCH with IF",
        Packed::Batch(LOGGED),
        &["INSERT INTO {} (k, c, v) VALUES (?, 3, 30) IF NOT EXISTS"],
        INSERTED,
    ),
    packed(
        "BATCH of a range",
        Packed::Batch(UNLOGGED),
        &["DELETE FROM {} WHERE k = ? AND c > 1"],
        &[FIRST],
    ),
];

/// A text with the values of its markers.
struct Said {
    text: String,
    values: Vec<Value>,
}

impl Kind {
    /// Names of values there are not everywhere: Cassandra takes none in batches.
    pub(super) fn can(&self, way: Way) -> bool {
        way != Way::Named || self.packed == Packed::Alone
    }

    /// Sends it about this key and one that is not split.
    pub(super) fn send(
        &self,
        client: &mut RawClient,
        way: Way,
        table: &str,
        keys: (i32, i32),
    ) -> Frame {
        client.asking = format!("{} {way:?}", self.name);
        let said: Vec<Said> = self
            .texts
            .iter()
            .map(|text| say(text, way, table, keys))
            .collect();
        match self.packed {
            Packed::Batch(kind) => send_batch(client, way, kind, &said),
            Packed::Alone => send_one(client, way, &said[0]),
            Packed::Text => {
                let texts: Vec<&str> = said.iter().map(|one| one.text.as_str()).collect();
                let whole = Said {
                    text: format!("BEGIN BATCH {}; APPLY BATCH", texts.join("; ")),
                    values: said.iter().flat_map(|one| one.values.clone()).collect(),
                };
                send_one(client, way, &whole)
            }
        }
    }
}

/// Fills in the table and, as the way has it, the keys.
fn say(text: &str, way: Way, table: &str, (key, unsplit): (i32, i32)) -> Said {
    let text = text.replace("{}", table).replace('#', &unsplit.to_string());
    let quoted = text.split('\'').collect::<Vec<_>>();
    // A marker stands for all of a JSON text, not for a part of it.
    if let [before, json, after] = quoted[..] {
        let json = json.replace('?', &key.to_string());
        return match marker(way) {
            None => Said {
                text: format!("{before}'{json}'{after}"),
                values: vec![],
            },
            Some(marker) => Said {
                text: format!("{before}{marker}{after}"),
                values: vec![Value::text(&json)],
            },
        };
    }
    match marker(way) {
        None => Said {
            text: text.replace('?', &key.to_string()),
            values: vec![],
        },
        Some(marker) => Said {
            text: text.replace('?', marker),
            values: vec![Value::int(key); text.matches('?').count()],
        },
    }
}

fn marker(way: Way) -> Option<&'static str> {
    match way {
        Way::Literal => None,
        Way::Named => Some(":key"),
        Way::Bound | Way::Executed => Some("?"),
    }
}

fn send_one(client: &mut RawClient, way: Way, said: &Said) -> Frame {
    let codec = client.codec;
    let parameters = Parameters {
        names: if way == Way::Named {
            vec!["key"]
        } else {
            vec![]
        },
        ..Parameters::values(&said.values)
    };
    match way {
        Way::Executed => {
            let id = client.prepare(&said.text);
            let body = request::execute(codec, &id, &parameters);
            client.ask_until_forwarded(opcode::EXECUTE, &body)
        }
        _ => {
            let body = request::query_with(codec, &said.text, &parameters);
            client.ask_until_forwarded(opcode::QUERY, &body)
        }
    }
}

fn send_batch(client: &mut RawClient, way: Way, kind: u8, said: &[Said]) -> Frame {
    let codec: Codec = client.codec;
    let ids: Vec<_> = match way {
        Way::Executed => said.iter().map(|one| client.prepare(&one.text).0).collect(),
        _ => vec![],
    };
    let item = |(number, one): (usize, &Said)| match ids.get(number) {
        Some(id) => Item::Prepared(id, one.values.clone()),
        None => Item::Text(&said[number].text, one.values.clone()),
    };
    let items: Vec<Item<'_>> = said.iter().enumerate().map(item).collect();
    let body = request::batch(codec, kind, &items);
    client.ask_until_forwarded(opcode::BATCH, &body)
}
