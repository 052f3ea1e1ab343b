//! Cuts a text into exactly the tokens of Cassandra's grammar, or fails.
//!
//! `statement::lexer` is lenient, for texts that are only inspected. A text that is parsed must be cut as Cassandra
//! cuts it: `-5` is one token everywhere, `<=` is one and `< =` are two, and a comment ends with its line.

use std::ops::Range;

use crate::statement::lexer;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A name or keyword without quotes.
    Word,
    QuotedName,
    /// `""`, which is a column's name in some places and invalid elsewhere.
    EmptyName,
    Text,
    Integer,
    /// Includes `-NaN` and `-Infinity`; without their sign these two are words.
    Float,
    Duration,
    Uuid,
    Blob,
    /// Punctuation, `?`, and `expr(`, which is one token.
    Symbol(&'static str),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) span: Range<usize>,
}

/// Every symbol is listed before its prefixes.
const SYMBOLS: [&str; 26] = [
    "..", "<=", ">=", "!=", "+=", "-=", "(", ")", "[", "]", "{", "}", ",", ";", ".", "=", "<", ">",
    "+", "-", "*", "/", "%", "?", ":", "expr(",
];

/// Only a malicious text has more tokens. A token takes many times the memory of a bracket in the text.
const TOKENS_MAX: usize = 1 << 20;

/// All tokens of a text. `None`: Cassandra refuses it, or might cut it differently, or there are too many.
pub(super) fn tokens(text: &str) -> Option<Vec<Token>> {
    let mut tokens = Vec::new();
    let mut at = blank(text)?;
    while at < text.len() {
        if tokens.len() >= TOKENS_MAX {
            return None;
        }
        let rest = &text[at..];
        let (kind, length) = token(rest)?;
        tokens.push(Token {
            kind,
            span: at..at + length,
        });
        at += length;
        at += blank(&text[at..])?;
    }
    Some(tokens)
}

/// Length of the white space and comments at the start. `None`: a comment has no end.
fn blank(text: &str) -> Option<usize> {
    let mut at = 0;
    loop {
        let rest = text[at..].trim_start_matches([' ', '\t', '\n', '\r']);
        at = text.len() - rest.len();
        if rest.starts_with("--") || rest.starts_with("//") {
            at += rest.find(['\n', '\r'])? + 1;
        } else if let Some(comment) = rest.strip_prefix("/*") {
            at += comment.find("*/")? + 4;
        } else {
            return Some(at);
        }
    }
}

/// The token at the start of a non-empty text.
fn token(rest: &str) -> Option<(Kind, usize)> {
    let unsigned = rest.strip_prefix('-').unwrap_or(rest);
    let sign = rest.len() - unsigned.len();
    match unsigned.as_bytes().first()? {
        b'0'..=b'9' => number(unsigned, sign),
        b'P' if iso_duration(unsigned).is_some() => {
            iso_duration(unsigned).map(|length| (Kind::Duration, sign + length))
        }
        b'n' | b'N' | b'i' | b'I' if sign > 0 => negative_word(unsigned),
        b'P' if sign > 0 => None,
        _ => quoted_word_or_symbol(rest),
    }
}

/// `-NaN` and `-Infinity` are tokens. After a minus, Cassandra refuses any other word with their first letters, or with
/// `P`: it refuses `a -i`.
fn negative_word(unsigned: &str) -> Option<(Kind, usize)> {
    let begins = |word: &&str| {
        let start = unsigned.get(..word.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(word))
    };
    let word = ["nan", "infinity"].into_iter().find(begins)?;
    Some((Kind::Float, 1 + word.len()))
}

fn quoted_word_or_symbol(rest: &str) -> Option<(Kind, usize)> {
    match rest.as_bytes().first()? {
        b'\'' => complete(lexer::quoted(rest, '\'', lexer::Kind::String), Kind::Text),
        b'"' if rest.starts_with("\"\"") && !rest.starts_with("\"\"\"") => {
            Some((Kind::EmptyName, 2))
        }
        b'"' => complete(
            lexer::quoted(rest, '"', lexer::Kind::QuotedName),
            Kind::QuotedName,
        ),
        b'$' => {
            let content = rest.strip_prefix("$$")?;
            Some((Kind::Text, content.find("$$")? + 4))
        }
        b'A'..=b'Z' | b'a'..=b'z' if !rest.starts_with("expr(") => Some(uuid_or_word(rest)),
        _ => {
            let symbol = SYMBOLS
                .into_iter()
                .find(|symbol| rest.starts_with(symbol))?;
            Some((Kind::Symbol(symbol), symbol.len()))
        }
    }
}

