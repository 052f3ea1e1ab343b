//! `narrows splits add --dry-run`: reads and plans a partition as a worker would, and tells the plan. Nothing is written: no
//! nomination, no table, no layout.

mod json;
mod text;

use std::time::Duration;

use super::arguments::{Add, KeyForm};
use super::key::KeyError;
use super::live::{Live, rate};
use super::{Control, Partition, SplitsError, originals};
use crate::cli::explain::lines::{counted, size};
use crate::config::Config;
use crate::pipeline;
use crate::pipeline::original::scan::ScanError;
use crate::pipeline::plan::{Draft, Planning, StageError, Verdict};
use crate::pipeline::run::report::{Halt, Reporting, now_seconds};
use crate::pipeline::settle::Settle;
use crate::schema::{ClusteringColumn, TableSchema};
use crate::wide_row::clock::unix_millis;
use crate::wide_row::store::{ClusterPatience, Prospect, Split, StoreError};

/// Copying reads a partition again and writes it, and comparing reads both sides.
const READINGS: u32 = 5;

/// What would become of a partition.
struct Plan<'a> {
    partition: &'a Partition,
    clustering: &'a [ClusteringColumn],
    outcome: Outcome,
    /// `None`: the table stands against it, so it was not read.
    draft: Option<Draft>,
    /// How long the whole split would take, about.
    about: Option<Duration>,
    table: Option<Prospect>,
    /// What is known of it already.
    split: Option<Split>,
}

#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Split,
    NotWide,
    /// With the time at which that may be otherwise.
    Refused(String, Option<i64>),
    Fails(&'static str),
}

pub(super) async fn dry_run(
    config: &Config,
    control: &Control,
    command: &Add,
) -> Result<String, SplitsError> {
    let row = control.table(&command.table).await?;
    let obstacle = control.store.obstacle(&row.table.name).await?;
    let partition = control.partition(&command.table, &command.key, KeyForm::Cql);
    let partition = match (partition.await, &obstacle) {
        // Without columns there is no key, but there is a reason.
        (Err(SplitsError::Key(KeyError::NoColumns)), Some(reason)) => {
            let text = format!("{} cannot be split: {reason}", row.table.name);
            return Err(SplitsError::Refused(text));
        }
        (partition, _) => partition?,
    };
    let split = control.store.read_split(&partition.id()).await?;
    let described = control.store.describe(&row.table.name).await?;
    let gone = || SplitsError::NoTable(row.table.name.clone());
    let schema = described.schema.ok_or_else(gone)?;
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
        Some(reason) => plan.outcome = Outcome::Refused(reason, None),
        None => read(config, control, &schema, &mut plan).await?,
    }
    Ok(match command.json {
        true => json::line(&plan),
        false => text::compose(&plan, unix_millis()),
    })
}

async fn read(
    config: &Config,
    control: &Control,
    schema: &TableSchema,
    plan: &mut Plan<'_>,
) -> Result<(), SplitsError> {
    let requests = originals::requests(config).await?;
    let settings = &plan.partition.row.table;
    let key = &plan.partition.key;
    let of_it = pipeline::original::partition::Partition::new(schema, key);
    let wrong = || SplitsError::Refused("the key is not one of this table".to_owned());
    let planning = Planning {
        requests: &requests,
        schema,
        partition: &of_it.ok_or_else(wrong)?,
        settings,
        now: now_seconds(),
    };
    let live = Live::new();
    let planned = planning.run(None, &Telling(&live)).await;
    live.clear();
    let draft = match planned {
        Err(StageError::Scan(error @ ScanError::Tombstones)) => {
            plan.outcome = Outcome::Refused(error.to_string(), None);
            return Ok(());
        }
        planned => planned?,
    };
    let patience = patience(control).await?;
    let found = plan.split.as_ref().and_then(|split| split.detected_at);
    let verdict = planning.judge(
        &draft,
        found.unwrap_or_else(unix_millis),
        patience.hint_window,
    );
    plan.outcome = match verdict {
        Verdict::Split => Outcome::Split,
        Verdict::NotWide => Outcome::NotWide,
        Verdict::Open(open) => Outcome::Refused(open.reason, Some(open.closed_at)),
        Verdict::Disordered => Outcome::Fails("its rows came in another order than they should"),
    };
    let settle = Settle::new(config, patience).time(&control.store).await?;
    plan.about = Some(settle + READINGS * live.elapsed());
    plan.table = Some(control.store.expected_split_table(schema).await?);
    plan.draft = Some(draft);
    Ok(())
}

/// Cassandra's defaults where it may not be asked, as a worker takes them.
async fn patience(control: &Control) -> Result<ClusterPatience, SplitsError> {
    match control.store.read_patience().await {
        Err(StoreError::Refused(_)) => Ok(ClusterPatience::default()),
        other => Ok(other?),
    }
}

/// Writes nothing down: it is only shown.
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

#[cfg(test)]
mod tests;
