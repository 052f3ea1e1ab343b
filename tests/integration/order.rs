//! The order that the proxy believes in is the one in which Cassandra returns rows and joins partitions.
//!
//! Values of every type, nasty ones and random ones, go in as bound bytes and come back in Cassandra's order.
//! What Cassandra refuses to store needs no order.

mod run;
mod samples;

use narrows::schema::{ClusteringColumn, Column, CqlType, order};

use crate::support::request::Value;
use crate::support::{Keyspace, scale};
use run::{Run, is_ours, list, on_both};
use samples::sample;

const TYPES: [&str; 33] = [
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
    "varint",
    "frozen<list<int>>",
    "frozen<list<float>>",
    "frozen<set<decimal>>",
    "frozen<set<timeuuid>>",
    "frozen<map<text, varint>>",
    "frozen<map<int, frozen<list<uuid>>>>",
    "frozen<tuple<int, text, timeuuid>>",
    "frozen<tuple<date, frozen<tuple<int, int>>, int>>",
    "frozen<list<frozen<tuple<int, frozen<list<tinyint>>>>>>",
    "vector<float, 3>",
    "vector<int, 2>",
    "vector<boolean, 2>",
    "vector<uuid, 1>",
    "vector<timestamp, 2>",
    "vector<double, 2>",
];

#[test]
fn rows_and_partitions_come_in_the_order_of_their_type() {
    on_both(|run| {
        let (_keyspace, tables) = per_type(run);
        for (table, name) in tables {
            let column = named("c", name);
            let insert = format!("INSERT INTO {table} (k, c) VALUES (?, ?)");
            let insert = run.prepare(&insert);
            let one = Value::Bytes(some(run, &column).swap_remove(0));
            let as_row = |value| [one.clone(), value];
            let rows = store(run, &insert, &column.cql_type, as_row);
            check_rows(run, &table, &column, &one, &rows);
            let as_partition = |value| [value, one.clone()];
            let keys = store(run, &insert, &column.cql_type, as_partition);
            check_partitions(run, &table, &column, &keys);
        }
    });
}

fn check_rows(run: &mut Run, table: &str, column: &Column, key: &Value, stored: &[Vec<u8>]) {
    let select = format!("SELECT c FROM {table} WHERE k = ?");
    let rows = run.column(&select, std::slice::from_ref(key));
    let cql_type = &column.cql_type;
    run.check_order(&select, &rows, |a, b| order::compare(cql_type, a, b));
    check_one_row_each(run, cql_type, stored, &rows);
}

/// Of keys that compare equal, `IN` finds only the first.
fn check_partitions(run: &mut Run, table: &str, column: &Column, stored: &[Vec<u8>]) {
    let key = std::slice::from_ref(column);
    for _ in 0..5 {
        let asked: Vec<Vec<u8>> = (0..2 + run.random.below(20))
            .map(|_| stored[run.random.below(stored.len())].clone())
            .collect();
        let marks = vec!["?"; asked.len()].join(", ");
        let select = format!("SELECT k FROM {table} WHERE k IN ({marks}) PER PARTITION LIMIT 1");
        let bound: Vec<Value> = asked.iter().cloned().map(Value::Bytes).collect();
        let rows = run.column(&select, &bound);
        run.check_order(&select, &rows, |a, b| {
            order::compare_keys(key, &[a.to_vec()], &[b.to_vec()])
        });
        check_one_row_each(run, &column.cql_type, &asked, &rows);
    }
}

