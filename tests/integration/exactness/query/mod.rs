//! Random SELECTs over the whole table of what is rewritten and what is forwarded; some of them are wrong.
//!
//! Everything is drawn from one seed, so that a question can be asked again.

mod restriction;
mod selection;

use super::data::Partition;
use super::schema::{Column, Schema};
use super::types::Datum;
use crate::support::Codec;
use crate::support::random::Random;
use crate::support::request::{ONE, QUORUM, SERIAL, Value};

const LOCAL_ONE: u16 = 0x000A;
const LOCAL_SERIAL: u16 = 0x0009;
const DAY: i32 = 86_400;
const MARKERS: [&str; 24] = [
    "m0", "m1", "m2", "m3", "m4", "m5", "m6", "m7", "m8", "m9", "m10", "m11", "m12", "m13", "m14",
    "m15", "m16", "m17", "m18", "m19", "m20", "m21", "m22", "m23",
];
/// Larger than any result.
const WHOLE: i32 = 5000;

/// A statement with all that goes with it.
#[derive(Debug, Clone)]
pub(crate) struct Question {
    pub(crate) text: String,
    pub(crate) values: Vec<Value>,
    pub(crate) names: Vec<&'static str>,
    pub(crate) is_prepared: bool,
    pub(crate) codec: Codec,
    pub(crate) consistency: u16,
    /// Of the first pages, how many they are, and of those behind.
    pub(crate) pages: (Option<i32>, usize, Option<i32>),
    pub(crate) skip_metadata: bool,
    pub(crate) now: Option<i32>,
    /// v5; else the connection's own.
    pub(crate) keyspace: Option<String>,
    /// Means nothing to a SELECT, and must not be in its way.
    pub(crate) timestamp: Option<i64>,
    pub(crate) serial_consistency: Option<u16>,
    /// The value that is another one from the second page on.
    pub(crate) changing: Option<usize>,
}

impl Question {
    /// The values of a page, counted from 1.
    pub(crate) fn values_of(&self, page: usize) -> Vec<Value> {
        let mut values = self.values.clone();
        let changing = self.changing.filter(|_| page > 1);
        if let Some(Value::Bytes(value)) = changing.and_then(|at| values.get_mut(at))
            && let Some(last) = value.last_mut()
        {
            *last ^= 1;
        }
        values
    }

    pub(crate) fn is_serial(&self) -> bool {
        matches!(self.consistency, SERIAL | LOCAL_SERIAL)
    }

    /// Two answers may differ because they were given in different seconds.
    pub(crate) fn depends_on_time(&self) -> bool {
        self.now.is_none() && self.text.to_uppercase().contains("TTL(")
    }

    /// Numbers are computed for the answer.
    pub(crate) fn adds_up(&self) -> bool {
        let text = self.text.to_uppercase();
        ["SUM", "AVG"]
            .iter()
            .any(|function| text.contains(function))
    }
}

/// What is asked about.
pub(crate) struct Subject<'a> {
    pub(crate) schema: &'a Schema,
    pub(crate) partitions: &'a [Partition],
    /// Whether some other partition is asked for less often: these are split.
    pub(crate) split: usize,
    pub(crate) now: i32,
    /// One in so many is SERIAL, which takes the split out of service.
    pub(crate) serial: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Style {
    Literals,
    Positions,
    Names,
}

/// A statement as it is written: its values become literals or markers.
struct Writing<'a, 'b> {
    subject: &'a Subject<'a>,
    partition: &'a Partition,
    random: &'b mut Random,
    style: Style,
    values: Vec<Value>,
}

