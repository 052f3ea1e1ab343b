//! The control keyspace's schema: prints it for a DBA, creates what is missing, and compares what exists with what
//! Narrows needs.
//!
//! `definition` and `compare` are pure; `existing` reads `system_schema`. Missing columns are added; nothing is dropped
//! or changed: an object that differs otherwise is reported and left to a person. A version works on the schema of a
//! later one, and on that of the version before until the columns that it wants were added.

pub mod compare;
pub mod definition;
mod existing;
#[cfg(test)]
mod tests;

use std::error::Error;
use std::fmt;
use std::time::Duration;

use scylla::client::session::Session;
use scylla::errors::{DbError, ExecutionError, RequestAttemptError, SchemaAgreementError};
use scylla::policies::load_balancing::{NodeIdentifier, SingleTargetLoadBalancingPolicy};

use crate::config::Control;
use crate::schema::replication::Replication;
use crate::watched::WatchedTable;
use compare::{Difference, Existing, Lacking, differences};
use definition::{FILES, LATER, Object, Statement, keyspace_in_cql};

/// Creating a table takes seconds; anything longer means that something is wrong.
const CREATE_TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Debug, thiserror::Error)]
pub enum SchemaError {
    #[error("cannot read system_schema: {0}")]
    Read(#[source] Box<dyn Error + Send + Sync>),
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
    #[error(
        "this role may not add {column} to {object} ({answer}); have a role with that right run: {statement}; or GRANT \
         ALTER ON KEYSPACE {keyspace} to this role"
    )]
    NotAltered {
        column: String,
        object: String,
        answer: String,
        statement: String,
        keyspace: String,
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
        out.write_str("run `narrows schema apply` to add what is missing; change the rest by hand")
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
    files.collect::<Vec<_>>().join("\n") + &additions(keyspace)
}

/// The columns that tables of earlier versions lack, as comments: CREATE TABLE leaves an existing table as it is.
fn additions(keyspace: &str) -> String {
    let mut text = "\n-- A table that version 0.1 created lacks some of its columns. Run these statements as well then:\n".to_owned();
    for difference in differences(&statements(keyspace, None), &of_first_version(keyspace)) {
        if let (Some(object), Some(lacks)) = (&difference.object, &difference.lacks) {
            text.push_str(&format!("-- {};\n", alter(keyspace, object, lacks)));
        }
    }
    text
}

/// The schema that the first version created.
fn of_first_version(keyspace: &str) -> Existing {
    let mut existing = Existing::default();
    for statement in statements(keyspace, None) {
        existing.create(statement.object);
    }
    for table in &mut existing.tables {
        table
            .columns
            .retain(|column| !LATER.contains(&(&table.name, &column.name)));
    }
    existing
}

fn alter(keyspace: &str, object: &str, lacks: &Lacking) -> String {
    let kind = if lacks.is_field { "TYPE" } else { "TABLE" };
    let (keyspace, definition) = (keyspace_in_cql(keyspace), &lacks.definition);
    format!("ALTER {kind} {keyspace}.{object} ADD {definition}")
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

/// Creates what is missing, adds missing columns, then calls [`verify`]. A role without these rights is enough once a
/// DBA has run the files. Any number of processes may call it at a time.
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
    if !applied.existed.is_empty() {
        add_lacking(session, keyspace, &existing, &mut applied).await?;
    }
    verify(session, keyspace).await?;
    Ok(applied)
}

