//! The lines of the table of what is rewritten and what is forwarded, each with its name; `{}` is the table.

/// What is answered from a split of the partition 1, of 30 rows; `{}` is the table.
pub(super) const REWRITTEN: [(&str, &str); 41] = [
    ("no clustering restriction", "SELECT * FROM {} WHERE k = 1"),
    ("=", "SELECT * FROM {} WHERE k = 1 AND a = 3"),
    (
        "= on the whole key",
        "SELECT * FROM {} WHERE k = 1 AND a = 3 AND b = 2",
    ),
    ("= on no row", "SELECT * FROM {} WHERE k = 1 AND a = 300"),
    ("<", "SELECT * FROM {} WHERE k = 1 AND a < 3"),
    ("<=", "SELECT * FROM {} WHERE k = 1 AND a <= 3"),
    (">", "SELECT * FROM {} WHERE k = 1 AND a > 3"),
    (">=", "SELECT * FROM {} WHERE k = 1 AND a >= 3"),
    (
        "both ends",
        "SELECT * FROM {} WHERE k = 1 AND a > 1 AND a <= 5",
    ),
    (
        "nothing between",
        "SELECT * FROM {} WHERE k = 1 AND a > 5 AND a < 2",
    ),
    (
        "a slice below =",
        "SELECT * FROM {} WHERE k = 1 AND a = 2 AND b > 1",
    ),
    (
        "tuple slice",
        "SELECT * FROM {} WHERE k = 1 AND (a, b) >= (2, 1)",
    ),
    (
        "tuple slice of both ends",
        "SELECT * FROM {} WHERE k = 1 AND (a, b) > (1, 2) AND (a, b) < (5, 0)",
    ),
    (
        "tuple =",
        "SELECT * FROM {} WHERE k = 1 AND (a, b) = (2, 1)",
    ),
    ("IN", "SELECT * FROM {} WHERE k = 1 AND a IN (5, 0, 3)"),
    (
        "IN on both",
        "SELECT * FROM {} WHERE k = 1 AND a IN (5, 0) AND b IN (0, 3, 1)",
    ),
    (
        "tuple IN",
        "SELECT * FROM {} WHERE k = 1 AND (a, b) IN ((5, 0), (0, 3), (9, 9))",
    ),
    (
        "ORDER BY as the table",
        "SELECT * FROM {} WHERE k = 1 ORDER BY a ASC, b DESC",
    ),
    (
        "ORDER BY reversed",
        "SELECT * FROM {} WHERE k = 1 ORDER BY a DESC, b ASC",
    ),
    (
        "ORDER BY reversed, a slice",
        "SELECT * FROM {} WHERE k = 1 AND a < 6 ORDER BY a DESC",
    ),
    ("LIMIT", "SELECT * FROM {} WHERE k = 1 LIMIT 11"),
    (
        "LIMIT beyond the end",
        "SELECT * FROM {} WHERE k = 1 LIMIT 100",
    ),
    (
        "LIMIT, reversed",
        "SELECT * FROM {} WHERE k = 1 ORDER BY a DESC, b ASC LIMIT 11",
    ),
    (
        "PER PARTITION LIMIT",
        "SELECT * FROM {} WHERE k = 1 PER PARTITION LIMIT 9",
    ),
    (
        "PER PARTITION LIMIT and LIMIT",
        "SELECT * FROM {} WHERE k = 1 PER PARTITION LIMIT 9 LIMIT 6",
    ),
    ("columns", "SELECT w, a, k FROM {} WHERE k = 1"),
    (
        "aliases",
        "SELECT v AS first, v AS \"Second\" FROM {} WHERE k = 1",
    ),
    (
        "scalar functions",
        "SELECT intAsBlob(v), textAsBlob(w) AS w FROM {} WHERE k = 1",
    ),
    (
        "CAST",
        "SELECT CAST(v AS text), CAST(a AS bigint) FROM {} WHERE k = 1",
    ),
    ("JSON", "SELECT JSON * FROM {} WHERE k = 1"),
    (
        "JSON of columns",
        "SELECT JSON v, w AS other FROM {} WHERE k = 1",
    ),
    (
        "WRITETIME",
        "SELECT WRITETIME(v), WRITETIME(w) FROM {} WHERE k = 1",
    ),
    ("COUNT(*)", "SELECT COUNT(*) FROM {} WHERE k = 1"),
    ("COUNT(1)", "SELECT COUNT(1) AS n FROM {} WHERE k = 1"),
    ("COUNT(c)", "SELECT COUNT(w) FROM {} WHERE k = 1"),
    (
        "COUNT of a slice",
        "SELECT COUNT(*) FROM {} WHERE k = 1 AND a > 3",
    ),
    (
        "MIN and MAX",
        "SELECT MIN(v), MAX(v), MIN(w), MAX(a) FROM {} WHERE k = 1",
    ),
    (
        "MIN of nothing",
        "SELECT MIN(v), COUNT(v) FROM {} WHERE k = 1 AND a > 300",
    ),
    (
        "ALLOW FILTERING",
        "SELECT * FROM {} WHERE k = 1 AND v > 120 ALLOW FILTERING",
    ),
    (
        "ALLOW FILTERING with LIMIT",
        "SELECT * FROM {} WHERE k = 1 AND v > 50 LIMIT 7 ALLOW FILTERING",
    ),
    (
        "ALLOW FILTERING on a later column of the key",
        "SELECT * FROM {} WHERE k = 1 AND b = 2 ALLOW FILTERING",
    ),
];

