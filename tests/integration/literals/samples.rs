//! Constants: nasty ones that are tried with every type, and random ones that suit a type more often than not.

use crate::support::random::Random;

pub(super) const NASTY: [&str; 158] = [
    "null",
    "true",
    "FALSE",
    "1w",
    "0",
    "-0",
    "007",
    "1",
    "-1",
    "127",
    "128",
    "-128",
    "-129",
    "255",
    "256",
    "32767",
    "32768",
    "-32768",
    "-32769",
    "2147483647",
    "2147483648",
    "-2147483648",
    "-2147483649",
    "4294967295",
    "4294967296",
    "86399999999999",
    "86400000000000",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "-9223372036854775809",
    "99999999999999999999999999",
    "-99999999999999999999999999",
    "16777217",
    "9007199254740993",
    "1.50",
    "1.",
    "-0.0",
    "0.0",
    "00.10",
    "1e5",
    "1E-5",
    "1.5e+3",
    "1.e3",
    "-12.34E-7",
    "0e10",
    "1e0002",
    "1e38",
    "1e39",
    "-1e39",
    "1e308",
    "1e309",
    "1e400",
    "-1e400",
    "1e-400",
    "1e-2147483647",
    "1e-2147483648",
    "1e2147483647",
    "1e2147483648",
    "0e2147483647",
    "3.4028235677973366e38",
    "3.4028234e38",
    "1.401298464324817e-45",
    "7.0e-46",
    "2.2250738585072012e-308",
    "4.9e-324",
    "2.4e-324",
    "0.1",
    "1.7976931348623157e308",
    "NaN",
    "-NaN",
    "nan",
    "Infinity",
    "-Infinity",
    "infinity",
    "12345678901234567890123.5",
    "0x",
    "0x00",
    "0xABcd",
    "''",
    "'a'",
    "'a''b'",
    "'é'",
    "'😀'",
    "'\0'",
    "'1'",
    "'-1'",
    "'123'",
    "'true'",
    "'4294967296'",
    "'now'",
    "'2024-01-31'",
    "'2024-02-29'",
    "'2023-02-29'",
    "'1900-02-29'",
    "'2000-02-29'",
    "'0000-01-01'",
    "'0001-01-01'",
    "'9999-12-31'",
    "'1582-10-10'",
    "'1969-12-31'",
    "'2024-1-31'",
    "'-0001-01-01'",
    "'+12024-01-31'",
    "'2024-01-31Z'",
    "'2024-01-31 Z'",
    "'2024-01-31T Z'",
    "'2024-01-31+0000'",
    "'2024-01-31 +01:00'",
    "'2024-01-31T10:11Z'",
    "'2024-01-31 10:11Z'",
    "'2024-01-31T10:11+0100'",
    "'2024-01-31T10:11-03:30'",
    "'2024-01-31T10:11+01'",
    "'2024-01-31T10:11:12.1Z'",
    "'2024-01-31T10:11:12.123999999Z'",
    "'2024-01-31T10:11:12.1234567890Z'",
    "'2024-01-31T10:11:12.Z'",
    "'2024-01-31T10:11:12.123 +0200'",
    "'2024-01-31T10:11:12 UTC'",
    "'1969-12-31T23:59:59.9995Z'",
    "'0001-01-01T00:00Z'",
    "'0000-01-01T00:00Z'",
    "'9999-12-31T23:59:59.999Z'",
    "'2024-02-30T00:00Z'",
    "'2024-01-31T24:00Z'",
    "'2024-01-31T10:60Z'",
    "'2024-01-31T10:11+1800'",
    "'2024-01-31T10:11-1800'",
    "'2024-01-31T10:11+1801'",
    "'2024-01-31T10:11-00:00'",
    "'2024-01-31T10:11+01:'",
    "'2024-01-31T10.5Z'",
    "'08:12:54'",
    "'08:12:54.1'",
    "'08:12:54.123456789'",
    "'08:12:54.1234567890'",
    "'8:12:54'",
    "'24:00:00'",
    "'23:59:60'",
    "'00:00:00'",
    "'127.0.0.1'",
    "'127.1'",
    "'010.0.0.1'",
    "'256.1.1.1'",
    "'::'",
    "'::1'",
    "'::ffff:1.2.3.4'",
    "'::1.2.3.4'",
    "'0:0:0:0:0:ffff:0:0'",
    "'64:ff9b::1.2.3.4'",
    "'1:2:3:4:5:6:7::'",
    "'00001::1'",
    "'[::1]'",
    "'00000000-0000-1000-8000-000000000000'",
    "00000000-0000-0000-0000-000000000000",
    "00000000-0000-1000-0000-000000000000",
    "ffffffff-ffff-4fff-ffff-ffffffffffff",
];

