//! The files of `cql/` as statements, and the objects that they create. Pure.
//!
//! The files are the only definition of the columns: the schema that a cluster should have is read from them.

use std::ops::Range;

use crate::schema::replication::Replication;
use crate::statement::lexer::{Kind, Lexer, Token};

/// The keyspace that the files name.
pub const KEYSPACE_IN_FILES: &str = "narrows";

/// The table that lists the watched ones, by which a control keyspace is known.
pub const CATALOG: &str = "watched_table";

/// In the order in which they are run.
pub const FILES: [(&str, &str); 6] = [
    (
        "cql/001_keyspace.cql",
        include_str!("../../../cql/001_keyspace.cql"),
    ),
    (
        "cql/002_watched_table.cql",
        include_str!("../../../cql/002_watched_table.cql"),
    ),
    (
        "cql/003_wide_row.cql",
        include_str!("../../../cql/003_wide_row.cql"),
    ),
    (
        "cql/004_wide_row_layout.cql",
        include_str!("../../../cql/004_wide_row_layout.cql"),
    ),
    (
        "cql/005_split_table.cql",
        include_str!("../../../cql/005_split_table.cql"),
    ),
    (
        "cql/006_fleet.cql",
        include_str!("../../../cql/006_fleet.cql"),
    ),
];

/// The columns of which this version can do without, until somebody may add them: tables of an earlier version lack
/// them.
pub const LATER: [(&str, &str); 8] = [
    ("watched_table", "time_bucket_unit"),
    ("wide_row", "found_by"),
    ("wide_row", "seal"),
    ("wide_row", "sealed_generation"),
    ("wide_row_layout", "horizon"),
    ("wide_row_layout", "proof"),
    ("wide_row_layout", "bucket_generation"),
    ("wide_row_layout", "bucket_number"),
];

/// One statement, ready to be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statement {
    pub file: &'static str,
    pub text: String,
    pub object: Object,
}

/// What a statement creates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Object {
    Keyspace,
    Type {
        name: String,
        /// Names with their types, in order.
        fields: Vec<(String, String)>,
    },
    Table {
        name: String,
        columns: Vec<Column>,
        /// `Some` if the statement sets it, because Narrows then relies on it.
        read_repair: Option<String>,
    },
}

impl Object {
    /// Name within the control keyspace; `None` for the keyspace itself.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Keyspace => None,
            Self::Type { name, .. } | Self::Table { name, .. } => Some(name),
        }
    }
}

/// A column as `system_schema.columns` describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    pub name: String,
    pub kind: String,
    /// Within its part of the primary key; -1 outside.
    pub position: i32,
    pub data_type: String,
}

/// A keyspace name for use in CQL. Every name except that of the files is quoted, so no list of reserved words is
/// needed.
pub fn keyspace_in_cql(keyspace: &str) -> String {
    if keyspace == KEYSPACE_IN_FILES {
        keyspace.to_owned()
    } else {
        format!("\"{}\"", keyspace.replace('"', "\"\""))
    }
}

/// A file with this keyspace and this replication in place of its own; comments stay.
pub fn with_names(text: &str, keyspace: &str, replication: Option<&Replication>) -> String {
    let tokens: Vec<Token> = Lexer::new(text).collect();
    let mut out = String::with_capacity(text.len());
    let mut copied = 0;
    let mut put = |span: Range<usize>, new: &str| {
        out.push_str(&text[copied..span.start]);
        out.push_str(new);
        copied = span.end;
    };
    let map = replication.zip(replication_span(text, &tokens));
    for token in &tokens {
        if token.is_word(text, KEYSPACE_IN_FILES) {
            put(token.span.clone(), &keyspace_in_cql(keyspace));
        }
        match &map {
            Some((replication, span)) if span.start == token.span.start => {
                put(span.clone(), &replication.to_string());
            }
            _ => {}
        }
    }
    out.push_str(&text[copied..]);
    out
}

/// From `{` to `}` behind `replication =`.
fn replication_span(text: &str, tokens: &[Token]) -> Option<Range<usize>> {
    let at = tokens.windows(3).position(|window| {
        window[0].is_word(text, "replication")
            && window[1].is_symbol('=')
            && window[2].is_symbol('{')
    })?;
    let rest = &tokens[at + 2..];
    let end = rest.iter().find(|token| token.is_symbol('}'))?;
    Some(rest[0].span.start..end.span.end)
}