/// Adds the columns and fields that the objects of an earlier version lack. If that fails, the log says why, and the
/// process works without them if it can. If anything else is wrong, nothing is altered.
async fn add_lacking(
    session: &Session,
    keyspace: &str,
    existing: &Existing,
    applied: &mut Applied,
) -> Result<(), SchemaError> {
    let existed: Vec<Statement> = statements(keyspace, None)
        .into_iter()
        .filter(|statement| existing.has(&statement.object))
        .collect();
    let found = differences(&existed, existing);
    // Such a table was made by somebody else. A person must look at it first.
    if found.iter().any(|difference| difference.lacks.is_none()) {
        return Ok(());
    }
    for difference in found {
        let (Some(object), Some(lacks)) = (&difference.object, &difference.lacks) else {
            continue;
        };
        match add(session, keyspace, object, lacks).await {
            Ok(()) => applied.made.push(format!(
                "{} {keyspace}.{object}.{}",
                if lacks.is_field { "field" } else { "column" },
                lacks.name
            )),
            // In a rolling upgrade of Cassandra, say, no schema can be changed for hours.
            Err(error) if difference.is_tolerable() => {
                tracing::warn!(%error, "the control keyspace stays as an earlier version made it");
                return Ok(());
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

async fn add(
    session: &Session,
    keyspace: &str,
    object: &str,
    lacks: &Lacking,
) -> Result<(), SchemaError> {
    let text = alter(keyspace, object, lacks);
    let Err(error) = run(session, &text, object).await? else {
        return Ok(());
    };
    let answer = match error {
        ExecutionError::LastAttemptError(RequestAttemptError::DbError(
            DbError::Unauthorized,
            answer,
        )) => {
            return Err(SchemaError::NotAltered {
                column: lacks.name.clone(),
                object: object.to_owned(),
                answer,
                statement: text,
                keyspace: keyspace_in_cql(keyspace),
            });
        }
        ExecutionError::SchemaAgreementError(error) => {
            return Err(SchemaError::NoAgreement(Box::new(error)));
        }
        error => error.to_string(),
    };
    // Another process may have added it first.
    let now = existing::read(session, keyspace).await?;
    let is_this = |difference: &Difference| {
        difference.object.as_deref() == Some(object) && difference.lacks.as_ref() == Some(lacks)
    };
    let found = differences(&statements(keyspace, None), &now);
    match found.into_iter().find(is_this) {
        None => Ok(()),
        Some(difference) => Err(SchemaError::Create {
            object: format!("column {} of {object}", lacks.name),
            file: difference.file,
            answer,
        }),
    }
}

/// Compares the existing schema with what Narrows needs, once the nodes agree on it. If they do not, as in a rolling
/// upgrade, one node's answer is used: a proxy that must restart then cannot wait for hours. Columns that this version
/// can do without may be missing.
pub async fn verify(session: &Session, keyspace: &str) -> Result<(), SchemaError> {
    if let Err(error) = session.await_schema_agreement().await {
        tracing::warn!(%error, "the nodes do not agree on one schema; see `nodetool describecluster`");
    }
    let existing = existing::read(session, keyspace).await?;
    let found = differences(&statements(keyspace, None), &existing);
    if found.iter().all(Difference::is_tolerable) {
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
async fn run(
    session: &Session,
    text: &str,
    object: &str,
) -> Result<Result<(), ExecutionError>, SchemaError> {
    let cluster = session.get_cluster_state();
    let nodes = cluster.get_nodes_info().iter();
    let Some(node) = nodes
        .filter(|node| node.is_connected())
        .min_by_key(|node| node.host_id)
    else {
        return Err(SchemaError::NoNode(object.to_owned()));
    };
    let target = SingleTargetLoadBalancingPolicy::new(NodeIdentifier::HostId(node.host_id), None);
    let mut request = scylla::statement::Statement::new(text);
    request.set_load_balancing_policy(Some(target));
    request.set_request_timeout(Some(CREATE_TIMEOUT));
    // The session waits for schema agreement before it returns.
    Ok(session.query_unpaged(request, ()).await.map(drop))
}

async fn create(
    session: &Session,
    keyspace: &str,
    statement: &Statement,
) -> Result<(), SchemaError> {
    let object = full_name(keyspace, &statement.object);
    let Err(error) = run(session, &statement.text, &object).await? else {
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
