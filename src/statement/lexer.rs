//! Cuts a CQL text into tokens with their spans. Comments and white space are dropped; the text is not normalised.

use std::ops::Range;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A name or keyword without quotes; CQL folds its case.
    Word,
    /// `"a name"`, case kept, `""` for a quote.
    QuotedName,
    /// `'text'` with `''` for a quote, or `$$text$$`.
    String,
    /// Numbers, UUIDs, blobs, durations: anything that begins with a digit.
    Number,
    /// `?` or `:name`.
    Marker,
    /// One character of punctuation.
    Symbol(char),
    /// Not CQL: an unterminated string or comment, a stray character.
    Unknown,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    pub kind: Kind,
    pub span: Range<usize>,
}

impl Token {
    /// The name that this token means, folded as Cassandra folds it. `None`: not a name.
    pub fn name(&self, text: &str) -> Option<String> {
        let source = &text[self.span.clone()];
        match self.kind {
            Kind::Word => Some(source.to_ascii_lowercase()),
            Kind::QuotedName => Some(source[1..source.len() - 1].replace("\"\"", "\"")),
            _ => None,
        }
    }

    pub fn is_word(&self, text: &str, word: &str) -> bool {
        self.kind == Kind::Word && text[self.span.clone()].eq_ignore_ascii_case(word)
    }

    pub fn is_symbol(&self, symbol: char) -> bool {
        self.kind == Kind::Symbol(symbol)
    }
}

/// An iterator over the tokens of a text.
#[derive(Debug, Clone)]
pub struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Lexer<'a> {
    pub fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// Skips white space and comments. `false`: a comment is not closed.
    fn skip_blank(&mut self) -> bool {
        loop {
            let rest = self.rest();
            let trimmed = rest.trim_start();
            self.at += rest.len() - trimmed.len();
            if trimmed.starts_with("--") || trimmed.starts_with("//") {
                self.at += trimmed.find(['\n', '\r']).unwrap_or(trimmed.len());
            } else if let Some(comment) = trimmed.strip_prefix("/*") {
                match comment.find("*/") {
                    Some(end) => self.at += end + 4,
                    None => return false,
                }
            } else {
                return true;
            }
        }
    }

    /// Length of the token at the start of `rest`, with its kind.
    fn measure(rest: &str, first: char) -> (Kind, usize) {
        match first {
            '\'' => quoted(rest, '\'', Kind::String),
            '"' => quoted(rest, '"', Kind::QuotedName),
            '$' if rest.starts_with("$$") => match rest[2..].find("$$") {
                Some(end) => (Kind::String, end + 4),
                None => (Kind::Unknown, rest.len()),
            },
            '?' => (Kind::Marker, 1),
            ':' => marker(rest),
            c if c.is_ascii_digit() => (Kind::Number, number(rest)),
            c if c.is_ascii_alphabetic() => uuid_or_word(rest),
            '(' | ')' | '[' | ']' | '{' | '}' | ',' | ';' | '.' | '=' | '<' | '>' | '!' | '+'
            | '-' | '*' | '/' | '%' => (Kind::Symbol(first), 1),
            other => (Kind::Unknown, other.len_utf8()),
        }
    }
}

impl Iterator for Lexer<'_> {
    type Item = Token;

    fn next(&mut self) -> Option<Token> {
        if !self.skip_blank() {
            let span = self.at..self.text.len();
            self.at = self.text.len();
            return Some(Token {
                kind: Kind::Unknown,
                span,
            });
        }
        let first = self.rest().chars().next()?;
        let (kind, length) = Self::measure(self.rest(), first);
        let span = self.at..self.at + length;
        self.at = span.end;
        Some(Token { kind, span })
    }
}

pub(super) fn word_length(rest: &str) -> usize {
    rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .unwrap_or(rest.len())
}

/// The length of a quoted token, in which a doubled quote stands for one.
pub(super) fn quoted(rest: &str, quote: char, kind: Kind) -> (Kind, usize) {
    let mut at = 1;
    while let Some(end) = rest[at..].find(quote) {
        at += end + 1;
        if !rest[at..].starts_with(quote) {
            return (kind, at);
        }
        at += 1;
    }
    (Kind::Unknown, rest.len())
}

fn marker(rest: &str) -> (Kind, usize) {
    let name = &rest[1..];
    match name.chars().next() {
        Some('"') => match quoted(name, '"', Kind::Marker) {
            (Kind::Marker, length) => (Kind::Marker, length + 1),
            _ => (Kind::Unknown, rest.len()),
        },
        Some(c) if c.is_ascii_alphabetic() => (Kind::Marker, 1 + word_length(name)),
        // In a map literal, `{1: 2}`.
        _ => (Kind::Symbol(':'), 1),
    }
}

