//! The progress of a comparison, and the checkpoint from which another worker can resume it. Pure.

use super::checksum::Checksums;
use super::facts::Facts;
use super::row::Key;
use crate::protocol::types::{Cursor, Write};

/// Changes whenever older checkpoints can no longer be read; the comparison then starts over.
const CHECKPOINT_VERSION: u8 = 3;

/// What has been found equal so far, including the lifetimes of rows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Checked {
    pub row_count: u64,
    pub byte_count: u64,
    pub(super) cell_count: u64,
    /// The last row that was found equal; empty at the beginning.
    pub(super) last: Key,
    pub(super) checksums: Checksums,
    pub(super) facts: Facts,
}

impl Checked {
    pub fn checkpoint(&self) -> Vec<u8> {
        let mut out = vec![CHECKPOINT_VERSION];
        for count in [self.row_count, self.byte_count, self.cell_count] {
            out.extend_from_slice(&count.to_be_bytes());
        }
        self.checksums.write(&mut out);
        out.put_int(i32::try_from(self.last.len()).unwrap_or(i32::MAX));
        for value in &self.last {
            out.put_bytes(Some(value));
        }
        self.facts.write(&mut out);
        out
    }

    /// `None` if it is incomplete or another version wrote it; everything is then compared from the beginning.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let mut cursor = Cursor::new(bytes);
        if cursor.byte().ok()? != CHECKPOINT_VERSION {
            return None;
        }
        let mut count = || Some(cursor.long().ok()?.cast_unsigned());
        let (row_count, byte_count, cell_count) = (count()?, count()?, count()?);
        let checksums = Checksums::read(&mut cursor)?;
        let values = cursor.count("value count").ok()?;
        let last = (0..values).map(|_| Some(cursor.bytes().ok()??.into()));
        let last = last.collect::<Option<_>>()?;
        Some(Self {
            row_count,
            byte_count,
            cell_count,
            last,
            checksums,
            facts: Facts::read(&mut cursor)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_is_read_as_it_was_written_or_not_at_all() {
        let checked = Checked {
            row_count: 1 << 40,
            byte_count: 7,
            cell_count: u64::MAX,
            last: vec![[1, 2].into(), [].into()],
            checksums: Checksums {
                original: [3; 16],
                copy: [2; 16],
                buckets: vec![[4; 16], [5; 16]],
            },
            facts: Facts::default(),
        };
        let bytes = checked.checkpoint();
        assert_eq!(Checked::read(&bytes), Some(checked));
        let beginning = Checked::default();
        assert_eq!(Checked::read(&beginning.checkpoint()), Some(beginning));
        assert_eq!(Checked::read(&[9]), None);
        for length in 0..bytes.len() {
            assert_eq!(Checked::read(&bytes[..length]), None);
        }
    }
}
