//! A recursive-descent parser of SELECT, INSERT, UPDATE, DELETE and BATCH. Pure.
//!
//! It follows the grammar of Cassandra 4.1 and 5.0: whatever it accepts, at least one of them accepts. What it does not
//! accept may still be CQL. Nesting and work are bounded, so that the cost of a text is proportional to its length.

mod relations;
mod select;
mod selectors;
mod terms;
mod tokens;
mod types;
mod words;
mod write;

use std::ops::Range;

use super::term::Marker;
use super::touches::Name;
use tokens::{Kind, Token, tokens};

/// Maximum nesting of brackets and signs.
const DEPTH_MAX: usize = 64;
/// Maximum average number of times that the parser, which backtracks, takes a token. Only a malicious text needs more.
const LOOKS_PER_TOKEN: usize = 32;

pub(super) struct Parser<'a> {
    text: &'a str,
    tokens: Vec<Token>,
    at: usize,
    markers: Vec<Marker>,
    depth: usize,
    /// Number of tokens that may still be taken.
    left: usize,
}

/// A position to which the parser can return.
#[derive(Clone, Copy)]
struct Place {
    at: usize,
    markers: usize,
    depth: usize,
}

impl<'a> Parser<'a> {
    pub(super) fn new(text: &'a str) -> Option<Self> {
        let tokens = tokens(text)?;
        Some(Self {
            text,
            at: 0,
            markers: Vec::new(),
            depth: 0,
            left: tokens.len().saturating_mul(LOOKS_PER_TOKEN),
            tokens,
        })
    }

    fn place(&self) -> Place {
        Place {
            at: self.at,
            markers: self.markers.len(),
            depth: self.depth,
        }
    }

    fn back_to(&mut self, place: Place) {
        self.at = place.at;
        self.markers.truncate(place.markers);
        self.depth = place.depth;
    }

    fn kind_at(&self, ahead: usize) -> Option<Kind> {
        self.tokens.get(self.at + ahead).map(|token| token.kind)
    }

    fn kind(&self) -> Option<Kind> {
        self.kind_at(0)
    }

    fn source_at(&self, ahead: usize) -> &'a str {
        let token = self.tokens.get(self.at + ahead);
        token.map_or("", |token| &self.text[token.span.clone()])
    }

    fn take(&mut self) -> Option<Token> {
        self.left = self.left.checked_sub(1)?;
        let token = self.tokens.get(self.at)?.clone();
        self.at += 1;
        Some(token)
    }

    /// Where the next token begins.
    fn start(&self) -> usize {
        let token = self.tokens.get(self.at);
        token.map_or(self.text.len(), |token| token.span.start)
    }

    /// The span from `start` to the end of the last token that was taken.
    fn span_from(&self, start: usize) -> Range<usize> {
        let last = self.at.checked_sub(1).and_then(|at| self.tokens.get(at));
        start..last.map_or(start, |token| token.span.end.max(start))
    }

    fn is_symbol(&self, symbol: &str) -> bool {
        matches!(self.kind(), Some(Kind::Symbol(found)) if found == symbol)
    }

    fn is_symbol_at(&self, ahead: usize, symbol: &str) -> bool {
        matches!(self.kind_at(ahead), Some(Kind::Symbol(found)) if found == symbol)
    }

    fn is_word_at(&self, ahead: usize, word: &str) -> bool {
        self.kind_at(ahead) == Some(Kind::Word) && self.source_at(ahead).eq_ignore_ascii_case(word)
    }

    fn is_word(&self, word: &str) -> bool {
        self.is_word_at(0, word)
    }

    /// Takes the symbol if it is next.
    fn symbol(&mut self, symbol: &str) -> bool {
        self.is_symbol(symbol) && self.take().is_some()
    }

    /// Takes the word if it is next.
    fn word(&mut self, word: &str) -> bool {
        self.is_word(word) && self.take().is_some()
    }

    /// Takes the words if all of them are next.
    fn words(&mut self, words: &[&str]) -> bool {
        let mut ahead = words.iter().enumerate();
        ahead.all(|(ahead, word)| self.is_word_at(ahead, word))
            && words.iter().all(|word| self.word(word))
    }

    fn expect(&mut self, symbol: &str) -> Option<()> {
        self.symbol(symbol).then_some(())
    }

    fn expect_word(&mut self, word: &str) -> Option<()> {
        self.word(word).then_some(())
    }

    /// Runs `parse` one level of nesting deeper.
    fn deeper<T>(&mut self, parse: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        if self.depth >= DEPTH_MAX {
            return None;
        }
        self.depth += 1;
        let parsed = parse(self);
        self.depth = self.depth.saturating_sub(1);
        parsed
    }

    /// One or more items, separated by commas.
    fn list<T>(&mut self, mut parse: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let mut list = vec![parse(self)?];
        while self.symbol(",") {
            list.push(parse(self)?);
        }
        Some(list)
    }

    /// Runs `parse`; if that returns `None`, no token is taken.
    fn attempt<T>(&mut self, parse: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        let place = self.place();
        let parsed = parse(self);
        if parsed.is_none() {
            self.back_to(place);
        }
        parsed
    }

    fn is_name_at(&self, ahead: usize) -> bool {
        match self.kind_at(ahead) {
            Some(Kind::Word) => words::is_name(self.source_at(ahead)),
            kind => kind == Some(Kind::QuotedName),
        }
    }

    /// A name of anything but a function.
    fn name(&mut self) -> Option<String> {
        if !self.is_name_at(0) {
            return None;
        }
        self.any_name()
    }

    /// A word or a quoted name, folded, reserved or not.
    fn any_name(&mut self) -> Option<String> {
        let token = self.take()?;
        let source = &self.text[token.span];
        match token.kind {
            Kind::Word => Some(source.to_ascii_lowercase()),
            Kind::QuotedName => Some(undoubled(source, '"')),
            _ => None,
        }
    }

    /// A column's name, which may be empty outside of a select list.
    fn column(&mut self) -> Option<String> {
        if self.kind() == Some(Kind::EmptyName) {
            self.take()?;
            return Some(String::new());
        }
        self.name()
    }

    /// `table` or `keyspace.table`.
    fn table(&mut self) -> Option<Name> {
        let first = self.name()?;
        Some(if self.symbol(".") {
            Name {
                keyspace: Some(first),
                table: self.name()?,
            }
        } else {
            Name {
                keyspace: None,
                table: first,
            }
        })
    }

    fn is_marker(&self) -> bool {
        self.is_symbol("?") || self.is_symbol(":")
    }

    /// Takes `?` or `:name`; returns its index.
    fn marker(&mut self) -> Option<usize> {
        let start = self.start();
        let name = if self.symbol("?") {
            None
        } else {
            self.expect(":")?;
            Some(self.name()?)
        };
        let span = self.span_from(start);
        self.markers.push(Marker { span, name });
        Some(self.markers.len() - 1)
    }

    /// Any number of semicolons, then the end of the text.
    fn end(&mut self) -> Option<()> {
        while self.symbol(";") {}
        self.kind().is_none().then_some(())
    }
}

/// Removes the quotes around a token; a doubled quote inside stands for one.
fn undoubled(source: &str, quote: char) -> String {
    let mut quote_bytes = [0; 4];
    let one = &*quote.encode_utf8(&mut quote_bytes);
    let inner = source.strip_prefix(quote).unwrap_or(source);
    let inner = inner.strip_suffix(quote).unwrap_or(inner);
    inner.replace(&one.repeat(2), one)
}
