//! Reads the partition key in a document of INSERT JSON, as Cassandra reads it.
//!
//! It must never return another key than Cassandra would write: if the form of a document is not proven, the key is
//! unknown. It accepts only strict JSON: readers differ in the rest (comments, second documents, lone surrogates).

use std::borrow::Cow;

use super::{Found, NoKeys};
use crate::schema::{Column, CqlType, TableSchema, literal};
use crate::statement::term::{Literal, hex};

/// Maximum nesting of values. Those of a key are not nested at all.
const DEPTH_MAX: usize = 64;

/// The value of each column of the partition key, in its order.
pub(super) fn key(text: &str, schema: &TableSchema) -> Found<Vec<Vec<u8>>> {
    let mut given = Given::default();
    given
        .values
        .resize_with(schema.partition_key.len(), || None);
    members(text, |name, value| {
        given.add(&Name::read(&name)?, value, schema)
    })?;
    let missing = match given.foreign {
        // A column that this schema does not know may be a key column under a new name.
        true => NoKeys::Unknown,
        false => NoKeys::Refused,
    };
    let columns = schema.partition_key.iter().zip(&given.values);
    let encoded = columns.map(|(column, value)| match value {
        Some(Some(value)) => encode(value, &column.cql_type),
        Some(None) | None => Err(missing),
    });
    encoded.collect()
}

/// The members seen so far. Which of them count is clear only at the end of the document.
#[derive(Default)]
struct Given<'a> {
    /// One for each partition key column. The inner `None`: a member whose name looks like it but means another column.
    values: Vec<Option<Option<Value<'a>>>>,
    /// Whether a member may name a column that this schema does not know.
    foreign: bool,
}

impl<'a> Given<'a> {
    fn add(&mut self, name: &Name<'_>, value: Value<'a>, schema: &TableSchema) -> Found<()> {
        let looks_like = |column: &Column| name.might_be(&column.name);
        let Some(index) = schema.partition_key.iter().position(looks_like) else {
            self.foreign |= schema.column(&name.folded).is_none();
            return Ok(());
        };
        let means_it = schema.partition_key[index].name == name.folded;
        self.foreign |= !means_it;
        let before = self.values[index].replace(means_it.then_some(value));
        // Cassandra folds one name after the other in a single map, so their order decides which value remains.
        before.is_none().then_some(()).ok_or(NoKeys::Unknown)
    }
}

/// The name of a member.
struct Name<'a> {
    /// Without any quotes.
    bare: &'a str,
    /// The column that it means.
    folded: Cow<'a, str>,
}

impl<'a> Name<'a> {
    fn read(name: &'a str) -> Found<Self> {
        let bare = name.trim_matches('"');
        let quoted = name.strip_prefix('"').map(|rest| rest.strip_suffix('"'));
        let folded = match quoted {
            Some(Some(inner)) => Cow::Borrowed(inner),
            // A lone quotation mark, which Cassandra cannot strip.
            Some(None) if name.len() == 1 => return Err(NoKeys::Unknown),
            // Java turns some letters beyond ASCII into ASCII when it converts them to lower case.
            _ if !name.is_ascii() => return Err(NoKeys::Unknown),
            _ => Cow::Owned(name.to_ascii_lowercase()),
        };
        Ok(Self { bare, folded })
    }

    /// Whether Cassandra could take it for this column in any step, by itself or together with other members.
    fn might_be(&self, column: &str) -> bool {
        self.bare.eq_ignore_ascii_case(column.trim_matches('"'))
    }
}

/// The value of a member.
enum Value<'a> {
    Null,
    Boolean(bool),
    /// As written.
    Number(&'a str),
    Text(Cow<'a, str>),
    Nested,
}

fn encode(value: &Value<'_>, cql_type: &CqlType) -> Found<Vec<u8>> {
    use CqlType::*;
    let literal = match (value, cql_type) {
        (Value::Null, _) => return Err(NoKeys::Refused),
        (Value::Boolean(value), Boolean) => Some(Literal::Boolean(*value)),
        (Value::Number(digits), TinyInt | SmallInt | Int | BigInt | VarInt | Timestamp) => {
            Some(Literal::Integer((*digits).to_owned()))
        }
        (Value::Text(text), TinyInt | SmallInt | Int | BigInt | VarInt) => {
            Some(Literal::Integer(text.to_string()))
        }
        (Value::Text(text), Ascii | Text | Inet | Date | Time | Timestamp) => {
            Some(Literal::Text(text.to_string()))
        }
        (Value::Text(text), Boolean) => boolean(text),
        (Value::Text(text), Blob) => text.strip_prefix("0x").and_then(hex).map(Literal::Blob),
        (Value::Text(text), Uuid | TimeUuid) => uuid(text),
        _ => None,
    };
    let bytes = literal.and_then(|literal| literal::encode(&literal, cql_type));
    bytes.ok_or(NoKeys::Unknown)
}

fn boolean(text: &str) -> Option<Literal> {
    let is = |word: &str| text.eq_ignore_ascii_case(word);
    (is("true") || is("false")).then(|| Literal::Boolean(is("true")))
}

fn uuid(text: &str) -> Option<Literal> {
    let hyphens = text.match_indices('-').map(|(at, _)| at);
    let is_uuid = text.len() == 36 && hyphens.eq([8, 13, 18, 23]);
    is_uuid.then(|| hex(text)?.try_into().ok().map(Literal::Uuid))?
}

/// Shows each member of the document, which must be an object, in order.
fn members<'a>(
    text: &'a str,
    mut each: impl FnMut(Cow<'a, str>, Value<'a>) -> Found<()>,
) -> Found<()> {
    let mut reader = Reader { rest: text };
    let expect = |found: bool| found.then_some(()).ok_or(NoKeys::Unknown);
    expect(reader.sign('{'))?;
    if !reader.sign('}') {
        loop {
            expect(reader.sign('"'))?;
            let name = reader.string().ok_or(NoKeys::Unknown)?;
            expect(reader.sign(':'))?;
            let value = reader.value(DEPTH_MAX).ok_or(NoKeys::Unknown)?;
            each(name, value)?;
            if !reader.sign(',') {
                break;
            }
        }
        expect(reader.sign('}'))?;
    }
    reader.skip_spaces();
    expect(reader.rest.is_empty())
}

