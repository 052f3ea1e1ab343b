//! `narrows verify`: compares splits in service with their originals now, as a worker does, at the pace of its
//! throttle. If one differs, takes all splits of its table out of service and sets the table to mode `detect`, unless
//! `--dry-run` is given. Reads originals and buckets, and writes neither; Ctrl-C ends it and keeps what it found.

mod row;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use anyhow::{Context as _, bail};
use clap::Args;
use tokio::signal::unix::{Signal, SignalKind, signal};

use self::row::Row;
use super::control::Control;
use super::exit;
use super::format::{self, counted, rate, size};
use super::key::{KeyColumns, KeyForm};
use super::terminal::Live;
use crate::pipeline::audit::finding::{Demoted, Finding, Why, demote, is_in_service};
use crate::pipeline::original::requests::Requests;
use crate::pipeline::verify::{Checked, Patience, Verification};
use crate::schema::TableSchema;
use crate::schema::names::{PartitionKey, TableName};
use crate::watched::Mode;
use crate::wide_row::layout::LayoutId;
use crate::wide_row::names::{Generation, Version};
use crate::wide_row::state::State;
use crate::wide_row::store::{ChangedRow, SplitId, StoreError, WatchedRow};

/// Compare splits in service with their originals now
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  narrows verify                                 all splits in service of all watched tables
  narrows verify plant.reading
  narrows verify plant.reading \"'s1'\" 7 --dry-run
  narrows verify --json | jq -r 'select(.result != \"equal\") | .key | join(\",\")'

Reads both sides at consistency ALL and compares them cell by cell, as a worker does before a split
goes into service and every pipeline.audit_every afterwards, with the pauses of pipeline.throttle.
It reads a difference again for half a minute. If the difference remains, an application wrote
around the proxies. Ctrl-C ends the command and keeps what it found.

Changes: nothing if all splits equal their originals. If a split differs, its answers are wrong, and
those of other splits may be: the command takes all splits of the table out of service at once and
sets the table to mode detect, without asking first; --dry-run only reports, and compares the others
as well. When nothing writes around the proxies any more: narrows mode plant.reading serve. Wide
partitions are then copied and compared anew as they are found.

Exit code 65: a split differs. 69: a split could not be compared, perhaps because a node is down.")]
pub struct Verify {
    /// keyspace.table, spelled as in Cassandra; without it, all watched tables
    pub table: Option<String>,
    /// The key of one partition; without it, all splits of the table that are in service
    #[arg(allow_negative_numbers = true)]
    pub key: Vec<String>,
    /// Only report: all splits stay in service
    #[arg(long, visible_alias = "report-only")]
    pub dry_run: bool,
    /// Print one JSON object per line
    #[arg(long)]
    pub json: bool,
    /// How the key is written: CQL literals, or the whole serialized key as 0x…
    #[arg(long, value_enum, default_value_t = KeyForm::Cql, value_name = "FORM")]
    pub keys: KeyForm,
}

/// A split that was compared, or could not be.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Compared {
    table: TableName,
    literals: Vec<String>,
    bytes: PartitionKey,
    generation: Generation,
    verdict: Verdict,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Verdict {
    Equal {
        rows: u64,
        bytes: u64,
        /// Of either side.
        checksum: [u8; 16],
    },
    Differs {
        reason: String,
        demoted: Option<Demoted>,
    },
    NotCompared(String),
}

/// The findings of all comparisons.
#[derive(Debug, Default)]
struct Seen {
    splits: usize,
    equal: usize,
    rows: u64,
    bytes: u64,
    /// The splits that are not equal or were not compared, in order.
    others: Vec<Compared>,
    /// The number of splits that went out of service before they were compared.
    passed: usize,
    is_whole: bool,
}

