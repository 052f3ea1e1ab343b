//! `narrows schema`: the control keyspace for a DBA to read, or made where it is missing.

use super::exit;
use crate::config::Config;
use crate::wide_row::schema::{self, Applied, SchemaError};
use crate::wide_row::store::connect::{self, ConnectError};

#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    #[error("{0}")]
    Connect(#[from] ConnectError),
    #[error("{0}")]
    Schema(#[from] SchemaError),
}

impl ApplyError {
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Connect(ConnectError::Tls(_) | ConnectError::DataCenter { .. }) => {
                exit::CONFIGURATION
            }
            Self::Connect(ConnectError::Upstream(_) | ConnectError::Session(_)) => {
                exit::UPSTREAM_UNAVAILABLE
            }
            Self::Schema(
                SchemaError::Read(_) | SchemaError::NoNode(_) | SchemaError::NoAgreement(_),
            ) => exit::UPSTREAM_UNAVAILABLE,
            Self::Schema(
                SchemaError::NotAllowed { .. }
                | SchemaError::Create { .. }
                | SchemaError::Different { .. },
            ) => exit::CONTROL_KEYSPACE,
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
    use crate::wide_row::schema::replication::Replication;

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
