//! `narrows splits add --dry-run`: reads and plans a partition as a worker would that was asked by hand, and prints the
//! plan. Writes nothing: no nomination, no table, no layout.

use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use serde::Serialize;

use super::add::{Add, hindrance};
use super::stage::ShownState;
use super::{show, stage};
use crate::cli::control::{Control, Partition};
use crate::cli::format::{self, Lines, counted, rate, size};
use crate::cli::key::{KeyError, KeyForm};
use crate::cli::terminal::Live;
use crate::cli::{constant, moment};
use crate::pipeline;
use crate::pipeline::original::scan::ScanError;
use crate::pipeline::plan::strategy::PartitionSplitStrategy;
use crate::pipeline::plan::{Closing, Draft, Planned, Planning, StageError, Verdict};
use crate::pipeline::run::report::{Halt, Reporting};
use crate::pipeline::settle::Settle;
use crate::schema::bucket::Bucket;
use crate::schema::{ClusteringColumn, TableSchema};
use crate::wide_row::clock::unix_millis;
use crate::wide_row::found_by::FoundBy;
use crate::wide_row::state::State;
use crate::wide_row::store::{ClusterPatience, Prospect, Split, StoreError};

/// Maximum number of buckets to list; of more, the middle ones are left out.
const BUCKETS_MAX: usize = 16;
/// A whole split takes about as long as this many readings: planning reads the partition, copying reads and writes it,
/// comparing reads both sides.
const READINGS: u32 = 5;

/// What a worker would do with a partition.
struct Plan<'a> {
    partition: &'a Partition,
    clustering: &'a [ClusteringColumn],
    outcome: Outcome,
    /// `None`: the table cannot be split, so the partition was not read.
    draft: Option<Draft>,
    /// An estimate of how long the whole split would take.
    about: Option<Duration>,
    table: Option<Prospect>,
    /// The record of an earlier or current split.
    split: Option<Split>,
}

#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Split,
    /// It has no rows.
    NotWide,
    /// It may still be written to; with the time of the next look.
    Waits(String, i64),
    Refused(String),
    Fails(&'static str),
}

pub(super) async fn dry_run(control: &Control<'_>, command: &Add) -> anyhow::Result<String> {
    let row = control.table(&command.table).await?;
    let name = &row.table.name;
    let obstacle = control.store.obstacle(name).await?;
    let partition = control.partition(&command.table, &command.key, KeyForm::Cql);
    let partition = partition.await.map_err(|error| match &obstacle {
        // The table's obstacle explains more than its unknown columns.
        Some(reason) if error.downcast_ref() == Some(&KeyError::NoColumns) => {
            anyhow!("{name} cannot be split: {reason}")
        }
        _ => error,
    })?;
    let split = control.store.read_split(&partition.id()).await?;
    let schema = control.schema(name).await?;
    let mut plan = Plan {
        partition: &partition,
        clustering: &schema.clustering,
        outcome: Outcome::Split,
        draft: None,
        about: None,
        table: None,
        split,
    };
    match obstacle {
        Some(reason) => plan.outcome = Outcome::Refused(reason),
        None => read(control, &schema, &mut plan).await?,
    }
    Ok(match command.json {
        true => format::json(&Document::new(&plan)),
        false => compose(&plan, unix_millis()),
    })
}

async fn read(
    control: &Control<'_>,
    schema: &TableSchema,
    plan: &mut Plan<'_>,
) -> anyhow::Result<()> {
    let requests = control.originals().await?;
    let settings = &plan.partition.row.table;
    let partition = pipeline::original::partition::Partition::new(schema, &plan.partition.key);
    let Some(partition) = partition else {
        bail!("this is not a partition key of the table");
    };
    let (patience, by_hand) = (patience(control).await?, Some(FoundBy::Hand));
    let place = (schema, &partition.key);
    let planning = Planning {
        requests: &requests,
        schema,
        partition: &partition,
        settings,
        now: control.store.now().await?,
        found_by: by_hand,
        closing: Closing::new(settings, place, by_hand, patience.hint_window),
        reads_on: true,
    };
    let live = Live::new();
    let planned = planning.run(None, &Telling(&live)).await;
    live.clear();
    let draft = match planned {
        Err(StageError::Scan(error @ ScanError::Tombstones)) => {
            plan.outcome = Outcome::Refused(error.to_string());
            return Ok(());
        }
        planned => match planned.context("the table cannot be read")? {
            Planned::Whole(draft) => draft,
            Planned::Open(open) => {
                plan.outcome = Outcome::Waits(open.reason, open.closed_at);
                return Ok(());
            }
        },
    };
    let found = plan.split.as_ref().and_then(|split| split.detected_at);
    let found = found.unwrap_or_else(unix_millis);
    plan.outcome = match planning.judge(&draft, found) {
        Verdict::Split => Outcome::Split,
        Verdict::NotWide => Outcome::NotWide,
        Verdict::Open(open) if open.is_ahead => Outcome::Refused(open.reason),
        Verdict::Open(open) => Outcome::Waits(open.reason, open.closed_at),
        Verdict::Disordered => Outcome::Fails("its rows arrived in the wrong order"),
    };
    let settle = Settle::new(control.config, patience)
        .time(&control.store)
        .await?;
    plan.about = Some(settle + READINGS * live.elapsed());
    plan.table = Some(control.store.expected_split_table(schema).await?);
    plan.draft = Some(draft);
    Ok(())
}

