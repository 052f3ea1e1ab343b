//! A client's rights on originals: `proof` asks Cassandra, `record` remembers the answers for one connection.

pub(super) mod proof;
pub(super) mod record;
