//! The files themselves, with other names, and clusters that differ from them.

use super::compare::{Existing, ExistingTable};
use super::definition::{CATALOG, Column, with_names};
use super::*;

/// A cluster on which the files were run.
fn as_made() -> Existing {
    let mut existing = Existing::default();
    for statement in statements("narrows", None) {
        existing.create(statement.object);
    }
    existing
}

#[test]
fn a_control_keyspace_of_any_version_has_its_catalogue() {
    let has = |existing: &Existing| existing.tables.iter().any(|table| table.name == CATALOG);
    assert!(has(&as_made()) && has(&of_first_version("narrows")));
}

#[test]
fn what_the_first_version_lacks_can_be_added_and_done_without() {
    let found = differences(&statements("narrows", None), &of_first_version("narrows"));
    assert_eq!(found.len(), LATER.len());
    assert!(found.iter().all(Difference::is_tolerable), "{found:?}");
    let printed = print("Control", None);
    for wanted in [
        "-- ALTER TABLE \"Control\".wide_row ADD seal blob;",
        "-- ALTER TABLE \"Control\".wide_row_layout ADD proof blob static;",
    ] {
        assert!(printed.contains(wanted), "{printed}");
    }
}

#[test]
fn a_column_that_every_version_had_is_missed() {
    let mut existing = as_made();
    let columns = &mut table(&mut existing, "wide_row").columns;
    columns.retain(|column| column.name != "late_writes");
    let found = differences(&statements("narrows", None), &existing);
    let [lacking] = found.as_slice() else {
        panic!("{found:?}");
    };
    assert!(!lacking.is_tolerable());
    let lacks = lacking.lacks.as_ref().expect("it can be added");
    let text = alter("narrows", "wide_row", lacks);
    assert_eq!(text, "ALTER TABLE narrows.wide_row ADD late_writes int");
}

fn table<'a>(existing: &'a mut Existing, name: &str) -> &'a mut ExistingTable {
    let mut tables = existing.tables.iter_mut();
    tables.find(|table| table.name == name).expect("a table")
}

fn column<'a>(existing: &'a mut Existing, of: &str, name: &str) -> &'a mut Column {
    let mut columns = table(existing, of).columns.iter_mut();
    columns
        .find(|column| column.name == name)
        .expect("a column")
}

fn differing(existing: &Existing) -> Vec<String> {
    let found = differences(&statements("narrows", None), existing);
    found.iter().map(ToString::to_string).collect()
}

#[test]
fn files_make_what_is_documented() {
    let made: Vec<String> = statements("narrows", None)
        .iter()
        .map(|statement| full_name("narrows", &statement.object))
        .collect();
    assert_eq!(
        made,
        [
            "keyspace narrows",
            "table narrows.watched_table",
            "type narrows.pre_split_data",
            "type narrows.post_split_data",
            "type narrows.progress",
            "table narrows.wide_row",
            "table narrows.wide_row_layout",
            "table narrows.split_table",
            "table narrows.fleet",
        ]
    );
}

#[test]
fn statements_are_clean_and_repeatable() {
    for statement in statements("narrows", None) {
        let text = &statement.text;
        assert!(
            text.starts_with("CREATE ") && !text.ends_with(';'),
            "{text}"
        );
        assert!(text.contains(" IF NOT EXISTS narrows"), "{text}");
    }
}

#[test]
fn columns_are_read_in_the_words_of_system_schema() {
    let mut made = as_made();
    let expect = |column: &Column, kind: &str, position: i32, data_type: &str| {
        let found = (&*column.kind, column.position, &*column.data_type);
        assert_eq!(found, (kind, position, data_type), "{}", column.name);
    };
    let of = "watched_table";
    expect(column(&mut made, of, "catalog"), "partition_key", 0, "text");
    expect(column(&mut made, of, "table_name"), "clustering", 1, "text");
    expect(
        column(&mut made, "wide_row", "version"),
        "static",
        -1,
        "bigint",
    );
    expect(
        column(&mut made, of, "seen_truncations"),
        "regular",
        -1,
        "frozen<map<uuid, timestamp>>",
    );
    let of = "wide_row";
    expect(column(&mut made, of, "shard"), "partition_key", 2, "int");
    expect(
        column(&mut made, of, "partition_key"),
        "clustering",
        0,
        "blob",
    );
    expect(
        column(&mut made, of, "post_split_data"),
        "regular",
        -1,
        "frozen<post_split_data>",
    );
    assert_eq!(table(&mut made, of).columns.len(), 27);
    assert_eq!(table(&mut made, of).read_repair, "NONE");
    assert_eq!(table(&mut made, "watched_table").columns.len(), 20);
    assert_eq!(table(&mut made, "wide_row_layout").columns.len(), 16);
    assert_eq!(table(&mut made, "split_table").columns.len(), 7);
    assert_eq!(table(&mut made, "fleet").columns.len(), 2);
    assert_eq!(made.types[0].fields.len(), 4);
    assert_eq!(
        made.types[1].fields[2],
        ("start_event_bucket".to_owned(), "int".to_owned())
    );
}

