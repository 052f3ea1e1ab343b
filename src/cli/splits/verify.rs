//! `narrows verify`: compares splits in service with their originals now, as a worker does, at the pace of its throttle. One
//! that differs goes out of service, and its table to mode `detect`, unless it is only to be reported. Reads originals and
//! buckets, and writes neither; ends with what was found when somebody leaves.

mod json;
mod text;

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::arguments::Verify;
use super::key::KeyColumns;
use super::live::{Live, rate};
use super::{Control, SplitsError, originals};
use crate::cli;
use crate::cli::explain::lines::{counted, size};
use crate::config::Config;
use crate::pipeline::audit::finding::{Demoted, Finding, Why, demote, is_in_service};
use crate::pipeline::original::requests::Requests;
use crate::pipeline::run::report::now_seconds;
use crate::pipeline::verify::{Checked, Patience, Verification};
use crate::schema::TableSchema;
use crate::schema::names::{PartitionKey, TableName};
use crate::wide_row::layout::LayoutId;
use crate::wide_row::names::{Generation, Version};
use crate::wide_row::state::State;
use crate::wide_row::store::{SplitId, StoreError, WatchedRow};

/// One that was compared, or could not be.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Compared {
    table: TableName,
    key: String,
    constants: Vec<String>,
    bytes: PartitionKey,
    generation: Generation,
    verdict: Verdict,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Verdict {
    Equal {
        rows: u64,
        bytes: u64,
    },
    Differs {
        reason: String,
        demoted: Option<Demoted>,
    },
    NotCompared(String),
}

/// All that was found.
#[derive(Debug, Default)]
struct Seen {
    splits: usize,
    equal: usize,
    rows: u64,
    bytes: u64,
    /// Those that are not equal, in the order in which they were found.
    others: Vec<Compared>,
    /// Went out of service before their turn, or during it.
    passed: usize,
    is_whole: bool,
}

impl Seen {
    fn add(&mut self, compared: Option<Compared>) -> Option<&Compared> {
        let Some(compared) = compared else {
            self.passed += 1;
            return None;
        };
        if let Verdict::Equal { rows, bytes } = compared.verdict {
            self.equal += 1;
            self.rows += rows;
            self.bytes += bytes;
            return None;
        }
        self.others.push(compared);
        self.others.last()
    }

    fn differing(&self) -> usize {
        let differs = |one: &&Compared| matches!(one.verdict, Verdict::Differs { .. });
        self.others.iter().filter(differs).count()
    }
}

/// What all comparisons of one command share.
struct Comparing<'a> {
    control: &'a Control,
    requests: Requests,
    live: Live,
    dry_run: bool,
    json: bool,
    total: usize,
}

pub(super) async fn verify(
    config: &Config,
    control: &Control,
    command: &Verify,
) -> Result<String, SplitsError> {
    let leaving = signal(SignalKind::interrupt());
    let leaving = leaving
        .map_err(|error| SplitsError::Refused(format!("Ctrl-C cannot be noticed: {error}")))?;
    let rows = control.tables(command.table.as_deref()).await?;
    let one = match command.key.is_empty() {
        true => None,
        false => Some(named(control, command).await?),
    };
    let total = match &one {
        Some(_) => 1,
        None => count(control, &rows).await?,
    };
    cli::print_error(&text::heading(total));
    let comparing = Comparing {
        control,
        requests: originals::requests(config).await?,
        live: Live::new(),
        dry_run: command.dry_run,
        json: command.json,
        total,
    };
    let mut seen = Seen {
        splits: total,
        ..Seen::default()
    };
    let compared = comparing.all(&rows, one, leaving, &mut seen).await;
    comparing.live.clear();
    let found = text::compose(&seen, command.dry_run);
    match command.json {
        true => cli::print_error(&found),
        false => cli::print(&found),
    }
    compared?;
    match (seen.differing(), seen.others.len()) {
        (0, 0) => Ok(String::new()),
        (0, others) => Err(SplitsError::NotCompared(counted(others, "split"))),
        (differing, _) => Err(SplitsError::Differs(counted(differing, "split"))),
    }
}

/// The one split that is named; it must be in service.
async fn named(control: &Control, command: &Verify) -> Result<SplitId, SplitsError> {
    let table = command.table.as_deref().unwrap_or_default();
    let partition = control.partition(table, &command.key, command.keys).await?;
    let standing = control.store.read_key(&partition.id()).await?.standing;
    let name = partition.name();
    match standing {
        Some(standing) if standing.is_in_service() => Ok(partition.id()),
        Some(standing) => Err(SplitsError::Refused(format!(
            "{name} is {}, not in service: the original answers, and there is nothing to compare",
            standing.state.as_str()
        ))),
        None => Err(SplitsError::Refused(format!(
            "no split of {name} is known; the original answers, and there is nothing to compare"
        ))),
    }
}

async fn count(control: &Control, rows: &[WatchedRow]) -> Result<usize, StoreError> {
    let mut total = 0;
    for row in rows.iter().filter(|row| row.table.is_sound()) {
        let (name, shards) = (&row.table.name, row.table.shards);
        for shard in 0..shards as usize {
            total += in_service(control, name, shards, shard).await?.len();
        }
    }
    Ok(total)
}

