//! Which tables a text reads or writes, as far as its words tell. Pure.
//!
//! FROM, INTO, UPDATE and TABLE are reserved words of CQL: unquoted they are never names, and texts and quoted names are
//! single tokens, so a table's name stands behind them wherever they occur. A write whose tables cannot be told touches
//! any table.

use super::lexer::{Lexer, Token};

/// What a text may do to tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Touches {
    /// Neither reads nor writes tables of clients, as far as we care.
    Nothing,
    Reads(Name),
    Writes(Vec<Name>),
    /// Everything in a keyspace.
    WritesKeyspace(String),
    /// A write that is not understood.
    WritesAnything,
}

/// A table's name as it is written, folded as Cassandra does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name {
    pub keyspace: Option<String>,
    pub table: String,
}

/// Only texts that begin with one of these words can write.
const WRITING: [&str; 7] = [
    "insert", "update", "delete", "begin", "truncate", "alter", "drop",
];

pub fn touches(text: &str) -> Touches {
    let tokens: Vec<Token> = Lexer::new(text).collect();
    let Some(first) = tokens.first() else {
        return Touches::Nothing;
    };
    let is = |word: &str| first.is_word(text, word);
    if is("select") {
        let from = tokens.iter().position(|token| token.is_word(text, "from"));
        let name = from.and_then(|from| name(text, &tokens[from + 1..]));
        return name.map_or(Touches::Nothing, Touches::Reads);
    }
    if !WRITING.iter().any(|word| is(word)) {
        return Touches::Nothing;
    }
    let written = if is("truncate") {
        name(text, skip_words(text, &tokens[1..], &["table"])).map(|name| vec![name])
    } else if is("alter") || is("drop") {
        return schema_change(text, &tokens[1..]);
    } else {
        names_behind(text, &tokens, &["into", "update", "from"])
    };
    match written {
        Some(names) if !names.is_empty() => Touches::Writes(names),
        _ => Touches::WritesAnything,
    }
}

/// ALTER and DROP of a table concern it, of a type any table with it, of a keyspace everything in it; of other things
/// they concern no rows.
fn schema_change(text: &str, tokens: &[Token]) -> Touches {
    let Some((what, rest)) = tokens.split_first() else {
        return Touches::WritesAnything;
    };
    let rest = skip_words(text, rest, &["if", "exists"]);
    let is = |word: &str| what.is_word(text, word);
    if is("table") || is("columnfamily") {
        name(text, rest).map_or(Touches::WritesAnything, |name| Touches::Writes(vec![name]))
    } else if is("keyspace") {
        let keyspace = rest.first().and_then(|token| token.name(text));
        keyspace.map_or(Touches::WritesAnything, Touches::WritesKeyspace)
    } else if is("type") {
        Touches::WritesAnything
    } else {
        Touches::Nothing
    }
}

/// Every name behind one of the words; `None` where one is missing.
fn names_behind(text: &str, tokens: &[Token], words: &[&str]) -> Option<Vec<Name>> {
    let behind = tokens.iter().enumerate().filter_map(|(index, token)| {
        let is_one = words.iter().any(|word| token.is_word(text, word));
        is_one.then(|| name(text, &tokens[index + 1..]))
    });
    behind.collect()
}

fn skip_words<'a>(text: &str, tokens: &'a [Token], words: &[&str]) -> &'a [Token] {
    let skipped = tokens
        .iter()
        .take_while(|token| words.iter().any(|word| token.is_word(text, word)));
    &tokens[skipped.count()..]
}

fn name(text: &str, tokens: &[Token]) -> Option<Name> {
    let first = tokens.first()?.name(text)?;
    if tokens.get(1).is_some_and(|token| token.is_symbol('.')) {
        return Some(Name {
            keyspace: Some(first),
            table: tokens.get(2)?.name(text)?,
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
            ("TRUNCATE ks.t", vec!["ks.t"]),
            ("TRUNCATE TABLE t", vec!["t"]),
            ("ALTER TABLE IF EXISTS ks.t ADD c int", vec!["ks.t"]),
            ("DROP TABLE IF EXISTS t", vec!["t"]),
            ("DROP COLUMNFAMILY t", vec!["t"]),
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
            "ALTER TYPE ks.address ADD zip text",
        ] {
            assert_eq!(touches(text), Touches::WritesAnything, "{text}");
        }
        assert_eq!(
            touches("drop keyspace if exists \"Ks\""),
            Touches::WritesKeyspace("Ks".to_owned())
        );
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
            "DROP ROLE r",
            "LIST ROLES",
            "SELECT 1",
            "describe table t",
        ] {
            assert_eq!(touches(text), Touches::Nothing, "{text}");
        }
    }
}