/// A list bound as a whole is read and written again before its keys are looked for; keys bound one by one are not.
#[test]
fn a_bound_list_finds_only_canonical_keys() {
    on_both(|run| {
        let keyspace = Keyspace::create(&run.cluster, &["CREATE TABLE t (k varint PRIMARY KEY)"]);
        let table = format!("{}.t", keyspace.name);
        let insert = run.prepare(&format!("INSERT INTO {table} (k) VALUES (?)"));
        let (canonical, longer) = (vec![5], vec![0, 5]);
        for key in [&canonical, &longer] {
            assert!(run.execute(&insert, &[Value::Bytes(key.clone())]));
        }
        assert!(order::is_canonical(&CqlType::VarInt, &canonical));
        assert!(!order::is_canonical(&CqlType::VarInt, &longer));
        let asked = [Value::Bytes(list(std::slice::from_ref(&longer)))];
        let rows = run.column(&format!("SELECT k FROM {table} WHERE k IN ?"), &asked);
        assert_eq!(rows, std::slice::from_ref(&canonical));
        let select = format!("SELECT k FROM {table} WHERE k IN (?, ?)");
        let rows = run.column(&select, &[longer.clone(), canonical].map(Value::Bytes));
        assert_eq!(rows, [longer]);
    });
}

#[test]
fn partitions_of_a_composite_in_come_in_the_order_of_both_columns() {
    on_both(|run| {
        for (a_type, b_type) in [("int", "timeuuid"), ("text", "int"), ("decimal", "date")] {
            let columns = format!("a {a_type}, b {b_type}, c int, PRIMARY KEY ((a, b), c)");
            let create = format!("CREATE TABLE t ({columns})");
            let keyspace = Keyspace::create(&run.cluster, &[&create]);
            let table = format!("{}.t", keyspace.name);
            let key = [named("a", a_type), named("b", b_type)];
            let [firsts, seconds] = [&key[0], &key[1]].map(|column| different(run, column));
            let insert = run.prepare(&format!("INSERT INTO {table} (a, b, c) VALUES (?, ?, 1)"));
            let pair = |a: &Vec<u8>, b: &Vec<u8>| [a, b].map(|value| Value::Bytes(value.clone()));
            let pairs = firsts
                .iter()
                .flat_map(|a| seconds.iter().map(|b| pair(a, b).to_vec()));
            let pairs: Vec<_> = pairs.collect();
            let taken = run.execute_all(&insert, &pairs);
            assert!(taken.iter().all(|taken| *taken), "{}", run.seed);
            let bound = [&firsts, &seconds].map(|values| Value::Bytes(list(values)));
            let select = format!("SELECT a, b FROM {table} WHERE a IN ? AND b IN ?");
            let rows = run.rows(&select, &bound);
            let every = firsts.len() * seconds.len();
            assert_eq!(rows.len(), every, "SEED={} {columns}", run.seed);
            run.check_order(&columns, &rows, |a, b| order::compare_keys(&key, a, b));
        }
    });
}

#[test]
fn rows_follow_the_direction_of_each_clustering_column() {
    let create = "CREATE TABLE t (k int, a int, b text, c timeuuid, PRIMARY KEY (k, a, b, c)) \
         WITH CLUSTERING ORDER BY (a DESC, b ASC, c DESC)";
    let columns = [
        ("a", "int", true),
        ("b", "text", false),
        ("c", "timeuuid", true),
    ];
    let clustering = columns.map(|(name, cql_type, descending)| ClusteringColumn {
        column: named(name, cql_type),
        descending,
    });
    on_both(|run| {
        let keyspace = Keyspace::create(&run.cluster, &[create]);
        let table = format!("{}.t", keyspace.name);
        let insert = run.prepare(&format!(
            "INSERT INTO {table} (k, a, b, c) VALUES (1, ?, ?, ?)"
        ));
        let few = some(run, &clustering[0].column);
        for _ in 0..200 * scale() {
            let a = few[run.random.below(few.len())].clone();
            let b = vec![b'b'; run.random.below(3)];
            let c = sample(&CqlType::TimeUuid, &mut run.random);
            run.execute(&insert, &[a, b, c].map(Value::Bytes));
        }
        let rows = run.rows(&format!("SELECT a, b, c FROM {table} WHERE k = 1"), &[]);
        assert!(rows.len() > 100, "{} rows", rows.len());
        run.check_order(create, &rows, |a, b| {
            order::compare_clustering(&clustering, &slices(a), &slices(b))
        });
    });
}

