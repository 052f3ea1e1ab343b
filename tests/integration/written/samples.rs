//! Values of partition keys: a constant in CQL, the same in JSON, and its bytes in hexadecimal.

pub(super) struct Sample {
    pub(super) cql: &'static str,
    pub(super) json: &'static str,
    hex: &'static str,
}

impl Sample {
    pub(super) fn bytes(&self) -> Vec<u8> {
        let pair = |at: usize| u8::from_str_radix(&self.hex[at..at + 2], 16).expect("hexadecimal");
        (0..self.hex.len() / 2)
            .map(|index| pair(index * 2))
            .collect()
    }
}

const fn sample(cql: &'static str, json: &'static str, hex: &'static str) -> Sample {
    Sample { cql, json, hex }
}

const TEXTS: [Sample; 4] = [
    sample("'a'", r#""a""#, "61"),
    sample("'it''s'", r#""it's""#, "69742773"),
    sample("$$a\"b$$", r#""a\"\u0062""#, "612262"),
    sample("'a/b'", r#""a\/\u0062""#, "612f62"),
];

const LONG_TEXTS: [Sample; 4] = [
    sample("'é'", r#""\u00E9""#, "c3a9"),
    sample("'😀'", r#""\ud83d\uDE00""#, "f09f9880"),
    sample("'a'", r#""a""#, "61"),
    sample("'€ x'", r#""€ x""#, "e282ac2078"),
];

const BYTES: [Sample; 4] = [
    sample("1", "1", "01"),
    sample("-128", "\"-128\"", "80"),
    sample("0", "-0", "00"),
    sample("127", "127", "7f"),
];

const SHORTS: [Sample; 3] = [
    sample("1", "1", "0001"),
    sample("-32768", "\"-32768\"", "8000"),
    sample("32767", "32767", "7fff"),
];

const INTS: [Sample; 4] = [
    sample("7", "7", "00000007"),
    sample("-1", "\"-1\"", "ffffffff"),
    sample("0", "-0", "00000000"),
    sample("-2147483648", "-2147483648", "80000000"),
];

const LONGS: [Sample; 4] = [
    sample("7", "7", "0000000000000007"),
    sample("-1", "\"-1\"", "ffffffffffffffff"),
    sample("2147483648", "2147483648", "0000000080000000"),
    sample(
        "-9223372036854775808",
        "-9223372036854775808",
        "8000000000000000",
    ),
];

const VARINTS: [Sample; 4] = [
    sample("7", "7", "07"),
    sample("128", "\"128\"", "0080"),
    sample("-129", "-129", "ff7f"),
    sample(
        "9223372036854775808",
        "9223372036854775808",
        "008000000000000000",
    ),
];

const UUIDS: [Sample; 2] = [
    sample(
        "00112233-4455-4677-8899-AABBCCDDEEFF",
        "\"00112233-4455-4677-8899-AABBCCDDEEFF\"",
        "00112233445546778899aabbccddeeff",
    ),
    sample(
        "50554d6e-29bb-11e5-b345-feff819cdc9f",
        "\"50554d6e-29bb-11e5-b345-feff819cdc9f\"",
        "50554d6e29bb11e5b345feff819cdc9f",
    ),
];

const TIMEUUIDS: [Sample; 2] = [
    sample(
        "50554d6e-29bb-11e5-b345-feff819cdc9f",
        "\"50554D6E-29bb-11e5-b345-feff819cdc9f\"",
        "50554d6e29bb11e5b345feff819cdc9f",
    ),
    sample(
        "50554d6e-29bb-11e5-b345-000000000001",
        "\"50554d6e-29bb-11e5-b345-000000000001\"",
        "50554d6e29bb11e5b345000000000001",
    ),
];

const TIMESTAMPS: [Sample; 4] = [
    sample("1706659200000", "1706659200000", "0000018d5cd0bc00"),
    sample(
        "'2024-01-31T10:11-0330'",
        "\"2024-01-31T10:11-0330\"",
        "0000018d5fc061e0",
    ),
    sample("-1", "\"-1\"", "ffffffffffffffff"),
    sample(
        "'2024-01-31 10:11:12.123Z'",
        "\"2024-01-31 10:11:12.123Z\"",
        "0000018d5f004e7b",
    ),
];

const DATES: [Sample; 3] = [
    sample("'2024-01-31'", "\"2024-01-31\"", "80004d29"),
    sample("2147483648", "\"2147483648\"", "80000000"),
    sample("'1969-12-31'", "\"1969-12-31\"", "7fffffff"),
];

const TIMES: [Sample; 3] = [
    sample("'08:12:54'", "\"08:12:54\"", "00001ae5bbc3bc00"),
    sample(
        "'08:12:54.123456789'",
        "\"08:12:54.123456789\"",
        "00001ae5c31f8915",
    ),
    sample("1", "\"1\"", "0000000000000001"),
];

const BOOLEANS: [Sample; 4] = [
    sample("true", "true", "01"),
    sample("FALSE", "false", "00"),
    sample("true", "\"True\"", "01"),
    sample("false", "\"false\"", "00"),
];

const BLOBS: [Sample; 3] = [
    sample("0xCAFE", "\"0xCAfe\"", "cafe"),
    sample("0x00", "\"0x00\"", "00"),
    sample("0x0102030405", "\"0x0102030405\"", "0102030405"),
];

const ADDRESSES: [Sample; 4] = [
    sample("'127.0.0.1'", "\"127.0.0.1\"", "7f000001"),
    sample("'::1'", "\"::1\"", "00000000000000000000000000000001"),
    sample("'::ffff:1.2.3.4'", "\"::ffff:1.2.3.4\"", "01020304"),
    sample(
        "'fe80::2'",
        "\"fe80::2\"",
        "fe800000000000000000000000000002",
    ),
];

/// All values of a type.
pub(super) fn of(cql_type: &str) -> &'static [Sample] {
    match cql_type {
        "ascii" => &TEXTS,
        "text" => &LONG_TEXTS,
        "tinyint" => &BYTES,
        "smallint" => &SHORTS,
        "int" => &INTS,
        "bigint" => &LONGS,
        "varint" => &VARINTS,
        "uuid" => &UUIDS,
        "timeuuid" => &TIMEUUIDS,
        "timestamp" => &TIMESTAMPS,
        "date" => &DATES,
        "time" => &TIMES,
        "boolean" => &BOOLEANS,
        "blob" => &BLOBS,
        "inet" => &ADDRESSES,
        other => panic!("no samples of {other}"),
    }
}
