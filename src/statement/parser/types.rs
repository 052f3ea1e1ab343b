//! Types in type hints and casts. It only matters whether there is one.

use super::tokens::Kind;
use super::{Parser, words};

/// The kind of a type, as far as it matters for `frozen` and for quoted class names.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Type {
    Native,
    /// A class by its name. A class that Cassandra does not know is an error, and only Cassandra can tell.
    Class,
    Other,
}

impl Parser<'_> {
    /// `(type)`. Takes nothing if it is something else.
    pub(super) fn type_in_brackets(&mut self) -> Option<Type> {
        self.attempt(|parser| {
            parser.expect("(")?;
            let found = parser.any_type()?;
            parser.expect(")")?;
            Some(found)
        })
    }

    pub(super) fn native_type(&mut self) -> Option<()> {
        let native = self.kind() == Some(Kind::Word) && words::is_native_type(self.source_at(0));
        (native && self.take().is_some()).then_some(())
    }

    fn any_type(&mut self) -> Option<Type> {
        if self.native_type().is_some() {
            return Some(Type::Native);
        }
        if self.kind() == Some(Kind::Text) {
            self.take()?;
            return Some(Type::Class);
        }
        if self.is_symbol_at(1, "<") {
            return self.deeper(Self::type_of_types);
        }
        if self.is_symbol_at(1, ".") {
            self.name()?;
            self.expect(".")?;
        }
        self.user_type()?;
        Some(Type::Other)
    }

    fn user_type(&mut self) -> Option<()> {
        let fits = match self.kind()? {
            Kind::Word => words::is_user_type(self.source_at(0)),
            kind => kind == Kind::QuotedName,
        };
        (fits && self.take().is_some()).then_some(())
    }

    fn type_of_types(&mut self) -> Option<Type> {
        let parameters = if self.word("map") {
            Some(2)
        } else if self.word("list") || self.word("set") {
            Some(1)
        } else if self.word("tuple") {
            None
        } else if self.word("frozen") {
            return self.frozen();
        } else if self.word("vector") {
            return self.vector();
        } else {
            return None;
        };
        self.expect("<")?;
        let types = self.list(Self::any_type)?;
        self.expect(">")?;
        let fits = parameters.is_none_or(|count| count == types.len());
        fits.then(|| outcome(&types))
    }

    /// A native type cannot be frozen: Cassandra treats that as a syntax error.
    fn frozen(&mut self) -> Option<Type> {
        self.expect("<")?;
        let inner = self.any_type()?;
        self.expect(">")?;
        Some(match inner {
            Type::Native => Type::Class,
            other => other,
        })
    }

    fn vector(&mut self) -> Option<Type> {
        self.expect("<")?;
        let inner = self.any_type()?;
        self.expect(",")?;
        // Cassandra might not accept a number of more than nine digits.
        let fits = self.kind() == Some(Kind::Integer) && self.source_at(0).len() <= 9;
        (fits && self.take().is_some()).then_some(())?;
        self.expect(">")?;
        Some(outcome(&[inner]))
    }
}

fn outcome(inner: &[Type]) -> Type {
    if inner.contains(&Type::Class) {
        Type::Class
    } else {
        Type::Other
    }
}