/// The cluster's settings, or Cassandra's defaults if the role may not read them, as for a worker.
async fn patience(control: &Control<'_>) -> Result<ClusterPatience, StoreError> {
    match control.store.read_patience().await {
        Err(StoreError::Refused(_)) => Ok(ClusterPatience::default()),
        other => other,
    }
}

/// Shows progress instead of storing it.
struct Telling<'a>(&'a Live);

impl Reporting for Telling<'_> {
    async fn progress(
        &self,
        (rows, bytes): (u64, u64),
        _: impl FnOnce() -> Vec<u8>,
    ) -> Result<(), Halt> {
        let elapsed = self.0.elapsed();
        self.0.show(|| {
            let (rows, rate) = (counted(rows, "row"), rate(bytes, elapsed));
            format!("reading: {rows}, {}, {rate}", size(bytes))
        });
        Ok(())
    }
}

fn compose(plan: &Plan<'_>, now: i64) -> String {
    let mut lines = Lines::default();
    lines.add("partition", plan.partition.full_name());
    if let Some(split) = &plan.split {
        let (state, generation) = (split.standing.state.as_str(), split.standing.generation);
        let past = match stage::is_past(split) {
            true => ", out of service with its whole table",
            false => "",
        };
        lines.add(
            "is now",
            format!("{state} at generation {generation}{past}"),
        );
    }
    if let Some(draft) = &plan.draft {
        let (rows, bytes) = (counted(draft.row_count, "row"), size(draft.byte_count));
        let newest = show::newest_write(draft.data().newest_write_micros, now);
        lines.add("has", format!("{rows}, {bytes}{newest}"));
    }
    lines.add("decision", decision(plan, now));
    let mut listed = String::new();
    if plan.is_planned() {
        if let Some(prospect) = &plan.table {
            let what = match prospect.exists {
                true => "which exists",
                false => "which would be created",
            };
            let (keyspace, table) = (&plan.partition.row.table.name.keyspace, &prospect.name);
            lines.add("split table", format!("{keyspace}.{table}, {what}"));
        }
        if let Some(about) = plan.about.map(moment::span) {
            let about = format!("about {about}, estimated from the time that this reading took");
            lines.add("takes", about);
        }
        if let Some(draft) = &plan.draft {
            let all = draft.strategy.buckets();
            let (count, strategy) = (counted(all.len(), "bucket"), draft.strategy.name());
            lines.add("buckets", format!("{count}, by {strategy}"));
            listed = show::buckets(all, BUCKETS_MAX, |bucket| first(bucket, plan.clustering));
        }
    }
    lines.into_text() + &listed + &next(plan)
}

impl Plan<'_> {
    /// There are buckets to show, even if the split has to wait.
    fn is_planned(&self) -> bool {
        match &self.outcome {
            Outcome::Split | Outcome::Waits(..) => true,
            Outcome::NotWide | Outcome::Refused(_) | Outcome::Fails(_) => false,
        }
    }
}

fn decision(plan: &Plan<'_>, now: i64) -> String {
    match &plan.outcome {
        Outcome::Split => format!("it would be split{}", unasked(plan)),
        Outcome::NotWide => "it would not be split: NOT_WIDE, it has no rows".to_owned(),
        Outcome::Refused(reason) => format!("it would not be split: REFUSED, {reason}"),
        Outcome::Waits(reason, until) => {
            let until = moment::stamp_and_distance(*until, now);
            format!("it would be split, but not yet: WAITING until {until}, because {reason}")
        }
        Outcome::Fails(reason) => format!("the attempt would fail: FAILED, {reason}"),
    }
}