/// Numbers with fraction and exponent, blobs, durations and UUIDs. Letters that belong to none of these begin the next
/// token, as in `1FROM`.
fn number(rest: &str) -> usize {
    if let Some(length) = uuid(rest) {
        return length;
    }
    if rest.starts_with("0x") || rest.starts_with("0X") {
        return 2 + run(&rest[2..], u8::is_ascii_hexdigit);
    }
    let mut at = run(rest, u8::is_ascii_digit);
    if let Some(length) = duration(rest) {
        return length;
    }
    if rest[at..].starts_with('.') {
        let fraction = run(&rest[at + 1..], u8::is_ascii_digit);
        at += if fraction > 0 { 1 + fraction } else { 0 };
    }
    if rest[at..].starts_with(['e', 'E']) {
        let signed = usize::from(rest[at + 1..].starts_with(['+', '-']));
        let exponent = run(&rest[at + 1 + signed..], u8::is_ascii_digit);
        at += if exponent > 0 {
            1 + signed + exponent
        } else {
            0
        };
    }
    at
}

/// Number of leading bytes that fit.
pub(super) fn run(text: &str, fits: impl Fn(&u8) -> bool) -> usize {
    text.bytes().take_while(|byte| fits(byte)).count()
}

/// `1y2mo3d4h`: digits and units, to the end of the word.
pub(super) fn duration(rest: &str) -> Option<usize> {
    const UNITS: [&str; 11] = ["y", "mo", "w", "d", "h", "m", "s", "ms", "us", "µs", "ns"];
    let mut at = 0;
    loop {
        let digits = run(&rest[at..], u8::is_ascii_digit);
        let unit = rest[at + digits..].find(|c: char| !c.is_alphabetic());
        let unit = unit.unwrap_or(rest.len() - at - digits);
        let name = &rest[at + digits..at + digits + unit];
        if digits == 0 || !UNITS.iter().any(|known| known.eq_ignore_ascii_case(name)) {
            return None;
        }
        at += digits + unit;
        if !rest[at..].starts_with(|c: char| c.is_ascii_digit()) {
            return Some(at);
        }
    }
}

fn uuid_or_word(rest: &str) -> (Kind, usize) {
    match uuid(rest) {
        Some(length) => (Kind::Number, length),
        None => (Kind::Word, word_length(rest)),
    }
}

/// 8-4-4-4-12 hexadecimal digits.
pub(super) fn uuid(rest: &str) -> Option<usize> {
    const LENGTH: usize = 36;
    let bytes = rest.as_bytes().get(..LENGTH)?;
    let fits = bytes.iter().enumerate().all(|(at, byte)| match at {
        8 | 13 | 18 | 23 => *byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    });
    fits.then_some(LENGTH)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lex(text: &str) -> Vec<(Kind, &str)> {
        Lexer::new(text)
            .map(|token| (token.kind, &text[token.span]))
            .collect()
    }

    #[test]
    fn tells_tokens_apart() {
        use Kind::{Marker, QuotedName, String, Symbol, Word};
        let text =
            "SELECT \"A\"\"b\", 'it''s', $$x'y$$ FROM ks.t -- c\n/* d */ WHERE a=? AND b>=:n // e";
        let expected = vec![
            (Word, "SELECT"),
            (QuotedName, "\"A\"\"b\""),
            (Symbol(','), ","),
            (String, "'it''s'"),
            (Symbol(','), ","),
            (String, "$$x'y$$"),
            (Word, "FROM"),
            (Word, "ks"),
            (Symbol('.'), "."),
            (Word, "t"),
            (Word, "WHERE"),
            (Word, "a"),
            (Symbol('='), "="),
            (Marker, "?"),
            (Word, "AND"),
            (Word, "b"),
            (Symbol('>'), ">"),
            (Symbol('='), "="),
            (Marker, ":n"),
        ];
        assert_eq!(lex(text), expected);
    }

    #[test]
    fn numbers_uuids_blobs_and_durations_are_one_token() {
        for text in [
            "1",
            "1.5",
            "1e-7",
            "0xDEADBEEF",
            "0xAE",
            "1y2mo3d",
            "89h4m48s",
            "6ba7b810-9dad-11d1-80b4-00c04fd430c8",
            "fba7b810-9dad-11d1-80b4-00c04fd430c8",
        ] {
            assert_eq!(lex(text), [(Kind::Number, text)]);
        }
        assert_eq!(lex("1..2").len(), 4);
        assert_eq!(lex("1FROM"), [(Kind::Number, "1"), (Kind::Word, "FROM")]);
        assert_eq!(lex("1e5x"), [(Kind::Number, "1e5"), (Kind::Word, "x")]);
        assert_eq!(lex("1µs"), [(Kind::Number, "1µs")]);
    }

    #[test]
    fn unterminated_input_is_unknown() {
        for text in ["'abc", "\"abc", "$$abc", "/* abc", ":\"abc", "#", "é"] {
            assert_eq!(
                lex(text).last().map(|(kind, _)| *kind),
                Some(Kind::Unknown),
                "{text}"
            );
        }
    }

    #[test]
    fn any_text_ends() {
        for text in [
            "",
            " ",
            "--",
            "//",
            "/**/",
            "::",
            "é'é\"é",
            "0x",
            "$",
            "''''",
            "1e",
            "1e+",
        ] {
            assert!(lex(text).len() <= text.len(), "{text}");
        }
    }
}
