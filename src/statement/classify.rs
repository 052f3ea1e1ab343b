//! What a statement means to the proxy: its *shape*.

use std::sync::Arc;

use super::lexer::{Lexer, Token};
use super::topology::{TopologySelect, TopologyTable};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shape {
    /// A SELECT on one of the tables from which drivers learn the cluster's topology.
    Topology(Arc<TopologySelect>),
    /// USE: changes which keyspace unqualified names are in.
    Use,
    /// CREATE, ALTER or DROP: the schema may change.
    SchemaChange,
    /// Nothing the proxy needs to know about.
    Other,
}

/// Reads no more of the text than it must. `in_system` says whether unqualified names are in the keyspace `system`; it
/// is called only if that matters.
pub fn classify(text: &str, in_system: impl FnOnce() -> bool) -> Shape {
    let mut lexer = Lexer::new(text);
    let Some(first) = lexer.next() else {
        return Shape::Other;
    };
    if first.is_word(text, "select") {
        match topology_table(text, lexer, in_system) {
            Some(table) => Shape::Topology(Arc::new(TopologySelect::parse(text, table))),
            None => Shape::Other,
        }
    } else if first.is_word(text, "use") {
        Shape::Use
    } else if ["create", "alter", "drop"]
        .iter()
        .any(|word| first.is_word(text, word))
    {
        Shape::SchemaChange
    } else {
        Shape::Other
    }
}

/// The topology table that a SELECT reads, if any. A SELECT has exactly one FROM outside of brackets.
fn topology_table(
    text: &str,
    lexer: Lexer<'_>,
    in_system: impl FnOnce() -> bool,
) -> Option<TopologyTable> {
    let mut depth = 0_i32;
    let mut tokens = lexer.skip_while(|token| {
        depth += bracket(token);
        depth > 0 || !token.is_word(text, "from")
    });
    tokens.next()?;
    let first = tokens.next()?.name(text)?;
    let qualified = tokens.next().is_some_and(|token| token.is_symbol('.'));
    let table = if qualified {
        tokens.next()?.name(text)?
    } else {
        first.clone()
    };
    let table = TopologyTable::from_name(&table)?;
    let system = if qualified {
        first == "system"
    } else {
        in_system()
    };
    system.then_some(table)
}

fn bracket(token: &Token) -> i32 {
    if token.is_symbol('(') {
        1
    } else if token.is_symbol(')') {
        -1
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topology(text: &str, keyspace: Option<&str>) -> Option<TopologyTable> {
        match classify(text, || keyspace == Some("system")) {
            Shape::Topology(select) => Some(select.table),
            _ => None,
        }
    }

    #[test]
    fn finds_topology_tables_however_they_are_written() {
        use TopologyTable::{Local, Peers, PeersV2};
        for (text, table) in [
            ("SELECT * FROM system.local WHERE key='local'", Local),
            ("select  *  from  SYSTEM . Peers", Peers),
            (
                "/* a */ SELECT JSON \"peer\" FROM \"system\".\"peers_v2\"",
                PeersV2,
            ),
            ("SELECT cast(key AS text), now() FROM system.local;", Local),
            ("SELECT 'from x' FROM -- y\n system.local", Local),
        ] {
            assert_eq!(topology(text, None), Some(table), "{text}");
        }
    }

    #[test]
    fn unqualified_names_follow_the_keyspace() {
        assert_eq!(
            topology("SELECT * FROM local", Some("system")),
            Some(TopologyTable::Local)
        );
        assert_eq!(topology("SELECT * FROM local", Some("app")), None);
        assert_eq!(topology("SELECT * FROM local", None), None);
        assert_eq!(topology("SELECT * FROM app.local", Some("system")), None);
    }

    #[test]
    fn everything_else_is_left_alone() {
        for text in [
            "",
            "SELECT",
            "SELECT * FROM",
            "SELECT * FROM system.\"LOCAL\"",
            "INSERT INTO system.local",
            "x",
        ] {
            assert_eq!(classify(text, || false), Shape::Other, "{text}");
        }
        assert_eq!(classify("use ks", || false), Shape::Use);
        assert_eq!(
            classify(" -- c\nCREATE TABLE x", || false),
            Shape::SchemaChange
        );
        assert_eq!(classify("DROP INDEX i", || false), Shape::SchemaChange);
    }
}
