//! Writes of every kind, with their keys as constants, markers, lists and documents.

use std::time::SystemTime;

use super::samples::{self, Sample};
use super::{Table, query};
use crate::support::RawClient;
use crate::support::random::Random;
use crate::support::request::Value;

pub(super) struct Draft {
    pub(super) text: String,
    pub(super) values: Vec<Value>,
    /// What the rows that it writes or deletes are known by, and in which column.
    pub(super) number: i32,
    pub(super) column: &'static str,
    pub(super) deletes: bool,
}

impl Draft {
    pub(super) fn make(table: &Table, number: i32, random: &mut Random) -> Self {
        let mut draft = Self {
            text: String::new(),
            values: Vec::new(),
            number,
            column: "c",
            deletes: false,
        };
        draft.text = match random.below(8) {
            0 | 1 => draft.insert(table, random) + ["", " IF NOT EXISTS"][random.below(2)],
            2 => {
                let row: Vec<_> = chosen(table, random);
                draft.json(table, &row, random)
            }
            3 | 4 => draft.batch(table, random),
            5 => draft.delete(table, random),
            6 => {
                draft.column = "s";
                let (name, wanted) = (&table.name, draft.relations(table, random));
                format!("UPDATE {name} SET s = {number} WHERE {wanted}")
            }
            _ => draft.update(table, random),
        };
        draft
    }

    fn insert(&mut self, table: &Table, random: &mut Random) -> String {
        let (name, names, number) = (&table.name, table.key_names(), self.number);
        let row = chosen(table, random);
        let terms: Vec<_> = row.iter().map(|one| self.term(one, random)).collect();
        let terms = terms.join(", ");
        format!("INSERT INTO {name} (v, {names}, c) VALUES (1, {terms}, {number})")
    }

    fn json(&mut self, table: &Table, row: &[&Sample], random: &mut Random) -> String {
        let member = |(at, one): (usize, &&Sample)| {
            let name = [format!("k{at}"), format!("K{at}"), format!("\\\"k{at}\\\"")];
            format!("\"{}\": {}, ", random.pick(&name), one.json)
        };
        let members: String = row.iter().enumerate().map(member).collect();
        let document = format!("{{\"v\": null, {members}\"c\": {}}}", self.number);
        let name = &table.name;
        let default = random.pick(&["", " DEFAULT NULL", " DEFAULT UNSET"]);
        if random.one_in(2) {
            self.values.push(Value::text(&document));
            return format!("INSERT INTO {name} JSON ?{default}");
        }
        let document = document.replace('\'', "''");
        format!("INSERT INTO {name} JSON '{document}'{default}")
    }

    fn update(&mut self, table: &Table, random: &mut Random) -> String {
        let (name, number) = (&table.name, self.number);
        let wanted = self.relations(table, random);
        format!("UPDATE {name} SET v = 1 WHERE {wanted} AND c = {number}")
    }

    fn delete(&mut self, table: &Table, random: &mut Random) -> String {
        self.deletes = true;
        let (name, number) = (&table.name, self.number);
        let wanted = self.relations(table, random);
        let rows = [
            String::new(),
            format!(" AND c = {number}"),
            format!(" AND c >= {number}"),
        ];
        format!("DELETE FROM {name} WHERE {wanted}{}", random.pick(&rows))
    }

    fn batch(&mut self, table: &Table, random: &mut Random) -> String {
        let mut text = "BEGIN UNLOGGED BATCH ".to_owned();
        if random.one_in(2) {
            self.values.push(Value::long(micros_now()));
            text += "USING TIMESTAMP ? ";
        }
        for _ in 0..1 + random.below(3) {
            text += &match random.below(3) {
                0 => self.insert(table, random),
                1 => self.update(table, random),
                _ => {
                    let row = chosen(table, random);
                    self.json(table, &row, random)
                }
            };
            text += ["; ", " "][random.below(2)];
        }
        text + "APPLY BATCH"
    }

    /// The partition key by `=` and `IN`, its columns in any order.
    fn relations(&mut self, table: &Table, random: &mut Random) -> String {
        let mut columns: Vec<usize> = (0..table.types.len()).collect();
        columns.rotate_left(random.below(table.types.len()));
        let relations = columns.into_iter().map(|at| {
            let all = samples::of(table.types[at]);
            match random.below(4) {
                0 => {
                    let count = random.below(4);
                    let list = (0..count).map(|_| random.pick(all).bytes());
                    self.values.push(list_of(list.collect()));
                    format!("k{at} IN ?")
                }
                1 => {
                    let count = random.below(4);
                    let terms = (0..count).map(|_| {
                        let one = random.pick(all);
                        self.term(one, random)
                    });
                    format!("k{at} IN ({})", terms.collect::<Vec<_>>().join(", "))
                }
                _ => {
                    let one = random.pick(all);
                    format!("k{at} = {}", self.term(one, random))
                }
            }
        });
        relations.collect::<Vec<_>>().join(" AND ")
    }

    fn term(&mut self, sample: &Sample, random: &mut Random) -> String {
        if random.one_in(2) {
            return sample.cql.to_owned();
        }
        self.values.push(Value::Bytes(sample.bytes()));
        "?".to_owned()
    }
}

/// Later than every deletion of before, which would hide the rows otherwise.
fn micros_now() -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let micros = now.expect("after 1970").as_micros();
    i64::try_from(micros).expect("before the year 292000")
}

fn chosen(table: &Table, random: &mut Random) -> Vec<&'static Sample> {
    let types = table.types.iter();
    types.map(|name| random.pick(samples::of(name))).collect()
}

pub(super) fn list_of(elements: Vec<Vec<u8>>) -> Value {
    let mut bytes = (elements.len() as u32).to_be_bytes().to_vec();
    for element in elements {
        bytes.extend((element.len() as u32).to_be_bytes());
        bytes.extend(element);
    }
    Value::Bytes(bytes)
}

/// Every sample of a table with a key of one column, as a document.
pub(super) fn each_sample_in_json(table: &Table, first: i32) -> Vec<Draft> {
    let mut random = Random::new(1);
    let [only] = table.types else {
        return Vec::new();
    };
    let each = samples::of(only)
        .iter()
        .zip(first..)
        .map(|(sample, number)| {
            let mut draft = Draft {
                text: String::new(),
                values: Vec::new(),
                number,
                column: "c",
                deletes: false,
            };
            draft.text = draft.json(table, &[sample], &mut random);
            draft
        });
    each.collect()
}

/// Every partition that samples make gets a row of this number.
pub(super) fn fill(client: &mut RawClient, table: &Table, number: i32) {
    let mut rows: Vec<Vec<Value>> = vec![Vec::new()];
    for name in table.types {
        let extended = rows.iter().flat_map(|row| {
            let with = |sample: &Sample| [row.clone(), vec![Value::Bytes(sample.bytes())]].concat();
            samples::of(name).iter().map(with)
        });
        rows = extended.collect();
    }
    let markers = "?, ".repeat(table.types.len());
    let (name, names) = (&table.name, table.key_names());
    let text = format!("INSERT INTO {name} ({names}, c) VALUES ({markers}{number})");
    for row in &rows {
        assert_eq!(query(client, &text, row).error(), None, "{text}");
    }
}
