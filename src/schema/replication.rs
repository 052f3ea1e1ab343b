//! The replication of the control keyspace: a CQL map that is read from settings or from `system_schema`, or chosen.
//! Pure.

use std::collections::BTreeMap;
use std::fmt;

use crate::statement::lexer::{Kind, Lexer, Token};

/// Default number of copies in a data centre: with three, a quorum survives the loss of one.
const COPIES: usize = 3;

const CLASS: &str = "class";
/// Key of a number of copies that holds for the whole cluster, or for each of its data centres.
const FACTOR: &str = "replication_factor";

/// Strategies that can be copied from another keyspace; others are for Cassandra's own keyspaces.
const COPIED_STRATEGIES: [&str; 2] = ["NetworkTopologyStrategy", "SimpleStrategy"];

/// A replication map: its class, and the number of copies by data centre or in total.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replication {
    class: String,
    options: BTreeMap<String, String>,
}

impl Replication {
    /// Reads a CQL map such as `{'class': 'NetworkTopologyStrategy', 'dc1': 3}`. Only a map of literals is accepted, so
    /// the result can never contain other CQL.
    pub fn parse(text: &str) -> Option<Self> {
        let tokens: Vec<Token> = Lexer::new(text).collect();
        let [open, inner @ .., close] = tokens.as_slice() else {
            return None;
        };
        if !open.is_symbol('{') || !close.is_symbol('}') {
            return None;
        }
        let mut options = BTreeMap::new();
        for entry in inner.split(|token| token.is_symbol(',')) {
            let [key, colon, value] = entry else {
                return None;
            };
            if !colon.is_symbol(':') || key.kind != Kind::String {
                return None;
            }
            let repeated = options.insert(literal(text, key)?, literal(text, value)?);
            if repeated.is_some() {
                return None;
            }
        }
        Self::new(options)
    }

    /// The replication of another keyspace, from `system_schema.keyspaces`. `None` if it cannot be copied.
    pub fn copied(found: BTreeMap<String, String>) -> Option<Self> {
        let mut copied = Self::new(found)?;
        let short = copied.class.rsplit('.').next().unwrap_or_default();
        copied.class = (*COPIED_STRATEGIES.iter().find(|known| **known == short)?).to_owned();
        for copies in copied.options.values_mut() {
            // `3/1` has transient replicas, which do not support lightweight transactions.
            if let Some((full, _)) = copies.split_once('/') {
                *copies = full.to_owned();
            }
        }
        Some(copied)
    }

    /// Three copies in every data centre, or as many as it has nodes.
    pub fn for_data_centers<'a>(nodes: impl Iterator<Item = &'a str>) -> Self {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for data_center in nodes {
            *counts.entry(data_center.to_owned()).or_default() += 1;
        }
        let options = counts
            .into_iter()
            .map(|(data_center, nodes)| (data_center, nodes.min(COPIES).to_string()));
        Self {
            class: COPIED_STRATEGIES[0].to_owned(),
            options: options.collect(),
        }
    }

    /// Where the loss of one node loses a quorum: the data centre (`None`: any) and its number of copies. A data centre
    /// without a copy is not concerned.
    pub fn scarce(&self) -> Vec<(Option<&str>, usize)> {
        let copies = self.options.iter().filter_map(|(place, copies)| {
            let full = copies.split('/').next()?;
            let place = Some(place.as_str()).filter(|place| *place != FACTOR);
            Some((place, full.parse().ok()?))
        });
        copies
            .filter(|(_, copies)| (1..COPIES).contains(copies))
            .collect()
    }

    /// The same with enough copies wherever they are scarce, for a keyspace that is still to be created.
    pub fn with_enough(&self) -> Self {
        self.raised(|_| COPIES)
    }

    /// The same with one more copy wherever they are scarce, for a keyspace that exists: before a repair, the replicas
    /// that are new make up no quorum of their own then.
    pub fn with_one_more(&self) -> Self {
        self.raised(|copies| copies + 1)
    }

    fn raised(&self, to: impl Fn(usize) -> usize) -> Self {
        let mut raised = self.clone();
        for (place, copies) in self.scarce() {
            let place = place.unwrap_or(FACTOR).to_owned();
            raised.options.insert(place, to(copies).to_string());
        }
        raised
    }

    fn new(mut options: BTreeMap<String, String>) -> Option<Self> {
        let class = options.remove(CLASS)?;
        Some(Self { class, options })
    }
}

