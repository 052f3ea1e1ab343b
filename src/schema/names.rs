//! Names of tables and keys of partitions as separate types, so that one is never mistaken for another. Pure.

use std::fmt;

use crate::protocol::types::Cursor;

/// A table, as Cassandra spells it: without quotes, in its own upper and lower case.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TableName {
    pub keyspace: String,
    pub table: String,
}

impl TableName {
    pub fn new(keyspace: impl Into<String>, table: impl Into<String>) -> Self {
        Self {
            keyspace: keyspace.into(),
            table: table.into(),
        }
    }
}

impl fmt::Display for TableName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}.{}", self.keyspace, self.table)
    }
}

/// The serialized partition key of the original: what Cassandra hashes to a token. A key of one column is its bytes; a
/// key of several has, for each, a length of two bytes, the bytes, and a zero.
///
/// Keys are a client's data: `Debug` shows none of it, and there is no `Display`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PartitionKey(Box<[u8]>);

impl PartitionKey {
    pub fn new(bytes: impl Into<Box<[u8]>>) -> Self {
        Self(bytes.into())
    }

    /// Made from the serialized values of its columns. `None` for no columns, and for values longer than Cassandra
    /// allows.
    pub fn from_components(components: &[&[u8]]) -> Option<Self> {
        let fits = |component: &&[u8]| component.len() <= usize::from(u16::MAX);
        if components.is_empty() || !components.iter().all(fits) {
            return None;
        }
        if let [only] = components {
            return Some(Self::new(*only));
        }
        let length: usize = components.iter().map(|component| component.len() + 3).sum();
        let mut bytes = Vec::with_capacity(length);
        for component in components {
            let length = u16::try_from(component.len()).ok()?;
            bytes.extend_from_slice(&length.to_be_bytes());
            bytes.extend_from_slice(component);
            bytes.push(0);
        }
        Some(Self::new(bytes))
    }

    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The serialized values of its `count` columns. `None` if it is not a key of that many.
    pub fn components(&self, count: usize) -> Option<Vec<&[u8]>> {
        match count {
            0 => None,
            1 => Some(vec![&self.0]),
            _ => {
                let mut cursor = Cursor::new(&self.0);
                let mut components = Vec::with_capacity(count);
                for _ in 0..count {
                    components.push(cursor.short_bytes().ok()?);
                    (cursor.byte().ok()? == 0).then_some(())?;
                }
                cursor.rest().is_empty().then_some(components)
            }
        }
    }
}

impl fmt::Debug for PartitionKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "PartitionKey({} bytes)", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_serialized_as_cassandra_hashes_them() {
        let key = |components: &[&[u8]]| PartitionKey::from_components(components);
        assert_eq!(key(&[b"one"]).unwrap().bytes(), b"one");
        assert_eq!(
            key(&[b"one", b"", &[7]]).unwrap().bytes(),
            b"\x00\x03one\x00\x00\x00\x00\x00\x01\x07\x00"
        );
        for components in [&[&b"one"[..]][..], &[b"one", b"", &[7]]] {
            let key = key(components).unwrap();
            assert_eq!(key.components(components.len()).unwrap(), components);
            assert_eq!(key.components(components.len() + 1), None);
        }
        assert_eq!(key(&[]), None);
        assert_eq!(key(&[&[0; 65_536]]), None);
        assert_eq!(key(&[b"a", &[0; 65_536]]), None);
    }
}
