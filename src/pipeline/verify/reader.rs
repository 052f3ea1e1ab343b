//! Reads either side: the original partition, or one bucket of its copy.
//!
//! Reads of the present are at consistency level ALL: a row that only one replica has counts, too, and read repair then
//! brings it to all of them. Reads of a later second follow at ONE, which repairs nothing: at ALL, Cassandra would write
//! what has expired by then to other replicas as tombstones, and delete data that is alive now. A table without read repair
//! is read at ALL always: its replicas differ, and no read changes that.

use std::rc::Rc;

use tokio::time::Instant;

use super::restriction::Restriction;
use super::row::{Block, Key, RowAt};
use super::{Verification, VerifyError};
use crate::protocol::types::Value;
use crate::schema::TableSchema;
use crate::schema::bucket::{BUCKET, GENERATION};
use crate::schema::names::PartitionKey;
use crate::statement::quoted;
use crate::upstream::pool::{PoolError, SubRead};

const ONE: u16 = 0x0001;
const ALL: u16 = 0x0005;
/// Maximum number of attempts at a read that fails for temporary reasons.
const ATTEMPTS_MAX: u32 = 5;
/// Factor by which a page shrinks if it was too much for the cluster.
const SHRINK: i32 = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Original,
    Bucket(usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Selection {
    /// Clustering values, and each regular column with its write time and TTL.
    Cells,
    /// Clustering values alone.
    Keys,
}

/// One read.
#[derive(Clone, Copy)]
pub(super) struct Ask<'r> {
    pub(super) side: Side,
    pub(super) selection: Selection,
    pub(super) restriction: &'r Restriction,
    /// Seconds since 1970: an unsigned int on the wire since 5.0, a signed one before.
    pub(super) at: u32,
    pub(super) page_size: i32,
    pub(super) paging_state: Option<&'r [u8]>,
    /// Approximate size of the reply.
    pub(super) bytes: usize,
}

pub(super) struct Reader<'a> {
    pub(super) verification: &'a Verification<'a>,
    components: Vec<&'a [u8]>,
    began: Instant,
}

impl<'a> Reader<'a> {
    pub(super) fn new(verification: &'a Verification<'a>) -> Result<Self, VerifyError> {
        let columns = verification.schema.partition_key.len();
        let components = components(verification.key, columns).ok_or(VerifyError::Key)?;
        Ok(Self {
            verification,
            components,
            began: Instant::now(),
        })
    }

    /// The second at which both sides are read.
    pub(super) fn now(&self) -> u32 {
        self.verification.now.cast_unsigned()
    }

    /// The second at which rows are read again: the present one, because cells that have expired since may be compacted
    /// away on one side only.
    pub(super) fn later(&self) -> u32 {
        let passed = u32::try_from(self.began.elapsed().as_secs()).unwrap_or(u32::MAX);
        self.now().saturating_add(passed)
    }

