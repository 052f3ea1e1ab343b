//! Finds the tables that a text reads or writes, by its keywords. Pure.
//!
//! FROM, INTO, UPDATE and TABLE are reserved words of CQL: unquoted they are never names, and strings and quoted names
//! are single tokens, so a table's name follows these words wherever they occur. A write whose tables cannot be found
//! counts as a write to any table.

use std::collections::BTreeSet;

use super::lexer::Lexer;

/// What a text may do to tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Touches {
    /// No read or write of a client's table that matters to the proxy.
    Nothing,
    Reads(Name),
    /// Writes rows of these tables.
    Writes(Vec<Name>),
    /// Changes a table as a whole.
    Changes(Change, Name),
    /// Changes how a table is kept, and no row of it: its options, or an index, a view or a trigger on it.
    Configures(Name),
    DropsKeyspace(String),
    /// A write whose table is not understood.
    WritesAnything,
    /// A batch that names too many tables to list them. Contains only names that a split table may have.
    WritesMany(Vec<Name>),
}

impl Touches {
    /// Whether a table that it reads or writes is named without its keyspace.
    pub fn has_short_names(&self) -> bool {
        let is_short = |name: &Name| name.keyspace.is_none();
        match self {
            Self::Writes(names) => names.iter().any(is_short),
            Self::Reads(name) | Self::Changes(_, name) => is_short(name),
            Self::Nothing
            | Self::Configures(_)
            | Self::DropsKeyspace(_)
            | Self::WritesAnything
            | Self::WritesMany(_) => false,
        }
    }
}

/// What is done to a table as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    Truncate,
    Alter,
    Drop,
}

/// A table's name as written, folded as Cassandra folds it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name {
    pub keyspace: Option<String>,
    pub table: String,
}

/// A batch that names more tables than this counts as a write to any table.
const NAMES_MAX: usize = 64;
/// The names of all split tables begin with this (`wide_row/split_name.rs`).
const RESERVED: &str = "wide_";

pub fn touches(text: &str) -> Touches {
    let mut tokens = Lexer::new(text);
    let Some(first) = tokens.next() else {
        return Touches::Nothing;
    };
    let is = |word: &str| first.is_word(text, word);
    let one = |name: Option<Name>| name.map(|name| vec![name]);
    let written = if is("select") {
        let name = name_behind(text, tokens, "from");
        return name.map_or(Touches::Nothing, Touches::Reads);
    } else if is("insert") {
        one(name_behind(text, tokens, "into"))
    } else if is("update") {
        one(name(text, &mut tokens))
    } else if is("delete") {
        one(name_behind(text, tokens, "from"))
    } else if is("begin") {
        return batch(text, tokens);
    } else if is("truncate") {
        let mut rest = without(text, tokens, &["table", "columnfamily"]);
        return change(Change::Truncate, text, &mut rest);
    } else if is("alter") {
        return schema_change(Change::Alter, text, tokens);
    } else if is("drop") {
        return schema_change(Change::Drop, text, tokens);
    } else if is("create") {
        return creation(text, tokens);
    } else {
        return Touches::Nothing;
    };
    match written {
        Some(names) if !names.is_empty() => Touches::Writes(names),
        _ => Touches::WritesAnything,
    }
}

/// ALTER and DROP of a table affect that table; DROP of a keyspace affects everything in it. Altering a keyspace, or
/// adding a field to a type, changes no row.
fn schema_change(how: Change, text: &str, mut tokens: Lexer<'_>) -> Touches {
    let Some(what) = tokens.next() else {
        return Touches::WritesAnything;
    };
    let mut rest = without_if_exists(text, tokens);
    let is = |word: &str| what.is_word(text, word);
    if is("table") || is("columnfamily") {
        match change(how, text, &mut rest) {
            // All other forms of ALTER TABLE have another word here.
            Touches::Changes(Change::Alter, name)
                if rest.next().is_some_and(|token| token.is_word(text, "with")) =>
            {
                Touches::Configures(name)
            }
            change => change,
        }
    } else if how == Change::Drop && (is("keyspace") || is("schema")) {
        let keyspace = rest.next().and_then(|token| token.name(text));
        keyspace.map_or(Touches::WritesAnything, Touches::DropsKeyspace)
    } else {
        Touches::Nothing
    }
}

/// Indexes, views and triggers belong to a table. ON and FROM are reserved words, so the table's name follows them.
fn creation(text: &str, mut tokens: Lexer<'_>) -> Touches {
    let what = tokens.find(|token| !token.is_word(text, "custom"));
    let is = |word: &str| what.as_ref().is_some_and(|token| token.is_word(text, word));
    let name = if is("index") || is("trigger") {
        name_behind(text, tokens, "on")
    } else if is("materialized") {
        name_behind(text, tokens, "from")
    } else {
        None
    };
    name.map_or(Touches::Nothing, Touches::Configures)
}

