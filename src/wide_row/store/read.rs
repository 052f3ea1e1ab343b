//! Reads of the control keyspace, each of one partition or of the statics of several.

use std::ops::ControlFlow;

use scylla::DeserializeRow;
use scylla::response::PagingState;
use scylla::statement::prepared::PreparedStatement;
use scylla::value::CqlTimestamp;

use super::cas::{Values, bind};
use super::columns::{PostSplitColumn, PreSplitColumn, ProgressColumn, row_with_later_columns};
use super::{SplitId, Store, StoreError, not_understood};
use crate::schema::names::{PartitionKey, TableName};
use crate::wide_row::found_by::FoundBy;
use crate::wide_row::layout::Seal;
use crate::wide_row::names::{Generation, Version};
use crate::wide_row::state::{PostSplitData, PreSplitData, Progress, Standing, State};

/// Maximum number of shards in one query: more would make one coordinator do too much at once.
const SHARDS_PER_QUERY: usize = 64;

/// The statics of one shard. A shard without any is at version 0 and epoch 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShardReading {
    pub shard: i32,
    pub version: Version,
    pub epoch: i32,
    /// The version at which the epoch moved last.
    pub epoch_version: Version,
}

/// What a follower learns about a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedRow {
    pub key: PartitionKey,
    pub version: Version,
    pub row_epoch: i32,
    /// Writes to the key must be noticed; true for a state that this version does not know.
    pub is_guarded: bool,
    /// `None` if the row has no state, or one that this version does not know.
    pub state: Option<State>,
    pub generation: Generation,
    /// Buckets of older generations are gone.
    pub oldest_generation: Generation,
    /// Milliseconds since 1970.
    pub not_before: Option<i64>,
}

/// A key's state together with the version of its shard, from one read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KeyReading {
    pub version: Version,
    /// `None`: the key has no split, or one whose state this version does not know.
    pub standing: Option<Standing>,
    pub is_unknown: bool,
    /// The row's version: that of the shard at the row's last change.
    pub row_version: Version,
    /// Set even if this version does not know the row's state.
    pub generation: Option<Generation>,
    /// Milliseconds since 1970.
    pub not_before: Option<i64>,
    /// Number of generations that a write has ended.
    pub late_writes: i32,
    /// A write of unknown outcome may take effect until then. Milliseconds since 1970.
    pub unsettled_until: Option<i64>,
    /// Of the generation's proven layout; `None` if an earlier version completed it.
    pub seal: Option<Seal>,
}

/// A split as the table holds it.
#[derive(Debug, Clone, PartialEq)]
pub struct Split {
    pub version: Version,
    pub standing: Standing,
    /// The token of its lease, while a worker holds it.
    pub lease: Option<String>,
    pub pre_split_data: Option<PreSplitData>,
    pub post_split_data: Option<PostSplitData>,
    pub progress: Option<Progress>,
    pub reason: Option<String>,
    /// Milliseconds since 1970, like the other times.
    pub not_before: Option<i64>,
    pub detected_at: Option<i64>,
    pub changed_at: Option<i64>,
    /// Failed attempts since the last completed one.
    pub failures: i32,
    pub seen_bytes: Option<i64>,
    /// Buckets of older attempts are gone.
    pub oldest_generation: Option<Generation>,
    /// What drew attention to it; `None` if another version found it.
    pub found_by: Option<FoundBy>,
}

impl Store {
    /// The statics of all shards of a table, in order.
    pub async fn read_shards(
        &self,
        table: &TableName,
        shards: u32,
    ) -> Result<Vec<ShardReading>, StoreError> {
        let first = shards as i32;
        let numbers: Vec<i32> = (first..).take(shards as usize).collect();
        let mut readings: Vec<_> = numbers
            .iter()
            .map(|shard| ShardReading::empty(*shard))
            .collect();
        let statement = self.nearby(&self.statements.shards);
        for some in numbers.chunks(SHARDS_PER_QUERY) {
            let values = bind![table.keyspace.clone(), table.table.clone(), some.to_vec()];
            let result = self.session.execute_unpaged(&statement, values).await?;
            let rows = result.into_rows_result().map_err(not_understood)?;
            for row in rows.rows::<ShardRow>().map_err(not_understood)? {
                let reading = ShardReading::from(row.map_err(not_understood)?);
                let index = usize::try_from(reading.shard - first).unwrap_or(usize::MAX);
                if let Some(place) = readings.get_mut(index) {
                    *place = reading;
                }
            }
        }
        Ok(readings)
    }

