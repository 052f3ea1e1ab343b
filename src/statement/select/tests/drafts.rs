//! Random SELECTs, written as a text and as what it must be parsed to, both at once.

use super::random::Random;
use super::*;
use crate::statement::term::{Marker, Term};
use crate::statement::touches::Name;

/// As they are written, and what they mean.
const NAMES: [(&str, &str); 12] = [
    ("a", "a"),
    ("Bb", "bb"),
    ("c_1", "c_1"),
    ("\"D d\"", "D d"),
    ("\"e\"\"\"", "e\""),
    ("\"select\"", "select"),
    ("ttl", "ttl"),
    ("KEY", "key"),
    ("per", "per"),
    ("filtering", "filtering"),
    ("int", "int"),
    ("Exists", "exists"),
];
const BLANKS: [&str; 8] = [" ", " ", " ", "  ", "\n", "\t", " /* ?, ' */ ", " -- ' ?\n"];

pub(super) struct Draft<'a> {
    random: &'a mut Random,
    pub(super) text: String,
    markers: Vec<Marker>,
}

impl<'a> Draft<'a> {
    /// A text and what it means.
    pub(super) fn select(random: &'a mut Random) -> (String, Select) {
        let mut draft = Self {
            random,
            text: String::new(),
            markers: Vec::new(),
        };
        let mut select = draft.statement();
        select.markers = draft.markers;
        (draft.text, select)
    }

    /// Writes one token and returns where it begins.
    fn put(&mut self, token: &str) -> usize {
        let close = matches!(token, "(" | ")" | "," | "]" | ";") && self.random.often();
        if !close {
            let blank = self.random.pick(&BLANKS);
            self.text.push_str(blank);
        }
        let start = self.text.len();
        if self.random.often() || token.contains(['"', '\'', '$', ':']) {
            self.text.push_str(token);
        } else {
            self.text.push_str(&token.to_ascii_uppercase());
        }
        start
    }

    fn put_all(&mut self, tokens: &str) -> Range<usize> {
        let starts: Vec<usize> = tokens.split(' ').map(|token| self.put(token)).collect();
        starts[0]..self.text.len()
    }

    fn name(&mut self) -> String {
        let (written, meant) = self.random.pick(&NAMES);
        self.put(written);
        meant.to_owned()
    }

    fn marker(&mut self) -> Term {
        let start = self.text.len();
        let name = self.random.often().then(|| {
            let (written, meant) = self.random.pick(&NAMES);
            (format!(":{written}"), meant.to_owned())
        });
        let written = name.as_ref().map_or("?", |(written, _)| written).to_owned();
        let start = start.max(self.put(&written));
        let span = start..self.text.len();
        self.markers.push(Marker {
            span: span.clone(),
            name: name.map(|(_, meant)| meant),
        });
        let kind = TermKind::Marker(self.markers.len() - 1);
        Term { span, kind }
    }

    fn literal(&mut self) -> Term {
        let (written, literal) = match self.random.below(8) {
            0 => ("null", Literal::Null),
            1 => ("True", Literal::Boolean(true)),
            2 => ("-17", Literal::Integer("-17".into())),
            3 => ("0.5", Literal::Float("0.5".into())),
            4 => ("'it''s ?'", Literal::Text("it's ?".into())),
            5 => ("$$'$$", Literal::Text("'".into())),
            6 => ("-nan", Literal::Float("NaN".into())),
            _ => ("0XaB", Literal::Blob(vec![0xAB])),
        };
        let start = self.put(written);
        Term {
            span: start..self.text.len(),
            kind: TermKind::Literal(literal),
        }
    }

    fn literal_or_marker(&mut self) -> Term {
        match self.random.often() {
            true => self.literal(),
            false => self.marker(),
        }
    }

    fn tuple(&mut self) -> Term {
        let start = self.put("(");
        let mut terms = vec![self.literal_or_marker()];
        while self.random.often() {
            self.put(",");
            terms.push(self.literal_or_marker());
        }
        self.put(")");
        Term {
            span: start..self.text.len(),
            kind: TermKind::Tuple(terms),
        }
    }

    /// What Cassandra computes: these tokens around a literal or a marker.
    fn computed(&mut self) -> Term {
        let (before, behind) = self.random.pick(&[
            ("[", "]"),
            ("{", "}"),
            ("{ 1 :", "}"),
            ("f (", ")"),
            ("ks . f ( 2 ,", ")"),
            ("( int )", ""),
            ("1 +", ""),
            ("cast (", "as text )"),
        ]);
        let start = self.put_all(before).start;
        self.literal_or_marker();
        if !behind.is_empty() {
            self.put_all(behind);
        }
        Term {
            span: start..self.text.len(),
            kind: TermKind::Other,
        }
    }