/// What goes to the original untried, with the reason that is counted.
pub(super) const FORWARDED: [(&str, &str, &str); 21] = [
    ("SUM", "SELECT SUM(v) FROM {} WHERE k = 1", "selection"),
    ("AVG", "SELECT AVG(v) FROM {} WHERE k = 1", "selection"),
    (
        "SUM beside COUNT",
        "SELECT SUM(v), COUNT(v) FROM {} WHERE k = 1",
        "aggregate",
    ),
    (
        "GROUP BY",
        "SELECT a, COUNT(*) FROM {} WHERE k = 1 GROUP BY a",
        "group_by",
    ),
    (
        "a user's function",
        "SELECT {ks}.twice(v) FROM {} WHERE k = 1",
        "selection",
    ),
    (
        "an aggregate among columns",
        "SELECT a, COUNT(*) FROM {} WHERE k = 1",
        "aggregate",
    ),
    (
        "DISTINCT",
        "SELECT DISTINCT k FROM {} WHERE k = 1",
        "distinct",
    ),
    (
        "TOKEN()",
        "SELECT * FROM {} WHERE TOKEN(k) >= TOKEN(1) AND TOKEN(k) <= TOKEN(1)",
        "restriction",
    ),
    ("no partition key", "SELECT * FROM {}", "partition_key"),
    (
        "no partition key, a slice",
        "SELECT * FROM {} WHERE a > 3 ALLOW FILTERING",
        "partition_key",
    ),
    (
        "a range of partition keys",
        "SELECT * FROM {} WHERE k > 0 ALLOW FILTERING",
        "partition_key",
    ),
    (
        "an indexed column",
        "SELECT * FROM {} WHERE k = 1 AND x = 1",
        "indexed",
    ),
    (
        "an indexed column, filtering",
        "SELECT * FROM {} WHERE k = 1 AND x = 1 AND v > 3 ALLOW FILTERING",
        "indexed",
    ),
    (
        "LIKE",
        "SELECT * FROM {} WHERE k = 1 AND w LIKE 'row%'",
        "restriction",
    ),
    (
        "CONTAINS",
        "SELECT * FROM {} WHERE k = 1 AND w CONTAINS 'row'",
        "restriction",
    ),
    (
        "expr()",
        "SELECT * FROM {} WHERE k = 1 AND expr(none, 'x')",
        "restriction",
    ),
    (
        "ANN",
        "SELECT * FROM {} WHERE k = 1 ORDER BY w ANN OF [1.0] LIMIT 3",
        "not_understood",
    ),
    (
        "filtering without ALLOW FILTERING",
        "SELECT * FROM {} WHERE k = 1 AND v > 3",
        "restriction",
    ),
    (
        "an unknown column",
        "SELECT * FROM {} WHERE k = 1 AND none = 3",
        "unknown_column",
    ),
    (
        "syntax that nobody knows",
        "SELECT * FROM {} WHERE k = 1 UNLESS a = 3",
        "not_understood",
    ),
    (
        "a tuple of one column",
        "SELECT * FROM {} WHERE k = 1 AND (a) < (5)",
        "restriction",
    ),
];