impl fmt::Display for Replication {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{{'{CLASS}': {}", quoted(&self.class))?;
        for (key, value) in &self.options {
            write!(out, ", {}: {}", quoted(key), quoted(value))?;
        }
        out.write_str("}")
    }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// The value of a string in single quotes, or the digits of a number.
fn literal(text: &str, token: &Token) -> Option<String> {
    let source = &text[token.span.clone()];
    match token.kind {
        Kind::Number => Some(source.to_owned()),
        Kind::String => {
            let inner = source.strip_prefix('\'')?.strip_suffix('\'')?;
            Some(inner.replace("''", "'"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn reads_a_map_and_writes_it_as_cql() {
        let read = Replication::parse(
            " { 'dc''2' : '3', 'class':'NetworkTopologyStrategy','dc1': 2 } -- end",
        );
        assert_eq!(
            read.expect("a map").to_string(),
            "{'class': 'NetworkTopologyStrategy', 'dc''2': '3', 'dc1': '2'}"
        );
    }

    #[test]
    fn refuses_what_is_not_one_map_of_literals() {
        for text in [
            "",
            "3",
            "{}",
            "{'dc1': 3}",
            "{'class': 'SimpleStrategy', 'a': 1, 'a': 2}",
            "{'class': 'SimpleStrategy'",
            "{'class': 'SimpleStrategy'} AND durable_writes = false",
            "{'class': 'SimpleStrategy'}; DROP KEYSPACE plant",
            "{'class': SimpleStrategy}",
            "{'class': 'SimpleStrategy',}",
            "{'class': $$SimpleStrategy$$}",
            "{'class': ?}",
            "{'a': {'class': 'x'}}",
        ] {
            assert_eq!(Replication::parse(text), None, "{text}");
        }
    }

    #[test]
    fn copies_known_strategies_without_transient_replicas() {
        let found = map(&[
            (
                "class",
                "org.apache.cassandra.locator.NetworkTopologyStrategy",
            ),
            ("dc1", "3/1"),
            ("dc2", "2"),
        ]);
        assert_eq!(
            Replication::copied(found).expect("known").to_string(),
            "{'class': 'NetworkTopologyStrategy', 'dc1': '3', 'dc2': '2'}"
        );
        let simple = map(&[
            ("class", "org.apache.cassandra.locator.SimpleStrategy"),
            ("replication_factor", "1"),
        ]);
        assert_eq!(
            Replication::copied(simple).expect("known").to_string(),
            "{'class': 'SimpleStrategy', 'replication_factor': '1'}"
        );
        let local = map(&[("class", "org.apache.cassandra.locator.LocalStrategy")]);
        assert_eq!(Replication::copied(local), None);
    }

    #[test]
    fn fewer_than_three_copies_are_scarce() {
        let parse = |text| Replication::parse(text).expect("a map");
        let plenty =
            parse("{'class': 'NetworkTopologyStrategy', 'dc1': 3, 'dc2': '4/1', 'dc3': 0}");
        assert_eq!(plenty.scarce(), []);
        assert_eq!(plenty.with_enough(), plenty);
        let few = parse("{'class': 'NetworkTopologyStrategy', 'a': 1, 'b': 3, 'c': '2/1'}");
        assert_eq!(few.scarce(), [(Some("a"), 1), (Some("c"), 2)]);
        assert_eq!(
            few.with_enough().to_string(),
            "{'class': 'NetworkTopologyStrategy', 'a': '3', 'b': '3', 'c': '3'}"
        );
        assert_eq!(
            few.with_one_more().to_string(),
            "{'class': 'NetworkTopologyStrategy', 'a': '2', 'b': '3', 'c': '3'}"
        );
        let simple = parse("{'class': 'SimpleStrategy', 'replication_factor': 2}");
        assert_eq!(simple.scarce(), [(None, 2)]);
        assert_eq!(
            simple.with_enough().to_string(),
            "{'class': 'SimpleStrategy', 'replication_factor': '3'}"
        );
    }

    #[test]
    fn chooses_no_more_copies_than_nodes() {
        let nodes = ["dc2", "dc1", "dc1", "dc1", "dc1", "dc2"];
        assert_eq!(
            Replication::for_data_centers(nodes.into_iter()).to_string(),
            "{'class': 'NetworkTopologyStrategy', 'dc1': '3', 'dc2': '2'}"
        );
    }
}
