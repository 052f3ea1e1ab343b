//! SELECTs on `system.local`, `system.peers` and `system.peers_v2`: what they select, and from which rows.
//!
//! The proxy answers plain columns. Cassandra computes everything else (functions, casts, JSON), from a text in which
//! literals replace the columns that Narrows presents differently.

use super::lexer::{Kind, Lexer, Token};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TopologyTable {
    Local,
    Peers,
    PeersV2,
}

impl TopologyTable {
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "local" => Some(Self::Local),
            "peers" => Some(Self::Peers),
            "peers_v2" => Some(Self::PeersV2),
            _ => None,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Peers => "peers",
            Self::PeersV2 => "peers_v2",
        }
    }
}

/// A selector of the select list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selector {
    /// `*`
    All,
    /// A column by name, with or without an alias.
    Column(String),
    /// `count(*)`, `count(1)` or `count(column)`.
    Count(Option<String>),
    /// Anything else: its source text, without an alias.
    Expression(String),
}

/// A value that a WHERE clause compares with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operand {
    /// A literal as written, without quotes.
    Literal(String),
    /// The n-th bind marker, with its name if it has one.
    Marker(usize, Option<String>),
}

/// A SELECT on a topology table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopologySelect {
    pub table: TopologyTable,
    /// The parsed statement; `None` for a form that cannot be answered without showing real addresses.
    pub query: Option<Query>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    pub json: bool,
    pub selectors: Vec<Selector>,
    /// Aliases, one per selector.
    pub aliases: Vec<Option<String>>,
    /// Conditions of the form `column = value`, joined by AND.
    pub conditions: Vec<(String, Operand)>,
    pub limit: Option<Operand>,
}

impl Query {
    /// Whether Cassandra must compute something from the row.
    pub fn needs_evaluation(&self) -> bool {
        self.json
            || self
                .selectors
                .iter()
                .any(|selector| matches!(selector, Selector::Expression(_)))
    }
}

/// Drivers and people send short texts; to parse a longer one takes many times its size in memory.
const TEXT_BYTES_MAX: usize = 16 << 10;

/// Functions over all rows. Expressions are computed row by row here, so these are refused, except on `system.local`,
/// which has one row.
const AGGREGATES: [&str; 5] = ["min", "max", "sum", "avg", "count"];
/// Functions of a cell, not of its value. Their argument is not replaced: a literal is no cell, and they show no value.
const OF_CELLS: [&str; 4] = ["writetime", "maxwritetime", "minwritetime", "ttl"];

impl TopologySelect {
    pub fn parse(text: &str, table: TopologyTable) -> Self {
        let understood = text.len() <= TEXT_BYTES_MAX;
        let query = if understood {
            Parser::new(text, table).query()
        } else {
            None
        };
        Self { table, query }
    }
}

