//! Native functions that compute a value from one row. A function that is not listed may be a user-defined aggregate.

/// In every version. A native function takes precedence over a user-defined one of the same name.
const SCALAR: [&str; 29] = [
    "asciiasblob",
    "bigintasblob",
    "blobasascii",
    "blobasbigint",
    "blobasboolean",
    "blobasdouble",
    "blobasfloat",
    "blobasint",
    "blobastext",
    "blobastimestamp",
    "blobastimeuuid",
    "blobasuuid",
    "blobasvarchar",
    "booleanasblob",
    "dateof",
    "doubleasblob",
    "floatasblob",
    "intasblob",
    "textasblob",
    "timestampasblob",
    "timeuuidasblob",
    "todate",
    "tojson",
    "totimestamp",
    "tounixtimestamp",
    "ttl",
    "unixtimestampof",
    "uuidasblob",
    "writetime",
];

/// New in 5.0. Before, a user-defined function may have such a name, so the keyspace must be given.
const SCALAR_OF_SYSTEM: [&str; 38] = [
    "abs",
    "ascii_as_blob",
    "bigint_as_blob",
    "blob_as_ascii",
    "blob_as_bigint",
    "blob_as_boolean",
    "blob_as_double",
    "blob_as_float",
    "blob_as_int",
    "blob_as_text",
    "blob_as_timestamp",
    "blob_as_timeuuid",
    "blob_as_uuid",
    "blob_as_varchar",
    "boolean_as_blob",
    "collection_avg",
    "collection_count",
    "collection_max",
    "collection_min",
    "collection_sum",
    "date_of",
    "double_as_blob",
    "exp",
    "float_as_blob",
    "int_as_blob",
    "log",
    "log10",
    "map_keys",
    "map_values",
    "round",
    "text_as_blob",
    "timestamp_as_blob",
    "timeuuid_as_blob",
    "to_date",
    "to_json",
    "to_timestamp",
    "to_unix_timestamp",
    "uuid_as_blob",
];

pub(super) fn is_scalar(keyspace: Option<&str>, name: &str) -> bool {
    let has = |names: &[&str]| names.binary_search(&name).is_ok();
    match keyspace {
        None => has(&SCALAR),
        Some("system") => has(&SCALAR) || has(&SCALAR_OF_SYSTEM),
        Some(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lists_are_in_order_so_that_they_can_be_searched() {
        assert!(SCALAR.is_sorted() && SCALAR_OF_SYSTEM.is_sorted());
    }

    #[test]
    fn a_name_that_may_be_a_users_needs_its_keyspace() {
        assert!(is_scalar(None, "writetime") && is_scalar(Some("system"), "todate"));
        assert!(is_scalar(Some("system"), "abs") && !is_scalar(None, "abs"));
        assert!(!is_scalar(Some("ks"), "todate"));
        for name in ["sum", "token", "my_function"] {
            assert!(!is_scalar(None, name) && !is_scalar(Some("system"), name));
        }
    }
}