/// What a worker needs a person for.
fn unasked(plan: &Plan<'_>) -> String {
    let wide = plan.partition.row.table.wide_bytes;
    let bytes = plan.draft.as_ref().map_or(wide, |draft| draft.byte_count);
    match bytes < wide {
        true => format!(
            ", because you ask; by itself its size would not be enough, since wide_bytes of the table is {}",
            size(wide)
        ),
        false => String::new(),
    }
}

fn first(bucket: &Bucket, clustering: &[ClusteringColumn]) -> String {
    let values = firsts(bucket, clustering);
    if values.is_empty() {
        return "from the first row".to_owned();
    }
    let each = values.iter().zip(clustering);
    let each = each.map(|(value, column)| format!("{} = {value}", column.column.name));
    format!("from {}", each.collect::<Vec<_>>().join(", "))
}

/// The first row of a bucket as literals; none for the first bucket, which begins where the partition does.
fn firsts(bucket: &Bucket, clustering: &[ClusteringColumn]) -> Vec<String> {
    let values = bucket.first.iter().zip(clustering);
    values
        .map(|(value, column)| constant::show(value, &column.column.cql_type))
        .collect()
}

fn next(plan: &Plan<'_>) -> String {
    let mut text = "nothing was written".to_owned();
    let state = plan.split.as_ref().filter(|split| !stage::is_past(split));
    match state.map(|split| split.standing.state) {
        Some(State::Completed) => text.push_str("; it is split already, and in service\n"),
        Some(state) if stage::is_under_way(state) => {
            text.push_str("; it is in progress already\n");
        }
        _ if plan.is_planned() => {
            let arguments = plan.partition.arguments();
            text.push_str(&format!("; to split it: narrows splits add {arguments}\n"));
            text.push_str(&hindrance(&plan.partition.row.table).unwrap_or_default());
        }
        _ => text.push('\n'),
    }
    text
}

/// The plan as a JSON object.
#[derive(Serialize)]
struct Document<'a> {
    table: String,
    key: Vec<String>,
    partition_key: String,
    is_now: Option<&'static str>,
    would_be: &'static str,
    reason: Option<&'a str>,
    not_before: Option<String>,
    rows: Option<u64>,
    bytes: Option<u64>,
    wide_bytes: u64,
    newest_write: Option<String>,
    split_table: Option<&'a str>,
    split_table_exists: Option<bool>,
    seconds: Option<u64>,
    buckets: Vec<PlannedBucket>,
}

#[derive(Serialize)]
struct PlannedBucket {
    first: Vec<String>,
    rows: u64,
    bytes: u64,
}

impl<'a> Document<'a> {
    fn new(plan: &'a Plan<'_>) -> Self {
        let partition = plan.partition;
        let (state, reason, not_before) = match &plan.outcome {
            Outcome::Split => (ShownState::At(State::Planned), None, None),
            Outcome::NotWide => (ShownState::At(State::NotWide), None, None),
            Outcome::Waits(reason, until) => {
                (ShownState::Waiting, Some(reason.as_str()), Some(*until))
            }
            Outcome::Refused(reason) => {
                (ShownState::At(State::Refused), Some(reason.as_str()), None)
            }
            Outcome::Fails(reason) => (ShownState::At(State::Failed), Some(*reason), None),
        };
        let draft = plan.draft.as_ref();
        let newest = draft.and_then(|draft| draft.data().newest_write_micros);
        let is_planned = plan.is_planned();
        let planned = draft.filter(|_| is_planned);
        let buckets = planned.map_or(&[][..], |draft| draft.strategy.buckets());
        let prospect = plan.table.as_ref().filter(|_| is_planned);
        let now = plan.split.as_ref();
        Self {
            table: partition.row.table.name.to_string(),
            key: partition.columns.literals(&partition.key),
            partition_key: constant::hex(partition.key.bytes()),
            is_now: now.map(|split| split.standing.state.as_str()),
            would_be: state.as_str(),
            reason,
            not_before: not_before.and_then(moment::iso),
            rows: draft.map(|draft| draft.row_count),
            bytes: draft.map(|draft| draft.byte_count),
            wide_bytes: partition.row.table.wide_bytes,
            newest_write: newest.and_then(|micros| moment::iso(micros.div_euclid(1000))),
            split_table: prospect.map(|prospect| prospect.name.as_str()),
            split_table_exists: prospect.map(|prospect| prospect.exists),
            seconds: plan
                .about
                .filter(|_| is_planned)
                .map(|about| about.as_secs()),
            buckets: buckets
                .iter()
                .map(|bucket| PlannedBucket {
                    first: firsts(bucket, plan.clustering),
                    rows: bucket.row_count,
                    bytes: bucket.byte_count,
                })
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests;
