//! One partition of an original, as background work reads it.

use crate::protocol::types::Value;
use crate::schema::TableSchema;
use crate::schema::names::PartitionKey;
use crate::wide_row::names::Generation;
use crate::wide_row::store::HIDDEN;

/// Consistency level ALL: a read sees what was written at ONE or in another data centre, and read repair brings it to
/// every replica.
pub const ALL: u16 = 0x0005;
/// Consistency level ONE: repairs nothing.
pub const ONE: u16 = 0x0001;

/// A partition and the components of its key.
#[derive(Debug, Clone)]
pub struct Partition {
    pub key: PartitionKey,
    components: Vec<Vec<u8>>,
}

impl Partition {
    /// `None` if the key does not fit this table.
    pub fn new(schema: &TableSchema, key: &PartitionKey) -> Option<Self> {
        let components = key.components(schema.partition_key.len())?;
        Some(Self {
            key: key.clone(),
            components: components.into_iter().map(<[u8]>::to_vec).collect(),
        })
    }

    pub fn values(&self) -> impl Iterator<Item = Value<'_>> {
        self.components.iter().map(|value| Value::Bytes(value))
    }

    /// The serialized key of a bucket, which decides where it is stored.
    pub fn bucket_key(&self, generation: Generation, bucket: i32) -> Option<PartitionKey> {
        let hidden: [[u8; 4]; HIDDEN.len()] = [generation.0.to_be_bytes(), bucket.to_be_bytes()];
        let mut components: Vec<&[u8]> = self.components.iter().map(Vec::as_slice).collect();
        components.extend(hidden.iter().map(<[u8; 4]>::as_slice));
        PartitionKey::from_components(&components)
    }
}