/// The statements of a file. `None` if it contains anything other than the CREATE statements known here.
pub fn parse(file: &'static str, text: &str) -> Option<Vec<Statement>> {
    let tokens: Vec<Token> = Lexer::new(text).collect();
    let parts = tokens.split(|token| token.is_symbol(';'));
    let statements = parts.filter(|part| !part.is_empty()).map(|part| {
        Some(Statement {
            file,
            text: text[part.first()?.span.start..part.last()?.span.end].to_owned(),
            object: object(text, part)?,
        })
    });
    statements.collect()
}

fn object(text: &str, tokens: &[Token]) -> Option<Object> {
    let [create, kind, _if, _not, _exists, rest @ ..] = tokens else {
        return None;
    };
    if !create.is_word(text, "create") {
        return None;
    }
    if kind.is_word(text, "keyspace") {
        return Some(Object::Keyspace);
    }
    let [_keyspace, _dot, name, rest @ ..] = rest else {
        return None;
    };
    let name = name.name(text)?;
    let parts = parts(rest)?;
    if kind.is_word(text, "type") {
        let fields = parts.iter().map(|part| field(text, part));
        let fields = fields.collect::<Option<_>>()?;
        return Some(Object::Type { name, fields });
    }
    kind.is_word(text, "table").then_some(())?;
    Some(Object::Table {
        name,
        columns: columns(text, &parts)?,
        read_repair: read_repair(text, rest),
    })
}

/// The contents of the first parentheses, split at the commas that are not in further brackets.
fn parts(tokens: &[Token]) -> Option<Vec<&[Token]>> {
    let mut depth = 0;
    let mut begin = 1;
    let mut parts = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        match token.kind {
            Kind::Symbol('(' | '<') => depth += 1,
            Kind::Symbol(')' | '>') => depth -= 1,
            _ => {}
        }
        if depth == 0 || depth == 1 && token.is_symbol(',') {
            parts.push(tokens.get(begin..at)?);
            begin = at + 1;
        }
        if depth == 0 {
            return Some(parts);
        }
    }
    None
}

fn field(text: &str, part: &[Token]) -> Option<(String, String)> {
    let (name, data_type) = part.split_first()?;
    Some((name.name(text)?, type_text(text, data_type)))
}

/// The text of a type as Cassandra writes it: one space after a comma and no other.
fn type_text(text: &str, tokens: &[Token]) -> String {
    let words = tokens.iter().map(|token| match token.kind {
        Kind::Symbol(',') => ", ",
        _ => &text[token.span.clone()],
    });
    words.collect()
}

fn columns(text: &str, parts: &[&[Token]]) -> Option<Vec<Column>> {
    let (key, others): (Vec<&[Token]>, Vec<&[Token]>) = parts.iter().partition(|part| {
        part.first()
            .is_some_and(|token| token.is_word(text, "primary"))
    });
    let [key] = key.as_slice() else {
        return None;
    };
    let key = primary_key(text, key);
    let columns = others.into_iter().map(|part| {
        let (part, outside) = match part.split_last() {
            Some((last, part)) if last.is_word(text, "static") => (part, "static"),
            _ => (part, "regular"),
        };
        let (name, data_type) = field(text, part)?;
        let in_key = key.iter().find(|(column, _, _)| *column == name);
        let (kind, position) = in_key.map_or((outside, -1), |(_, kind, at)| (*kind, *at));
        Some(Column {
            name,
            kind: kind.to_owned(),
            position,
            data_type,
        })
    });
    columns.collect()
}

/// Columns of `PRIMARY KEY ((a, b), c)` with the part they belong to and their position in it.
fn primary_key(text: &str, tokens: &[Token]) -> Vec<(String, &'static str, i32)> {
    let mut depth = 0;
    let mut counts = [0; 2];
    let mut key = Vec::new();
    for token in tokens.iter().skip(2) {
        match token.kind {
            Kind::Symbol('(') => depth += 1,
            Kind::Symbol(')') => depth -= 1,
            _ => {}
        }
        if let Some(name) = token.name(text) {
            let (part, kind) = if depth == 2 {
                (0, "partition_key")
            } else {
                (1, "clustering")
            };
            key.push((name, kind, counts[part]));
            counts[part] += 1;
        }
    }
    key
}

fn read_repair(text: &str, tokens: &[Token]) -> Option<String> {
    let at = tokens
        .iter()
        .position(|token| token.is_word(text, "read_repair"))?;
    let value = tokens.get(at + 2)?;
    Some(text[value.span.clone()].trim_matches('\'').to_owned())
}
