//! One conditional change, repeated until its outcome is known.
//!
//! Versions must grow, so an LWT that lost only to another change of its shard is sent again with a larger version. An
//! LWT with an unknown outcome is sent again, too: its conditions tell whether anything is left to do, and it writes
//! the same values.

use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher, RandomState};
use std::time::Duration;

use scylla::client::session::Session;
use scylla::response::query_result::QueryResult;
use scylla::serialize::row::SerializeRow;
use scylla::serialize::value::SerializeValue;
use scylla::statement::prepared::PreparedStatement;
use scylla::value::{CqlValue, Row};
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::sleep;

use super::{Happened, StoreError, not_understood};
use crate::schema::names::TableName;
use crate::wide_row::clock::unix_micros;
use crate::wide_row::names::Version;

/// Each attempt loses only to a change that succeeded, so this many in a row mean that something is wrong.
const ATTEMPTS_MAX: usize = 12;
/// Maximum number of attempts at a change that is not conditional on a version.
const REPEATS_MAX: usize = 5;
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// The reply to an LWT.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) applied: bool,
    /// The values that the conditions were compared with; empty if there were none.
    columns: Vec<(String, Option<CqlValue>)>,
}

impl Answer {
    pub(super) fn read(result: QueryResult) -> Result<Self, StoreError> {
        let rows = result.into_rows_result().map_err(not_understood)?;
        let names: Vec<String> = rows
            .column_specs()
            .iter()
            .map(|column| column.name().to_owned())
            .collect();
        let row = rows.first_row::<Row>().map_err(not_understood)?;
        let mut columns: Vec<_> = names.into_iter().zip(row.columns).collect();
        let applied = columns
            .iter()
            .position(|(name, _)| name == "[applied]")
            .map(|index| columns.swap_remove(index).1);
        match applied {
            Some(Some(CqlValue::Boolean(applied))) => Ok(Self { applied, columns }),
            _ => Err(not_understood("an LWT whose reply has no [applied]")),
        }
    }

    fn get(&self, name: &str) -> Option<&CqlValue> {
        let (_, value) = self.columns.iter().find(|(column, _)| column == name)?;
        value.as_ref()
    }

    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.get(name)
            .and_then(CqlValue::as_text)
            .map(String::as_str)
    }

    pub(super) fn int(&self, name: &str) -> Option<i32> {
        self.get(name).and_then(CqlValue::as_int)
    }

    pub(super) fn bigint(&self, name: &str) -> Option<i64> {
        self.get(name).and_then(CqlValue::as_bigint)
    }

    pub(super) fn is_set(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    pub(super) fn version(&self) -> Option<Version> {
        self.get("version")
            .and_then(CqlValue::as_bigint)
            .map(Version)
    }
}

/// How a conditional change ended.
pub(super) enum Ended {
    /// An LWT of ours returned that it applied.
    Applied(Version),
    /// A condition other than the version failed.
    Lost(Answer),
}

/// Concurrent LWTs on one partition cost each other Paxos rounds, so those of one process take turns.
pub(super) struct Turns([Mutex<()>; 64]);

impl Default for Turns {
    fn default() -> Self {
        Self([const { Mutex::const_new(()) }; 64])
    }
}

impl Turns {
    pub(super) async fn take(&self, table: &TableName, shard: i32) -> MutexGuard<'_, ()> {
        let mut hasher = DefaultHasher::new();
        (table, shard).hash(&mut hasher);
        let stripe = hasher.finish() as usize % self.0.len();
        self.0[stripe].lock().await
    }
}

/// Sends a change with growing versions. `repeatable` says of an LWT that did not apply whether only its version was
/// too small.
pub(super) async fn change<V: SerializeRow>(
    session: &Session,
    statement: &PreparedStatement,
    seen: Version,
    values: impl Fn(Version) -> V,
    repeatable: impl Fn(&Answer) -> bool,
) -> Result<Ended, StoreError> {
    let mut version = next(seen);
    let mut trouble = None;
    for attempt in 0..ATTEMPTS_MAX {
        match send(session, statement, values(version)).await {
            Ok(answer) if answer.applied => return Ok(Ended::Applied(version)),
            Ok(answer) if !repeatable(&answer) => return Ok(Ended::Lost(answer)),
            Ok(answer) => version = next(answer.version().unwrap_or(version)),
            Err(error) if matches!(error.happened(), Happened::No) && trouble.is_none() => {
                return Err(error);
            }
            Err(error) => {
                trouble = Some(error);
                sleep(pause(attempt)).await;
                version = next(version);
            }
        }
    }
    Err(match trouble {
        Some(trouble) => StoreError::Unknown(trouble.into()),
        None => StoreError::Contended(ATTEMPTS_MAX),
    })
}

/// Repeats a change that is harmless to repeat, until it is answered.
pub(super) async fn answered<F: Future<Output = Result<Answer, StoreError>>>(
    attempt: impl Fn() -> F,
) -> Result<Answer, StoreError> {
    let mut number = 0;
    loop {
        let error = match attempt().await {
            Ok(answer) => return Ok(answer),
            Err(error) if matches!(error.happened(), Happened::No) => return Err(error),
            Err(error) => error,
        };
        sleep(pause(number)).await;
        number += 1;
        if number == REPEATS_MAX {
            return Err(StoreError::Unknown(error.into()));
        }
    }
}

pub(super) async fn send(
    session: &Session,
    statement: &PreparedStatement,
    values: impl SerializeRow,
) -> Result<Answer, StoreError> {
    Answer::read(session.execute_unpaged(statement, values).await?)
}

fn next(version: Version) -> Version {
    version.after(unix_micros())
}

/// An exponential back-off with jitter, so that two writers that collided do not collide again.
fn pause(attempt: usize) -> Duration {
    let longest = PAUSE_MIN
        .saturating_mul(1 << attempt.min(10))
        .min(PAUSE_MAX);
    let chance = RandomState::new().build_hasher().finish() % 1024;
    longest / 2 + longest / 2 * chance as u32 / 1024
}

/// The values of one statement, of any types.
pub(super) type Values = Vec<Box<dyn SerializeValue + Send + Sync>>;

/// Boxes values in the order of the statement's markers; `place id` stands for the four columns of a split's key.
macro_rules! bind {
    ($($value:expr),* $(,)?) => {{
        let values: $crate::wide_row::store::cas::Values = vec![$(Box::new($value)),*];
        values
    }};
    ($($before:expr),* ; place $id:expr ; $($after:expr),* $(,)?) => {
        $crate::wide_row::store::cas::bind![
            $($before,)*
            $id.table.keyspace.clone(), $id.table.table.clone(), $id.shard, $id.key.bytes().to_vec(),
            $($after,)*
        ]
    };
}
pub(super) use bind;