#[test]
fn keyspace_and_replication_are_put_in_and_comments_stay() {
    let replication = Replication::parse("{'class': 'SimpleStrategy', 'replication_factor': 1}");
    let printed = print("My_Control", replication.as_ref());
    let cql: String = printed
        .lines()
        .filter(|line| !line.trim_start().starts_with("--"))
        .collect::<Vec<_>>()
        .join("\n");
    assert!(
        !cql.contains("narrows") && !cql.contains("NetworkTopologyStrategy"),
        "{cql}"
    );
    assert!(cql.contains("replication = {'class': 'SimpleStrategy', 'replication_factor': '1'};"));
    assert_eq!(cql.matches("\"My_Control\"").count(), 9, "{cql}");
    assert!(printed.contains("-- The control keyspace: "));
    for (file, _) in FILES {
        assert!(printed.contains(&format!("-- {file}\n")), "{file}");
    }
}

#[test]
fn printed_text_holds_the_same_statements() {
    let parsed =
        definition::parse("printed", &print("other", None)).expect("one text is as good as four");
    let texts = |statements: Vec<Statement>| -> Vec<String> {
        statements.into_iter().map(|one| one.text).collect()
    };
    assert_eq!(texts(parsed), texts(statements("other", None)));
}

#[test]
fn strings_and_comments_are_not_taken_for_names_or_ends() {
    let text = "CREATE TYPE IF NOT EXISTS narrows.t ( -- narrows; here\n a text /* ; */ );\n\
                CREATE TABLE IF NOT EXISTS narrows.u (a int, PRIMARY KEY ((a))) WITH comment = 'narrows; it''s';";
    let named = with_names(text, "x", None);
    let statements = definition::parse("a file", &named).expect("two statements");
    assert_eq!(statements.len(), 2);
    assert!(
        statements[0]
            .text
            .starts_with("CREATE TYPE IF NOT EXISTS \"x\".t")
    );
    assert!(statements[0].text.contains("-- narrows; here"));
    assert!(statements[1].text.ends_with("'narrows; it''s'"));
}

#[test]
fn other_statements_are_not_ours() {
    for text in [
        "DROP TABLE narrows.t",
        "CREATE TABLE IF NOT EXISTS narrows.t (a int",
        "CREATE TABLE IF NOT EXISTS narrows.t (a int)",
        "CREATE INDEX IF NOT EXISTS narrows ON t (a)",
        "x",
        "'",
    ] {
        assert_eq!(definition::parse("a file", text), None, "{text}");
    }
}

#[test]
fn what_was_made_by_the_files_has_no_difference() {
    assert_eq!(differing(&as_made()), Vec::<String>::new());
}

#[test]
fn columns_that_a_newer_version_added_are_no_difference() {
    let mut existing = as_made();
    let mut added = column(&mut existing, "wide_row", "reason").clone();
    added.name = "later".to_owned();
    table(&mut existing, "wide_row").columns.push(added);
    existing.types[0]
        .fields
        .push(("later".to_owned(), "int".to_owned()));
    assert_eq!(differing(&existing), Vec::<String>::new());
}

#[test]
fn an_empty_cluster_lacks_everything() {
    let found = differing(&Existing::default());
    assert_eq!(found.len(), 9, "{found:#?}");
    assert_eq!(
        found[0],
        "the keyspace is missing (see cql/001_keyspace.cql)"
    );
    assert_eq!(
        found[6],
        "wide_row_layout is missing (see cql/004_wide_row_layout.cql)"
    );
    assert_eq!(
        found[7],
        "split_table is missing (see cql/005_split_table.cql)"
    );
    assert_eq!(found[8], "fleet is missing (see cql/006_fleet.cql)");
}

#[test]
fn every_difference_is_named_with_its_file() {
    let mut existing = as_made();
    column(&mut existing, "wide_row", "epoch").data_type = "text".to_owned();
    column(&mut existing, "wide_row", "version").kind = "regular".to_owned();
    column(&mut existing, "wide_row_layout", "generation").position = 2;
    column(&mut existing, "watched_table", "mode").name = "mood".to_owned();
    table(&mut existing, "watched_table").read_repair = "BLOCKING".to_owned();
    existing.types[0].fields[0].1 = "int".to_owned();
    existing.types[1].fields.remove(0);
    let mut foreign = column(&mut existing, "wide_row_layout", "bucket").clone();
    foreign.name = "extra".to_owned();
    table(&mut existing, "wide_row_layout")
        .columns
        .push(foreign);
    assert_eq!(
        differing(&existing),
        [
            "watched_table lacks the column mode text (see cql/002_watched_table.cql)",
            "watched_table has read_repair = 'BLOCKING', expected 'NONE' (see cql/002_watched_table.cql)",
            "pre_split_data has the field row_count int, expected bigint (see cql/003_wide_row.cql)",
            "post_split_data lacks the field split_table text (see cql/003_wide_row.cql)",
            "wide_row has the column version bigint, expected version bigint static (see cql/003_wide_row.cql)",
            "wide_row has the column epoch text static, expected epoch int static (see cql/003_wide_row.cql)",
            "wide_row_layout has the column generation int (partition_key 2), \
             expected generation int (partition_key 3) (see cql/004_wide_row_layout.cql)",
            "wide_row_layout has the unexpected key column extra int (clustering 0) \
             (see cql/004_wide_row_layout.cql)",
        ]
    );
}