    /// The statics of one shard.
    pub async fn read_shard(
        &self,
        table: &TableName,
        shard: i32,
    ) -> Result<ShardReading, StoreError> {
        let statement = self.nearby(&self.statements.shard);
        self.read_statics(&statement, table, shard).await
    }

    /// The same for a follower, which nobody waits for.
    pub async fn poll_shard(
        &self,
        table: &TableName,
        shard: i32,
    ) -> Result<ShardReading, StoreError> {
        let statement = self.nearby(&self.statements.polled_shard);
        self.read_statics(&statement, table, shard).await
    }

    /// The statics of one shard, after all LWTs in flight are finished: the answer is on a quorum.
    pub async fn read_settled_shard(
        &self,
        table: &TableName,
        shard: i32,
    ) -> Result<ShardReading, StoreError> {
        let statement = &self.statements.settled_shard;
        self.read_statics(statement, table, shard).await
    }

    async fn read_statics(
        &self,
        statement: &PreparedStatement,
        table: &TableName,
        shard: i32,
    ) -> Result<ShardReading, StoreError> {
        let values = bind![table.keyspace.clone(), table.table.clone(), shard];
        let result = self.session.execute_unpaged(statement, values).await?;
        let rows = result.into_rows_result().map_err(not_understood)?;
        let row = rows.maybe_first_row::<ShardRow>().map_err(not_understood)?;
        Ok(row.map_or(ShardReading::empty(shard), ShardReading::from))
    }

    /// Every row of a shard whose version is above `since`; all rows if `since` is 0.
    pub async fn read_rows(
        &self,
        table: &TableName,
        shard: i32,
        since: Version,
        each: impl FnMut(ChangedRow),
    ) -> Result<(), StoreError> {
        let everywhere = PreparedStatement::clone;
        self.rows_of(table, (shard, since), everywhere, each).await
    }

    /// The same rows, read as near as versions are.
    pub async fn read_rows_nearby(
        &self,
        table: &TableName,
        shard: i32,
        since: Version,
        each: impl FnMut(ChangedRow),
    ) -> Result<(), StoreError> {
        let nearby = |statement: &_| self.nearby(statement);
        self.rows_of(table, (shard, since), nearby, each).await
    }

    async fn rows_of(
        &self,
        table: &TableName,
        (shard, since): (i32, Version),
        leveled: impl Fn(&PreparedStatement) -> PreparedStatement,
        mut each: impl FnMut(ChangedRow),
    ) -> Result<(), StoreError> {
        let (statement, values) = match since {
            Version(0) => {
                let values = bind![table.keyspace.clone(), table.table.clone(), shard];
                (&self.statements.all_rows, values)
            }
            Version(since) => {
                let values = bind![table.keyspace.clone(), table.table.clone(), shard, since];
                (&self.statements.changed_rows, values)
            }
        };
        let values: Values = values;
        self.each_row(&leveled(statement), &values, |row: RowOfShard| {
            if let Some(row) = row.changed() {
                each(row);
            }
        })
        .await
    }

    /// Rows of a shard whose `not_before` has passed at `now`, in milliseconds since 1970.
    pub async fn read_due(
        &self,
        table: &TableName,
        shard: i32,
        now: i64,
        mut each: impl FnMut(ChangedRow),
    ) -> Result<(), StoreError> {
        let (keyspace, name) = (table.keyspace.clone(), table.table.clone());
        let values = bind![keyspace, name, shard, CqlTimestamp(now)];
        self.each_row(&self.statements.due_rows, &values, |row: RowOfShard| {
            if let Some(row) = row.changed() {
                each(row);
            }
        })
        .await
    }

