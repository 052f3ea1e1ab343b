//! CQL types of random schemas, and random values of them: the bytes that are bound, and the text that says the same.
//!
//! Written apart from the proxy's own knowledge of types. No order is known here: Cassandra is always asked.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::support::random::Random;

/// The name of the user-defined type that every keyspace of these tests has.
pub(crate) const UDT: &str = "pair";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Type {
    Native(&'static str),
    List(Box<Type>),
    Set(Box<Type>),
    Map(Box<Type>, Box<Type>),
    Tuple(Vec<Type>),
    /// `pair (a int, b text)`.
    Udt,
    /// Of three floats.
    Vector,
    /// Not frozen: a set or a map of several cells.
    Cells(Box<Type>),
}

/// A value: what is bound, and its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Datum {
    pub(crate) bytes: Vec<u8>,
    pub(crate) literal: String,
}

impl Datum {
    pub(crate) fn new(bytes: impl Into<Vec<u8>>, literal: impl Into<String>) -> Self {
        Self {
            bytes: bytes.into(),
            literal: literal.into(),
        }
    }
}

/// Those that a key may hold.
pub(crate) const NATIVE: [&str; 19] = [
    "ascii",
    "bigint",
    "blob",
    "boolean",
    "date",
    "decimal",
    "double",
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
    "varchar",
    "varint",
];

const WORDS: [&str; 12] = [
    "a", "b", "ab", "B", "it's", "zz", "0", "10", "9", "A b", "~", "--",
];
const FAR_WORDS: [&str; 4] = ["žluť", "日本", "é", "𝄞"];

impl Type {
    /// As it is declared.
    pub(crate) fn cql(&self) -> String {
        match self {
            Self::Native(name) => (*name).to_owned(),
            Self::Udt => format!("frozen<{UDT}>"),
            Self::Vector => "vector<float, 3>".to_owned(),
            Self::Cells(inner) => inner.inner(),
            _ => format!("frozen<{}>", self.inner()),
        }
    }

    fn inner(&self) -> String {
        match self {
            Self::List(of) => format!("list<{}>", of.cql()),
            Self::Set(of) => format!("set<{}>", of.cql()),
            Self::Map(key, value) => format!("map<{}, {}>", key.cql(), value.cql()),
            Self::Tuple(of) => {
                let of: Vec<String> = of.iter().map(Self::cql).collect();
                format!("tuple<{}>", of.join(", "))
            }
            other => other.cql(),
        }
    }

    /// For a clustering column: mostly native.
    pub(crate) fn of_clustering(random: &mut Random) -> Self {
        let native = |random: &mut Random| Self::Native(any_of(&NATIVE, random));
        match random.below(24) {
            0 => Self::List(Box::new(Self::Native("int"))),
            1 => Self::Tuple(vec![native(random), Self::Native("text")]),
            2 => Self::Set(Box::new(Self::Native("int"))),
            3 => Self::Map(Box::new(Self::Native("text")), Box::new(native(random))),
            _ => native(random),
        }
    }

    pub(crate) fn of_regular(random: &mut Random, since_5: bool) -> Self {
        let text = || Box::new(Self::Native("text"));
        match random.below(20) {
            0 => Self::Native("duration"),
            1 => Self::Udt,
            2 => Self::List(text()),
            3 if since_5 => Self::Vector,
            4 | 5 if since_5 => Self::Cells(Box::new(Self::Set(text()))),
            6 | 7 if since_5 => {
                Self::Cells(Box::new(Self::Map(text(), Box::new(Self::Native("int")))))
            }
            8 => Self::Map(text(), Box::new(Self::Native("int"))),
            9 => Self::Tuple(vec![Self::Native("int"), Self::Native("text")]),
            _ => Self::Native(any_of(&NATIVE, random)),
        }
    }

    /// Whether a value of it may have no bytes at all, which no literal but a function can say.
    pub(crate) fn empty(&self) -> Option<Datum> {
        match self {
            Self::Native("text" | "varchar" | "ascii") => Some(Datum::new([], "''")),
            Self::Native("blob") => Some(Datum::new([], "0x")),
            Self::Native(
                name @ ("int" | "bigint" | "double" | "float" | "timestamp" | "uuid" | "timeuuid"
                | "inet" | "varint" | "decimal" | "boolean"),
            ) => Some(Datum::new([], format!("blobAs{}(0x)", capital(name)))),
            _ => None,
        }
    }

