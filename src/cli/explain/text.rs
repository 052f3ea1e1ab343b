//! Prints what `explain` found, in short labelled lines. Pure.

use std::collections::BTreeSet;

use crate::cli::format::{Lines, counted, runs, size};
use crate::proxy::SIDE_BY_SIDE;
use crate::rewrite::bind::{Bound, Key, Limits};
use crate::rewrite::readable::{Answer, ClusteringRestriction, KeyPart, Order};
use crate::rewrite::render::From;
use crate::rewrite::{Readable, Reason, bounds};
use crate::schema::bucket::Bucket;
use crate::schema::literal;
use crate::schema::names::TableName;
use crate::statement::select::InValues;
use crate::statement::term::{Term, TermKind};
use crate::watched::Mode;
use crate::wide_row::layout::Layout;
use crate::wide_row::names::Generation;
use crate::wide_row::state::State;

#[cfg(test)]
mod tests;

pub(super) struct Facts<'a> {
    pub(super) text: &'a str,
    pub(super) table: &'a TableName,
    pub(super) service: Service,
    pub(super) form: Form,
}

/// Whether proxies answer reads of the table from splits at all.
pub(super) enum Service {
    Serving,
    NotWatched,
    /// `control.enabled` is off.
    Disabled,
    Mode(Mode),
    /// This version cannot follow that number of shards.
    Unsound(u32),
    /// No proxy has looked at the original yet.
    Unseen,
}

/// Whether buckets could answer the statement.
pub(super) enum Form {
    /// Narrows does not understand the table, for instance because of compact storage or masked columns.
    Unreadable,
    Impossible(Reason),
    /// The number of bind markers without a value.
    WithoutValues(usize),
    Known(Box<Known>),
}

pub(super) struct Known {
    /// It has no bind markers.
    pub(super) readable: Readable,
    pub(super) limits: Limits,
    pub(super) partitions: Vec<Partition>,
}

pub(super) struct Partition {
    pub(super) key: Key,
    pub(super) standing: Standing,
}

pub(super) enum Standing {
    /// The table is not watched.
    NotAsked,
    NoSplit,
    /// A later version wrote the state.
    NotUnderstood,
    OutOfService {
        state: State,
        generation: Generation,
        /// All splits of its table have been taken out of service since.
        is_past: bool,
        reason: Option<String>,
    },
    WithoutLayout(Generation),
    Split(Layout),
}

pub(super) fn compose(facts: &Facts<'_>) -> String {
    let mut lines = Lines::default();
    lines.add("statement", facts.text);
    let service = facts.service.in_short();
    lines.add("table", format!("{}, {service}", facts.table));
    match &facts.form {
        Form::Unreadable => {
            forwarded(
                &mut lines,
                "the table is of a kind that Narrows does not understand",
            );
        }
        Form::Impossible(reason) => forwarded(&mut lines, &reason_text(*reason)),
        Form::WithoutValues(markers) => without_values(&mut lines, *markers, &facts.service),
        Form::Known(known) => {
            let is_split = |partition: &Partition| partition.layout().is_some();
            let split = known.partitions.iter().any(is_split);
            match facts.service.hindrance() {
                None if split => rewritten(&mut lines, known),
                hindrance => not_split(&mut lines, known, hindrance),
            }
        }
    }
    lines.into_text()
}

fn forwarded(lines: &mut Lines, because: &str) {
    lines.add("decision", "forwarded: the original answers");
    lines.add("because", because);
}

fn reason_text(reason: Reason) -> String {
    format!("{} ({})", reason.explanation(), reason.as_str())
}

const POSSIBLE: &str = "it could be answered from buckets";

fn without_values(lines: &mut Lines, markers: usize, service: &Service) {
    match service.hindrance() {
        Some(hindrance) => forwarded(lines, &hindrance),
        None => lines.add(
            "decision",
            "depends on the partition: rewritten if it is split, otherwise forwarded",
        ),
    }
    let hint = format!(
        "{POSSIBLE}; give its {markers} values with --value to see which partition and buckets"
    );
    lines.add("form", hint);
}

fn not_split(lines: &mut Lines, known: &Known, hindrance: Option<String>) {
    let several = known.partitions.len() > 1;
    let reason = match (hindrance, several) {
        (Some(hindrance), _) => hindrance,
        (None, false) => "the partition is not split".to_owned(),
        (None, true) => "none of the partitions is split".to_owned(),
    };
    forwarded(lines, &reason);
    lines.add("form", POSSIBLE);
    for partition in &known.partitions {
        partition.describe(lines, &known.readable);
    }
}