fn complete((kind, length): (lexer::Kind, usize), as_kind: Kind) -> Option<(Kind, usize)> {
    (kind != lexer::Kind::Unknown).then_some((as_kind, length))
}

fn uuid_or_word(rest: &str) -> (Kind, usize) {
    match lexer::uuid(rest) {
        Some(length) => (Kind::Uuid, length),
        None => (Kind::Word, lexer::word_length(rest)),
    }
}

/// A token that begins with a digit, after `sign` bytes of a sign. It is refused if letters that belong to no number
/// follow directly, however Cassandra might cut them.
fn number(rest: &str, sign: usize) -> Option<(Kind, usize)> {
    if sign == 0 {
        if let Some(length) = lexer::uuid(rest) {
            return alone(rest, Kind::Uuid, length, 0);
        }
        if rest.starts_with("0x") || rest.starts_with("0X") {
            let length = 2 + lexer::run(&rest[2..], u8::is_ascii_hexdigit);
            return alone(rest, Kind::Blob, length, 0);
        }
    }
    if let Some(length) = lexer::duration(rest) {
        return alone(rest, Kind::Duration, length, sign);
    }
    let digits = lexer::run(rest, u8::is_ascii_digit);
    let (kind, length) = fraction(rest, digits);
    alone(rest, kind, length, sign)
}

/// An integer with this many digits, or a number with a fraction or an exponent. `1..2` is a range of integers; in
/// `1...2` the range begins with `1.`.
fn fraction(rest: &str, digits: usize) -> (Kind, usize) {
    let behind = &rest[digits..];
    let (mut kind, mut at) = (Kind::Integer, digits);
    if behind.starts_with("...") {
        return (Kind::Float, digits + 1);
    }
    if behind.starts_with('.') && !behind.starts_with("..") {
        kind = Kind::Float;
        at += 1 + lexer::run(&behind[1..], u8::is_ascii_digit);
    }
    if rest[at..].starts_with(['e', 'E']) {
        let signed = usize::from(rest[at + 1..].starts_with(['+', '-']));
        let exponent = lexer::run(&rest[at + 1 + signed..], u8::is_ascii_digit);
        if exponent > 0 {
            return (Kind::Float, at + 1 + signed + exponent);
        }
    }
    (kind, at)
}

fn alone(rest: &str, kind: Kind, length: usize, sign: usize) -> Option<(Kind, usize)> {
    let touches = |c: char| c.is_ascii_alphanumeric() || c == '_' || !c.is_ascii();
    (!rest[length..].starts_with(touches)).then_some((kind, sign + length))
}

/// `P1Y2M3DT4H5M6S`, `P3W`, `PT1S`, `P0001-02-03T04:05:06`. If it does not fill the word, the word is a name.
fn iso_duration(rest: &str) -> Option<usize> {
    if let Some(length) = alternative_duration(rest) {
        return Some(length);
    }
    let word = &rest[..lexer::word_length(rest)];
    let (date, time) = match word.strip_prefix('P')?.split_once('T') {
        Some((date, time)) => (date, Some(time)),
        None => (word.strip_prefix('P')?, None),
    };
    let fits = match time {
        None => units(date, "YMD") || units(date, "W"),
        Some(time) => units(time, "HMS") && (date.is_empty() || units(date, "YMD")),
    };
    fits.then_some(word.len())
}

/// Whether the text is one or more numbers, each followed by a unit, with the units in this order.
fn units(text: &str, order: &str) -> bool {
    let (mut rest, mut order) = (text, order);
    while !rest.is_empty() {
        let digits = lexer::run(rest, u8::is_ascii_digit);
        let Some(unit) = rest[digits..].chars().next() else {
            return false;
        };
        let Some(place) = order.find(unit) else {
            return false;
        };
        if digits == 0 {
            return false;
        }
        order = &order[place + 1..];
        rest = &rest[digits + unit.len_utf8()..];
    }
    !text.is_empty()
}

fn alternative_duration(rest: &str) -> Option<usize> {
    const FORM: &[u8] = b"P0000-00-00T00:00:00";
    let start = rest.as_bytes().get(..FORM.len())?;
    let fits = start.iter().zip(FORM).all(|(byte, form)| match form {
        b'0' => byte.is_ascii_digit(),
        form => byte == form,
    });
    fits.then_some(FORM.len())
}
