//! A plan in words. Pure.

use super::{Outcome, Plan};
use crate::cli::explain::lines::{Lines, counted, size};
use crate::cli::splits::add::hindrance;
use crate::cli::splits::{buckets, constant, moment, stage};
use crate::pipeline::plan::Draft;
use crate::pipeline::plan::strategy::PartitionSplitStrategy;
use crate::schema::ClusteringColumn;
use crate::schema::bucket::Bucket;
use crate::wide_row::state::State;

/// Of more, the first and the last are shown.
const BUCKETS_MAX: usize = 16;

pub(super) fn compose(plan: &Plan<'_>, now: i64) -> String {
    let partition = plan.partition;
    let table = &partition.row.table;
    let mut lines = Lines::default();
    let key = partition.columns.show_with_names(&partition.key);
    lines.add("partition", &format!("{}: {key}", table.name));
    if let Some(split) = &plan.split {
        let state = split.standing.state.as_str();
        let past = match stage::is_past(split) {
            true => ", out of service with its whole table",
            false => "",
        };
        let generation = split.standing.generation;
        lines.add(
            "is now",
            &format!("{state} at generation {generation}{past}"),
        );
    }
    if let Some(draft) = &plan.draft {
        lines.add("has", &found(draft, now));
    }
    lines.add("decision", &decision(plan, now));
    let is_planned = plan.is_planned();
    if let Some(prospect) = plan.table.as_ref().filter(|_| is_planned) {
        let what = match prospect.exists {
            true => "which exists",
            false => "which would be made",
        };
        let keyspace = &table.name.keyspace;
        lines.add(
            "split table",
            &format!("{keyspace}.{}, {what}", prospect.name),
        );
    }
    if let Some(about) = plan.about.filter(|_| is_planned) {
        let about = moment::span(about);
        lines.add(
            "takes",
            &format!("about {about}, by how long the reading took"),
        );
    }
    let mut text = String::new();
    if let Some(draft) = plan.draft.as_ref().filter(|_| is_planned) {
        let all = draft.strategy.buckets();
        let (count, strategy) = (counted(all.len(), "bucket"), draft.strategy.name());
        lines.add("buckets", &format!("{count}, by {strategy}"));
        text = buckets::list(all, BUCKETS_MAX, |bucket| first(bucket, plan.clustering));
    }
    lines.into_text() + &text + &next(plan)
}

impl Plan<'_> {
    /// It has a plan, if perhaps for later.
    pub(super) fn is_planned(&self) -> bool {
        match &self.outcome {
            Outcome::Split => true,
            Outcome::Refused(_, until) => until.is_some(),
            Outcome::NotWide | Outcome::Fails(_) => false,
        }
    }
}

fn found(draft: &Draft, now: i64) -> String {
    let (rows, bytes) = (counted(draft.row_count, "row"), size(draft.byte_count));
    let newest = draft.data().newest_write_micros.map(|micros| {
        let time = moment::stamp_and_distance(micros.div_euclid(1000), now);
        format!(", newest write {time}")
    });
    format!("{rows}, {bytes}{}", newest.unwrap_or_default())
}

fn decision(plan: &Plan<'_>, now: i64) -> String {
    let wide = size(plan.partition.row.table.wide_bytes);
    match &plan.outcome {
        Outcome::Split => "it would be split".to_owned(),
        Outcome::NotWide => {
            format!("it would not be split: NOT_WIDE, since wide_bytes of the table is {wide}")
        }
        Outcome::Refused(reason, None) => format!("it would not be split: REFUSED, {reason}"),
        Outcome::Refused(reason, Some(until)) => {
            let until = moment::stamp_and_distance(*until, now);
            format!("it would not be split yet: REFUSED, {reason}; tried again at {until}")
        }
        Outcome::Fails(reason) => format!("the attempt would fail: FAILED, {reason}"),
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

/// As constants; none of the first bucket, which begins where the partition does.
pub(super) fn firsts(bucket: &Bucket, clustering: &[ClusteringColumn]) -> Vec<String> {
    let values = bucket.first.iter().zip(clustering);
    values
        .map(|(value, column)| constant::show(value, &column.column.cql_type))
        .collect()
}

fn next(plan: &Plan<'_>) -> String {
    let mut text = "nothing was written".to_owned();
    let arguments = plan.partition.arguments();
    let state = plan.split.as_ref().filter(|split| !stage::is_past(split));
    match state.map(|split| split.standing.state) {
        Some(State::Completed) => text.push_str("; it is split already, and in service\n"),
        Some(state) if stage::is_under_way(state) => {
            text.push_str("; it is on its way already\n");
        }
        _ if plan.outcome == Outcome::Split => {
            text.push_str(&format!("; to split it: narrows splits add {arguments}\n"));
            text.push_str(&hindrance(&plan.partition.row.table).unwrap_or_default());
        }
        _ => text.push('\n'),
    }
    text
}
