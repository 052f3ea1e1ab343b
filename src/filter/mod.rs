//! Tells which partitions might be split, in tens of nanoseconds, before anything else is asked.
//!
//! A filter may say "maybe" about a key it does not hold; it never says "no" about one it does. Everything here follows
//! from that: a filter that cannot answer says `true`, and one that cannot be read is rebuilt.
//!
//! - [`policy`]: the traits, what can be asked ([`Target`]) and how keys are hashed.
//! - [`fuse`], [`bloom`], [`prefix`]: the policies; `hashes` is what they share.
//! - [`spec`]: policies as the configuration writes them.
//! - [`composite`]: several policies ANDed, and the block they are stored in.
//! - [`snapshot`]: a table's immutable snapshot; `overlay` holds the keys inserted since it was built.
//! - [`table`]: the handle that readers ask and a background task rebuilds; `stored` is its form on disk.
//!
//! Pure: no runtime, no clock, no files, no random numbers. The same keys give the same bytes.

pub mod bloom;
pub mod composite;
pub mod fuse;
mod hashes;
mod overlay;
pub mod policy;
pub mod prefix;
pub mod snapshot;
pub mod spec;
mod stored;
pub mod table;

#[cfg(test)]
mod tests;

pub use bloom::{BloomPolicy, Sizing, SizingError};
pub use composite::Composite;
pub use fuse::FusePolicy;
pub use policy::{
    DecodeError, Filter, FilterBuilder, FilterPolicy, HashedKey, Policies, Target, hash, shard_of,
};
pub use prefix::{LeadingColumns, PrefixExtractor, PrefixPolicy};
pub use snapshot::{Snapshot, Stats};
pub use spec::SpecError;
pub use stored::Restored;
pub use table::{BuiltShard, Installed, MIN_FILTER_KEYS_MAX, Rebuild, TableFilter};
