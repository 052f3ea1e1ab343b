//! Partition keys as operators write and read them: one CQL literal per column of the key. Pure.

use clap::ValueEnum;

use super::constant;
use crate::schema::names::PartitionKey;
use crate::schema::{Column, CqlType, TableSchema};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum KeyError {
    #[error("the partition key is ({columns}): give {wanted}, not {given}")]
    Count {
        columns: String,
        wanted: String,
        given: usize,
    },
    #[error(
        "{given} is not a literal for {column}; a text needs its own quotes inside those of the shell: \
         \"'s1'\"; 0x… gives the bytes of a value"
    )]
    NotALiteral { given: String, column: String },
    #[error(
        "{0} is not a partition key in hex; `--keys hex` takes the whole serialized key as one 0x…"
    )]
    NotHex(String),
    #[error("a value is longer than 65535 bytes, the most that Cassandra allows in a key")]
    TooLong,
    #[error(
        "Narrows does not understand the columns of this table; give the key with `--keys hex`"
    )]
    NoColumns,
}

/// How a command reads and prints keys. The values have no doc comments, to keep the help compact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum KeyForm {
    Cql,
    Hex,
}

/// The columns of one table's partition key; empty if only the bytes of keys are known.
#[derive(Debug, Clone)]
pub(super) struct KeyColumns {
    columns: Vec<Column>,
}

impl KeyColumns {
    /// Without a schema, keys are printed as hex.
    pub(super) fn new(schema: Option<&TableSchema>) -> Self {
        Self {
            columns: schema.map_or_else(Vec::new, |schema| schema.partition_key.clone()),
        }
    }

    pub(super) fn hex() -> Self {
        Self {
            columns: Vec::new(),
        }
    }

    /// The key that these literals stand for.
    pub(super) fn read(&self, given: &[String]) -> Result<PartitionKey, KeyError> {
        if self.columns.is_empty() {
            return Err(KeyError::NoColumns);
        }
        if given.len() != self.columns.len() {
            let wanted = match self.columns.len() {
                1 => "one literal".to_owned(),
                count => format!("{count} literals"),
            };
            return Err(KeyError::Count {
                columns: self.declared(),
                wanted,
                given: given.len(),
            });
        }
        let mut values = Vec::with_capacity(given.len());
        for (text, column) in given.iter().zip(&self.columns) {
            let value = constant::read(text, &column.cql_type);
            values.push(value.ok_or_else(|| KeyError::NotALiteral {
                given: text.clone(),
                column: declared(column),
            })?);
        }
        let values: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
        PartitionKey::from_components(&values).ok_or(KeyError::TooLong)
    }

    fn declared(&self) -> String {
        self.columns
            .iter()
            .map(declared)
            .collect::<Vec<_>>()
            .join(", ")
    }

    /// One literal per column; the whole key as hex if the columns are unknown or the key does not match them.
    pub(super) fn literals(&self, key: &PartitionKey) -> Vec<String> {
        match components(key.bytes(), self.columns.len()) {
            Some(values) => {
                let each = values.iter().zip(&self.columns);
                each.map(|(value, column)| constant::show(value, &column.cql_type))
                    .collect()
            }
            None => vec![constant::hex(key.bytes())],
        }
    }

    /// `'s1', 7`.
    pub(super) fn show(&self, key: &PartitionKey) -> String {
        self.literals(key).join(", ")
    }

    /// `sensor = 's1', day = 7`.
    pub(super) fn show_with_names(&self, key: &PartitionKey) -> String {
        let literals = self.literals(key);
        if literals.len() != self.columns.len() {
            return literals.join(", ");
        }
        let each = literals.iter().zip(&self.columns);
        let each = each.map(|(literal, column)| format!("{} = {literal}", column.name));
        each.collect::<Vec<_>>().join(", ")
    }

    /// The key as arguments of a command: `"'s1'" 7`.
    pub(super) fn arguments(&self, key: &PartitionKey) -> String {
        let literals = self.literals(key);
        let option = match literals.len() == self.columns.len() {
            true => "",
            false => "--keys hex ",
        };
        let each: Vec<String> = literals.iter().map(|text| shell(text)).collect();
        format!("{option}{}", each.join(" "))
    }
}

/// Reads a key as `--keys hex` prints it.
pub(super) fn read_hex(given: &[String]) -> Result<PartitionKey, KeyError> {
    let not_hex = || KeyError::NotHex(given.join(" "));
    match given {
        [only] if only.starts_with("0x") => {
            let bytes = constant::read(only, &CqlType::Blob).ok_or_else(not_hex)?;
            Ok(PartitionKey::new(bytes))
        }
        _ => Err(not_hex()),
    }
}

