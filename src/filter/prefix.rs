//! Policy `prefix`: "has this series any split at all?" It holds the leading columns of every key, so one look-up can
//! rule out a whole `IN` list of one series (`Snapshot::shared_prefix`), and it rules out any key whose series is unknown.

use std::fmt::Debug;
use std::sync::Arc;

use super::hashes::{HashBuilder, HashFilter, Keying, Structure};
use super::policy::{DecodeError, Filter, FilterBuilder, FilterPolicy, Target};

/// Says which leading bytes of a key are its prefix.
///
/// Invariants, without which a filter would lose keys:
/// 1. *Key*: if `prefix_len(Key(k))` is `Some(n)`, then `n <= k.len()`, and it is `Some(n)` for every key that starts
///    with the same `n` bytes: the prefix depends on nothing behind it.
/// 2. *Prefix*: if `prefix_len(Prefix(p))` is `Some(n)`, then `n <= p.len()`, and `prefix_len(Key(q))` is `Some(n)` for
///    *every* key `q` that starts with `p`. Where that cannot be promised, the answer is `None`.
/// 3. The same name means the same answers, in every version of the program.
pub trait PrefixExtractor: Debug + Send + Sync {
    /// Becomes part of the policy's name.
    fn name(&self) -> String;

    fn prefix_len(&self, target: &Target) -> Option<usize>;
}

/// The first `n` columns of a composite partition key, which Cassandra serializes as
/// `[u16 length][bytes][0]` per column. The key of a single column is its bare bytes and has no leading columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeadingColumns(u8);

impl LeadingColumns {
    /// At least one column.
    pub fn new(columns: u8) -> Self {
        Self(columns.max(1))
    }
}

impl PrefixExtractor for LeadingColumns {
    fn name(&self) -> String {
        format!("columns={}", self.0)
    }

    /// The first two invariants hold because only the components themselves are read: the end of the last one is known
    /// from its own length, and bytes behind it change nothing. `None` if there are fewer components, or if one is cut
    /// off.
    fn prefix_len(&self, target: &Target) -> Option<usize> {
        let bytes = match target {
            Target::Key(key) => key.bytes(),
            Target::Prefix(prefix) => prefix,
        };
        let mut end = 0;
        for _ in 0..self.0 {
            let length = bytes.get(end..end + 2)?.first_chunk()?;
            end += 2 + usize::from(u16::from_be_bytes(*length));
            // The byte that ends a component.
            if *bytes.get(end)? != 0 {
                return None;
            }
            end += 1;
        }
        Some(end)
    }
}

#[derive(Debug, Clone)]
pub struct PrefixPolicy {
    name: String,
    keying: Keying,
}

impl PrefixPolicy {
    pub const NAME: &'static str = "prefix";

    pub fn new(extractor: Arc<dyn PrefixExtractor>) -> Self {
        // Another extractor stores other hashes: its filters must never answer for this one.
        let name = format!("{}:{}", Self::NAME, extractor.name());
        let keying = Keying::prefix(extractor, false);
        Self { name, keying }
    }
}

impl FilterPolicy for PrefixPolicy {
    fn name(&self) -> &str {
        &self.name
    }

    fn prefix_hash(&self, target: &Target) -> Option<u64> {
        self.keying.prefix_hash(target)
    }

    /// Always fuse, whatever the table's other policies are: a prefix is looked up in every shard, so its rate of false
    /// positives counts once per shard.
    fn builder(&self) -> Box<dyn FilterBuilder> {
        Box::new(HashBuilder::new(self.keying.clone(), Structure::Fuse))
    }

    fn decode(&self, bytes: &[u8]) -> Result<Arc<dyn Filter>, DecodeError> {
        let keying = self.keying.clone();
        Ok(Arc::new(HashFilter::decode(keying, bytes, &self.name)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &[u8] = b"\0\x03abc\0\0\x02de\0";

    fn len(columns: u8, target: Target) -> Option<usize> {
        LeadingColumns::new(columns).prefix_len(&target)
    }

    #[test]
    fn leading_columns_end_where_their_component_ends() {
        assert_eq!(len(1, Target::key(KEY)), Some(6));
        assert_eq!(len(2, Target::key(KEY)), Some(11));
        assert_eq!(len(3, Target::key(KEY)), None);
        assert_eq!(len(1, Target::prefix(&KEY[..6])), Some(6));
        assert_eq!(len(1, Target::prefix(KEY)), Some(6));
    }

    #[test]
    fn cut_or_foreign_bytes_have_no_prefix() {
        for end in 0..6 {
            assert_eq!(len(1, Target::prefix(&KEY[..end])), None, "{end}");
        }
        assert_eq!(len(1, Target::key(b"\0\x03abc\x01")), None);
        assert_eq!(len(1, Target::key(b"\xff\xffshort")), None);
    }
}
