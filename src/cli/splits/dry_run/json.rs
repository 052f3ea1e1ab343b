//! A plan as one JSON object, for programs. Pure.

use super::text::firsts;
use super::{Outcome, Plan};
use crate::cli::splits::list::json::{null, object, string, text};
use crate::cli::splits::{constant, moment};
use crate::pipeline::plan::strategy::PartitionSplitStrategy;
use crate::schema::bucket::Bucket;
use crate::wide_row::state::State;

pub(super) fn line(plan: &Plan<'_>) -> String {
    let partition = plan.partition;
    let table = &partition.row.table;
    let (state, reason, not_before) = match &plan.outcome {
        Outcome::Split => (State::Planned, None, None),
        Outcome::NotWide => (State::NotWide, None, None),
        Outcome::Refused(reason, until) => (State::Refused, Some(reason.as_str()), *until),
        Outcome::Fails(reason) => (State::Failed, Some(*reason), None),
    };
    let key = partition.columns.constants(&partition.key);
    let key: Vec<String> = key.iter().map(|value| string(value)).collect();
    let draft = plan.draft.as_ref();
    let number = |number: Option<u64>| number.map_or_else(null, |number| number.to_string());
    let time = |millis: Option<i64>| text(millis.and_then(moment::iso).as_deref());
    let newest = draft.and_then(|draft| draft.data().newest_write_micros);
    let planned = draft.filter(|_| plan.is_planned());
    let buckets = planned.map_or(&[][..], |draft| draft.strategy.buckets());
    let prospect = plan.table.as_ref().filter(|_| plan.is_planned());
    let exists = prospect.map_or_else(null, |prospect| prospect.exists.to_string());
    let prospect = prospect.map(|prospect| prospect.name.as_str());
    let about = plan.about.filter(|_| plan.is_planned());
    let now = plan
        .split
        .as_ref()
        .map(|split| split.standing.state.as_str());
    object(&[
        ("table", string(&table.name.to_string())),
        ("key", format!("[{}]", key.join(","))),
        (
            "partition_key",
            string(&constant::hex(partition.key.bytes())),
        ),
        ("is_now", text(now)),
        ("would_be", string(state.as_str())),
        ("reason", text(reason)),
        ("not_before", time(not_before)),
        ("rows", number(draft.map(|draft| draft.row_count))),
        ("bytes", number(draft.map(|draft| draft.byte_count))),
        ("wide_bytes", table.wide_bytes.to_string()),
        (
            "newest_write",
            time(newest.map(|micros| micros.div_euclid(1000))),
        ),
        ("split_table", text(prospect)),
        ("split_table_exists", exists),
        ("seconds", number(about.map(|about| about.as_secs()))),
        ("buckets", format!("[{}]", each(plan, buckets).join(","))),
    ]) + "\n"
}

fn each(plan: &Plan<'_>, buckets: &[Bucket]) -> Vec<String> {
    let bucket = |bucket: &Bucket| {
        let first = firsts(bucket, plan.clustering);
        let first: Vec<String> = first.iter().map(|value| string(value)).collect();
        object(&[
            ("first", format!("[{}]", first.join(","))),
            ("rows", bucket.row_count.to_string()),
            ("bytes", bucket.byte_count.to_string()),
        ])
    };
    buckets.iter().map(bucket).collect()
}
