//! What a run found: two tables for people, JSON for machines.

use crate::measure::Figures;
use crate::reader::Reading;

const COSTS: &str = "\
checks in ns with the key's hashing: keys held, absent ones, absent ones amid fresh inserts, absent prefixes;
rebuild in ms of processor time for the whole table";

const READER: &str = "\
a reader that never pauses, ns per check with a look at the clock: 99.9 % took at most / the worst took;
waited: how often it gave up the processor, as one does at a lock; other interruptions are the scheduler's";

pub(crate) fn costs(keys: usize, results: &[(&str, Figures)]) -> String {
    let mut out = format!("{keys} keys; {COSTS}\n\n");
    out += &format!(
        "{:<19}{:>9}{:>9}{:>9}{:>9}{:>9}{:>12}{:>9}\n",
        "policy", "held", "absent", "inserts", "prefix", "B/key", "false pos.", "rebuild"
    );
    for (name, figures) in results {
        out += &format!(
            "{name:<19}{:>9.1}{:>9.1}{:>9.1}{:>9.1}{:>9.3}{:>11.4}%{:>9.1}\n",
            figures.present_ns,
            figures.absent_ns,
            figures.overlay_ns,
            figures.prefix_ns,
            figures.bytes_per_key,
            figures.false_positive_rate * 100.0,
            figures.rebuild.as_secs_f64() * 1e3,
        );
    }
    out
}

pub(crate) fn reader(results: &[(&str, Figures)]) -> String {
    let mut out = format!("{READER}\n\n");
    out += &format!(
        "{:<19}{:>17}{:>17}{:>17}{:>17}{:>8}\n",
        "beside", "an idle thread", "a busy thread", "another rebuild", "its own rebuild", "waited"
    );
    for (name, figures) in results {
        let [alone, busy, other, own] = figures.readings.named().map(|(_, reading)| pair(reading));
        let waits = figures.readings.rebuild.waits;
        out += &format!("{name:<19}{alone:>17}{busy:>17}{other:>17}{own:>17}{waits:>8}\n");
    }
    out
}

fn pair(reading: &Reading) -> String {
    let worst = reading.worst.as_nanos();
    format!("{} / {worst}", reading.quantile_ns(0.999))
}

/// `check_ns`, `bytes_per_key` and `rebuild_ms` per policy, and what explains them.
pub(crate) fn json(keys: usize, results: &[(&str, Figures)]) -> String {
    let policies: Vec<String> = results
        .iter()
        .map(|(name, figures)| format!("    {name:?}: {{{}}}", policy(figures)))
        .collect();
    format!(
        "{{\n  \"keys\": {keys},\n  \"policies\": {{\n{}\n  }}\n}}\n",
        policies.join(",\n")
    )
}

fn policy(figures: &Figures) -> String {
    let fields = [
        ("check_ns", figures.check_ns()),
        ("bytes_per_key", figures.bytes_per_key),
        ("rebuild_ms", figures.rebuild.as_secs_f64() * 1e3),
        ("check_present_ns", figures.present_ns),
        ("check_absent_ns", figures.absent_ns),
        ("check_overlay_ns", figures.overlay_ns),
        ("check_prefix_ns", figures.prefix_ns),
        ("false_positive_rate", figures.false_positive_rate),
        ("shards", figures.shards as f64),
    ];
    let mut fields: Vec<String> = fields
        .map(|(name, value)| format!("{name:?}: {value:.6}"))
        .into();
    let situations = figures.readings.named();
    let situations =
        situations.map(|(name, reading)| format!("{name:?}: {{{}}}", situation(reading)));
    fields.push(format!("\"reader\": {{{}}}", situations.join(", ")));
    fields.join(", ")
}

fn situation(reading: &Reading) -> String {
    let fields = [
        ("checks", reading.checks()),
        ("p50_ns", reading.quantile_ns(0.5)),
        ("p99_9_ns", reading.quantile_ns(0.999)),
        (
            "worst_ns",
            u64::try_from(reading.worst.as_nanos()).unwrap_or(u64::MAX),
        ),
        ("waits", reading.waits),
        ("preempted", reading.preempted),
    ];
    fields
        .map(|(name, value)| format!("{name:?}: {value}"))
        .join(", ")
}
