//! The control keyspace's schema: prints it for a DBA, creates what is missing, and compares what exists with what
//! Narrows needs.
//!
//! `definition` and `compare` are pure; `existing` reads `system_schema`. Nothing here alters or drops: an object that
//! differs is reported and left to a person.

pub mod compare;
pub mod definition;
mod existing;
#[cfg(test)]
mod tests;

use std::fmt;
use std::time::Duration;

use scylla::client::session::Session;
use scylla::errors::{DbError, ExecutionError, RequestAttemptError, SchemaAgreementError};
use scylla::policies::load_balancing::{NodeIdentifier, SingleTargetLoadBalancingPolicy};

use super::store::Cause;
use crate::config::Control;
use crate::schema::replication::Replication;
use crate::watched::WatchedTable;
use compare::{Difference, differences};
use definition::{FILES, Object, Statement, keyspace_in_cql};

/// Creating a table takes seconds; anything longer means that something is wrong.
const CREATE_TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Debug, thiserror::Error)]
pub enum SchemaError {
    #[error("cannot read system_schema: {0}")]
    Read(#[source] Cause),
    #[error(
        "this role may not create {object} ({answer}); have a role with that right run the output of \
         `narrows schema print`, after which Narrows needs only SELECT and MODIFY on the keyspace, \
         or GRANT CREATE ON {scope} to this role"
    )]
    NotAllowed {
        object: String,
        answer: String,
        scope: String,
    },
    #[error("cannot create {object} as in {file}: {answer}")]
    Create {
        object: String,
        file: &'static str,
        answer: String,
    },
    #[error("cannot create {0}: no node is connected")]
    NoNode(String),
    #[error("the nodes do not agree on one schema ({0}); see `nodetool describecluster`")]
    NoAgreement(#[source] Box<SchemaAgreementError>),
    #[error("keyspace {keyspace} does not have the schema that Narrows needs:\n{differences}")]
    Different {
        keyspace: String,
        differences: Differences,
    },
}

/// Every difference, one per line.
#[derive(Debug)]
pub struct Differences(pub Vec<Difference>);

impl fmt::Display for Differences {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for difference in &self.0 {
            writeln!(out, "  {difference}")?;
        }
        out.write_str("run `narrows schema apply` to add what is missing; alter the rest by hand")
    }
}

/// What [`apply`] did, by full names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Applied {
    pub made: Vec<String>,
    pub existed: Vec<String>,
    /// Set if the keyspace was created.
    pub replication: Option<Replication>,
}

/// All files as one text with comments, for people and for `cqlsh -f`.
pub fn print(keyspace: &str, replication: Option<&Replication>) -> String {
    let files = FILES.iter().map(|(file, text)| {
        let text = definition::with_names(text, keyspace, replication);
        format!("-- {file}\n\n{text}")
    });
    files.collect::<Vec<_>>().join("\n")
}

/// All statements in their order.
pub fn statements(keyspace: &str, replication: Option<&Replication>) -> Vec<Statement> {
    let files = FILES.iter().flat_map(|(file, text)| {
        let text = definition::with_names(text, keyspace, replication);
        definition::parse(file, &text)
            .expect("the files are part of the binary, and a test splits them")
    });
    files.collect()
}

/// Creates what is missing, then calls [`verify`]. It does not touch what exists, so a role without the right to create
/// is enough once a DBA has run the files. Any number of processes may call it at a time.
pub async fn apply(
    session: &Session,
    control: &Control,
    watched: &[WatchedTable],
) -> Result<Applied, SchemaError> {
    let keyspace = &control.keyspace;
    let existing = existing::read(session, keyspace).await?;
    let mut applied = Applied::default();
    if !existing.keyspace {
        applied.replication = Some(choose_replication(session, control, watched).await?);
    }
    for statement in statements(keyspace, applied.replication.as_ref()) {
        let name = full_name(keyspace, &statement.object);
        if existing.has(&statement.object) {
            applied.existed.push(name);
        } else {
            create(session, keyspace, &statement).await?;
            applied.made.push(name);
        }
    }
    verify(session, keyspace).await?;
    Ok(applied)
}

/// Compares the existing schema with what Narrows needs, once the nodes agree on it. If they do not, as in a rolling
/// upgrade, one node's answer is used: a proxy that must restart then cannot wait for hours.
pub async fn verify(session: &Session, keyspace: &str) -> Result<(), SchemaError> {
    if let Err(error) = session.await_schema_agreement().await {
        tracing::warn!(%error, "the nodes do not agree on one schema; see `nodetool describecluster`");
    }
    let existing = existing::read(session, keyspace).await?;
    let found = differences(&statements(keyspace, None), &existing);
    if found.is_empty() {
        return Ok(());
    }
    Err(SchemaError::Different {
        keyspace: keyspace.to_owned(),
        differences: Differences(found),
    })
}

/// The configured replication, else that of the first watched table, else up to three copies in every data centre.
async fn choose_replication(
    session: &Session,
    control: &Control,
    watched: &[WatchedTable],
) -> Result<Replication, SchemaError> {
    if let Some(configured) = &control.replication {
        return Ok(configured.clone());
    }
    if let Some(first) = watched.first()
        && let Some(copied) = existing::replication(session, &first.name.keyspace).await?
    {
        return Ok(copied);
    }
    let cluster = session.get_cluster_state();
    let nodes = cluster.get_nodes_info().iter();
    let data_centers = nodes.filter_map(|node| node.datacenter.as_deref());
    Ok(Replication::for_data_centers(data_centers))
}

/// Runs one statement, on the node that every other process would choose too: two nodes that create the same table at
/// the same moment give it two ids, and then cannot agree.
async fn create(
    session: &Session,
    keyspace: &str,
    statement: &Statement,
) -> Result<(), SchemaError> {
    let object = full_name(keyspace, &statement.object);
    let cluster = session.get_cluster_state();
    let nodes = cluster.get_nodes_info().iter();
    let Some(node) = nodes
        .filter(|node| node.is_connected())
        .min_by_key(|node| node.host_id)
    else {
        return Err(SchemaError::NoNode(object));
    };
    let target = SingleTargetLoadBalancingPolicy::new(NodeIdentifier::HostId(node.host_id), None);
    let mut request = scylla::statement::Statement::new(statement.text.as_str());
    request.set_load_balancing_policy(Some(target));
    request.set_request_timeout(Some(CREATE_TIMEOUT));
    // The session waits for schema agreement before it returns.
    let Err(error) = session.query_unpaged(request, ()).await else {
        return Ok(());
    };
    Err(match error {
        ExecutionError::LastAttemptError(RequestAttemptError::DbError(
            DbError::Unauthorized,
            answer,
        )) => SchemaError::NotAllowed {
            object,
            answer,
            scope: match statement.object {
                Object::Keyspace => "ALL KEYSPACES".to_owned(),
                _ => format!("KEYSPACE {}", keyspace_in_cql(keyspace)),
            },
        },
        ExecutionError::SchemaAgreementError(error) => SchemaError::NoAgreement(Box::new(error)),
        error => SchemaError::Create {
            object,
            file: statement.file,
            answer: error.to_string(),
        },
    })
}

fn full_name(keyspace: &str, object: &Object) -> String {
    match object {
        Object::Keyspace => format!("keyspace {keyspace}"),
        Object::Type { name, .. } => format!("type {keyspace}.{name}"),
        Object::Table { name, .. } => format!("table {keyspace}.{name}"),
    }
}
