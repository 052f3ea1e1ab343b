//! The table that holds the buckets of an original: one for each schema that the original has had, created on demand.
//!
//! `split_table` in the control keyspace decides who creates one: two nodes that create the same table at the same
//! moment give it two ids, and then cannot agree. It also keeps planning and dropping apart: a plan uses a table by an
//! LWT that fails once the table is marked as dropped, and clean-up marks a table as dropped by an LWT that fails if
//! the table was used since. A dropped name is not used again, so a late DROP hits nothing that is needed.

mod create;
mod gone;
mod held;
mod unused;

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

use scylla::DeserializeRow;
use scylla::statement::prepared::PreparedStatement;
use scylla::value::CqlTimestamp;
use tokio::time::{Instant, sleep};
use uuid::Uuid;

pub use self::gone::LeftRow;
pub use self::held::SplitTables;
pub use self::unused::MadeTable;

use self::create::{OPTIONS, Options, TYPES, create, fits, mark};
use super::cas::{Answer, Values, answered, bind, send};
use super::{Store, StoreError, not_understood};
use crate::schema::TableSchema;
use crate::schema::bucket::{BUCKET, GENERATION};
use crate::schema::names::TableName;
use crate::wide_row::split_name;

/// The columns that clients do not see, at the end of a split table's partition key.
pub const HIDDEN: [&str; 2] = [GENERATION, BUCKET];
const NUMBERS_MAX: u32 = 10_000;
const SCHEMA_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a worker may take to create a table, while no other begins: longer than the statement and the schema
/// agreement after it can take.
const LEASE_SECONDS: i32 = 120;
/// How long a worker waits for another to create a table: until that worker's lease must have expired.
const WAIT_MAX: Duration = Duration::from_secs(LEASE_SECONDS as u64 + 30);
const LOOK_EVERY: Duration = Duration::from_millis(300);

const TABLES: &str =
    "SELECT table_name, id, comment FROM system_schema.tables WHERE keyspace_name = ?";

/// The split table that a plan would use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prospect {
    pub name: String,
    pub exists: bool,
}

/// A table as the cluster has it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Existing {
    id: Uuid,
    /// It carries the mark of the tables that Narrows creates.
    is_marked: bool,
}

/// The next step towards a split table.
#[derive(Debug, PartialEq, Eq)]
enum Choice {
    Use(String, Existing),
    Make(String),
    /// Another worker is creating it, or our view of the schema is out of date.
    Wait(String),
}

impl Store {
    /// The split table for this schema of the original, created if there is none. It is not dropped for a day from now
    /// on, even if nothing refers to it.
    pub async fn split_table(&self, original: &TableSchema) -> Result<String, StoreError> {
        let until = Instant::now() + WAIT_MAX;
        let mut is_settled = false;
        loop {
            match self.choose(original, is_settled).await? {
                Choice::Use(name, found) => {
                    if self.use_split_table(original, &name, &found).await? {
                        return Ok(name);
                    }
                }
                Choice::Make(name) => {
                    if self.make_split_table(original, &name).await? {
                        return Ok(name);
                    }
                }
                Choice::Wait(_) => {}
            }
            if Instant::now() >= until {
                let text = format!("a split table of {} was not made in time", original.table);
                return Err(StoreError::Unreachable(text.into()));
            }
            sleep(LOOK_EVERY).await;
            self.agree().await?;
            is_settled = true;
        }
    }

    /// The split table that [`Self::split_table`] would return now. Changes nothing.
    pub async fn expected_split_table(
        &self,
        original: &TableSchema,
    ) -> Result<Prospect, StoreError> {
        Ok(match self.choose(original, true).await? {
            Choice::Use(name, _) => Prospect { name, exists: true },
            Choice::Make(name) | Choice::Wait(name) => Prospect {
                name,
                exists: false,
            },
        })
    }

    /// `is_settled`: the nodes agreed on the schema after a first look, so a table that is missing does not exist.
    async fn choose(&self, original: &TableSchema, is_settled: bool) -> Result<Choice, StoreError> {
        let table = name_of(original);
        let known = self.known_split_tables(&table).await?;
        let existing = self.existing_tables(&table).await?;
        for number in 1..NUMBERS_MAX {
            let name = split_name::name(&original.table, number);
            let entry = known.get(&name).cloned().unwrap_or_default();
            if entry.dropped_at.is_some() {
                continue;
            }
            match existing.get(&name) {
                _ if entry.lease.is_some() => return Ok(Choice::Wait(name)),
                // Somebody replaced the table that we created.
                Some(found) if entry.table_id.is_some_and(|id| id != found.id) => {}
                Some(found) if self.is_split_table(original, &name).await? => {
                    return Ok(Choice::Use(name, found.clone()));
                }
                Some(_) => {}
                // Somebody dropped the table that we created: its name is not used again.
                None if entry.table_id.is_some() && is_settled => {}
                None if entry.table_id.is_some() => return Ok(Choice::Wait(name)),
                None => return Ok(Choice::Make(name)),
            }
        }
        let text = format!(
            "keyspace {} has no free name for a split table; drop old split tables by hand",
            original.keyspace
        );
        Err(StoreError::Refused(text.into()))
    }

    async fn known_split_tables(
        &self,
        table: &TableName,
    ) -> Result<BTreeMap<String, Entry>, StoreError> {
        let values = bind![table.keyspace.clone(), table.table.clone()];
        let mut known = BTreeMap::new();
        self.each_row(&self.statements.split_tables, &values, |row: Row| {
            let entry = Entry {
                table_id: row.table_id,
                lease: row.lease,
                unused_since: row.unused_since.map(|time| time.0),
                dropped_at: row.dropped_at.map(|time| time.0),
            };
            known.insert(row.split_table, entry);
        })
        .await?;
        Ok(known)
    }