struct Parser<'a> {
    text: &'a str,
    table: TopologyTable,
    tokens: Vec<Token>,
    at: usize,
    markers: usize,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str, table: TopologyTable) -> Self {
        Self {
            text,
            table,
            tokens: Lexer::new(text).collect(),
            at: 0,
            markers: 0,
        }
    }

    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    fn next(&mut self) -> Option<Token> {
        let token = self.tokens.get(self.at)?.clone();
        self.at += 1;
        Some(token)
    }

    fn word(&mut self, word: &str) -> bool {
        let found = self
            .peek()
            .is_some_and(|token| token.is_word(self.text, word));
        self.at += usize::from(found);
        found
    }

    fn symbol(&mut self, symbol: char) -> bool {
        let found = self.peek().is_some_and(|token| token.is_symbol(symbol));
        self.at += usize::from(found);
        found
    }

    fn name(&mut self) -> Option<String> {
        let name = self.peek()?.name(self.text)?;
        self.at += 1;
        Some(name)
    }

    fn query(mut self) -> Option<Query> {
        if !self.word("select") {
            return None;
        }
        let json = self.followed_by_selector("json") && self.word("json");
        if self.followed_by_selector("distinct") {
            self.word("distinct");
        }
        let (mut selectors, mut aliases) = (Vec::new(), Vec::new());
        loop {
            let (selector, alias) = self.selector()?;
            selectors.push(selector);
            aliases.push(alias);
            if !self.symbol(',') {
                break;
            }
        }
        if !self.word("from") {
            return None;
        }
        self.name()?;
        if self.symbol('.') {
            self.name()?;
        }
        let conditions = self.conditions()?;
        if self.word("per") {
            return None;
        }
        let limit = if self.word("limit") {
            Some(self.operand()?)
        } else {
            None
        };
        if self.word("allow") && !self.word("filtering") {
            return None;
        }
        self.symbol(';');
        self.peek().is_none().then_some(Query {
            json,
            selectors,
            aliases,
            conditions,
            limit,
        })
    }

    /// Whether the next word is the keyword, not a column of that name: the token after it is not `,`, FROM or AS.
    fn followed_by_selector(&self, word: &str) -> bool {
        let is_keyword = self
            .peek()
            .is_some_and(|token| token.is_word(self.text, word));
        let after = self.tokens.get(self.at + 1);
        is_keyword
            && after.is_some_and(|token| {
                !token.is_symbol(',')
                    && !token.is_word(self.text, "from")
                    && !token.is_word(self.text, "as")
            })
    }

    fn selector(&mut self) -> Option<(Selector, Option<String>)> {
        let start = self.at;
        let mut depth = 0;
        while let Some(token) = self.peek() {
            match token.kind {
                Kind::Symbol('(' | '[' | '{') => depth += 1,
                Kind::Symbol(')' | ']' | '}') => depth -= 1,
                Kind::Symbol(',') if depth == 0 => break,
                Kind::Word
                    if depth == 0
                        && (token.is_word(self.text, "from") || token.is_word(self.text, "as")) =>
                {
                    break;
                }
                // Only the request has a marker's value; no driver selects one here.
                Kind::Unknown | Kind::Marker => return None,
                _ => {}
            }
            self.at += 1;
        }
        let selector = self.recognise(start, self.at)?;
        let alias = if self.word("as") {
            Some(self.name()?)
        } else {
            None
        };
        Some((selector, alias))
    }

    fn recognise(&self, start: usize, end: usize) -> Option<Selector> {
        let tokens = &self.tokens[start..end];
        let (first, last) = (tokens.first()?, tokens.last()?);
        Some(match tokens {
            [star] if star.is_symbol('*') => Selector::All,
            [column] if column.name(self.text).is_some() => {
                Selector::Column(column.name(self.text)?)
            }
            [function, open, argument, close]
                if function.is_word(self.text, "count")
                    && open.is_symbol('(')
                    && close.is_symbol(')') =>
            {
                Selector::Count(argument.name(self.text))
            }
            _ if self.table != TopologyTable::Local && self.has_aggregate(tokens) => return None,
            _ => Selector::Expression(self.text[first.span.start..last.span.end].to_owned()),
        })
    }

    fn has_aggregate(&self, tokens: &[Token]) -> bool {
        let is_aggregate = |name: String| AGGREGATES.contains(&name.as_str());
        let called = |pair: &[Token]| {
            pair[1].is_symbol('(') && pair[0].name(self.text).is_some_and(is_aggregate)
        };
        tokens.windows(2).any(called)
    }

    fn conditions(&mut self) -> Option<Vec<(String, Operand)>> {
        let mut conditions = Vec::new();
        if self.word("where") {
            loop {
                let column = self.name()?;
                if !self.symbol('=') {
                    return None;
                }
                conditions.push((column, self.operand()?));
                if !self.word("and") {
                    break;
                }
            }
        }
        Some(conditions)
    }

    fn operand(&mut self) -> Option<Operand> {
        let token = self.next()?;
        let source = &self.text[token.span.clone()];
        match token.kind {
            Kind::String if source.starts_with('\'') => Some(Operand::Literal(
                source[1..source.len() - 1].replace("''", "'"),
            )),
            Kind::Number => Some(Operand::Literal(source.to_owned())),
            Kind::Marker => {
                self.markers += 1;
                let name = source
                    .strip_prefix(':')
                    .map(|name| name.trim_matches('"').to_owned());
                Some(Operand::Marker(self.markers - 1, name))
            }
            _ => None,
        }
    }
}