fn rewritten(lines: &mut Lines, known: &Known) {
    let Known {
        readable,
        partitions,
        ..
    } = known;
    let split: Vec<_> = partitions.iter().filter_map(Partition::layout).collect();
    let decision = match (split.as_slice(), partitions.as_slice()) {
        ([layout], [_]) => {
            let chosen = chosen(readable, layout).len();
            let of = counted(layout.buckets.len(), "bucket");
            format!("rewritten: answered from {chosen} of {of}, as if from the original")
        }
        (split, all) => {
            let (split, all) = (split.len(), all.len());
            format!(
                "rewritten: {split} of {all} partitions answered from their buckets, in the key's order"
            )
        }
    };
    lines.add("decision", decision);
    for partition in partitions {
        partition.describe(lines, readable);
    }
    lines.add("reading", reading(readable));
    if let Some(limits) = limits(known) {
        lines.add("limits", limits);
    }
    lines.add(
        "consistency",
        "the client's own for each bucket; SERIAL and traced reads go to the original",
    );
    if partitions.len() > 1 {
        lines.add(
            "protocol",
            "the original answers v3 clients that read several partitions at once",
        );
    }
    lines.add(
        "fallback",
        "the original, if a bucket fails or the client may not read the original",
    );
    let texts: BTreeSet<String> = split
        .iter()
        .filter_map(|layout| sub_statement(readable, From::Split(&layout.split_table)))
        .collect();
    for text in texts {
        lines.add("each bucket", text);
    }
    if split.len() < partitions.len()
        && let Some(text) = sub_statement(readable, From::Original)
    {
        lines.add("the others", text);
    }
}

fn reading(readable: &Readable) -> String {
    match (&readable.answer, readable.filters) {
        (Answer::Aggregates(_), _) => {
            format!(
                "up to {SIDE_BY_SIDE} buckets at a time; their results are combined into one row"
            )
        }
        (Answer::Rows, true) => format!(
            "up to {SIDE_BY_SIDE} buckets at a time, because it filters; rows in clustering order, pages filled across buckets"
        ),
        (Answer::Rows, false) => {
            "one bucket after the other, as pages need them; pages are filled across buckets"
                .to_owned()
        }
    }
}

fn limits(known: &Known) -> Option<String> {
    if known.readable.answer != Answer::Rows {
        return None;
    }
    let rows = known.limits.rows.map(|rows| format!("{rows} in all"));
    let each = known.limits.per_partition;
    let each = each.map(|rows| format!("{rows} of each original partition"));
    let both: Vec<String> = rows.into_iter().chain(each).collect();
    if both.is_empty() {
        return None;
    }
    let both = both.join(", ");
    Some(format!(
        "rows: {both}; counted across buckets and pages, then no further bucket is read"
    ))
}

fn chosen(readable: &Readable, layout: &Layout) -> Vec<usize> {
    match Bound::new(&[], &[]) {
        Ok(bound) => bounds::buckets(readable, &bound, &layout.buckets),
        Err(_) => (0..layout.buckets.len()).collect(),
    }
}

fn sub_statement(readable: &Readable, from: From<'_>) -> Option<String> {
    let bound = Bound::new(&[], &[]).ok()?;
    Some(readable.render(&bound, from).ok()?.text)
}

impl Service {
    fn in_short(&self) -> String {
        match self {
            Self::Serving | Self::Unseen => "watched in mode serve".to_owned(),
            Self::NotWatched => "not watched".to_owned(),
            Self::Disabled | Self::Unsound(_) => "watched".to_owned(),
            Self::Mode(mode) => format!("watched in mode {}", mode.as_str()),
        }
    }

    /// Why no read of the table is answered from splits.
    fn hindrance(&self) -> Option<String> {
        Some(match self {
            Self::Serving => return None,
            Self::NotWatched => {
                "the table is not watched; to watch it, add a [[table]] to the configuration of a proxy".to_owned()
            }
            Self::Disabled => {
                "control.enabled is off; such a proxy knows no splits".to_owned()
            }
            Self::Mode(mode) => {
                let mode = mode.as_str();
                format!("the table is in mode {mode}; splits are read only in mode serve")
            }
            Self::Unsound(shards) => {
                format!("the table has {shards} shards, which this version cannot follow")
            }
            Self::Unseen => {
                "no proxy has looked at the table since it was added, so its splits are not trusted yet".to_owned()
            }
        })
    }
}

impl Partition {
    fn layout(&self) -> Option<&Layout> {
        match &self.standing {
            Standing::Split(layout) => Some(layout),
            _ => None,
        }
    }