fn change(how: Change, text: &str, rest: &mut Lexer<'_>) -> Touches {
    let name = name(text, rest);
    name.map_or(Touches::WritesAnything, |name| Touches::Changes(how, name))
}

/// The tables of a batch, each once. A batch with a name missing, or without names, may write anything.
fn batch(text: &str, mut tokens: Lexer<'_>) -> Touches {
    let (mut names, mut reserved) = (Vec::new(), BTreeSet::new());
    while let Some(token) = tokens.next() {
        let stands_before = ["into", "update", "from"]
            .iter()
            .any(|word| token.is_word(text, word));
        if !stands_before {
            continue;
        }
        let Some(name) = name(text, &mut tokens.clone()) else {
            return Touches::WritesAnything;
        };
        if name.table.starts_with(RESERVED) {
            reserved.insert(name.clone());
        }
        if names.len() <= NAMES_MAX && !names.contains(&name) {
            names.push(name);
        }
    }
    match names.len() {
        0 => Touches::WritesAnything,
        1..=NAMES_MAX => Touches::Writes(names),
        _ => Touches::WritesMany(reserved.into_iter().collect()),
    }
}

fn name_behind(text: &str, mut tokens: Lexer<'_>, word: &str) -> Option<Name> {
    tokens.find(|token| token.is_word(text, word))?;
    name(text, &mut tokens)
}

/// Skips IF EXISTS. IF is a reserved word, EXISTS is not: a table may have that name.
fn without_if_exists<'a>(text: &str, tokens: Lexer<'a>) -> Lexer<'a> {
    let mut ahead = tokens.clone();
    match ahead.next().is_some_and(|token| token.is_word(text, "if")) {
        true => {
            ahead.next();
            ahead
        }
        false => tokens,
    }
}

/// Skips these words, which are optional.
fn without<'a>(text: &str, tokens: Lexer<'a>, words: &[&str]) -> Lexer<'a> {
    let mut rest = tokens.clone();
    let mut ahead = tokens;
    while let Some(token) = ahead.next() {
        if !words.iter().any(|word| token.is_word(text, word)) {
            break;
        }
        rest = ahead.clone();
    }
    rest
}