impl Seen {
    fn add(&mut self, compared: Option<Compared>) -> Option<&Compared> {
        let Some(compared) = compared else {
            self.passed += 1;
            return None;
        };
        if let Verdict::Equal { rows, bytes, .. } = compared.verdict {
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

/// What all comparisons share.
struct Comparing<'a> {
    control: &'a Control<'a>,
    requests: Requests,
    live: Live,
    dry_run: bool,
    json: bool,
}

pub(super) async fn verify(control: &Control<'_>, command: &Verify) -> anyhow::Result<String> {
    let leaving = signal(SignalKind::interrupt()).context("cannot listen for Ctrl-C")?;
    let ids = match command.key.is_empty() {
        true => in_service(control, command.table.as_deref()).await?,
        false => vec![named(control, command).await?],
    };
    super::print_error(&heading(ids.len()));
    let comparing = Comparing {
        control,
        requests: control.originals().await?,
        live: Live::new(),
        dry_run: command.dry_run,
        json: command.json,
    };
    let mut seen = Seen {
        splits: ids.len(),
        ..Seen::default()
    };
    let compared = comparing.all(&ids, leaving, &mut seen).await;
    comparing.live.clear();
    let found = compose(&seen, command.dry_run);
    match command.json {
        true => super::print_error(&found),
        false => super::print(&found),
    }
    compared?;
    let (code, text) = match (seen.differing(), seen.others.len()) {
        (0, 0) => return Ok(String::new()),
        (0, others) => (
            exit::UPSTREAM_UNAVAILABLE,
            format!("{} could not be compared", counted(others, "split")),
        ),
        (differing, _) => (
            exit::DIFFERENCE,
            format!(
                "{} in service found to differ from the original",
                counted(differing, "split")
            ),
        ),
    };
    Err(exit::error(code, text))
}

/// The split that the command names; it must be in service.
async fn named(control: &Control<'_>, command: &Verify) -> anyhow::Result<SplitId> {
    let table = command.table.as_deref().unwrap_or_default();
    let partition = control.partition(table, &command.key, command.keys).await?;
    let standing = control.store.read_key(&partition.id()).await?.standing;
    let name = partition.name();
    let nothing = "the original answers, and there is nothing to compare";
    match standing {
        Some(standing) if standing.is_in_service() => Ok(partition.id()),
        Some(standing) => {
            let state = standing.state.as_str();
            bail!("{name} is {state}, not in service: {nothing}")
        }
        None => bail!("no split of {name} is known: {nothing}"),
    }
}

/// All splits in service of one table, or of all.
async fn in_service(control: &Control<'_>, table: Option<&str>) -> anyhow::Result<Vec<SplitId>> {
    let mut found = Vec::new();
    let rows = control.tables(table).await?;
    for WatchedRow { table, .. } in rows.iter().filter(|row| row.table.is_sound()) {
        for shard in control.store.read_shards(&table.name, table.shards).await? {
            let add = |row: ChangedRow| {
                if row.state == Some(State::Completed) && row.row_epoch == shard.epoch {
                    found.push(SplitId::new(table.name.clone(), row.key, table.shards));
                }
            };
            let (store, all) = (&control.store, Version(0));
            store.read_rows(&table.name, shard.shard, all, add).await?;
        }
    }
    Ok(found)
}

impl Comparing<'_> {
    /// Compares until the last split, or Ctrl-C.
    async fn all(
        &self,
        ids: &[SplitId],
        mut leaving: Signal,
        seen: &mut Seen,
    ) -> anyhow::Result<()> {
        // The splits of a table are adjacent, so its schema is read once.
        for of_table in ids.chunk_by(|one, next| one.table == next.table) {
            let schema = match of_table.first() {
                Some(first) => self.control.store.describe(&first.table).await?.schema,
                None => None,
            };
            for id in of_table {
                let compared = tokio::select! {
                    compared = self.one(id, schema.as_deref(), seen) => compared?,
                    _ = leaving.recv() => return Ok(()),
                };
                // Ctrl-C does not end this half-way.
                let compared = match compared {
                    Some(compared) => self.act_on(id, compared).await?,
                    None => None,
                };
                if let Some(one) = compared.as_ref().filter(|_| self.json) {
                    super::print(&format::json(&Row::new(one)));
                }
                if let Some(other) = seen.add(compared) {
                    self.live.clear();
                    super::print_error(&told(other));
                }
            }
        }
        seen.is_whole = true;
        Ok(())
    }

    /// `None`: it is no longer in service.
    async fn one(
        &self,
        id: &SplitId,
        schema: Option<&TableSchema>,
        seen: &Seen,
    ) -> anyhow::Result<Option<Compared>> {
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
            None => Verdict::NotCompared(
                "the original is gone, or Narrows does not understand its schema".to_owned(),
            ),
        };
        Ok(Some(Compared {
            table: id.table.clone(),
            literals: columns.literals(&id.key),
            bytes: id.key.clone(),
            generation,
            verdict,
        }))
    }

