//! The notations of native_protocol_v5 §3: a reading cursor and writing functions.

use super::ProtocolError;

type Result<T> = std::result::Result<T, ProtocolError>;

/// Reads notations from the front of a slice.
#[derive(Debug, Clone)]
pub struct Cursor<'a> {
    rest: &'a [u8],
}

/// A bound value: `[value]` of the specification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value<'a> {
    Bytes(&'a [u8]),
    Null,
    Unset,
}

impl<'a> Cursor<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The bytes that have not been read yet.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub fn take(&mut self, count: usize, what: &'static str) -> Result<&'a [u8]> {
        let (taken, rest) = self
            .rest
            .split_at_checked(count)
            .ok_or(ProtocolError::Truncated(what))?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N]> {
        let (taken, rest) = self
            .rest
            .split_first_chunk::<N>()
            .ok_or(ProtocolError::Truncated(what))?;
        self.rest = rest;
        Ok(*taken)
    }

    pub fn byte(&mut self) -> Result<u8> {
        Ok(self.array::<1>("byte")?[0])
    }

    /// `[short]`: unsigned.
    pub fn short(&mut self) -> Result<u16> {
        Ok(u16::from_be_bytes(self.array("short")?))
    }

    pub fn int(&mut self) -> Result<i32> {
        Ok(i32::from_be_bytes(self.array("int")?))
    }

    pub fn long(&mut self) -> Result<i64> {
        Ok(i64::from_be_bytes(self.array("long")?))
    }

    /// An `[int]` that counts something.
    pub fn count(&mut self, what: &'static str) -> Result<usize> {
        let count = self.int()?;
        usize::try_from(count).map_err(|_| ProtocolError::NegativeLength(count, what))
    }

    pub fn string(&mut self) -> Result<&'a str> {
        let length = usize::from(self.short()?);
        utf8(self.take(length, "string")?)
    }

    pub fn long_string(&mut self) -> Result<&'a str> {
        let length = self.count("long string")?;
        utf8(self.take(length, "long string")?)
    }

    /// `[bytes]`: a negative length is null.
    pub fn bytes(&mut self) -> Result<Option<&'a [u8]>> {
        match usize::try_from(self.int()?) {
            Ok(length) => self.take(length, "bytes").map(Some),
            Err(_) => Ok(None),
        }
    }

    pub fn short_bytes(&mut self) -> Result<&'a [u8]> {
        let length = usize::from(self.short()?);
        self.take(length, "short bytes")
    }

    pub fn value(&mut self) -> Result<Value<'a>> {
        match self.int()? {
            -1 => Ok(Value::Null),
            -2 => Ok(Value::Unset),
            length => match usize::try_from(length) {
                Ok(length) => Ok(Value::Bytes(self.take(length, "value")?)),
                Err(_) => Err(ProtocolError::NegativeLength(length, "value")),
            },
        }
    }

    pub fn string_list(&mut self) -> Result<Vec<&'a str>> {
        let count = self.short()?;
        (0..count).map(|_| self.string()).collect()
    }

    pub fn string_map(&mut self) -> Result<Vec<(&'a str, &'a str)>> {
        let count = self.short()?;
        (0..count)
            .map(|_| Ok((self.string()?, self.string()?)))
            .collect()
    }

    pub fn string_multimap(&mut self) -> Result<Vec<(&'a str, Vec<&'a str>)>> {
        let count = self.short()?;
        (0..count)
            .map(|_| Ok((self.string()?, self.string_list()?)))
            .collect()
    }

    /// Steps over a `[bytes map]`: the custom payload.
    pub fn skip_bytes_map(&mut self) -> Result<()> {
        for _ in 0..self.short()? {
            // Cassandra accepts keys that are not UTF-8, so we must, too.
            self.short_bytes()?;
            self.bytes()?;
        }
        Ok(())
    }
}

fn utf8(bytes: &[u8]) -> Result<&str> {
    std::str::from_utf8(bytes).map_err(|_| ProtocolError::NotUtf8)
}

