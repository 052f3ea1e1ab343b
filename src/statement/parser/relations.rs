//! The relations of a WHERE clause.

use super::Parser;
use super::tokens::Kind;
use crate::statement::select::{Columns, InValues, Operator, Relation, RelationKind};
use crate::statement::term::{Term, TermKind};

impl Parser<'_> {
    pub(super) fn relations(&mut self) -> Option<Vec<Relation>> {
        let mut relations = vec![self.relation()?];
        while self.word("and") {
            relations.push(self.relation()?);
        }
        Some(relations)
    }

    fn relation(&mut self) -> Option<Relation> {
        let start = self.start();
        let kind = if self.symbol("expr(") {
            self.name()?;
            self.expect(",")?;
            self.term()?;
            self.expect(")")?;
            RelationKind::Other
        } else {
            self.relation_kind()?
        };
        let span = self.span_from(start);
        Some(Relation { span, kind })
    }

    fn relation_kind(&mut self) -> Option<RelationKind> {
        if self.word("token") {
            self.columns_in_brackets()?;
            self.comparison()?;
            self.term()?;
            return Some(RelationKind::Other);
        }
        if !self.is_symbol("(") {
            return self.relation_of_one();
        }
        match self.attempt(Self::columns_in_brackets) {
            Some(columns) => self.relation_of_tuple(columns),
            // A whole relation may be in brackets.
            None => self.deeper(|parser| {
                parser.expect("(")?;
                let kind = parser.relation_kind()?;
                parser.expect(")")?;
                Some(kind)
            }),
        }
    }

    fn columns_in_brackets(&mut self) -> Option<Vec<String>> {
        self.expect("(")?;
        let columns = self.list(Self::column)?;
        self.expect(")")?;
        Some(columns)
    }

    fn relation_of_one(&mut self) -> Option<RelationKind> {
        let column = self.column()?;
        if self.word("in") {
            let values = self.in_values()?;
            let columns = Columns::One(column);
            return Some(RelationKind::In { columns, values });
        }
        if self.words(&["is", "not", "null"]) {
            return Some(RelationKind::Other);
        }
        let unusual = if self.word("contains") {
            self.word("key");
            true
        } else if self.symbol("[") {
            self.term()?;
            self.expect("]")?;
            self.comparison()?;
            true
        } else {
            self.word("like")
        };
        if unusual {
            self.term()?;
            return Some(RelationKind::Other);
        }
        let operator = self.comparison()?;
        let term = self.term()?;
        Some(compared(Columns::One(column), operator, term))
    }

    fn relation_of_tuple(&mut self, columns: Vec<String>) -> Option<RelationKind> {
        let columns = Columns::Tuple(columns);
        if self.word("in") {
            let values = self.in_values_of_tuple()?;
            return Some(RelationKind::In { columns, values });
        }
        let operator = self.comparison()?;
        let term = self.tuple_or_marker()?;
        Some(compared(columns, operator, term))
    }

    /// A comparison. The inner `None` is `!=`.
    pub(super) fn comparison(&mut self) -> Option<Option<Operator>> {
        let Kind::Symbol(symbol) = self.kind()? else {
            return None;
        };
        let operator = match symbol {
            "=" => Some(Operator::Equal),
            "<" => Some(Operator::Less),
            "<=" => Some(Operator::LessOrEqual),
            ">" => Some(Operator::Greater),
            ">=" => Some(Operator::GreaterOrEqual),
            "!=" => None,
            _ => return None,
        };
        self.take()?;
        Some(operator)
    }

    /// `?` or `(a, …)`, which may be empty.
    pub(super) fn in_values(&mut self) -> Option<InValues> {
        if self.is_marker() {
            return self.marker().map(InValues::Marker);
        }
        self.expect("(")?;
        if self.symbol(")") {
            return Some(InValues::List(Vec::new()));
        }
        let terms = self.list(Self::term)?;
        self.expect(")")?;
        Some(InValues::List(terms))
    }

    /// `?`, `()`, `((1, 2), …)` or `(?, …)`; markers and tuples are never mixed.
    fn in_values_of_tuple(&mut self) -> Option<InValues> {
        if self.is_marker() {
            return self.marker().map(InValues::Marker);
        }
        self.expect("(")?;
        if self.symbol(")") {
            return Some(InValues::List(Vec::new()));
        }
        let tuples = self.is_symbol("(");
        let terms = self.list(|parser| {
            let same = parser.is_symbol("(") == tuples;
            same.then(|| parser.tuple_or_marker()).flatten()
        })?;
        self.expect(")")?;
        Some(InValues::List(terms))
    }

    fn tuple_or_marker(&mut self) -> Option<Term> {
        let start = self.start();
        let kind = if self.is_marker() {
            TermKind::Marker(self.marker()?)
        } else {
            TermKind::Tuple(self.tuple()?)
        };
        let span = self.span_from(start);
        Some(Term { span, kind })
    }
}

fn compared(columns: Columns, operator: Option<Operator>, term: Term) -> RelationKind {
    match operator {
        Some(operator) => RelationKind::Compare {
            columns,
            operator,
            term,
        },
        None => RelationKind::Other,
    }
}
