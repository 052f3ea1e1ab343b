//! The select list of a SELECT.

use super::Parser;
use super::tokens::Kind;
use super::types::Type;
use crate::statement::select::{Item, Selection, Selector};
use crate::statement::term::{Literal, Term, TermKind};

/// Functions of a column's cells; their argument is not an expression.
const OF_CELLS: [&str; 3] = ["writetime", "maxwritetime", "ttl"];

impl Parser<'_> {
    pub(super) fn selection(&mut self) -> Option<Selection> {
        if self.symbol("*") {
            return Some(Selection::All);
        }
        self.list(Self::item).map(Selection::Items)
    }

    fn item(&mut self) -> Option<Item> {
        let start = self.start();
        let selector = self.selector()?;
        let alias = if self.word("as") {
            Some(self.name()?)
        } else {
            None
        };
        let span = self.span_from(start);
        Some(Item {
            span,
            selector,
            alias,
        })
    }

    pub(super) fn selector(&mut self) -> Option<Selector> {
        self.deeper(Self::sum_of_selectors)
    }

    fn sum_of_selectors(&mut self) -> Option<Selector> {
        let first = self.product_of_selectors()?;
        let mut parts = vec![first];
        while self.symbol("+") || self.symbol("-") {
            parts.push(self.product_of_selectors()?);
        }
        composed(parts)
    }

    fn product_of_selectors(&mut self) -> Option<Selector> {
        let first = self.signed_selector()?;
        let mut parts = vec![first];
        while self.symbol("*") || self.symbol("/") || self.symbol("%") {
            parts.push(self.signed_selector()?);
        }
        composed(parts)
    }

    fn signed_selector(&mut self) -> Option<Selector> {
        if self.symbol("-") {
            let negated = self.deeper(Self::signed_selector)?;
            return Some(Selector::Composed(vec![negated]));
        }
        let whole = self.simple_selector()?;
        self.parts_of(whole)
    }

    /// Fields, elements and slices of `whole`, if any follow.
    fn parts_of(&mut self, whole: Selector) -> Option<Selector> {
        let mut found = false;
        loop {
            if self.symbol(".") {
                self.name()?;
            } else if self.symbol("[") {
                self.element_or_slice()?;
                self.expect("]")?;
            } else {
                break;
            }
            found = true;
        }
        Some(if found {
            Selector::Part(Box::new(whole))
        } else {
            whole
        })
    }

    /// `k`, `k..`, `k..l` or `..l`.
    fn element_or_slice(&mut self) -> Option<()> {
        if self.symbol("..") {
            return self.term().map(drop);
        }
        self.term()?;
        if self.symbol("..") && !self.is_symbol("]") {
            self.term()?;
        }
        Some(())
    }

    fn simple_selector(&mut self) -> Option<Selector> {
        let start = self.start();
        if let Some(literal) = self.literal() {
            let kind = TermKind::Literal(literal);
            let span = self.span_from(start);
            return Some(Selector::Term(Term { span, kind }));
        }
        match self.kind()? {
            Kind::Symbol("?" | ":") => {
                let kind = TermKind::Marker(self.marker()?);
                let span = self.span_from(start);
                Some(Selector::Term(Term { span, kind }))
            }
            Kind::Symbol("(") => self.deeper(Self::hint_or_brackets),
            Kind::Symbol("[") => self.deeper(Self::list_of_selectors),
            Kind::Symbol("{") => self.deeper(Self::set_or_map_of_selectors),
            Kind::Word | Kind::QuotedName => self.deeper(Self::call_or_column),
            _ => None,
        }
    }

    fn list_of_selectors(&mut self) -> Option<Selector> {
        self.expect("[")?;
        let parts = if self.is_symbol("]") {
            Vec::new()
        } else {
            self.list(Self::selector)?
        };
        self.expect("]")?;
        Some(Selector::Composed(parts))
    }

    fn set_or_map_of_selectors(&mut self) -> Option<Selector> {
        self.expect("{")?;
        if self.symbol("}") {
            return Some(Selector::Composed(Vec::new()));
        }
        let mut parts = vec![self.selector()?];
        let map = self.symbol(":");
        if map {
            parts.push(self.selector()?);
        }
        while self.symbol(",") {
            parts.push(self.selector()?);
            if map {
                self.expect(":")?;
                parts.push(self.selector()?);
            }
        }
        self.expect("}")?;
        Some(Selector::Composed(parts))
    }

    /// `(type) selector` if it can be parsed that way, else selectors in brackets.
    fn hint_or_brackets(&mut self) -> Option<Selector> {
        let mut of_class = false;
        let hinted = self.attempt(|parser| {
            let of = parser.type_in_brackets()?;
            // `as` introduces an alias here; it is not a column of that name.
            if parser.is_word("as") && parser.is_name_at(1) {
                return None;
            }
            let hinted = parser.simple_selector()?;
            of_class = of == Type::Class;
            Some(Selector::Composed(vec![hinted]))
        });
        if of_class {
            return None;
        }
        if hinted.is_some() {
            return hinted;
        }
        self.expect("(")?;
        let parts = self.list(Self::selector)?;
        self.expect(")")?;
        Some(Selector::Composed(parts))
    }

    fn call_or_column(&mut self) -> Option<Selector> {
        let called = self.is_symbol_at(1, "(");
        let qualified = self.is_symbol_at(1, ".") && self.is_symbol_at(3, "(");
        if !called && !qualified {
            return self.name().map(Selector::Column);
        }
        if called && self.is_word("cast") {
            return self.cast();
        }
        if called && OF_CELLS.iter().any(|word| self.is_word(word)) {
            return self.call_of_cells();
        }
        // Only the unquoted word counts rows: `"count"(*)` is refused.
        let counts = called && self.is_word("count");
        let (keyspace, name) = self.function()?;
        self.expect("(")?;
        if counts && self.symbol("*") {
            self.expect(")")?;
            return Some(Selector::CountRows);
        }
        let arguments = if self.is_symbol(")") {
            Vec::new()
        } else {
            self.list(Self::selector)?
        };
        self.expect(")")?;
        let rows = keyspace.is_none() && name == "count" && is_one(&arguments);
        Some(if rows {
            Selector::CountRows
        } else {
            Selector::Call {
                keyspace,
                name,
                arguments,
            }
        })
    }

    /// `CAST(selector AS type)`.
    fn cast(&mut self) -> Option<Selector> {
        self.expect_word("cast")?;
        self.expect("(")?;
        let inner = self.selector()?;
        self.expect_word("as")?;
        self.native_type()?;
        self.expect(")")?;
        Some(Selector::Cast(Box::new(inner)))
    }

    /// `ttl(column)`; since 5.0 also of a part of a column.
    fn call_of_cells(&mut self) -> Option<Selector> {
        let name = self.name()?;
        self.expect("(")?;
        let column = self.name()?;
        let argument = self.parts_of(Selector::Column(column))?;
        self.expect(")")?;
        Some(Selector::Call {
            keyspace: None,
            name,
            arguments: vec![argument],
        })
    }
}

fn composed(mut parts: Vec<Selector>) -> Option<Selector> {
    if parts.len() > 1 {
        return Some(Selector::Composed(parts));
    }
    parts.pop()
}

fn is_one(arguments: &[Selector]) -> bool {
    let [Selector::Term(term)] = arguments else {
        return false;
    };
    matches!(&term.kind, TermKind::Literal(Literal::Integer(number)) if number == "1")
}
