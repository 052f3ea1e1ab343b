//! Whether our role may follow the control keyspace, asked without reading or changing anything.

use scylla::errors::{DbError, ExecutionError, RequestAttemptError};

use super::{Store, StoreError};
use crate::wide_row::schema::definition::keyspace_in_cql;

/// A table that a follower reads and changes, and its partition key.
const TABLE: &str = "wide_row";
const KEY: &str = "keyspace_name = ? AND table_name = ? AND shard = ?";
const NULLS: (Option<&str>, Option<&str>, Option<i32>) = (None, None, None);

impl Store {
    /// Fails with Cassandra's own words if our role lacks a right that following needs. Cassandra checks the right
    /// first, so its answer that a key must not be null means that the role has the right.
    pub async fn prove_rights(&self, keyspace: &str) -> Result<(), StoreError> {
        let table = format!("{}.{TABLE}", keyspace_in_cql(keyspace));
        for statement in [
            format!("SELECT version FROM {table} WHERE {KEY}"),
            format!("DELETE FROM {table} WHERE {KEY}"),
        ] {
            match self.session.query_unpaged(statement, NULLS).await {
                Ok(_)
                | Err(ExecutionError::LastAttemptError(RequestAttemptError::DbError(
                    DbError::Invalid,
                    _,
                ))) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}