/// The splits of one shard that are in service.
async fn in_service(
    control: &Control,
    table: &TableName,
    shards: u32,
    index: usize,
) -> Result<Vec<SplitId>, StoreError> {
    let number = number(shards, index);
    let shard = control.store.read_shard(table, number).await?;
    let mut found = Vec::new();
    let read = control.store.read_rows(table, number, Version(0), |row| {
        if row.state == Some(State::Completed) && row.row_epoch == shard.epoch {
            found.push(SplitId {
                table: table.clone(),
                shard: number,
                key: row.key,
            });
        }
    });
    read.await?;
    Ok(found)
}

impl Comparing<'_> {
    /// Until the last one, or until somebody leaves.
    async fn all(
        &self,
        rows: &[WatchedRow],
        one: Option<SplitId>,
        mut leaving: Signal,
        seen: &mut Seen,
    ) -> Result<(), SplitsError> {
        for row in rows.iter().filter(|row| row.table.is_sound()) {
            let (name, shards) = (&row.table.name, row.table.shards);
            let schema = self.control.store.describe(name).await?.schema;
            for shard in 0..shards as usize {
                let ids = match &one {
                    Some(one) if one.shard == number(shards, shard) => vec![one.clone()],
                    Some(_) => Vec::new(),
                    None => in_service(self.control, name, shards, shard).await?,
                };
                for id in ids {
                    let compared = tokio::select! {
                        compared = self.one(&id, schema.as_deref(), seen) => compared?,
                        _ = leaving.recv() => return Ok(()),
                    };
                    if self.json {
                        compared.iter().for_each(|one| cli::print(&json::line(one)));
                    }
                    if let Some(other) = seen.add(compared) {
                        self.live.clear();
                        cli::print_error(&text::told(other));
                    }
                }
            }
        }
        seen.is_whole = true;
        Ok(())
    }

    /// `None`: it is not in service any more.
    async fn one(
        &self,
        id: &SplitId,
        schema: Option<&TableSchema>,
        seen: &Seen,
    ) -> Result<Option<Compared>, SplitsError> {
        let store = &self.control.store;
        let standing = store.read_key(id).await?.standing;
        let Some(standing) = standing.filter(|standing| standing.is_in_service()) else {
            return Ok(None);
        };
        let generation = standing.generation;
        let columns = KeyColumns::new(schema);
        let key = columns.show(&id.key);
        let verdict = match schema {
            Some(schema) => self.compare(id, generation, schema, (seen, &key)).await?,
            None => Verdict::NotCompared("the original is gone, or is being changed".to_owned()),
        };
        let verdict = match verdict {
            Verdict::Differs { reason, .. } => match self.differs(id, generation, &reason).await? {
                Some(Demoted::Before) => return Ok(None),
                demoted => Verdict::Differs { reason, demoted },
            },
            other => other,
        };
        Ok(Some(Compared {
            table: id.table.clone(),
            constants: columns.constants(&id.key),
            key,
            bytes: id.key.clone(),
            generation,
            verdict,
        }))
    }

    /// What becomes of one that differs; nothing, if it is only to be reported.
    async fn differs(
        &self,
        id: &SplitId,
        generation: Generation,
        reason: &str,
    ) -> Result<Option<Demoted>, StoreError> {
        let store = &self.control.store;
        if !self.dry_run {
            let why = Why::from(reason.to_owned()).behind("compared by narrows verify");
            return demote(store, id, generation, &why).await.map(Some);
        }
        let still = is_in_service(store, id, generation).await?;
        Ok((!still).then_some(Demoted::Before))
    }

    async fn compare(
        &self,
        id: &SplitId,
        generation: Generation,
        schema: &TableSchema,
        (seen, key): (&Seen, &str),
    ) -> Result<Verdict, SplitsError> {
        let layout = LayoutId {
            table: id.table.clone(),
            key: id.key.clone(),
            generation,
        };
        let Some(layout) = self.control.store.read_layout(&layout).await? else {
            return Ok(Verdict::NotCompared("it has no layout".to_owned()));
        };
        let before = self.live.elapsed();
        let verification = Verification {
            requests: &self.requests,
            schema,
            key: &id.key,
            layout: &layout,
            now: now_seconds(),
            patience: Patience::default(),
            from: Checked::default(),
            progress: &|found| {
                let pace = rate(found.byte_count, self.live.elapsed().saturating_sub(before));
                let rows = counted(found.row_count, "row");
                let done = seen.equal + seen.others.len() + seen.passed;
                let (number, total, differ) = (done + 1, self.total, seen.differing());
                let (table, bytes) = (&id.table, size(found.byte_count));
                self.live.show(|| {
                    format!("{number} of {total}, {differ} differ: {table} {key}: {rows}, {bytes}, {pace}")
                });
            },
        };
        Ok(match Finding::of(verification.run().await, schema) {
            Ok(Finding::Equal(verified)) => Verdict::Equal {
                rows: verified.row_count,
                bytes: verified.byte_count,
            },
            Ok(Finding::Differs(why)) => Verdict::Differs {
                reason: why.kept,
                demoted: None,
            },
            Ok(Finding::Unreadable(reason) | Finding::Unproven(reason)) => {
                Verdict::NotCompared(reason)
            }
            Err(error) => Verdict::NotCompared(error.to_string()),
        })
    }
}

/// Shards are numbered from their count on.
fn number(shards: u32, index: usize) -> i32 {
    i32::try_from(shards as usize + index).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests;