pub(crate) fn question(subject: &Subject<'_>, random: &mut Random) -> Question {
    let at = match random.below(6) {
        0 => random.below(subject.partitions.len()),
        _ => random.below(subject.split.max(1)),
    };
    let style = *random.pick(&[
        Style::Literals,
        Style::Positions,
        Style::Positions,
        Style::Names,
    ]);
    let mut writing = Writing {
        subject,
        partition: &subject.partitions[at],
        random,
        style,
        values: Vec::new(),
    };
    let text = writing.statement();
    let values = writing.values;
    let codec = codec(random);
    let mut names: Vec<&'static str> = Vec::new();
    if style == Style::Names && random.below(3) > 0 {
        names.extend(&MARKERS[..values.len().min(MARKERS.len())]);
    }
    Question {
        text,
        names,
        is_prepared: style != Style::Literals && random.below(3) > 0 || random.one_in(8),
        codec,
        consistency: consistency(subject.serial, random),
        pages: pages(random),
        skip_metadata: random.one_in(3),
        now: now(codec, subject.now, random),
        keyspace: (codec.version == 5 && random.one_in(6)).then(|| subject.schema.keyspace.clone()),
        timestamp: random.one_in(20).then(|| random.next() as i64 >> 8),
        serial_consistency: random
            .one_in(10)
            .then_some(*random.pick(&[SERIAL, LOCAL_SERIAL])),
        changing: random.one_in(12).then(|| random.below(values.len().max(1))),
        values,
    }
}

fn codec(random: &mut Random) -> Codec {
    match random.below(20) {
        0..=3 => Codec::V3,
        4..=9 => Codec::V4,
        10 => Codec::V4_LZ4,
        11 => Codec::V5_LZ4,
        _ => Codec::V5,
    }
}

fn consistency(serial: usize, random: &mut Random) -> u16 {
    if random.one_in(serial) {
        return *random.pick(&[SERIAL, LOCAL_SERIAL]);
    }
    *random.pick(&[ONE, ONE, QUORUM, LOCAL_ONE])
}

/// Few pages of a small size, then one of all the rest: a change of the page size within a scan is allowed, and quick.
fn pages(random: &mut Random) -> (Option<i32>, usize, Option<i32>) {
    let small = Some(1 + random.below(20) as i32);
    match random.below(20) {
        0..=3 => (None, 1, None),
        4..=6 => (Some(WHOLE), 1, Some(WHOLE)),
        7 => (small, 12, Some(WHOLE)),
        8 => (
            Some(*random.pick(&[0, -1, i32::MIN, i32::MAX])),
            1,
            Some(WHOLE),
        ),
        9 => (small, 2, Some(1 + random.below(40) as i32 + 10)),
        _ => (small, 1 + random.below(3), Some(WHOLE)),
    }
}

fn now(codec: Codec, now: i32, random: &mut Random) -> Option<i32> {
    if codec.version < 5 || random.one_in(3) {
        return None;
    }
    let seconds = [-DAY, -100, -1, 0, 1, DAY - 1, DAY, 3 * DAY, 31 * DAY];
    Some(now + random.pick(&seconds))
}