/// The rest of a document.
struct Reader<'a> {
    rest: &'a str,
}

impl<'a> Reader<'a> {
    fn skip_spaces(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\n', '\r']);
    }

    /// Takes the sign if it is next, after any spaces.
    fn sign(&mut self, sign: char) -> bool {
        self.skip_spaces();
        let rest = self.rest.strip_prefix(sign);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn word(&mut self, word: &str) -> bool {
        let rest = self.rest.strip_prefix(word);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn value(&mut self, depth: usize) -> Option<Value<'a>> {
        let depth = depth.checked_sub(1)?;
        self.skip_spaces();
        if self.word("null") {
            Some(Value::Null)
        } else if self.word("true") {
            Some(Value::Boolean(true))
        } else if self.word("false") {
            Some(Value::Boolean(false))
        } else if self.sign('"') {
            self.string().map(Value::Text)
        } else if self.sign('[') {
            self.nested(']', depth)
        } else if self.sign('{') {
            self.nested('}', depth)
        } else {
            self.number().map(Value::Number)
        }
    }

    /// Reads an array or object after its opening bracket.
    fn nested(&mut self, end: char, depth: usize) -> Option<Value<'a>> {
        if self.sign(end) {
            return Some(Value::Nested);
        }
        loop {
            if end == '}' {
                self.sign('"').then(|| self.string())??;
                self.sign(':').then_some(())?;
            }
            self.value(depth)?;
            if !self.sign(',') {
                return self.sign(end).then_some(Value::Nested);
            }
        }
    }

    fn number(&mut self) -> Option<&'a str> {
        let start = self.rest;
        self.word("-");
        if !self.word("0") {
            self.digits()?;
        }
        if self.word(".") {
            self.digits()?;
        }
        if self.word("e") || self.word("E") {
            let _ = self.word("+") || self.word("-");
            self.digits()?;
        }
        start.get(..start.len() - self.rest.len())
    }

    fn digits(&mut self) -> Option<()> {
        let rest = self.rest.trim_start_matches(|c: char| c.is_ascii_digit());
        let some = rest.len() < self.rest.len();
        self.rest = rest;
        some.then_some(())
    }

    /// Reads a string after its opening quotation mark.
    fn string(&mut self) -> Option<Cow<'a, str>> {
        let mut text = Cow::Borrowed("");
        loop {
            let special = |c: char| c == '"' || c == '\\' || c < ' ';
            let (plain, rest) = self.rest.split_at_checked(self.rest.find(special)?)?;
            self.rest = rest;
            match text.is_empty() {
                true => text = Cow::Borrowed(plain),
                false => text.to_mut().push_str(plain),
            }
            if self.word("\"") {
                return Some(text);
            }
            self.word("\\").then_some(())?;
            text.to_mut().push(self.escaped()?);
        }
    }

    fn escaped(&mut self) -> Option<char> {
        let mut rest = self.rest.chars();
        let sign = rest.next()?;
        self.rest = rest.as_str();
        Some(match sign {
            '"' | '\\' | '/' => sign,
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'u' => {
                let first = self.unit()?;
                // The first half of a surrogate pair needs the second: Java would write something else for a lone one.
                let pair = (0xD800..0xDC00).contains(&first);
                let second = pair.then(|| self.word("\\u").then(|| self.unit())?);
                let units = [Some(first), second.flatten()];
                let mut chars = char::decode_utf16(units.into_iter().flatten());
                let char = chars.next()?.ok()?;
                return chars.next().is_none().then_some(char);
            }
            _ => return None,
        })
    }

    /// Four hexadecimal digits.
    fn unit(&mut self) -> Option<u16> {
        let (digits, rest) = self.rest.split_at_checked(4)?;
        self.rest = rest;
        match *hex(digits)? {
            [high, low] => Some(u16::from_be_bytes([high, low])),
            _ => None,
        }
    }
}
