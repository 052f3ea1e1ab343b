//! The words that CQL reserves in Cassandra 4.1 and 5.0. Each was tried on both.

/// Never names unless quoted.
const RESERVED: [&str; 59] = [
    "add",
    "allow",
    "alter",
    "and",
    "apply",
    "asc",
    "authorize",
    "batch",
    "begin",
    "by",
    "columnfamily",
    "create",
    "delete",
    "desc",
    "describe",
    "drop",
    "entries",
    "execute",
    "false",
    "from",
    "full",
    "grant",
    "if",
    "in",
    "index",
    "infinity",
    "insert",
    "into",
    "is",
    "keyspace",
    "limit",
    "materialized",
    "modify",
    "nan",
    "norecursive",
    "not",
    "null",
    "of",
    "on",
    "or",
    "order",
    "primary",
    "rename",
    "revoke",
    "schema",
    "select",
    "set",
    "table",
    "to",
    "token",
    "true",
    "truncate",
    "unlogged",
    "update",
    "use",
    "using",
    "view",
    "where",
    "with",
];

/// These may name columns, but not functions. (`token` may name a function, but not a column.)
const NEVER_FUNCTIONS: [&str; 7] = [
    "cast",
    "distinct",
    "json",
    "key",
    "maxwritetime",
    "ttl",
    "writetime",
];

/// These may name columns, but not types.
const NEVER_TYPES: [&str; 13] = [
    "bitstring",
    "byte",
    "cast",
    "complex",
    "count",
    "distinct",
    "enum",
    "interval",
    "json",
    "macaddr",
    "maxwritetime",
    "ttl",
    "writetime",
];

const NATIVE_TYPES: [&str; 21] = [
    "ascii",
    "bigint",
    "blob",
    "boolean",
    "counter",
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
    "varchar",
    "varint",
];

fn holds(words: &[&str], word: &str) -> bool {
    words.iter().any(|known| known.eq_ignore_ascii_case(word))
}

pub(super) fn is_name(word: &str) -> bool {
    !holds(&RESERVED, word)
}

pub(super) fn is_function(word: &str) -> bool {
    let is_token = word.eq_ignore_ascii_case("token");
    is_token || is_name(word) && !holds(&NEVER_FUNCTIONS, word)
}

pub(super) fn is_native_type(word: &str) -> bool {
    holds(&NATIVE_TYPES, word)
}

/// Whether the word may name a user-defined type.
pub(super) fn is_user_type(word: &str) -> bool {
    is_name(word) && !is_native_type(word) && !holds(&NEVER_TYPES, word)
}
