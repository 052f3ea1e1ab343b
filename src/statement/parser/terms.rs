//! Terms: constants, markers, tuples, and expressions that Cassandra computes.

use super::tokens::Kind;
use super::types::Type;
use super::{Parser, undoubled, words};
use crate::statement::term::{Literal, Term, TermKind, hex};

impl Parser<'_> {
    pub(super) fn term(&mut self) -> Option<Term> {
        self.deeper(Self::sum)
    }

    fn sum(&mut self) -> Option<Term> {
        let start = self.start();
        let mut term = self.product()?;
        while (self.is_symbol("+") || self.is_symbol("-")) && !self.is_plain_name_at(1) {
            self.take()?;
            self.product()?;
            term = self.computed(start);
        }
        Some(term)
    }

    fn product(&mut self) -> Option<Term> {
        let start = self.start();
        let mut term = self.signed()?;
        while self.symbol("*") || self.symbol("/") || self.symbol("%") {
            self.signed()?;
            term = self.computed(start);
        }
        Some(term)
    }

    fn signed(&mut self) -> Option<Term> {
        let start = self.start();
        if self.symbol("-") {
            self.simple()?;
            return Some(self.computed(start));
        }
        self.simple()
    }

    /// Whether there is a name that calls nothing: a column, as in `a = [1] + a`, never a term.
    pub(super) fn is_plain_name_at(&self, ahead: usize) -> bool {
        let calls = self.is_symbol_at(ahead + 1, "(") || self.is_symbol_at(ahead + 1, ".");
        self.is_name_at(ahead) && !calls
    }

    fn computed(&self, start: usize) -> Term {
        Term {
            span: self.span_from(start),
            kind: TermKind::Other,
        }
    }

    fn simple(&mut self) -> Option<Term> {
        let start = self.start();
        let kind = if let Some(literal) = self.literal() {
            TermKind::Literal(literal)
        } else if self.is_marker() {
            TermKind::Marker(self.marker()?)
        } else if self.is_symbol("(") {
            self.deeper(Self::tuple_or_hint)?
        } else {
            self.deeper(Self::collection_or_call)?;
            TermKind::Other
        };
        let span = self.span_from(start);
        Some(Term { span, kind })
    }

    /// `(type) term` or `(term, …)`. No term can follow the closing bracket of a tuple.
    fn tuple_or_hint(&mut self) -> Option<TermKind> {
        let place = self.place();
        match self.type_in_brackets() {
            Some(of) if self.begins_simple() => {
                if of == Type::Class {
                    return None;
                }
                self.simple()?;
                Some(TermKind::Other)
            }
            _ => {
                self.back_to(place);
                self.tuple().map(TermKind::Tuple)
            }
        }
    }

    /// `(term, …)`.
    pub(super) fn tuple(&mut self) -> Option<Vec<Term>> {
        self.expect("(")?;
        let terms = self.list(Self::term)?;
        self.expect(")")?;
        Some(terms)
    }

    fn begins_simple(&self) -> bool {
        match self.kind() {
            Some(Kind::Word) => {
                let word = self.source_at(0);
                let called = words::is_function(word) || word.eq_ignore_ascii_case("cast");
                word_literal(word).is_some()
                    || called && self.is_symbol_at(1, "(")
                    || words::is_name(word) && self.is_symbol_at(1, ".")
            }
            Some(Kind::Symbol(symbol)) => ["(", "[", "{", "?", ":"].contains(&symbol),
            Some(_) => true,
            None => false,
        }
    }

    fn collection_or_call(&mut self) -> Option<()> {
        if self.symbol("[") {
            if !self.is_symbol("]") {
                self.list(Self::term)?;
            }
            self.expect("]")
        } else if self.symbol("{") {
            self.set_or_map()?;
            self.expect("}")
        } else if self.is_word("cast") && self.is_symbol_at(1, "(") {
            self.take()?;
            self.expect("(")?;
            self.simple()?;
            self.expect_word("as")?;
            self.native_type()?;
            self.expect(")")
        } else {
            self.function()?;
            self.expect("(")?;
            if !self.is_symbol(")") {
                self.list(Self::term)?;
            }
            self.expect(")")
        }
    }

    /// The content of braces: a set, a map, or fields of a user-defined type.
    fn set_or_map(&mut self) -> Option<()> {
        if self.is_symbol("}") {
            return Some(());
        }
        let fields = self.is_name_at(0) && self.is_symbol_at(1, ":");
        if fields {
            return self.list(Self::field).map(drop);
        }
        self.term()?;
        let map = self.symbol(":");
        if map {
            self.term()?;
        }
        while self.symbol(",") {
            self.term()?;
            if map {
                self.expect(":")?;
                self.term()?;
            }
        }
        Some(())
    }

    fn field(&mut self) -> Option<()> {
        self.name()?;
        self.expect(":")?;
        self.term().map(drop)
    }

    /// The name of a function with its keyspace, if a bracket follows.
    pub(super) fn function(&mut self) -> Option<(Option<String>, String)> {
        let keyspace = if self.is_symbol_at(1, ".") {
            let keyspace = self.name()?;
            self.expect(".")?;
            Some(keyspace)
        } else {
            None
        };
        let is_function = match self.kind()? {
            Kind::Word => words::is_function(self.source_at(0)),
            kind => kind == Kind::QuotedName,
        };
        let name = is_function.then(|| self.any_name())??;
        self.is_symbol("(").then_some((keyspace, name))
    }

    /// A constant or null. Takes nothing if it is something else, or a blob with an odd number of digits.
    pub(super) fn literal(&mut self) -> Option<Literal> {
        let source = self.source_at(0);
        let literal = match self.kind()? {
            Kind::Integer => Literal::Integer(source.to_owned()),
            Kind::Float => Literal::Float(float(source)),
            Kind::Duration => Literal::Duration(source.to_owned()),
            Kind::Uuid => Literal::Uuid(hex(source)?.try_into().ok()?),
            Kind::Blob => Literal::Blob(hex(source.get(2..)?)?),
            Kind::Text => Literal::Text(match source.strip_prefix("$$") {
                Some(content) => content.strip_suffix("$$")?.to_owned(),
                None => undoubled(source, '\''),
            }),
            Kind::Word => word_literal(source)?,
            _ => return None,
        };
        self.take()?;
        Some(literal)
    }

    /// An integer or a marker, as in LIMIT and USING.
    pub(super) fn integer_or_marker(&mut self) -> Option<Term> {
        let start = self.start();
        let kind = if self.kind() == Some(Kind::Integer) {
            TermKind::Literal(self.literal()?)
        } else {
            TermKind::Marker(self.marker()?)
        };
        let span = self.span_from(start);
        Some(Term { span, kind })
    }
}

/// Case does not matter for `-NaN` and `-Infinity`, and Cassandra ignores the sign of the first.
fn float(source: &str) -> String {
    if source.eq_ignore_ascii_case("-nan") {
        "NaN".to_owned()
    } else if source.eq_ignore_ascii_case("-infinity") {
        "-Infinity".to_owned()
    } else {
        source.to_owned()
    }
}

fn word_literal(source: &str) -> Option<Literal> {
    let is = |word: &str| source.eq_ignore_ascii_case(word);
    if is("null") {
        Some(Literal::Null)
    } else if is("true") || is("false") {
        Some(Literal::Boolean(is("true")))
    } else if is("nan") {
        Some(Literal::Float("NaN".to_owned()))
    } else if is("infinity") {
        Some(Literal::Float("Infinity".to_owned()))
    } else {
        None
    }
}