/// A keyspace with a table for each type that the cluster knows.
fn per_type(run: &Run) -> (Keyspace, Vec<(String, &'static str)>) {
    let is_known = |name: &&str| run.has_vectors || !name.starts_with("vector");
    let types: Vec<&str> = TYPES.into_iter().filter(is_known).collect();
    let create = |(number, name): (usize, &&str)| {
        format!("CREATE TABLE t{number} (k {name}, c {name}, PRIMARY KEY (k, c))")
    };
    let creates: Vec<String> = types.iter().enumerate().map(create).collect();
    let creates: Vec<&str> = creates.iter().map(String::as_str).collect();
    let keyspace = Keyspace::create(&run.cluster, &creates);
    let name = |(number, name)| (format!("{}.t{number}", keyspace.name), name);
    let tables = types.into_iter().enumerate().map(name).collect();
    (keyspace, tables)
}

/// Values that Cassandra took, each once or more often.
fn store(
    run: &mut Run,
    insert: &(Vec<u8>, Vec<u8>),
    cql_type: &CqlType,
    bind: impl Fn(Value) -> [Value; 2],
) -> Vec<Vec<u8>> {
    let tries = 150 * scale();
    let samples: Vec<Vec<u8>> = (0..tries)
        .map(|_| sample(cql_type, &mut run.random))
        .collect();
    let bound = samples.iter().cloned().map(Value::Bytes);
    let bound: Vec<_> = bound.map(|value| bind(value).to_vec()).collect();
    let taken = run.execute_all(insert, &bound);
    let stored: Vec<Vec<u8>> = samples
        .into_iter()
        .zip(taken)
        .filter(|(value, taken)| *taken && is_ours(cql_type, value))
        .map(|(value, _)| value)
        .collect();
    let (seed, count) = (run.seed, stored.len());
    assert!(
        count > tries / 2,
        "SEED={seed} {cql_type:?}: {count} stored"
    );
    stored
}

/// A few values that Cassandra takes.
fn some(run: &mut Run, column: &Column) -> Vec<Vec<u8>> {
    let cql_type = &column.cql_type;
    std::iter::repeat_with(|| sample(cql_type, &mut run.random))
        .filter(|value| !value.is_empty() && is_ours(cql_type, value))
        .take(8)
        .collect()
}

/// A list bound as a whole finds one key for each of these.
fn different(run: &mut Run, column: &Column) -> Vec<Vec<u8>> {
    let cql_type = &column.cql_type;
    let mut values: Vec<Vec<u8>> = Vec::new();
    for value in some(run, column) {
        let same = |known: &Vec<u8>| {
            order::compare(cql_type, known, &value).is_some_and(std::cmp::Ordering::is_eq)
        };
        if order::is_canonical(cql_type, &value) && !values.iter().any(same) {
            values.push(value);
        }
    }
    values
}

/// Values that compare equal are one row, and every value has its row.
fn check_one_row_each(run: &Run, cql_type: &CqlType, values: &[Vec<u8>], rows: &[Vec<u8>]) {
    for value in values {
        let is_row = |row: &&Vec<u8>| {
            order::compare(cql_type, value, row).is_some_and(std::cmp::Ordering::is_eq)
        };
        let count = rows.iter().filter(is_row).count();
        assert_eq!(count, 1, "SEED={} {cql_type:?} {value:02x?}", run.seed);
    }
}

fn slices(row: &[Vec<u8>]) -> Vec<&[u8]> {
    row.iter().map(Vec::as_slice).collect()
}

fn named(name: &str, cql_type: &str) -> Column {
    Column {
        name: name.into(),
        cql_type: CqlType::parse(cql_type),
    }
}