    pub(super) fn schema(&self) -> &'a TableSchema {
        self.verification.schema
    }

    /// Reads one page. It is retried if the failure may be temporary, with a smaller page if the size may be the cause.
    /// If a page has too many tombstones, the caller must ask for a shorter range.
    pub(super) async fn page(&self, ask: Ask<'_>) -> Result<Block, VerifyError> {
        let mut ask = ask;
        let mut attempts = 0;
        loop {
            let error = match self.attempt(ask).await {
                Ok(block) => return Ok(block),
                Err(error) => error,
            };
            attempts += 1;
            match remedy(&error) {
                _ if attempts == ATTEMPTS_MAX => return Err(error),
                Remedy::None => return Err(error),
                Remedy::Shorten if ask.page_size > 0 => return Err(error),
                Remedy::Wait | Remedy::Shorten => {}
                Remedy::Shrink => ask.page_size = (ask.page_size / SHRINK).max(1),
            }
            tokio::time::sleep(self.verification.patience.retry * attempts).await;
        }
    }

    /// The one row with this key, if it is there.
    pub(super) async fn row(
        &self,
        side: Side,
        selection: Selection,
        key: &Key,
        at: u32,
    ) -> Result<Option<RowAt>, VerifyError> {
        let restriction = Restriction::row(&self.schema().clustering, key);
        let ask = Ask {
            side,
            selection,
            restriction: &restriction,
            at,
            page_size: 0,
            paging_state: None,
            bytes: key.iter().map(|value| value.len()).sum(),
        };
        Ok(Rc::new(self.page(ask).await?).row(0))
    }

    async fn attempt(&self, ask: Ask<'_>) -> Result<Block, VerifyError> {
        let Verification {
            requests, schema, ..
        } = self.verification;
        let text = self.text(ask);
        let hidden = self.hidden(ask.side);
        let hidden: Vec<&[u8]> = hidden.iter().flatten().map(<[u8; 4]>::as_slice).collect();
        let partition = [&self.components[..], &hidden].concat();
        let restricted = ask.restriction.values.iter().map(|value| &**value);
        let values = partition.iter().copied().chain(restricted);
        let request = SubRead {
            values: values.map(Value::Bytes).collect(),
            consistency: if ask.at > self.later() && schema.is_repaired_by_reads {
                ONE
            } else {
                ALL
            },
            page_size: ask.page_size,
            paging_state: ask.paging_state,
            now_in_seconds: Some(ask.at.cast_signed()),
            ..SubRead::default()
        };
        let key = PartitionKey::from_components(&partition).ok_or(VerifyError::Key)?;
        let place = (schema.replication.as_slice(), key.bytes());
        let reply = requests.execute(&text, &request, place, ask.bytes).await?;
        let columns = self.column_count(ask.selection);
        Block::read(reply.body, columns, ask.page_size).ok_or(VerifyError::NotUnderstood)
    }

    fn text(&self, ask: Ask<'_>) -> String {
        let schema = self.schema();
        let clustering = schema.clustering.iter();
        let mut columns: Vec<String> = clustering.map(|one| quoted(&one.column.name)).collect();
        if ask.selection == Selection::Cells {
            for column in &schema.regulars {
                let name = quoted(&column.name);
                columns.push(format!("{name}, WRITETIME({name}), TTL({name})"));
            }
        }
        let keys = schema.partition_key.iter().map(|one| quoted(&one.name));
        let mut keys: Vec<String> = keys.map(|name| format!("{name} = ?")).collect();
        let mut table = &schema.table;
        if let Side::Bucket(_) = ask.side {
            keys.extend([GENERATION, BUCKET].map(|name| format!("{} = ?", quoted(name))));
            table = &self.verification.layout.split_table;
        }
        format!(
            "SELECT {} FROM {}.{} WHERE {}{}",
            columns.join(", "),
            quoted(&schema.keyspace),
            quoted(table),
            keys.join(" AND "),
            ask.restriction.text
        )
    }

    /// The values of the split table's own columns.
    fn hidden(&self, side: Side) -> Option<[[u8; 4]; 2]> {
        match side {
            Side::Original => None,
            Side::Bucket(index) => {
                let (generation, number) = self.verification.layout.home(index);
                Some([generation.to_be_bytes(), number.to_be_bytes()])
            }
        }
    }

    fn column_count(&self, selection: Selection) -> usize {
        let schema = self.schema();
        match selection {
            Selection::Keys => schema.clustering.len(),
            Selection::Cells => schema.clustering.len() + 3 * schema.regulars.len(),
        }
    }
}

/// The values of a serialized partition key with this many columns.
fn components(key: &PartitionKey, columns: usize) -> Option<Vec<&[u8]>> {
    if columns == 1 {
        return Some(vec![key.bytes()]);
    }
    let mut rest = key.bytes();
    let mut components = Vec::with_capacity(columns);
    for _ in 0..columns {
        let (length, behind) = rest.split_first_chunk()?;
        let length = usize::from(u16::from_be_bytes(*length));
        let (component, behind) = behind.split_at_checked(length)?;
        rest = behind.strip_prefix(&[0])?;
        components.push(component);
    }
    rest.is_empty().then_some(components)
}

impl VerifyError {
    /// Whether a smaller read might have succeeded.
    pub(super) fn is_about_size(&self) -> bool {
        remedy(self) == Remedy::Shrink || self.is_too_much()
    }

    /// Whether there were too many tombstones for a page of any size.
    pub(super) fn is_too_much(&self) -> bool {
        remedy(self) == Remedy::Shorten
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Remedy {
    Wait,
    /// A smaller page of the same rows.
    Shrink,
    /// A shorter range, with fewer rows and less between them.
    Shorten,
    None,
}

/// What may help after an error. Unavailable, overloaded and bootstrapping are temporary, and a full cache of prepared
/// statements accepts a new one after some attempts. A read timeout may be due to the amount of data, and a read
/// failure to the number of tombstones.
fn remedy(error: &VerifyError) -> Remedy {
    let VerifyError::Request(error) = error else {
        return Remedy::None;
    };
    match error {
        error if error.is_too_much() => Remedy::Shorten,
        // A reply that is too large for one message ends the connection, too.
        PoolError::Timeout(_) | PoolError::Broken(_) => Remedy::Shrink,
        PoolError::Refused { code, .. } => match code {
            0x1200 => Remedy::Shrink,
            0x1000..=0x1002 | 0x1300 | 0x2500 => Remedy::Wait,
            _ => Remedy::None,
        },
        PoolError::Unreachable | PoolError::Unsent(_) | PoolError::NoRoom => Remedy::Wait,
        PoolError::Changed | PoolError::Protocol { .. } | PoolError::Encode(_) => Remedy::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_taken_apart_as_they_were_put_together() {
        for parts in [&[&b"one"[..]][..], &[b"a", b"", &[0, 0]], &[b"", b""]] {
            let key = PartitionKey::from_components(parts).unwrap();
            assert_eq!(components(&key, parts.len()).unwrap(), parts);
            if parts.len() > 1 {
                assert_eq!(components(&key, parts.len() + 1), None);
                for end in 0..key.bytes().len() {
                    let cut = PartitionKey::new(&key.bytes()[..end]);
                    assert_eq!(components(&cut, parts.len()), None);
                }
            }
        }
    }
}