    pub(crate) fn random(&self, random: &mut Random) -> Datum {
        match self {
            Self::Native(name) => native(name, random),
            Self::List(of) => {
                let items: Vec<Datum> = (0..random.below(4)).map(|_| of.random(random)).collect();
                Datum::new(
                    counted(items.iter().map(|item| &item.bytes)),
                    bracketed("[", &items, "]"),
                )
            }
            Self::Set(of) => {
                let items = sorted(of, random);
                let bytes = counted(items.iter().map(|item| &item.bytes));
                Datum::new(bytes, bracketed("{", &items, "}"))
            }
            Self::Map(key, value) => {
                let keys = sorted(key, random);
                let values: Vec<Datum> = keys.iter().map(|_| value.random(random)).collect();
                map(&keys, &values)
            }
            Self::Tuple(of) => {
                let items: Vec<Datum> = of.iter().map(|of| of.random(random)).collect();
                Datum::new(tuple_bytes(&items), bracketed("(", &items, ")"))
            }
            Self::Udt => {
                let items = [native("int", random), native("text", random)];
                let literal = format!("{{a: {}, b: {}}}", items[0].literal, items[1].literal);
                Datum::new(tuple_bytes(&items), literal)
            }
            Self::Vector => {
                let items: Vec<Datum> = (0..3).map(|_| half(random, 4)).collect();
                let bytes: Vec<u8> = items.iter().flat_map(|item| item.bytes.clone()).collect();
                Datum::new(bytes, bracketed("[", &items, "]"))
            }
            // No bytes would delete it: at least one element.
            Self::Cells(inner) => loop {
                let value = inner.random(random);
                if value.bytes[..4] != [0; 4] {
                    break value;
                }
            },
        }
    }
}

/// `blobAsInt` and its like.
pub(crate) fn capital(name: &str) -> String {
    let (head, tail) = name.split_at(1);
    head.to_uppercase() + tail
}

/// As `[bytes]`, one after the other.
pub(crate) fn tuple_bytes(items: &[Datum]) -> Vec<u8> {
    let mut out = Vec::new();
    for item in items {
        out.extend_from_slice(&(item.bytes.len() as i32).to_be_bytes());
        out.extend_from_slice(&item.bytes);
    }
    out
}

/// A list: their number, and each as `[bytes]`.
pub(crate) fn counted<'a>(items: impl Iterator<Item = &'a Vec<u8>>) -> Vec<u8> {
    let items: Vec<Datum> = items
        .map(|bytes| Datum::new(bytes.clone(), String::new()))
        .collect();
    let mut out = (items.len() as i32).to_be_bytes().to_vec();
    out.extend(tuple_bytes(&items));
    out
}

fn map(keys: &[Datum], values: &[Datum]) -> Datum {
    let mut bytes = (keys.len() as i32).to_be_bytes().to_vec();
    let mut text = Vec::new();
    for (key, value) in keys.iter().zip(values) {
        bytes.extend(tuple_bytes(&[key.clone(), value.clone()]));
        text.push(format!("{}: {}", key.literal, value.literal));
    }
    Datum::new(bytes, format!("{{{}}}", text.join(", ")))
}

pub(crate) fn bracketed(open: &str, items: &[Datum], close: &str) -> String {
    let items: Vec<&str> = items.iter().map(|item| item.literal.as_str()).collect();
    format!("{open}{}{close}", items.join(", "))
}

/// Elements in the order of their type; only types whose order is that of their bytes: positive ints, and texts.
fn sorted(of: &Type, random: &mut Random) -> Vec<Datum> {
    let mut items: Vec<Datum> = (0..random.below(4))
        .map(|_| match of {
            Type::Native("int") => int(random.below(9) as i32),
            _ => word(any_of(&WORDS, random)),
        })
        .collect();
    items.sort_by(|one, other| one.bytes.cmp(&other.bytes));
    items.dedup();
    items
}