/// A table's name; the tokens behind it stay.
fn name(text: &str, tokens: &mut Lexer<'_>) -> Option<Name> {
    let first = tokens.next()?.name(text)?;
    let mut ahead = tokens.clone();
    if ahead.next().is_some_and(|token| token.is_symbol('.')) {
        *tokens = ahead;
        return Some(Name {
            keyspace: Some(first),
            table: tokens.next()?.name(text)?,
        });
    }
    Some(Name {
        keyspace: None,
        table: first,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(table: &str) -> Name {
        let (keyspace, table) = match table.split_once('.') {
            Some((keyspace, table)) => (Some(keyspace.to_owned()), table),
            None => (None, table),
        };
        Name {
            keyspace,
            table: table.to_owned(),
        }
    }

    #[test]
    fn a_select_reads_its_table() {
        for (text, table) in [
            ("SELECT * FROM ks.t WHERE k = ?", "ks.t"),
            ("select json a, cast(b as text) from T", "t"),
            ("SELECT 'from x', \"from\" FROM \"Ks\" . \"T\"", "Ks.T"),
            ("/* insert into y */ SELECT a FROM t -- from z", "t"),
        ] {
            assert_eq!(touches(text), Touches::Reads(plain(table)), "{text}");
        }
    }

    #[test]
    fn writes_name_their_tables() {
        for (text, tables) in [
            (
                "INSERT INTO ks.t (a, \"into\") VALUES ('from x', ?)",
                vec!["ks.t"],
            ),
            ("insert into t json ?", vec!["t"]),
            (
                "UPDATE ks.t USING TTL 5 SET a = 'update b' WHERE k = 1",
                vec!["ks.t"],
            ),
            (
                "DELETE a, b[?] FROM t USING TIMESTAMP 5 WHERE k = 1",
                vec!["t"],
            ),
            (
                "BEGIN UNLOGGED BATCH USING TIMESTAMP 1 INSERT INTO a (k) VALUES (1); UPDATE ks.b SET v = 1 \
                 WHERE k = 1; DELETE FROM \"C\" WHERE k = $$ into x $$; APPLY BATCH",
                vec!["a", "ks.b", "C"],
            ),
        ] {
            let names = tables.into_iter().map(plain).collect();
            assert_eq!(touches(text), Touches::Writes(names), "{text}");
        }
    }

    #[test]
    fn tables_change_as_a_whole() {
        for (text, how, table) in [
            ("TRUNCATE ks.t", Change::Truncate, "ks.t"),
            ("TRUNCATE TABLE t", Change::Truncate, "t"),
            ("TRUNCATE COLUMNFAMILY ks.t", Change::Truncate, "ks.t"),
            (
                "ALTER TABLE IF EXISTS ks.t ADD c int",
                Change::Alter,
                "ks.t",
            ),
            ("DROP TABLE IF EXISTS t", Change::Drop, "t"),
            ("DROP COLUMNFAMILY t", Change::Drop, "t"),
        ] {
            let expected = Touches::Changes(how, plain(table));
            assert_eq!(touches(text), expected, "{text}");
        }
        for text in ["drop keyspace if exists \"Ks\"", "DROP SCHEMA \"Ks\""] {
            let expected = Touches::DropsKeyspace("Ks".to_owned());
            assert_eq!(touches(text), expected, "{text}");
        }
    }

    #[test]
    fn options_indexes_views_and_triggers_change_no_row() {
        for (text, table) in [
            ("ALTER TABLE ks.t WITH comment = 'x'", "ks.t"),
            ("alter columnfamily T with gc_grace_seconds = 1", "t"),
            (
                "ALTER TABLE IF EXISTS \"Ks\".\"T\" /* add */ WITH cdc = true AND compression = {'enabled': false}",
                "Ks.T",
            ),
            ("ALTER TABLE t WITH default_time_to_live = 60;", "t"),
            ("ALTER TABLE exists WITH comment = ''", "exists"),
            ("CREATE INDEX ON ks.t (v)", "ks.t"),
            ("CREATE INDEX IF NOT EXISTS \"on\" ON t (values(v))", "t"),
            (
                "CREATE CUSTOM INDEX i ON ks.t (v) USING 'sai' WITH OPTIONS = {'a': 'b'}",
                "ks.t",
            ),
            (
                "CREATE MATERIALIZED VIEW IF NOT EXISTS ks.v AS SELECT * FROM ks.t WHERE k IS NOT NULL \
                 PRIMARY KEY (v, k)",
                "ks.t",
            ),
            ("CREATE TRIGGER x ON t USING 'X'", "t"),
        ] {
            assert_eq!(touches(text), Touches::Configures(plain(table)), "{text}");
        }
        for text in [
            "ALTER TABLE t ADD with_comment int",
            "ALTER TABLE t ADD c int MASKED WITH DEFAULT",
            "ALTER TABLE t DROP v",
            "ALTER TABLE t DROP COMPACT STORAGE",
            "ALTER TABLE t RENAME c TO d",
            "ALTER TABLE t ALTER v TYPE blob",
            "ALTER TABLE t ALTER v MASKED WITH DEFAULT",
            "ALTER TABLE t ALTER v DROP MASKED",
            "ALTER TABLE t",
            "ALTER TABLE t \"with\" comment = 'x'",
        ] {
            let expected = Touches::Changes(Change::Alter, plain("t"));
            assert_eq!(touches(text), expected, "{text}");
        }
    }

    #[test]
    fn a_write_that_is_not_understood_touches_anything() {
        for text in [
            "INSERT",
            "INSERT INTO",
            "INSERT INTO 5",
            "UPDATE ks.",
            "DELETE x",
            "BEGIN BATCH INSERT INTO t (a) VALUES (1); UPDATE ? SET",
            "BEGIN BATCH APPLY BATCH",
            "TRUNCATE",
            "ALTER",
            "DROP KEYSPACE",
        ] {
            assert_eq!(touches(text), Touches::WritesAnything, "{text}");
        }
    }

    #[test]
    fn of_too_many_names_those_of_split_tables_are_kept() {
        let many = |others: &[&str]| {
            let tables = (0..100).map(|number| format!("t{number}"));
            let tables = tables.chain(others.iter().map(|&name| name.to_owned()));
            let inserts = tables.map(|table| format!("INSERT INTO {table} (k) VALUES (1);"));
            let batch = format!("BEGIN BATCH {} APPLY BATCH", inserts.collect::<String>());
            touches(&batch)
        };
        assert_eq!(many(&[]), Touches::WritesMany(Vec::new()));
        let expected = vec![plain("wide_t_2"), plain("ks.wide_t_1")];
        let found = many(&["ks.wide_t_1", "wide_t_2", "ks.wide_t_1"]);
        assert_eq!(found, Touches::WritesMany(expected));
    }

    #[test]
    fn everything_else_touches_nothing() {
        for text in [
            "",
            ";",
            "USE ks",
            "CREATE TABLE ks.t (k int PRIMARY KEY)",
            "GRANT SELECT ON ks.t TO role",
            "DROP INDEX ks.i",
            "CREATE INDEX",
            "CREATE MATERIALIZED VIEW ks.v AS SELECT *",
            "CREATE TYPE ks.on (a int)",
            "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
            "DROP TYPE ks.address",
            "ALTER TYPE ks.address ADD zip text",
            "ALTER SCHEMA \"Ks\" WITH x",
            "DROP ROLE r",
            "LIST ROLES",
            "SELECT 1",
            "describe table t",
        ] {
            assert_eq!(touches(text), Touches::Nothing, "{text}");
        }
    }
}