impl<'a> Writing<'a, '_> {
    fn schema(&self) -> &'a Schema {
        self.subject.schema
    }

    /// A value in the statement, as the style wants it; now and then there is none behind a marker.
    fn put(&mut self, datum: &Datum) -> String {
        if self.style == Style::Literals || self.random.one_in(7) {
            return self.spelled(&datum.literal);
        }
        let value = match self.random.below(400) {
            0 => Value::Null,
            1 => Value::Unset,
            2 => Value::Bytes(self.random.bytes(3)),
            _ => Value::Bytes(datum.bytes.clone()),
        };
        self.marker(value)
    }

    /// The same literal, now and then in another spelling.
    fn spelled(&mut self, literal: &str) -> String {
        if !self.random.one_in(6) {
            return literal.to_owned();
        }
        let is_uuid = literal.len() == 36 && literal.as_bytes()[8] == b'-';
        let text = literal
            .strip_prefix('\'')
            .and_then(|text| text.strip_suffix('\''));
        match text {
            Some(text) if !text.contains('\'') => format!("$${text}$$"),
            None if is_uuid => literal.to_uppercase(),
            None if literal.starts_with("0x") => literal.to_uppercase(),
            None if literal.bytes().all(|byte| byte.is_ascii_digit()) => format!("00{literal}"),
            _ => literal.to_owned(),
        }
    }

    fn marker(&mut self, value: Value) -> String {
        let at = self.values.len();
        self.values.push(value);
        match self.style {
            Style::Names if at < MARKERS.len() => format!(":{}", MARKERS[at]),
            _ => "?".to_owned(),
        }
    }

    /// Without quotes where that is possible, mostly.
    fn name(&mut self, column: &Column) -> String {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        let needs_quotes = !column.name.bytes().all(plain) || column.name == "from";
        if needs_quotes || self.random.one_in(6) {
            return column.quoted();
        }
        match self.random.below(8) {
            0 => column.name.to_uppercase(),
            _ => column.name.clone(),
        }
    }

    fn statement(&mut self) -> String {
        // The bare text comes last in the statement, but values are bound in the order of the text.
        let selection = self.selection();
        let is_distinct = selection.starts_with("DISTINCT");
        let restrictions = self.restrictions(is_distinct);
        let group = if self.random.one_in(25) {
            self.group_by()
        } else {
            String::new()
        };
        let order = if self.random.one_in(4) {
            self.order_by()
        } else {
            String::new()
        };
        // Not allowed with aggregates.
        let per_partition = self.limit(
            "PER PARTITION LIMIT",
            if selection.contains('(') { 60 } else { 10 },
        );
        let limit = self.limit("LIMIT", 4);
        let filtering = if restrictions.filtering {
            " ALLOW FILTERING"
        } else {
            ""
        };
        let table = match self.random.below(3) {
            0 => super::schema::quoted(&self.schema().table),
            _ => self.schema().name(),
        };
        let conditions = restrictions.text;
        let text = format!(
            "SELECT {selection} FROM {table}{conditions}{group}{order}{per_partition}{limit}{filtering}"
        );
        self.noise(text)
    }

    /// What must not matter, and what must be refused.
    fn noise(&mut self, text: String) -> String {
        match self.random.below(160) {
            0 => text + ";",
            1 => format!("  {text}  ; "),
            2 => format!("/* first */ {text} -- and last\n"),
            3 => text
                .replacen("SELECT ", "select\n\t", 1)
                .replace(" FROM ", "\nfrom "),
            4 => text.replace(" AND ", " and/**/ "),
            5 => text.replacen(" WHERE ", " WHERE unknown_column = 1 AND ", 1),
            6 => text.replacen(" FROM ", ", missing FROM ", 1),
            7 => text.replacen(" FROM ", " FRM ", 1),
            8 => text + " nonsense",
            9 => text.replacen(" = ", " = 'wrong type' AND 1 = ", 1),
            10 => {
                self.values.pop();
                text
            }
            11 => {
                self.values.push(Value::int(7));
                text
            }
            12 => text + " -- a comment must end",
            13..=18 => text + ";",
            _ => text,
        }
    }

    fn limit(&mut self, word: &str, one_in: usize) -> String {
        if !self.random.one_in(one_in) {
            return String::new();
        }
        let value = match self.random.below(100) {
            0 => 0,
            1 => -1,
            2 => i32::MAX,
            3..=20 => 1,
            _ => self.random.below(40) as i32 + 1,
        };
        let value = self.put(&super::types::int(value));
        format!(" {word} {value}")
    }

    fn group_by(&mut self) -> String {
        let most = self.schema().partition.len() + self.schema().clustering.len();
        let count = 1 + self.random.below(most);
        let columns: Vec<&Column> = self.schema().key().take(count).collect();
        let names: Vec<String> = columns.iter().map(|column| self.name(column)).collect();
        format!(" GROUP BY {}", names.join(", "))
    }

    /// The order of the table, its reverse, or now and then one that does not exist.
    fn order_by(&mut self) -> String {
        let reversed = self.random.one_in(2);
        let count = 1 + self.random.below(self.schema().clustering.len());
        let columns = self
            .schema()
            .clustering
            .iter()
            .zip(&self.schema().descending);
        let columns: Vec<(&Column, &bool)> = columns.take(count).collect();
        let orders: Vec<String> = columns
            .iter()
            .map(|(column, descending)| {
                let wrong = self.random.one_in(40);
                let name = self.name(column);
                match (**descending != reversed) != wrong {
                    true => format!("{name} DESC"),
                    false if self.random.one_in(3) => name,
                    false => format!("{name} ASC"),
                }
            })
            .collect();
        format!(" ORDER BY {}", orders.join(", "))
    }
}