/// Writes notations to the end of a vector.
pub trait Write {
    fn put_byte(&mut self, value: u8);
    fn put_short(&mut self, value: u16);
    fn put_int(&mut self, value: i32);
    fn put_string(&mut self, text: &str);
    fn put_long_string(&mut self, text: &str);
    fn put_bytes(&mut self, bytes: Option<&[u8]>);
    fn put_short_bytes(&mut self, bytes: &[u8]);
    fn put_value(&mut self, value: Value<'_>);
    fn put_string_list<S: AsRef<str>>(&mut self, list: &[S]);
    fn put_string_map(&mut self, map: &[(&str, &str)]);
}

/// Converts a length or count to an `[int]`; ours are far below its maximum.
pub fn int_len(length: usize) -> i32 {
    i32::try_from(length).expect("lengths are bounded by the frame limit")
}

fn short_len(length: usize) -> u16 {
    u16::try_from(length).expect("our own short strings and lists are short")
}

impl Write for Vec<u8> {
    fn put_byte(&mut self, value: u8) {
        self.push(value);
    }

    fn put_short(&mut self, value: u16) {
        self.extend_from_slice(&value.to_be_bytes());
    }

    fn put_int(&mut self, value: i32) {
        self.extend_from_slice(&value.to_be_bytes());
    }

    fn put_string(&mut self, text: &str) {
        self.put_short_bytes(text.as_bytes());
    }

    fn put_long_string(&mut self, text: &str) {
        self.put_bytes(Some(text.as_bytes()));
    }

    fn put_bytes(&mut self, bytes: Option<&[u8]>) {
        match bytes {
            Some(bytes) => {
                self.put_int(int_len(bytes.len()));
                self.extend_from_slice(bytes);
            }
            None => self.put_int(-1),
        }
    }

    fn put_short_bytes(&mut self, bytes: &[u8]) {
        self.put_short(short_len(bytes.len()));
        self.extend_from_slice(bytes);
    }

    fn put_value(&mut self, value: Value<'_>) {
        match value {
            Value::Bytes(bytes) => self.put_bytes(Some(bytes)),
            Value::Null => self.put_int(-1),
            Value::Unset => self.put_int(-2),
        }
    }

    fn put_string_list<S: AsRef<str>>(&mut self, list: &[S]) {
        self.put_short(short_len(list.len()));
        for text in list {
            self.put_string(text.as_ref());
        }
    }

    fn put_string_map(&mut self, map: &[(&str, &str)]) {
        self.put_short(short_len(map.len()));
        for (key, value) in map {
            self.put_string(key);
            self.put_string(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_notation_survives_a_round_trip() {
        let mut out = Vec::new();
        out.put_byte(7);
        out.put_short(65535);
        out.put_int(-5);
        out.put_string("é");
        out.put_long_string("SELECT");
        out.put_bytes(None);
        out.put_bytes(Some(&[1, 2]));
        out.put_short_bytes(&[3]);
        out.put_string_list(&["a", "b"]);
        out.put_string_map(&[("k", "v")]);
        let mut cursor = Cursor::new(&out);
        assert_eq!(cursor.byte(), Ok(7));
        assert_eq!(cursor.short(), Ok(65535));
        assert_eq!(cursor.int(), Ok(-5));
        assert_eq!(cursor.string(), Ok("é"));
        assert_eq!(cursor.long_string(), Ok("SELECT"));
        assert_eq!(cursor.bytes(), Ok(None));
        assert_eq!(cursor.bytes(), Ok(Some(&[1u8, 2][..])));
        assert_eq!(cursor.short_bytes(), Ok(&[3u8][..]));
        assert_eq!(cursor.string_list(), Ok(vec!["a", "b"]));
        assert_eq!(cursor.string_map(), Ok(vec![("k", "v")]));
        assert!(cursor.rest().is_empty());
    }

    #[test]
    fn values_distinguish_null_unset_and_nonsense() {
        let read = |n: i32| {
            Cursor::new(&n.to_be_bytes())
                .value()
                .map(|v| v == Value::Null)
        };
        assert_eq!(read(-1), Ok(true));
        assert_eq!(read(-2), Ok(false));
        assert_eq!(read(-3), Err(ProtocolError::NegativeLength(-3, "value")));
        assert_eq!(read(4), Err(ProtocolError::Truncated("value")));
    }

    #[test]
    fn truncated_input_is_an_error_at_every_length() {
        let mut out = Vec::new();
        out.put_string_map(&[("key", "value"), ("k", "v")]);
        for end in 0..out.len() {
            assert!(Cursor::new(&out[..end]).string_map().is_err(), "{end}");
        }
    }
}