/// A constant for this type, now and then one for another.
pub(super) fn constant(random: &mut Random, name: &str) -> String {
    if random.below(12) == 0 {
        return NASTY[random.below(NASTY.len())].to_owned();
    }
    match name {
        "boolean" => ["true", "false"][random.below(2)].to_owned(),
        "blob" => format!("0x{}", hex(random, 6)),
        "ascii" => quoted(random, "ab'Z ~\u{1}"),
        "text" => quoted(random, "ab'Z ~é\u{800}\u{ffff}😀"),
        "uuid" | "timeuuid" => uuid(random),
        "inet" => address(random),
        "float" | "double" | "decimal" => number(random),
        "date" => format!("'{}'", day(random)),
        "time" => format!("'{}'", time(random)),
        "timestamp" => timestamp(random),
        _ => integer(random),
    }
}

fn hex(random: &mut Random, bytes_max: usize) -> String {
    let count = random.below(bytes_max);
    let bytes = random.bytes(count);
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn quoted(random: &mut Random, letters: &str) -> String {
    let letters: Vec<char> = letters.chars().collect();
    let count = random.below(6);
    let text: String = (0..count)
        .map(|_| letters[random.below(letters.len())])
        .collect();
    format!("'{}'", text.replace('\'', "''"))
}

fn uuid(random: &mut Random) -> String {
    let mut bytes = random.bytes(16);
    if random.below(3) > 0 {
        bytes[6] = 0x10 | bytes[6] & 0xF;
    }
    let digits: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let parts = [0..4, 4..6, 6..8, 8..10, 10..16].map(|range| digits[range].concat());
    parts.join("-")
}

fn address(random: &mut Random) -> String {
    if random.below(2) == 0 {
        let octets: Vec<String> = random.bytes(4).iter().map(u8::to_string).collect();
        return format!("'{}'", octets.join("."));
    }
    // Zeros enough for the short form.
    let mut bytes = [0; 16];
    for index in 0..random.below(16) {
        bytes[15 - index] = random.next() as u8;
    }
    format!("'{}'", std::net::Ipv6Addr::from(bytes))
}

fn digits(random: &mut Random, count_max: usize) -> String {
    let count = 1 + random.below(count_max);
    (0..count)
        .map(|_| char::from(b'0' + random.below(10) as u8))
        .collect()
}

fn integer(random: &mut Random) -> String {
    let sign = ["", "-"][random.below(2)];
    let count_max = [3, 6, 12, 22, 60][random.below(5)];
    format!("{sign}{}", digits(random, count_max))
}

fn number(random: &mut Random) -> String {
    let mut number = integer(random);
    if random.below(3) > 0 {
        number = format!("{number}.{}", digits(random, 20));
    }
    if random.below(2) == 0 {
        let sign = ["", "-", "+"][random.below(3)];
        number = format!(
            "{number}{}{sign}{}",
            ["e", "E"][random.below(2)],
            random.below(350)
        );
    }
    number
}

fn day(random: &mut Random) -> String {
    let year = [random.below(10_000), 1900 + random.below(200)][random.below(2)];
    let (month, day) = (1 + random.below(12), 1 + random.below(31));
    format!("{year:04}-{month:02}-{day:02}")
}

fn time(random: &mut Random) -> String {
    let (hour, minute, second) = (random.below(24), random.below(60), random.below(60));
    let whole = format!("{hour:02}:{minute:02}:{second:02}");
    match random.below(2) {
        0 => whole,
        _ => format!("{whole}.{}", digits(random, 9)),
    }
}

fn timestamp(random: &mut Random) -> String {
    if random.below(4) == 0 {
        return integer(random);
    }
    let (day, time) = (day(random), time(random));
    let time = match random.below(4) {
        0 => String::new(),
        1 => format!("T{}", &time[..5]),
        2 => format!("T{time}"),
        _ => format!(" {time}"),
    };
    let (hour, minute) = (random.below(19), random.below(60));
    let sign = ["+", "-"][random.below(2)];
    let zone = match random.below(5) {
        0 => "Z".to_owned(),
        1 => format!("{sign}{hour:02}"),
        2 => format!("{sign}{hour:02}{minute:02}"),
        3 => format!("{sign}{hour:02}:{minute:02}"),
        _ => String::new(),
    };
    format!("'{day}{time}{}{zone}'", ["", " "][random.below(2)])
}