    fn term(&mut self) -> Term {
        match self.random.below(4) {
            0 => self.tuple(),
            1 => self.computed(),
            _ => self.literal_or_marker(),
        }
    }

    fn comparison(&mut self) -> Operator {
        let (written, operator) = self.random.pick(&[
            ("=", Operator::Equal),
            ("<", Operator::Less),
            ("<=", Operator::LessOrEqual),
            (">", Operator::Greater),
            (">=", Operator::GreaterOrEqual),
        ]);
        self.put(written);
        operator
    }

    fn columns_in_brackets(&mut self) -> Columns {
        self.put("(");
        let mut columns = vec![self.name()];
        while self.random.often() {
            self.put(",");
            columns.push(self.name());
        }
        self.put(")");
        Columns::Tuple(columns)
    }

    fn in_values(&mut self, value: impl Fn(&mut Self) -> Term) -> InValues {
        if self.random.often() {
            let TermKind::Marker(number) = self.marker().kind else {
                unreachable!("a marker");
            };
            return InValues::Marker(number);
        }
        self.put("(");
        let mut values = Vec::new();
        for number in 0..self.random.below(4) {
            if number > 0 {
                self.put(",");
            }
            values.push(value(self));
        }
        self.put(")");
        InValues::List(values)
    }

    fn relation_kind(&mut self) -> RelationKind {
        match self.random.below(6) {
            0 => {
                let columns = self.columns_in_brackets();
                let operator = self.comparison();
                let term = self.tuple();
                RelationKind::Compare {
                    columns,
                    operator,
                    term,
                }
            }
            1 => {
                let columns = Columns::One(self.name());
                self.put("in");
                let values = self.in_values(Self::term);
                RelationKind::In { columns, values }
            }
            2 => {
                let columns = self.columns_in_brackets();
                self.put("in");
                let values = self.in_values(Self::tuple);
                RelationKind::In { columns, values }
            }
            3 => {
                let unusual = [
                    "a contains",
                    "a contains key",
                    "a like",
                    "a !=",
                    "m [ 1 ] =",
                    "token ( a , b ) <=",
                ];
                let unusual = self.random.pick(&unusual);
                self.put_all(unusual);
                self.term();
                RelationKind::Other
            }
            _ => {
                let columns = Columns::One(self.name());
                let operator = self.comparison();
                let term = self.term();
                RelationKind::Compare {
                    columns,
                    operator,
                    term,
                }
            }
        }
    }

    fn relation(&mut self) -> Relation {
        let brackets = self.random.below(4) / 2;
        let from = self.text.len();
        for _ in 0..brackets {
            self.put("(");
        }
        let kind = self.relation_kind();
        for _ in 0..brackets {
            self.put(")");
        }
        let blank = skipped(&self.text[from..]);
        Relation {
            span: from + blank..self.text.len(),
            kind,
        }
    }

    fn selector(&mut self, depth: usize) -> Selector {
        if depth == 0 {
            return Selector::Column(self.name());
        }
        match self.random.below(10) {
            0 => {
                let count = self.random.pick(&["count ( * )", "count ( 1 )"]);
                self.put_all(count);
                Selector::CountRows
            }
            1 => {
                self.put_all("writetime (");
                let argument = Selector::Column(self.name());
                self.put(")");
                call("writetime", vec![argument])
            }
            2 => {
                self.put_all("f (");
                let mut arguments = vec![self.selector(depth - 1)];
                while self.random.often() {
                    self.put(",");
                    arguments.push(self.selector(depth - 1));
                }
                self.put(")");
                call("f", arguments)
            }
            3 => {
                self.put_all("cast (");
                let inner = self.selector(depth - 1);
                self.put_all("as text )");
                Selector::Cast(Box::new(inner))
            }
            4 => {
                let whole = Selector::Column(self.name());
                let tokens = [". x", "[ 1 ]", "[ 1 .. 2 ]", "[ .. 'b' ] . y"];
                let tokens = self.random.pick(&tokens);
                self.put_all(tokens);
                Selector::Part(Box::new(whole))
            }
            5 => Selector::Term(self.literal_or_marker()),
            6 => self.composed(depth),
            _ => Selector::Column(self.name()),
        }
    }

