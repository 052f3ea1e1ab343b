//! What every filter promises, what can be asked of it, and how keys are hashed.

use std::fmt::Debug;
use std::sync::Arc;

use thiserror::Error;
use twox_hash::XxHash3_64;

/// The one hash of serialized partition keys: xxh3-64. Stored filters depend on it, so changing it requires renaming
/// every policy.
pub fn hash(bytes: &[u8]) -> u64 {
    XxHash3_64::oneshot(bytes)
}

/// The shard of a hash among `shards` equal ranges of hashes. With `k` times as many shards, each shard divides into
/// exactly `k`, so a shard of a store that has fewer shards by the same rule covers whole shards of ours.
pub fn shard_of(hash: u64, shards: usize) -> usize {
    ((u128::from(hash) * shards as u128) >> 64) as usize
}

/// A serialized partition key with its hash, which every policy, the overlay and the shards share.
#[derive(Debug, Clone, Copy)]
pub struct HashedKey<'a> {
    bytes: &'a [u8],
    hash: u64,
}

impl<'a> HashedKey<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        let hash = hash(bytes);
        Self { bytes, hash }
    }

    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    pub fn hash(&self) -> u64 {
        self.hash
    }
}

/// What a filter is asked about.
#[derive(Debug, Clone, Copy)]
pub enum Target<'a> {
    /// A whole serialized partition key.
    Key(HashedKey<'a>),
    /// Any key that starts with these bytes: the serialized leading components of a composite key.
    Prefix(&'a [u8]),
}

impl<'a> Target<'a> {
    pub fn key(bytes: &'a [u8]) -> Self {
        Self::Key(HashedKey::new(bytes))
    }

    pub fn prefix(bytes: &'a [u8]) -> Self {
        Self::Prefix(bytes)
    }

    /// The metric label: `point` or `prefix`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Key(_) => "point",
            Self::Prefix(_) => "prefix",
        }
    }
}

/// The policies of one table, all of which must agree that a target might match.
pub type Policies = Arc<[Arc<dyn FilterPolicy>]>;

/// A named way to build, read and ask filters.
pub trait FilterPolicy: Debug + Send + Sync {
    /// Not empty. Stored with every filter and matched exactly when one is read back. It must change whenever an old
    /// encoding would answer *wrongly*: another hash, another prefix rule. What only changes the quality of the answers
    /// (size, false-positive rate) does not belong in it.
    fn name(&self) -> &str;

    /// The hash of the target's prefix, for a policy that answers about prefixes; `None` where it does not. The overlay
    /// holds these hashes for inserted keys, so a key and any prefix of it that has a hash must have the same one.
    fn prefix_hash(&self, _target: &Target) -> Option<u64> {
        None
    }

    fn builder(&self) -> Box<dyn FilterBuilder>;

    /// Reads what [`Filter::encode`] wrote for a policy of the same name. The bytes have passed a checksum, yet
    /// no bytes may make this, or the filter it returns, panic.
    fn decode(&self, bytes: &[u8]) -> Result<Arc<dyn Filter>, DecodeError>;
}

/// Collects the keys of one filter.
pub trait FilterBuilder: Debug + Send {
    fn add(&mut self, key: &HashedKey);

    /// Builds the filter and re-checks every key added. If one is missing, it must build another structure, at worst a
    /// filter that matches everything. It must never fail or lose a key.
    fn build(self: Box<Self>) -> Arc<dyn Filter>;
}

/// An immutable filter.
pub trait Filter: Debug + Send + Sync {
    /// `false` is a guarantee that no key added matches the target. A filter that cannot answer says `true`.
    fn might_match(&self, target: &Target) -> bool;

    fn encode(&self, out: &mut Vec<u8>);

    /// Memory held, in bytes.
    fn bytes(&self) -> usize;

    /// Distinct entries held: keys, or prefixes of keys.
    fn keys(&self) -> usize;

    /// 0 for an empty filter.
    fn bits_per_key(&self) -> f64 {
        bits_per_key(self.bytes(), self.keys())
    }
}

pub(super) fn bits_per_key(bytes: usize, keys: usize) -> f64 {
    if keys == 0 {
        return 0.0;
    }
    bytes as f64 * 8.0 / keys as f64
}

/// Why stored bytes are not a filter. Never fatal: the filter is rebuilt.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DecodeError {
    #[error("filter is cut off after {0} bytes")]
    Truncated(usize),
    #[error("filter structure {0} is unknown to policy {1}")]
    Structure(u8, String),
    #[error("filter has impossible dimensions: {0}")]
    Dimensions(&'static str),
}