pub(crate) fn int(value: i32) -> Datum {
    Datum::new(value.to_be_bytes(), value.to_string())
}

fn word(text: &str) -> Datum {
    Datum::new(text.as_bytes(), format!("'{}'", text.replace('\'', "''")))
}

fn any_of(texts: &[&'static str], random: &mut Random) -> &'static str {
    texts[random.below(texts.len())]
}

/// Near zero, or anything.
fn number(random: &mut Random) -> i64 {
    match random.below(10) {
        0 => random.next() as i64,
        1 => i64::MAX,
        2 => i64::MIN,
        3 => i64::from(random.next() as i32),
        4 => -128,
        5 => 127 + random.below(3) as i64,
        _ => random.below(20) as i64 - 8,
    }
}

fn native(name: &str, random: &mut Random) -> Datum {
    let any = number(random);
    match name {
        "text" | "varchar" if random.one_in(5) => word(any_of(&FAR_WORDS, random)),
        "ascii" | "text" | "varchar" if random.one_in(2) => {
            word(&format!("{}{}", any_of(&WORDS, random), random.below(30)))
        }
        "ascii" | "text" | "varchar" => word(any_of(&WORDS, random)),
        "bigint" => Datum::new(any.to_be_bytes(), any.to_string()),
        "int" => int(any as i32),
        "smallint" => Datum::new((any as i16).to_be_bytes(), (any as i16).to_string()),
        "tinyint" => Datum::new((any as i8).to_be_bytes(), (any as i8).to_string()),
        "boolean" => Datum::new(
            [(any & 1) as u8],
            if any & 1 == 1 { "true" } else { "FALSE" },
        ),
        "blob" => blob(random),
        "date" => date(any as i32),
        "time" => {
            let nanos = any.rem_euclid(86_400_000_000_000);
            Datum::new(nanos.to_be_bytes(), nanos.to_string())
        }
        "timestamp" => timestamp(random),
        "decimal" => decimal(any, random),
        "varint" => varint(any, random),
        "double" => half(random, 8),
        "float" => half(random, 4),
        "inet" => inet(random),
        "timeuuid" => timeuuid(random),
        "uuid" if random.one_in(3) => timeuuid(random),
        "uuid" => {
            let mut bytes = random.bytes(16);
            bytes[6] = bytes[6] & 0x0f | 0x40;
            bytes[8] = bytes[8] & 0x3f | 0x80;
            let literal = uuid_text(&bytes);
            Datum::new(bytes, literal)
        }
        "duration" => duration(random),
        other => panic!("no values of {other}"),
    }
}

fn blob(random: &mut Random) -> Datum {
    let length = 1 + random.below(3);
    let bytes = random.bytes(length);
    let literal = bytes
        .iter()
        .fold("0x".to_owned(), |text, byte| text + &format!("{byte:02x}"));
    Datum::new(bytes, literal)
}

/// Days from 1970, in a range that both sides can write as text.
fn date(days: i32) -> Datum {
    let stored = (days % 100_000).wrapping_sub(i32::MIN) as u32;
    Datum::new(stored.to_be_bytes(), stored.to_string())
}

fn timestamp(random: &mut Random) -> Datum {
    const DAY: i64 = 86_400_000;
    match random.below(5) {
        0 => {
            let seconds = random.below(60);
            let millis = 1_767_225_600_000 + seconds as i64 * 1000;
            let literal = format!("'2026-01-01 00:00:{seconds:02}+0000'");
            Datum::new(millis.to_be_bytes(), literal)
        }
        1 => {
            let millis = -(random.below(1000) as i64);
            Datum::new(millis.to_be_bytes(), millis.to_string())
        }
        _ => {
            let millis = 1_767_225_600_000 + random.below(400) as i64 * DAY / 100;
            Datum::new(millis.to_be_bytes(), millis.to_string())
        }
    }
}

/// Equal numbers have equal bytes: no zeros at the end of a fraction.
fn decimal(any: i64, random: &mut Random) -> Datum {
    let scale = if any % 10 == 0 { 0 } else { random.below(5) };
    let mut bytes = (scale as i32).to_be_bytes().to_vec();
    bytes.extend(twos_complement(any.into()));
    let digits = format!("{:0>width$}", any.unsigned_abs(), width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    let point = if scale > 0 { "." } else { "" };
    let sign = if any < 0 { "-" } else { "" };
    Datum::new(bytes, format!("{sign}{whole}{point}{fraction}"))
}

fn varint(any: i64, random: &mut Random) -> Datum {
    let wide = i128::from(any) * if random.one_in(4) { 1 << 40 } else { 1 };
    Datum::new(twos_complement(wide), wide.to_string())
}

fn twos_complement(value: i128) -> Vec<u8> {
    let bytes = value.to_be_bytes();
    let redundant = |at: &usize| {
        let (this, next) = (bytes[*at], bytes[*at + 1]);
        this == 0 && next < 0x80 || this == 0xff && next >= 0x80
    };
    let skip = (0..15).take_while(redundant).count();
    bytes[skip..].to_vec()
}

/// A double or a float with an exact text.
fn half(random: &mut Random, width: usize) -> Datum {
    let value = match random.below(14) {
        0 => f64::NAN,
        1 => f64::INFINITY,
        2 => f64::NEG_INFINITY,
        3 => -0.0,
        _ => (random.below(64) as f64 - 32.0) / 4.0,
    };
    let literal = match value {
        value if value.is_nan() => "NaN".to_owned(),
        f64::INFINITY => "Infinity".to_owned(),
        f64::NEG_INFINITY => "-Infinity".to_owned(),
        value => format!("{value:?}"),
    };
    let bytes = match width {
        4 => (value as f32).to_be_bytes().to_vec(),
        _ => value.to_be_bytes().to_vec(),
    };
    Datum::new(bytes, literal)
}

fn inet(random: &mut Random) -> Datum {
    if random.one_in(3) {
        let address = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, random.next() as u16 | 1);
        return Datum::new(address.octets(), format!("'{address}'"));
    }
    let last = random.next() as u8;
    let address = Ipv4Addr::new(*random.pick(&[10, 127, 200]), 0, 0, last);
    Datum::new(address.octets(), format!("'{address}'"))
}

fn timeuuid(random: &mut Random) -> Datum {
    // 100 ns steps since 1582; some share their time and differ behind it.
    let time = 0x01f0_e0a0_0000_0000_u64 + random.below(200) as u64 * 0x0101_0101_0101;
    let mut bytes = (time as u32).to_be_bytes().to_vec();
    bytes.extend_from_slice(&((time >> 32) as u16).to_be_bytes());
    bytes.extend_from_slice(&((time >> 48) as u16 & 0x0fff | 0x1000).to_be_bytes());
    bytes.extend(random.bytes(8));
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let literal = uuid_text(&bytes);
    Datum::new(bytes, literal)
}

fn uuid_text(bytes: &[u8]) -> String {
    let hex = |range: std::ops::Range<usize>| {
        bytes[range]
            .iter()
            .fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
    };
    let groups = [hex(0..4), hex(4..6), hex(6..8), hex(8..10), hex(10..16)];
    groups.join("-")
}

/// Months, days and nanoseconds as small variable integers.
fn duration(random: &mut Random) -> Datum {
    let (months, days) = (random.below(30), random.below(30));
    let seconds = random.below(1000);
    let mut bytes = vint(months as u64 * 2);
    bytes.extend(vint(days as u64 * 2));
    bytes.extend(vint(seconds as u64 * 2_000_000_000));
    Datum::new(bytes, format!("{months}mo{days}d{seconds}s"))
}

/// The count of leading ones in the first byte says how many bytes follow.
fn vint(value: u64) -> Vec<u8> {
    let extra = (0..8)
        .find(|extra| value < 1 << (7 + 7 * extra))
        .unwrap_or(8);
    let all = value.to_be_bytes();
    let mut out = all[7 - extra..].to_vec();
    out[0] |= !(0xff_u8.checked_shr(extra as u32).unwrap_or(0));
    out
}
