//! What a client may do with originals: `record` remembers it for a connection, `proof` asks Cassandra.

pub(super) mod proof;
pub(super) mod record;
