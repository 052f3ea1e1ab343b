//! Serialized values of every type: half of them near the edges, some not as Cassandra itself would write them.

use narrows::schema::CqlType;

use crate::support::random::Random;
use crate::support::request;

pub(super) fn sample(cql_type: &CqlType, random: &mut Random) -> Vec<u8> {
    let cql_type = cql_type.unfrozen();
    // Not every type has an empty value; Cassandra says which.
    if random.below(25) == 0 && !matches!(cql_type, CqlType::Vector(..)) {
        return Vec::new();
    }
    match cql_type {
        CqlType::Ascii => text(random, "aAzZ 09~\u{1}\u{7f}"),
        CqlType::Text => text(
            random,
            "aAz~\u{7f}\u{80}é\u{7ff}\u{800}\u{d7ff}\u{ffff}\u{10000}😀",
        ),
        CqlType::Blob => {
            let length = random.below(5);
            bytes(random, length)
        }
        CqlType::Boolean => bytes(random, 1),
        CqlType::TinyInt => bytes(random, 1),
        CqlType::SmallInt => bytes(random, 2),
        CqlType::Int | CqlType::Date => bytes(random, 4),
        CqlType::BigInt | CqlType::Timestamp => bytes(random, 8),
        CqlType::Time => time(random),
        CqlType::Float => float(random).to_be_bytes().to_vec(),
        CqlType::Double => double(random).to_be_bytes().to_vec(),
        CqlType::Inet => {
            let length = [4, 16][random.below(2)];
            bytes(random, length)
        }
        CqlType::VarInt => whole(random),
        CqlType::Decimal => decimal(random),
        CqlType::Uuid => uuid(random, None),
        CqlType::TimeUuid => uuid(random, Some(1)),
        CqlType::List(element) => collection(random, &[element], false),
        CqlType::Set(element) => collection(random, &[element], true),
        CqlType::Map(key, value) => collection(random, &[key, value], true),
        CqlType::Tuple(fields) => tuple(random, fields),
        CqlType::Vector(element, dimension) => {
            let values = std::iter::repeat_with(|| sample(element, random));
            let present = values.filter(|value| !value.is_empty());
            present.take(*dimension).flatten().collect()
        }
        other => panic!("no samples of {other:?}"),
    }
}

/// Bytes, most of them at the edges of a sign or a carry.
fn bytes(random: &mut Random, count: usize) -> Vec<u8> {
    const EDGES: [u8; 6] = [0x00, 0x01, 0x7F, 0x80, 0x81, 0xFF];
    let any = random.below(3) == 0;
    let byte = |_| match any {
        true => random.next() as u8,
        false => EDGES[random.below(EDGES.len())],
    };
    (0..count).map(byte).collect()
}

fn text(random: &mut Random, letters: &str) -> Vec<u8> {
    let letters: Vec<char> = letters.chars().collect();
    let length = random.below(5);
    let text: String = (0..length)
        .map(|_| letters[random.below(letters.len())])
        .collect();
    text.into_bytes()
}

/// Sometimes beyond the end of the day, which Cassandra may or may not take.
fn time(random: &mut Random) -> Vec<u8> {
    match random.below(4) {
        0 => bytes(random, 8),
        _ => (random.next() % 86_400_000_000_000).to_be_bytes().to_vec(),
    }
}

fn float(random: &mut Random) -> u32 {
    const EDGES: [u32; 10] = [
        0x0000_0000,
        0x8000_0000,
        0x0000_0001,
        0x8000_0001,
        0x7F80_0000,
        0xFF80_0000,
        0x7FC0_0000,
        0xFFC0_0000,
        0x7F80_0001,
        0x7FFF_FFFF,
    ];
    match random.below(2) {
        0 => EDGES[random.below(EDGES.len())],
        _ => random.next() as u32,
    }
}

fn double(random: &mut Random) -> u64 {
    let narrow = f32::from_bits(float(random));
    match random.below(2) {
        0 => f64::from(narrow).to_bits(),
        _ => u64::from(narrow.to_bits()) << 32 | random.next() >> 60,
    }
}

/// Of up to ten bytes, some longer than they need to be.
fn whole(random: &mut Random) -> Vec<u8> {
    let longest = [2, 10][random.below(2)];
    let length = 1 + random.below(longest);
    bytes(random, length)
}

/// Never a scale alone: Cassandra takes it and then cannot compare it.
fn decimal(random: &mut Random) -> Vec<u8> {
    let scale = match random.below(8) {
        0 => random.next() as i32,
        1 => [i32::MIN, i32::MAX, -1000, 1000][random.below(4)],
        _ => random.below(9) as i32 - 4,
    };
    let unscaled = match random.below(3) {
        0 => [1, 10, 100, 1000, -1, -10, -100, 0_i16][random.below(8)]
            .to_be_bytes()
            .to_vec(),
        _ => whole(random),
    };
    [&scale.to_be_bytes()[..], &unscaled].concat()
}

fn uuid(random: &mut Random, version: Option<u8>) -> Vec<u8> {
    let mut bytes = bytes(random, 16);
    let version = version.unwrap_or_else(|| [0, 1, 1, 2, 4, 6, 7, 8, 15][random.below(9)]);
    bytes[6] = version << 4 | bytes[6] & 0xF;
    bytes
}

/// Sets and maps are mostly of one entry or sorted by chance, and sometimes not sorted at all.
fn collection(random: &mut Random, types: &[&CqlType], few: bool) -> Vec<u8> {
    let count = random.below(if few { 3 } else { 4 });
    let mut out = Vec::new();
    request::int(&mut out, count as i32);
    for _ in 0..count {
        for cql_type in types {
            request::long_string(&mut out, &element(random, cql_type));
        }
    }
    out
}

/// Never an empty number: Cassandra stores it as null, and from then on fails to compare the row with others.
fn element(random: &mut Random, cql_type: &CqlType) -> Vec<u8> {
    let has_empty = matches!(cql_type, CqlType::Ascii | CqlType::Blob | CqlType::Text);
    std::iter::repeat_with(|| sample(cql_type, random))
        .find(|value| has_empty || !value.is_empty())
        .expect("most are not empty")
}

/// With nulls, and with fields left out at the end.
fn tuple(random: &mut Random, fields: &[CqlType]) -> Vec<u8> {
    let mut out = Vec::new();
    let count = match random.below(3) {
        0 => 1 + random.below(fields.len()),
        _ => fields.len(),
    };
    for field in &fields[..count] {
        match random.below(5) {
            0 => request::int(&mut out, -1),
            _ => request::long_string(&mut out, &sample(field, random)),
        }
    }
    out
}
