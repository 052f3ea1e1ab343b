//! What a run found: a table for people, JSON for machines.

use std::time::Duration;

use crate::measure::Figures;

pub(crate) fn heading(keys: usize) -> String {
    format!(
        "{keys} keys; checks in ns with hashing, the reader's worst gap and the one in a million in µs,\nand how often it waited during a rebuild\n\n{:<19}{:>8}{:>8}{:>9}{:>8}{:>8}{:>11}{:>8}{:>11}{:>16}{:>16}{:>7}",
        "policy",
        "present",
        "absent",
        "overlay",
        "prefix",
        "B/key",
        "false pos.",
        "shards",
        "rebuild ms",
        "gaps idle",
        "gaps rebuild",
        "waits"
    )
}

pub(crate) fn line(name: &str, figures: &Figures) -> String {
    format!(
        "{name:<19}{:>8.1}{:>8.1}{:>9.1}{:>8.1}{:>8.3}{:>10.4}%{:>8}{:>11.1}{:>16}{:>16}{:>7}",
        figures.present_ns,
        figures.absent_ns,
        figures.overlay_ns,
        figures.prefix_ns,
        figures.bytes_per_key,
        figures.false_positive_rate * 100.0,
        figures.shards,
        milliseconds(figures.rebuild),
        gaps(figures.gaps_idle.worst, figures.gaps_idle.millionth),
        gaps(figures.gaps_rebuild.worst, figures.gaps_rebuild.millionth),
        figures
            .gaps_rebuild
            .waits
            .map_or("–".into(), |waits| waits.to_string()),
    )
}

fn gaps(worst: Duration, millionth: Duration) -> String {
    format!("{}/{}", worst.as_micros(), millionth.as_micros())
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// `check_ns`, `bytes_per_key` and `rebuild_ms` per policy, and what explains them. `check_ns` is the slower of
/// present and absent keys.
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
    let micros = |time: Duration| time.as_secs_f64() * 1e6;
    let fields = [
        ("check_ns", figures.present_ns.max(figures.absent_ns)),
        ("bytes_per_key", figures.bytes_per_key),
        ("rebuild_ms", milliseconds(figures.rebuild)),
        ("check_present_ns", figures.present_ns),
        ("check_absent_ns", figures.absent_ns),
        ("check_overlay_ns", figures.overlay_ns),
        ("check_prefix_ns", figures.prefix_ns),
        ("false_positive_rate", figures.false_positive_rate),
        ("shards", figures.shards as f64),
        ("reader_gap_idle_us", micros(figures.gaps_idle.worst)),
        ("reader_gap_rebuild_us", micros(figures.gaps_rebuild.worst)),
        (
            "reader_gap_millionth_idle_us",
            micros(figures.gaps_idle.millionth),
        ),
        (
            "reader_gap_millionth_rebuild_us",
            micros(figures.gaps_rebuild.millionth),
        ),
    ];
    let mut fields: Vec<String> = fields
        .map(|(name, value)| format!("{name:?}: {value:.6}"))
        .into();
    if let Some(waits) = figures.gaps_rebuild.waits {
        fields.push(format!("\"reader_waits_rebuild\": {waits}"));
    }
    fields.join(", ")
}
