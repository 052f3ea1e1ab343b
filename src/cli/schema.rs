//! `narrows schema`: the control keyspace for a DBA to read, or made where it is missing.

use std::sync::Arc;

use super::exit;
use crate::config::Config;
use crate::wide_row::schema::{self, Applied, SchemaError};
use crate::wide_row::store::connect::{self, ConnectError};
use crate::wide_row::store::{Store, StoreError};

#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    #[error("{0}")]
    Connect(#[from] ConnectError),
    #[error("{0}")]
    Schema(#[from] SchemaError),
    #[error("{0}")]
    Store(#[from] StoreError),
    #[error("{0} is not watched; `SELECT * FROM {1}.watched_table` shows what is")]
    NotWatched(String, String),
    #[error("{0} is not a power of two, such as 16 or 256")]
    NotAPowerOfTwo(u32),
}

impl ApplyError {
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Connect(ConnectError::Tls(_) | ConnectError::DataCenter { .. }) => {
                exit::CONFIGURATION
            }
            Self::Connect(
                ConnectError::Upstream(_) | ConnectError::Session(_) | ConnectError::Slow,
            ) => exit::UPSTREAM_UNAVAILABLE,
            Self::Schema(
                SchemaError::Read(_) | SchemaError::NoNode(_) | SchemaError::NoAgreement(_),
            ) => exit::UPSTREAM_UNAVAILABLE,
            Self::Schema(
                SchemaError::NotAllowed { .. }
                | SchemaError::Create { .. }
                | SchemaError::Different { .. },
            ) => exit::CONTROL_KEYSPACE,
            Self::Store(StoreError::Refused(_) | StoreError::NotUnderstood(_)) => {
                exit::CONTROL_KEYSPACE
            }
            Self::Store(_) => exit::UPSTREAM_UNAVAILABLE,
            Self::NotWatched(..) | Self::NotAPowerOfTwo(_) => exit::CONFIGURATION,
        }
    }
}

/// The CQL that makes the control keyspace, with comments.
pub fn print(config: &Config) -> String {
    schema::print(
        &config.control.keyspace,
        config.control.replication.as_ref(),
    )
}

/// Makes what is missing and says what was made and what existed. Whether `control.enabled` or `control.apply_schema` is
/// on does not matter here: somebody asks for it.
pub async fn apply(config: &Config) -> Result<String, ApplyError> {
    let session = connect::connect(config).await?;
    let applied = schema::apply(&session, &config.control, &config.tables).await?;
    Ok(report(&applied))
}

/// Moves a watched table to another number of shards.
pub async fn reshard(config: &Config, table: &str, shards: u32) -> Result<String, ApplyError> {
    if !shards.is_power_of_two() {
        return Err(ApplyError::NotAPowerOfTwo(shards));
    }
    let session = Arc::new(connect::connect(config).await?);
    let keyspace = &config.control.keyspace;
    schema::verify(&session, keyspace).await?;
    let store = Store::open(session, keyspace).await?;
    let rows = store.read_watched().await?;
    let row = rows.iter().find(|row| row.table.name.to_string() == table);
    let not_watched = || ApplyError::NotWatched(table.to_owned(), keyspace.clone());
    let row = row.ok_or_else(not_watched)?;
    let watched = &row.table;
    if watched.shards == shards {
        return Ok(format!("{table} has {shards} shards already\n"));
    }
    store.reshard(row, shards).await?;
    let before = watched.shards;
    Ok(format!(
        "{table} moved from {before} to {shards} shards; its splits are out of service and can be made anew\n"
    ))
}

fn report(applied: &Applied) -> String {
    let mut out = String::new();
    for name in &applied.existed {
        out.push_str(&format!("existed  {name}\n"));
    }
    for name in &applied.made {
        out.push_str(&format!("made     {name}\n"));
    }
    if let Some(replication) = &applied.replication {
        out.push_str(&format!("replication of the keyspace is {replication}\n"));
    }
    out.push_str("the control keyspace is as Narrows needs it\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::replication::Replication;

    #[test]
    fn prints_with_the_settings_and_without_a_cluster() {
        let mut config = Config::default();
        assert!(print(&config).contains("IF NOT EXISTS narrows\n"));
        config.control.keyspace = "other".to_owned();
        config.control.replication =
            Replication::parse("{'class': 'NetworkTopologyStrategy', 'here': 2}");
        let printed = print(&config);
        assert!(printed.contains("CREATE KEYSPACE IF NOT EXISTS \"other\""));
        assert!(printed.contains("{'class': 'NetworkTopologyStrategy', 'here': '2'}"));
    }

    #[test]
    fn says_what_was_made_and_what_existed() {
        let applied = Applied {
            made: vec!["table n.b".to_owned()],
            existed: vec!["keyspace n".to_owned(), "table n.a".to_owned()],
            replication: None,
        };
        assert_eq!(
            report(&applied),
            "existed  keyspace n\nexisted  table n.a\nmade     table n.b\n\
             the control keyspace is as Narrows needs it\n"
        );
    }
}