    /// Does what a difference asks for. `None`: the split went out of service while it was compared.
    async fn act_on(
        &self,
        id: &SplitId,
        compared: Compared,
    ) -> Result<Option<Compared>, StoreError> {
        let Verdict::Differs { reason, .. } = compared.verdict else {
            return Ok(Some(compared));
        };
        let verdict = match self.differs(id, compared.generation, &reason).await? {
            Some(Demoted::Before) => return Ok(None),
            demoted => Verdict::Differs { reason, demoted },
        };
        Ok(Some(Compared {
            verdict,
            ..compared
        }))
    }

    /// Takes all splits of the table out of service, unless `--dry-run`.
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
    ) -> Result<Verdict, StoreError> {
        let layout = LayoutId {
            table: id.table.clone(),
            key: id.key.clone(),
            generation,
        };
        let Some(layout) = self.control.store.read_layout(&layout).await? else {
            return Ok(Verdict::NotCompared("its layout is missing".to_owned()));
        };
        let now = match self.control.store.now().await {
            Ok(now) => now,
            Err(error) => return Ok(Verdict::NotCompared(error.to_string())),
        };
        let before = self.live.elapsed();
        let verification = Verification {
            requests: &self.requests,
            schema,
            key: &id.key,
            layout: &layout,
            now,
            patience: Patience::default(),
            from: Checked::default(),
            progress: &|found| {
                let pace = rate(found.byte_count, self.live.elapsed().saturating_sub(before));
                let rows = counted(found.row_count, "row");
                let done = seen.equal + seen.others.len() + seen.passed;
                let (number, total, differ) = (done + 1, seen.splits, seen.differing());
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
                checksum: verified.checksum,
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

/// Announces what the command does, before it reads anything.
fn heading(splits: usize) -> String {
    let splits = counted(splits, "split");
    format!("comparing {splits} in service with the original at consistency ALL; Ctrl-C ends it\n")
}

/// One finding, printed at once.
fn told(one: &Compared) -> String {
    let name = format!("{} {}", one.table, one.literals.join(", "));
    match &one.verdict {
        Verdict::Equal { .. } => format!("{name}: equal\n"),
        Verdict::Differs { reason, demoted } => {
            let then = match demoted {
                Some(_) => "; it is out of service now",
                None => "; it is still in service",
            };
            format!("{name}: DIFFERS: {reason}{then}\n")
        }
        Verdict::NotCompared(reason) => format!("{name}: not compared: {reason}\n"),
    }
}

/// What was compared, what differs, and the consequences.
fn compose(seen: &Seen, dry_run: bool) -> String {
    if seen.splits == 0 {
        return "no split is in service, so there is nothing to compare\n".to_owned();
    }
    let (rows, bytes) = (counted(seen.rows, "row"), size(seen.bytes));
    let equal = counted(seen.equal, "split");
    let mut text = match seen.equal {
        1 => format!("1 split is equal to its original: {rows}, {bytes}\n"),
        _ => format!("{equal} are equal to their originals: {rows}, {bytes}\n"),
    };
    for one in &seen.others {
        text.push_str(&told(one));
    }
    if seen.passed > 0 {
        let passed = counted(seen.passed, "split");
        text.push_str(&format!("{passed} went out of service meanwhile\n"));
    }
    if !seen.is_whole {
        let done = seen.equal + seen.others.len() + seen.passed;
        let total = counted(seen.splits, "split");
        text.push_str(&format!("stopped after {done} of {total}\n"));
    }
    text.push_str(&consequences(seen, dry_run));
    text
}

fn consequences(seen: &Seen, dry_run: bool) -> String {
    let mut text = String::new();
    let mut told: BTreeSet<&TableName> = BTreeSet::new();
    for one in &seen.others {
        let Verdict::Differs { demoted, .. } = &one.verdict else {
            continue;
        };
        if !told.insert(&one.table) {
            continue;
        }
        let table = &one.table;
        match demoted {
            Some(Demoted::Now(mode)) => {
                let mode = mode.map_or("unwatched", Mode::as_str);
                text.push_str(&format!(
                    "{table} is in mode {mode} now: all its splits are out of service, and no more partitions are split\n\
                     find out who writes around the proxies, then run: narrows mode {table} serve\n"
                ));
            }
            _ if dry_run => text.push_str(&format!(
                "nothing was changed: reads of {table} are still answered from its splits; without --dry-run, \
                 all its splits go out of service and the table goes to mode detect\n"
            )),
            _ => {}
        }
    }
    text
}