    /// All rows of a statement, a page at a time.
    pub(super) async fn each_row<Row>(
        &self,
        statement: &PreparedStatement,
        values: &Values,
        mut each: impl FnMut(Row),
    ) -> Result<(), StoreError>
    where
        Row: for<'frame> scylla::deserialize::row::DeserializeRow<'frame, 'frame>,
    {
        let mut page = PagingState::start();
        loop {
            let (result, next) = self
                .session
                .execute_single_page(statement, values, page)
                .await?;
            let rows = result.into_rows_result().map_err(not_understood)?;
            for row in rows.rows::<Row>().map_err(not_understood)? {
                each(row.map_err(not_understood)?);
            }
            match next.into_paging_control_flow() {
                ControlFlow::Continue(next) => page = next,
                ControlFlow::Break(()) => return Ok(()),
            }
        }
    }

    /// A key's state and its shard's version, in one read.
    pub async fn read_key(&self, id: &SplitId) -> Result<KeyReading, StoreError> {
        let values = bind![; place id;];
        let result = self
            .session
            .execute_unpaged(&self.statements.key, values)
            .await?;
        let rows = result.into_rows_result().map_err(not_understood)?;
        let row = if self.statements.later.is_some() {
            rows.maybe_first_row::<KeyRow>().map_err(not_understood)?
        } else {
            let row = rows.maybe_first_row::<EarlierKeyRow>();
            row.map_err(not_understood)?.map(KeyRow::from)
        };
        Ok(row.map_or_else(KeyReading::default, KeyReading::from))
    }

    /// Everything about a split, for workers and for people.
    pub async fn read_split(&self, id: &SplitId) -> Result<Option<Split>, StoreError> {
        let values = bind![; place id;];
        let result = self
            .session
            .execute_unpaged(&self.statements.split, values)
            .await?;
        let rows = result.into_rows_result().map_err(not_understood)?;
        let row = if self.statements.later.is_some() {
            rows.maybe_first_row::<SplitRow>().map_err(not_understood)?
        } else {
            let row = rows.maybe_first_row::<EarlierSplitRow>();
            row.map_err(not_understood)?.map(SplitRow::from)
        };
        row.map(Split::try_from).transpose()
    }
}

impl ShardReading {
    /// Every change up to here is on a quorum: the next one could not be proposed before.
    pub fn settled(&self) -> Version {
        Version(self.version.0.saturating_sub(1))
    }

    fn empty(shard: i32) -> Self {
        Self {
            shard,
            version: Version(0),
            epoch: 0,
            epoch_version: Version(0),
        }
    }
}

/// The partition key, which DISTINCT needs in full and which ends with the shard; then version, epoch and
/// epoch_version.
type ShardRow = (String, String, i32, Option<i64>, Option<i32>, Option<i64>);

impl From<ShardRow> for ShardReading {
    fn from((_, _, shard, version, epoch, epoch_version): ShardRow) -> Self {
        Self {
            shard,
            version: Version(version.unwrap_or(0)),
            epoch: epoch.unwrap_or(0),
            epoch_version: Version(epoch_version.unwrap_or(0)),
        }
    }
}

#[derive(DeserializeRow)]
struct RowOfShard {
    /// `None` in the one row of a shard that has statics and no rows yet.
    partition_key: Option<Vec<u8>>,
    row_version: Option<i64>,
    row_epoch: Option<i32>,
    state: Option<String>,
    not_before: Option<CqlTimestamp>,
    generation: Option<i32>,
    oldest_generation: Option<i32>,
}

impl RowOfShard {
    fn changed(self) -> Option<ChangedRow> {
        let state = self.state.as_deref().map(State::parse);
        let generation = self.generation.unwrap_or(0);
        Some(ChangedRow {
            key: PartitionKey::new(self.partition_key?),
            version: Version(self.row_version.unwrap_or(0)),
            row_epoch: self.row_epoch.unwrap_or(0),
            // A row without a state is only left over from a lease.
            is_guarded: state.is_some_and(|state| state.is_none_or(State::is_guarded)),
            state: state.flatten(),
            generation: Generation(generation),
            oldest_generation: Generation(self.oldest_generation.unwrap_or(generation)),
            not_before: self.not_before.map(|time| time.0),
        })
    }
}