/// Replaces every mention of a column in an expression by the literal that `replacement` returns for it, if any.
pub fn substitute(expression: &str, replacement: impl Fn(&str) -> Option<String>) -> String {
    let tokens: Vec<Token> = Lexer::new(expression).collect();
    let mut out = String::with_capacity(expression.len());
    let mut copied = 0;
    for (at, token) in tokens.iter().enumerate() {
        let Some(name) = token.name(expression) else {
            continue;
        };
        let before = at.checked_sub(1).and_then(|at| tokens.get(at));
        let is_type =
            before.is_some_and(|token| token.is_word(expression, "as") || token.is_symbol('.'));
        let is_function = tokens
            .get(at + 1)
            .is_some_and(|token| token.is_symbol('(') || token.is_symbol('.'));
        let function = at.checked_sub(2).and_then(|at| tokens[at].name(expression));
        let of_cell = before.is_some_and(|token| token.is_symbol('('))
            && function.is_some_and(|name| OF_CELLS.contains(&name.as_str()));
        if is_type || is_function || of_cell {
            continue;
        }
        if let Some(literal) = replacement(&name) {
            out.push_str(&expression[copied..token.span.start]);
            out.push_str(&literal);
            copied = token.span.end;
        }
    }
    out.push_str(&expression[copied..]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Option<Query> {
        TopologySelect::parse(text, TopologyTable::Peers).query
    }

    #[test]
    fn reads_columns_aliases_counts_and_expressions() {
        let query = parse("SELECT peer, rack AS r, count(*), count(1), toJson(peer) AS j, cast(a as text) FROM system.peers")
            .expect("understood");
        assert_eq!(
            query.selectors,
            [
                Selector::Column("peer".into()),
                Selector::Column("rack".into()),
                Selector::Count(None),
                Selector::Count(None),
                Selector::Expression("toJson(peer)".into()),
                Selector::Expression("cast(a as text)".into()),
            ]
        );
        assert_eq!(query.aliases[1].as_deref(), Some("r"));
        assert_eq!(query.aliases[4].as_deref(), Some("j"));
        assert!(query.needs_evaluation());
    }

    #[test]
    fn reads_conditions_and_limit() {
        let query = parse("SELECT * FROM system.peers WHERE peer = '127.0.0.1' AND peer_port=? LIMIT :n ALLOW FILTERING;")
            .expect("understood");
        assert_eq!(
            query.conditions,
            [
                ("peer".to_owned(), Operand::Literal("127.0.0.1".into())),
                ("peer_port".to_owned(), Operand::Marker(0, None)),
            ]
        );
        assert_eq!(query.limit, Some(Operand::Marker(1, Some("n".into()))));
    }

    #[test]
    fn json_and_distinct_may_be_columns_too() {
        assert!(
            parse("SELECT JSON * FROM system.peers")
                .expect("understood")
                .json
        );
        assert!(
            !parse("SELECT json, distinct FROM system.peers")
                .expect("understood")
                .json
        );
        assert_eq!(
            parse("SELECT DISTINCT peer FROM system.peers")
                .expect("understood")
                .selectors,
            [Selector::Column("peer".into())]
        );
    }

    #[test]
    fn other_forms_are_not_understood() {
        for text in [
            "SELECT * FROM system.peers WHERE peer IN ('a')",
            "SELECT * FROM system.peers WHERE token(peer) > 0",
            "SELECT peer FROM system.peers GROUP BY peer",
            "SELECT * FROM system.peers PER PARTITION LIMIT 1",
            "SELECT f(?) FROM system.peers",
            "SELECT max(release_version) FROM system.peers",
            "SELECT 'unterminated FROM system.peers",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn long_texts_are_not_taken_apart() {
        let text = format!("SELECT {}a FROM system.local", "a,".repeat(TEXT_BYTES_MAX));
        assert_eq!(parse(&text), None);
    }

    #[test]
    fn substitutes_columns_and_nothing_else() {
        let literal = |name: &str| (name == "peer").then(|| "(inet)'1.2.3.4'".to_owned());
        for (source, expected) in [
            ("toJson(peer)", "toJson((inet)'1.2.3.4')"),
            ("cast(\"peer\" as text)", "cast((inet)'1.2.3.4' as text)"),
            ("peer.f(PEER, rack)", "peer.f((inet)'1.2.3.4', rack)"),
            ("peer(peer, 'peer')", "peer((inet)'1.2.3.4', 'peer')"),
            ("now()", "now()"),
            ("writetime(peer)", "writetime(peer)"),
            ("toJson(TTL(peer))", "toJson(TTL(peer))"),
        ] {
            assert_eq!(substitute(source, literal), expected);
        }
    }
}
