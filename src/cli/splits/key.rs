//! Partition keys as people give and read them: one CQL constant for each column of the key. Pure.

use super::constant;
use crate::schema::names::PartitionKey;
use crate::schema::{Column, CqlType, TableSchema};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    #[error("the partition key is ({columns}): give {wanted}, not {given}")]
    Count {
        columns: String,
        wanted: String,
        given: usize,
    },
    #[error(
        "{given} is not a constant for {column}; a text has quotes of its own within those of the shell: \
         \"'s1'\", and 0x… stands for a value's bytes"
    )]
    NotAConstant { given: String, column: String },
    #[error("{0} is not the bytes of a partition key, as `--keys hex` shows them: 0x…")]
    NotHex(String),
    #[error("a value is longer than the 65535 bytes that a key may have")]
    TooLong,
    #[error(
        "the table is of a kind whose columns Narrows does not understand; give the key with `--keys hex`"
    )]
    NoColumns,
}

/// How keys of one table are written.
#[derive(Debug, Clone)]
pub(super) struct KeyColumns {
    /// None: only the bytes are known.
    columns: Vec<Column>,
}

impl KeyColumns {
    /// Of a table whose schema is not understood, keys are shown as bytes.
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

    /// The key that these constants mean.
    pub(super) fn read(&self, given: &[String]) -> Result<PartitionKey, KeyError> {
        if self.columns.is_empty() {
            return Err(KeyError::NoColumns);
        }
        if given.len() != self.columns.len() {
            let wanted = match self.columns.len() {
                1 => "one constant".to_owned(),
                count => format!("{count} constants"),
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
            values.push(value.ok_or_else(|| KeyError::NotAConstant {
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

    /// One constant for each column; the bytes of the whole where the columns are not known or do not fit.
    pub(super) fn constants(&self, key: &PartitionKey) -> Vec<String> {
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
        self.constants(key).join(", ")
    }

    /// `sensor = 's1', day = 7`.
    pub(super) fn show_with_names(&self, key: &PartitionKey) -> String {
        let constants = self.constants(key);
        if constants.len() != self.columns.len() {
            return constants.join(", ");
        }
        let each = constants.iter().zip(&self.columns);
        let each = each.map(|(constant, column)| format!("{} = {constant}", column.name));
        each.collect::<Vec<_>>().join(", ")
    }

    /// As arguments of a command: `"'s1'" 7`.
    pub(super) fn arguments(&self, key: &PartitionKey) -> String {
        let constants = self.constants(key);
        let option = match constants.len() == self.columns.len() {
            true => "",
            false => "--keys hex ",
        };
        let each: Vec<String> = constants.iter().map(|text| shell(text)).collect();
        format!("{option}{}", each.join(" "))
    }
}

/// The key that `--keys hex` shows.
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

/// A name and its type, where that has a short one.
fn declared(column: &Column) -> String {
    let cql_type = format!("{:?}", column.cql_type.unfrozen()).to_lowercase();
    match cql_type.chars().all(|c| c.is_ascii_alphabetic()) {
        true => format!("{} {cql_type}", column.name),
        false => column.name.clone(),
    }
}

/// The values of a key of so many columns. `None` where the bytes are no such key.
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

/// A word as a shell takes it.
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

    pub(in crate::cli::splits) fn columns(types: &[(&str, &str)]) -> KeyColumns {
        let column = |(name, cql_type): &(&str, &str)| Column {
            name: (*name).to_owned(),
            cql_type: CqlType::parse(cql_type),
        };
        KeyColumns {
            columns: types.iter().map(column).collect(),
        }
    }

    /// `((sensor text, day int), …)`.
    pub(in crate::cli::splits) fn sensor_and_day() -> KeyColumns {
        columns(&[("sensor", "text"), ("day", "int")])
    }

    pub(in crate::cli::splits) fn words(words: &[&str]) -> Vec<String> {
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
            "the partition key is (sensor text, day int): give 2 constants, not 1"
        );
        assert!(error(&["s1", "7"]).starts_with("s1 is not a constant for sensor text; "));
        assert!(error(&["'s1'", "'7'"]).starts_with("'7' is not a constant for day int; "));
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