row_with_later_columns! {
struct KeyRow, EarlierKeyRow {
    version: Option<i64>,
    epoch: Option<i32>,
    row_version: Option<i64>,
    row_epoch: Option<i32>,
    state: Option<String>,
    generation: Option<i32>,
    not_before: Option<CqlTimestamp>,
    late_writes: Option<i32>,
    unsettled_until: Option<CqlTimestamp>,
}
later {
    seal: Option<Vec<u8>>,
    sealed_generation: Option<i32>,
}
}

impl From<KeyRow> for KeyReading {
    fn from(row: KeyRow) -> Self {
        let standing = standing(
            row.state.as_deref(),
            row.generation,
            (row.row_epoch, row.epoch),
        );
        Self {
            version: Version(row.version.unwrap_or(0)),
            is_unknown: row.state.is_some() && standing.is_none(),
            standing,
            row_version: Version(row.row_version.unwrap_or(0)),
            generation: row.generation.map(Generation),
            not_before: row.not_before.map(|time| time.0),
            late_writes: row.late_writes.unwrap_or(0),
            unsettled_until: row.unsettled_until.map(|time| time.0),
            // The seal of an earlier generation stays until the next one is sealed.
            seal: row
                .seal
                .filter(|_| row.sealed_generation == row.generation)
                .and_then(|seal| Some(Seal(seal.try_into().ok()?))),
        }
    }
}

/// `None` for a row without a split, or in a state that this version does not know.
fn standing(
    state: Option<&str>,
    generation: Option<i32>,
    (row_epoch, epoch): (Option<i32>, Option<i32>),
) -> Option<Standing> {
    Some(Standing {
        state: State::parse(state?)?,
        generation: Generation(generation?),
        row_epoch: row_epoch.unwrap_or(0),
        epoch: epoch.unwrap_or(0),
    })
}

row_with_later_columns! {
pub(super) struct SplitRow, EarlierSplitRow {
    /// `None` in the one row of a shard that has statics and no rows yet.
    partition_key: Option<Vec<u8>>,
    version: Option<i64>,
    epoch: Option<i32>,
    row_epoch: Option<i32>,
    state: Option<String>,
    generation: Option<i32>,
    lease: Option<String>,
    pre_split_data: Option<PreSplitColumn>,
    post_split_data: Option<PostSplitColumn>,
    progress: Option<ProgressColumn>,
    reason: Option<String>,
    not_before: Option<CqlTimestamp>,
    detected_at: Option<CqlTimestamp>,
    changed_at: Option<CqlTimestamp>,
    failures: Option<i32>,
    seen_bytes: Option<i64>,
    oldest_generation: Option<i32>,
}
later {
    found_by: Option<String>,
}
}

impl SplitRow {
    /// `None` if there is no split, including for a row without a state, which is left over from a lease.
    pub(super) fn key(&self) -> Option<PartitionKey> {
        self.state.as_ref()?;
        self.partition_key.clone().map(PartitionKey::new)
    }
}

impl TryFrom<SplitRow> for Split {
    type Error = StoreError;

    fn try_from(row: SplitRow) -> Result<Self, StoreError> {
        let standing = standing(
            row.state.as_deref(),
            row.generation,
            (row.row_epoch, row.epoch),
        );
        let state = row.state.unwrap_or_default();
        let unknown = || not_understood(format!("a split in state {state:?}"));
        Ok(Self {
            version: Version(row.version.unwrap_or(0)),
            standing: standing.ok_or_else(unknown)?,
            lease: row.lease,
            pre_split_data: row.pre_split_data.map(PreSplitData::from),
            post_split_data: row.post_split_data.map(PostSplitData::from),
            progress: row.progress.and_then(ProgressColumn::read),
            reason: row.reason,
            not_before: row.not_before.map(|time| time.0),
            detected_at: row.detected_at.map(|time| time.0),
            changed_at: row.changed_at.map(|time| time.0),
            failures: row.failures.unwrap_or(0),
            seen_bytes: row.seen_bytes,
            oldest_generation: row.oldest_generation.map(Generation),
            found_by: row.found_by.as_deref().and_then(FoundBy::parse),
        })
    }
}