/// A column's name, and its type if that has a short name.
fn declared(column: &Column) -> String {
    let cql_type = format!("{:?}", column.cql_type.unfrozen()).to_lowercase();
    match cql_type.chars().all(|c| c.is_ascii_alphabetic()) {
        true => format!("{} {cql_type}", column.name),
        false => column.name.clone(),
    }
}

/// The values of a serialized key. `None` if the bytes are not a key of that many columns.
fn components(bytes: &[u8], columns: usize) -> Option<Vec<&[u8]>> {
    match columns {
        0 => return None,
        1 => return Some(vec![bytes]),
        _ => {}
    }
    let mut rest = bytes;
    let mut values = Vec::with_capacity(columns);
    for _ in 0..columns {
        let (length, after) = rest.split_first_chunk()?;
        let (value, after) = after.split_at_checked(u16::from_be_bytes(*length).into())?;
        rest = after.strip_prefix(&[0])?;
        values.push(value);
    }
    rest.is_empty().then_some(values)
}

/// A word, quoted for a shell.
fn shell(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-.:_".contains(c);
    let tame = |c: char| !"\"$`\\!".contains(c);
    if text.chars().all(plain) && !text.is_empty() {
        text.to_owned()
    } else if text.chars().all(tame) {
        format!("\"{text}\"")
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::cli) fn columns(types: &[(&str, &str)]) -> KeyColumns {
        let column = |(name, cql_type): &(&str, &str)| Column {
            name: (*name).to_owned(),
            cql_type: CqlType::parse(cql_type),
        };
        KeyColumns {
            columns: types.iter().map(column).collect(),
        }
    }

    /// `((sensor text, day int), …)`.
    pub(in crate::cli) fn sensor_and_day() -> KeyColumns {
        columns(&[("sensor", "text"), ("day", "int")])
    }

    pub(in crate::cli) fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn keys_are_given_and_shown_as_constants() {
        let two = sensor_and_day();
        let key = two.read(&words(&["'s1'", "-7"])).expect("right");
        assert_eq!(key.bytes(), b"\x00\x02s1\x00\x00\x04\xff\xff\xff\xf9\x00");
        assert_eq!(two.show(&key), "'s1', -7");
        assert_eq!(two.show_with_names(&key), "sensor = 's1', day = -7");
        assert_eq!(two.arguments(&key), "\"'s1'\" -7");
        let one = columns(&[("id", "blob")]);
        let key = one.read(&words(&["0x0a"])).expect("right");
        assert_eq!(
            (key.bytes(), one.show(&key)),
            (&[10][..], "0x0a".to_owned())
        );
    }

    #[test]
    fn keys_that_do_not_fit_are_shown_as_bytes() {
        let key = PartitionKey::new(*b"\x00\x02s1");
        for columns in [sensor_and_day(), KeyColumns::hex()] {
            assert_eq!(columns.show(&key), "0x00027331");
            assert_eq!(columns.show_with_names(&key), "0x00027331");
            assert_eq!(columns.arguments(&key), "--keys hex 0x00027331");
        }
        assert_eq!(read_hex(&words(&["0x00027331"])), Ok(key));
        for bytes in [
            &b""[..],
            b"\xff\xff",
            b"\x00\x01a\x00\x00\x00\x01",
            b"\x00\x01a\x01\x00\x00\x00",
        ] {
            assert_eq!(components(bytes, 2), None);
        }
    }

    #[test]
    fn mistakes_say_what_the_key_is() {
        let two = sensor_and_day();
        let error = |given: &[&str]| two.read(&words(given)).expect_err("wrong").to_string();
        assert_eq!(
            error(&["'s1'"]),
            "the partition key is (sensor text, day int): give 2 literals, not 1"
        );
        assert!(error(&["s1", "7"]).starts_with("s1 is not a literal for sensor text; "));
        assert!(error(&["'s1'", "'7'"]).starts_with("'7' is not a literal for day int; "));
        for given in [&["00"][..], &["0x0"], &["0x00", "0x00"], &[]] {
            let hex = read_hex(&words(given));
            assert!(matches!(hex, Err(KeyError::NotHex(_))), "{given:?}");
        }
        let unknown = KeyColumns::new(None).read(&words(&["1"]));
        assert_eq!(unknown, Err(KeyError::NoColumns));
    }

    #[test]
    fn words_survive_a_shell() {
        for (text, word) in [
            ("7", "7"),
            ("''", "\"''\""),
            ("'a b'", "\"'a b'\""),
            ("'$x''y'", "''\\''$x'\\'''\\''y'\\'''"),
        ] {
            assert_eq!(shell(text), word);
        }
    }
}