    /// All tables of the original's keyspace.
    async fn existing_tables(
        &self,
        original: &TableName,
    ) -> Result<BTreeMap<String, Existing>, StoreError> {
        let keyspace = original.keyspace.as_str();
        let result = self.session.query_unpaged(TABLES, (keyspace,)).await?;
        let rows = result.into_rows_result().map_err(not_understood)?;
        let mark = mark(&original.table);
        let mut existing = BTreeMap::new();
        for row in rows
            .rows::<(String, Uuid, Option<String>)>()
            .map_err(not_understood)?
        {
            let (name, id, comment) = row.map_err(not_understood)?;
            let is_marked = comment.as_ref() == Some(&mark);
            existing.insert(name, Existing { id, is_marked });
        }
        Ok(existing)
    }

    async fn is_split_table(&self, original: &TableSchema, name: &str) -> Result<bool, StoreError> {
        let table = TableName::new(&original.keyspace, name);
        let found = self.describe(&table).await?.schema;
        Ok(found.is_some_and(|found| fits(original, &found)))
    }

    /// `false`: it is being dropped, or another worker has just changed its row. A table that fits but was not created
    /// by Narrows is used and recorded as well, and never dropped.
    async fn use_split_table(
        &self,
        original: &TableSchema,
        name: &str,
        found: &Existing,
    ) -> Result<bool, StoreError> {
        let statement = &self.statements.use_split_table;
        let original = &name_of(original);
        let answer = self
            .split_table_lwt(statement, original, name, &|| (bind![], bind![found.id]))
            .await?;
        if answer.applied {
            return Ok(true);
        }
        if answer.is_set("table_id") || answer.is_set("dropped_at") {
            return Ok(false);
        }
        let statement = &self.statements.adopt;
        let answer = self
            .split_table_lwt(statement, original, name, &|| (bind![found.id], bind![]))
            .await?;
        // If another worker was first, the next look uses the table.
        Ok(answer.applied)
    }

    /// `false`: another worker is creating it, or has just created it.
    async fn make_split_table(
        &self,
        original: &TableSchema,
        name: &str,
    ) -> Result<bool, StoreError> {
        // It only has to be unique: std's random state differs on every call.
        let random = || RandomState::new().build_hasher().finish();
        let token = format!("{:016x}{:016x}", random(), random());
        let statement = &self.statements.reserve;
        let table = name_of(original);
        let reserved = self
            .split_table_lwt(statement, &table, name, &|| {
                (bind![LEASE_SECONDS, token.clone()], bind![])
            })
            .await?;
        // An earlier attempt of ours may have reserved it, and its reply was lost.
        if !reserved.applied && reserved.text("lease") != Some(&token) {
            return Ok(false);
        }
        self.create_split_table(original, name).await?;
        let existing = self.existing_tables(&table).await?;
        let made = existing.get(name);
        let missing =
            || StoreError::Unreachable(format!("{name} was created but does not exist").into());
        let id = made.ok_or_else(missing)?.id;
        let statement = &self.statements.record_made;
        let recorded = self
            .split_table_lwt(statement, &table, name, &|| {
                (bind![id], bind![token.clone()])
            })
            .await?;
        // If it took longer than the lease, the next look finds the table.
        Ok(recorded.applied)
    }

    async fn create_split_table(
        &self,
        original: &TableSchema,
        name: &str,
    ) -> Result<(), StoreError> {
        let names = (original.keyspace.as_str(), original.table.as_str());
        let types: Vec<(String, String)> = self.schema_rows(TYPES, names).await?;
        let options: Vec<Options> = self.schema_rows(OPTIONS, names).await?;
        let options = options.into_iter().next();
        let missing = || StoreError::Refused(format!("{}.{} is gone", names.0, names.1).into());
        let create = create(original, name, &types, &options.ok_or_else(missing)?);
        let mut statement = scylla::statement::Statement::new(create);
        statement.set_request_timeout(Some(SCHEMA_TIMEOUT));
        self.session.query_unpaged(statement, ()).await?;
        self.agree().await
    }

    async fn agree(&self) -> Result<(), StoreError> {
        let agreed = self.session.await_schema_agreement().await;
        agreed.map_err(|error| StoreError::Unreachable(error.into()))?;
        Ok(())
    }

    /// One LWT on a row of `split_table`. `values` returns what it sets, and the conditions that it has besides the
    /// row's key.
    async fn split_table_lwt(
        &self,
        statement: &PreparedStatement,
        original: &TableName,
        name: &str,
        values: &(dyn Fn() -> (Values, Values) + Sync),
    ) -> Result<Answer, StoreError> {
        let values = || {
            let (mut values, conditions) = values();
            values.extend(bind![
                original.keyspace.clone(),
                original.table.clone(),
                name.to_owned()
            ]);
            values.extend(conditions);
            values
        };
        answered(|| send(&self.session, statement, values())).await
    }
}

fn name_of(original: &TableSchema) -> TableName {
    TableName::new(&original.keyspace, &original.table)
}

/// What `split_table` records about one table.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Entry {
    table_id: Option<Uuid>,
    lease: Option<String>,
    unused_since: Option<i64>,
    dropped_at: Option<i64>,
}

#[derive(DeserializeRow)]
struct Row {
    split_table: String,
    table_id: Option<Uuid>,
    lease: Option<String>,
    unused_since: Option<CqlTimestamp>,
    dropped_at: Option<CqlTimestamp>,
}