    fn describe(&self, lines: &mut Lines, readable: &Readable) {
        lines.add("partition", key_text(&self.key, readable));
        let standing = match &self.standing {
            Standing::NotAsked => return,
            Standing::Split(layout) => return describe_split(lines, readable, layout),
            Standing::NoSplit => "not split, and no split is in progress".to_owned(),
            Standing::NotUnderstood => {
                "in a state that a later version wrote; this version treats it as not split"
                    .to_owned()
            }
            Standing::WithoutLayout(generation) => format!(
                "COMPLETED at generation {generation}, but its layout is missing: the original answers"
            ),
            Standing::OutOfService {
                state,
                generation,
                is_past,
                reason,
            } => {
                let words = match is_past {
                    true => "but all splits of the table have been taken out of service since",
                    false => state_words(*state),
                };
                let reason = reason.as_deref().map(|reason| format!(" ({reason})"));
                let (state, reason) = (state.as_str(), reason.unwrap_or_default());
                format!("{state} at generation {generation}, {words}{reason}")
            }
        };
        lines.add("  standing", standing);
    }
}

fn state_words(state: State) -> &'static str {
    match state {
        State::Detected => "found, not planned yet",
        State::Planned => "measured, not copied yet",
        State::NotWide => "measured, and not wide",
        State::Refused => "it cannot be split exactly",
        State::Guarded => "proxies check writes to it; copying comes next",
        State::Copying => "being copied",
        State::Verifying => "being compared with the original",
        State::Completed => "in service",
        State::Invalidated => "taken out of service",
        State::Failed => "the attempt failed",
    }
}

fn describe_split(lines: &mut Lines, readable: &Readable, layout: &Layout) {
    let (generation, strategy) = (layout.generation, &layout.strategy);
    let (buckets, count) = (&layout.buckets, counted(layout.buckets.len(), "bucket"));
    let table = format!("{}.{}", layout.table.keyspace, layout.split_table);
    lines.add(
        "  standing",
        format!("COMPLETED at generation {generation}: {count} in {table}, made by {strategy}"),
    );
    let mut chosen = chosen(readable, layout);
    chosen.sort_unstable();
    let direction = match readable.order {
        Order::Reversed if chosen.len() > 1 => ", the last one first",
        _ => "",
    };
    let why = why(readable, chosen.len() < buckets.len());
    lines.add("  buckets", format!("{}{direction}: {why}", runs(&chosen)));
    let read = chosen.iter().filter_map(|number| buckets.get(*number));
    let (read, all) = (held(read), held(buckets.iter()));
    lines.add(
        "  holding",
        format!("{read} of {all}, counted when it was split"),
    );
}

/// Why these buckets and no others.
fn why(readable: &Readable, is_part: bool) -> String {
    let mut places: Vec<usize> = Vec::new();
    for restriction in &readable.clustering {
        let (ClusteringRestriction::Compare(of, ..) | ClusteringRestriction::In(of, _)) =
            restriction;
        places.extend(of);
    }
    places.sort_unstable();
    places.dedup();
    let clustering = &readable.schema.clustering;
    let names = places.iter().filter_map(|place| clustering.get(*place));
    let names: Vec<&str> = names
        .map(|clustering| clustering.column.name.as_str())
        .collect();
    let names = names.join(", ");
    match (places.is_empty(), is_part) {
        (true, _) => "no clustering column is restricted".to_owned(),
        (false, true) => format!("the restriction of {names} rules out the others"),
        (false, false) => format!("the restriction of {names} rules out none"),
    }
}

/// The columns of the key, with their literals from the statement.
fn key_text(key: &Key, readable: &Readable) -> String {
    let columns = readable.schema.partition_key.iter();
    let parts = readable.key.iter().zip(columns).zip(&key.components);
    let each = parts.map(|((part, column), component)| {
        let is_it = |term: &&Term| match &term.kind {
            TermKind::Literal(constant) => {
                literal::encode(constant, &column.cql_type).as_ref() == Some(component)
            }
            _ => false,
        };
        let term = match part {
            KeyPart::One(term) => Some(term),
            KeyPart::In(InValues::List(terms)) => terms.iter().find(is_it),
            KeyPart::In(InValues::Marker(_)) => None,
        };
        let value = term.and_then(|term| readable.text.get(term.span.clone()));
        format!("{} = {}", column.name, value.unwrap_or("?"))
    });
    each.collect::<Vec<_>>().join(", ")
}

fn held<'a>(buckets: impl Iterator<Item = &'a Bucket>) -> String {
    let add = |(rows, bytes): (u64, u64), bucket: &Bucket| {
        (
            rows.saturating_add(bucket.row_count),
            bytes.saturating_add(bucket.byte_count),
        )
    };
    let (rows, bytes) = buckets.fold((0, 0), add);
    format!("{} ({})", counted(rows, "row"), size(bytes))
}
