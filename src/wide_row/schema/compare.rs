//! Compares the schema of a cluster with the files of `cql/`. Pure.

use std::fmt;

use super::definition::{Column, LATER, Object, Statement};

/// What `system_schema` says about the control keyspace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Existing {
    pub keyspace: bool,
    pub types: Vec<ExistingType>,
    pub tables: Vec<ExistingTable>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExistingType {
    pub name: String,
    pub fields: Vec<(String, String)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExistingTable {
    pub name: String,
    pub read_repair: String,
    pub columns: Vec<Column>,
}

impl Existing {
    /// What running a statement adds, where nothing was before.
    pub fn create(&mut self, object: Object) {
        match object {
            Object::Keyspace => self.keyspace = true,
            Object::Type { name, fields } => self.types.push(ExistingType { name, fields }),
            Object::Table {
                name,
                columns,
                read_repair,
            } => self.tables.push(ExistingTable {
                name,
                columns,
                read_repair: read_repair.unwrap_or_else(|| "BLOCKING".to_owned()),
            }),
        }
    }

    pub fn has(&self, object: &Object) -> bool {
        match object {
            Object::Keyspace => self.keyspace,
            Object::Type { name, .. } => self.types.iter().any(|found| found.name == *name),
            Object::Table { name, .. } => self.tables.iter().any(|found| found.name == *name),
        }
    }
}

/// One way in which the cluster differs from a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Name within the control keyspace; `None` for the keyspace itself.
    pub object: Option<String>,
    pub what: String,
    pub file: &'static str,
    /// Set if all that is wrong is that this is missing.
    pub lacks: Option<Lacking>,
}

/// A column or field that an ALTER can add.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lacking {
    pub name: String,
    /// What follows `ADD`.
    pub definition: String,
    pub is_field: bool,
}

impl Difference {
    /// Whether this version works without what is missing.
    pub fn is_tolerable(&self) -> bool {
        let column = self.object.as_deref().zip(self.lacks.as_ref());
        column.is_some_and(|(table, lacks)| LATER.contains(&(table, lacks.name.as_str())))
    }
}

impl From<String> for What {
    fn from(text: String) -> Self {
        Self { text, lacks: None }
    }
}

/// A difference, without the object that it is about.
struct What {
    text: String,
    lacks: Option<Lacking>,
}

impl fmt::Display for Difference {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let object = self.object.as_deref().unwrap_or("the keyspace");
        write!(out, "{object} {} (see {})", self.what, self.file)
    }
}

/// Every difference that matters to Narrows. Additional fields and additional columns outside the key do not count: a
/// newer version may have added them.
pub fn differences(expected: &[Statement], existing: &Existing) -> Vec<Difference> {
    expected
        .iter()
        .flat_map(|statement| {
            let whats = differences_of(&statement.object, existing);
            whats.into_iter().map(|what| Difference {
                object: statement.object.name().map(str::to_owned),
                what: what.text,
                file: statement.file,
                lacks: what.lacks,
            })
        })
        .collect()
}

fn differences_of(object: &Object, existing: &Existing) -> Vec<What> {
    let missing = || vec!["is missing".to_owned().into()];
    match object {
        Object::Keyspace if existing.keyspace => Vec::new(),
        Object::Keyspace => missing(),
        Object::Type { name, fields } => {
            let found = existing.types.iter().find(|found| found.name == *name);
            found.map_or_else(missing, |found| field_differences(fields, &found.fields))
        }
        Object::Table {
            name,
            columns,
            read_repair,
        } => {
            let found = existing.tables.iter().find(|found| found.name == *name);
            let Some(found) = found else {
                return missing();
            };
            let mut whats = column_differences(columns, &found.columns);
            whats.extend(option_difference(
                read_repair.as_deref(),
                &found.read_repair,
            ));
            whats
        }
    }
}

fn field_differences(expected: &[(String, String)], found: &[(String, String)]) -> Vec<What> {
    let differing = expected.iter().filter_map(|(name, data_type)| {
        match found.iter().find(|(other, _)| other == name) {
            None => Some(What {
                text: format!("lacks the field {name} {data_type}"),
                lacks: Some(Lacking {
                    name: name.clone(),
                    definition: format!("{name} {data_type}"),
                    is_field: true,
                }),
            }),
            Some((_, other)) if other != data_type => {
                let text = format!("has the field {name} {other}, expected {data_type}");
                Some(text.into())
            }
            Some(_) => None,
        }
    });
    differing.collect()
}

fn column_differences(expected: &[Column], found: &[Column]) -> Vec<What> {
    let named = |columns: &'_ [Column], name: &str| {
        columns.iter().find(|column| column.name == name).cloned()
    };
    let differing = expected.iter().filter_map(|column| {
        let expected = shown(column);
        match named(found, &column.name) {
            None => Some(What {
                text: format!("lacks the column {expected}"),
                // A key cannot be altered.
                lacks: (column.position < 0).then(|| Lacking {
                    name: column.name.clone(),
                    definition: expected,
                    is_field: false,
                }),
            }),
            Some(other) if other != *column => {
                let text = format!("has the column {}, expected {expected}", shown(&other));
                Some(text.into())
            }
            Some(_) => None,
        }
    });
    // With another column in the key, the same statements would mean other rows.
    let foreign = found
        .iter()
        .filter(|column| column.position >= 0 && named(expected, &column.name).is_none())
        .map(|column| format!("has the unexpected key column {}", shown(column)).into());
    differing.chain(foreign).collect()
}

/// As in a CREATE TABLE, followed by the position in the key.
fn shown(column: &Column) -> String {
    let Column {
        name,
        kind,
        position,
        data_type,
    } = column;
    match kind.as_str() {
        "regular" => format!("{name} {data_type}"),
        "static" => format!("{name} {data_type} static"),
        kind => format!("{name} {data_type} ({kind} {position})"),
    }
}

fn option_difference(expected: Option<&str>, found: &str) -> Option<What> {
    let expected = expected.filter(|expected| *expected != found)?;
    Some(format!("has read_repair = '{found}', expected '{expected}'").into())
}