    fn composed(&mut self, depth: usize) -> Selector {
        let (open, between, close) = self.random.pick(&[
            ("( f (", ") ,", ")"),
            ("[", ",", "]"),
            ("{", ":", "}"),
            ("{", ",", "}"),
        ]);
        let calls = open.ends_with("f (");
        self.put_all(open);
        let first = self.selector(depth - 1);
        self.put_all(between);
        let second = self.selector(depth - 1);
        self.put_all(close);
        let first = if calls { call("f", vec![first]) } else { first };
        Selector::Composed(vec![first, second])
    }

    fn item(&mut self) -> Item {
        let from = self.text.len();
        let selector = match self.random.below(4) {
            0 => {
                let left = Selector::Column(self.name());
                let operator = self.random.pick(&["+", "-", "*", "/", "%"]);
                self.put(operator);
                // Behind a minus some names are not cut off from it.
                let right = call("f", vec![]);
                self.put_all("f ( )");
                Selector::Composed(vec![left, right])
            }
            _ => self.selector(3),
        };
        let alias = self.random.often().then(|| {
            self.put("as");
            self.name()
        });
        Item {
            span: from + skipped(&self.text[from..])..self.text.len(),
            selector,
            alias,
        }
    }

    fn selection(&mut self) -> (Selection, Range<usize>) {
        let from = self.text.len();
        let selection = if self.random.below(5) == 0 {
            self.put("*");
            Selection::All
        } else {
            let mut items = vec![self.item()];
            while self.random.often() {
                self.put(",");
                items.push(self.item());
            }
            Selection::Items(items)
        };
        let span = from + skipped(&self.text[from..])..self.text.len();
        (selection, span)
    }

    fn table(&mut self) -> (Name, Range<usize>) {
        let from = self.text.len();
        let keyspace = self.random.often().then(|| {
            let keyspace = self.name();
            self.put(".");
            keyspace
        });
        let table = self.name();
        let span = from + skipped(&self.text[from..])..self.text.len();
        (Name { keyspace, table }, span)
    }

    fn order_by(&mut self) -> (Vec<OrderBy>, Option<Range<usize>>) {
        if self.random.often() {
            return (Vec::new(), None);
        }
        let start = self.put_all("order by").start;
        let mut order = Vec::new();
        loop {
            let column = self.name();
            let descending = self.random.often();
            if descending {
                self.put("desc");
            } else if self.random.often() {
                self.put("asc");
            }
            order.push(OrderBy { column, descending });
            if self.random.often() {
                return (order, Some(start..self.text.len()));
            }
            self.put(",");
        }
    }

    fn limit(&mut self, words: &str) -> Option<Term> {
        if self.random.often() {
            return None;
        }
        self.put_all(words);
        if self.random.often() {
            return Some(self.marker());
        }
        let start = self.put("12");
        Some(Term {
            span: start..self.text.len(),
            kind: TermKind::Literal(Literal::Integer("12".into())),
        })
    }

    fn statement(&mut self) -> Select {
        self.put("select");
        let json = self.random.below(4) == 0;
        if json {
            self.put("json");
        }
        let distinct = self.random.below(4) == 0;
        if distinct {
            self.put("distinct");
        }
        let (selection, selection_span) = self.selection();
        self.put("from");
        let (table, table_span) = self.table();
        let mut relations = Vec::new();
        for number in 0..self.random.below(4) {
            self.put(if number == 0 { "where" } else { "and" });
            relations.push(self.relation());
        }
        let group_by = self.random.below(4) == 0;
        if group_by {
            self.put_all("group by a , f ( b )");
        }
        let (order_by, order_by_span) = self.order_by();
        let per_partition_limit = self.limit("per partition limit");
        let limit = self.limit("limit");
        let allow_filtering = self.random.often();
        if allow_filtering {
            self.put_all("allow filtering");
        }
        if self.random.often() {
            self.put(";");
        }
        self.text.push('\n');
        Select {
            json,
            distinct,
            selection,
            selection_span,
            table,
            table_span,
            relations,
            group_by,
            order_by,
            order_by_span,
            per_partition_limit,
            limit,
            allow_filtering,
            markers: Vec::new(),
        }
    }
}

/// How much of a text, which begins with one of our blanks or none, is blank.
fn skipped(text: &str) -> usize {
    let blank = BLANKS.iter().filter(|blank| text.starts_with(**blank));
    blank.map(|blank| blank.len()).max().unwrap_or(0)
}
