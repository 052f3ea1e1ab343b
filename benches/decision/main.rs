//! What does a read of a watched table cost more, because its partition might be split and is not? The values are read,
//! the key is put together and hashed, the filter is asked: what a session does with an EXECUTE before it forwards it. And what
//! does it cost to look at the reply, so that wide partitions are found? What does a write cost more, that is checked when it is
//! forwarded and again at its reply?
//!
//! `make bench-decision` runs it. Results also go to `decision.json` in the output directory. On a busy machine trust the
//! lowest figures: costs are the best of several rounds.
#![allow(
    clippy::print_stdout,
    reason = "a benchmark reports on standard output"
)]
#![allow(clippy::cast_precision_loss, reason = "counts here are far below 2^52")]

mod measure;
mod requests;

use std::fs;
use std::path::PathBuf;

use anyhow::{Result, ensure};
use clap::Parser;

use crate::measure::Figures;

#[derive(Parser)]
struct Options {
    /// How many splits the filter holds.
    #[arg(long, default_value_t = 1_000_000)]
    splits: usize,
    /// Different partitions that are read.
    #[arg(long, default_value_t = 100_000)]
    partitions: usize,
    /// How often everything is measured; the best round counts.
    #[arg(long, default_value_t = 9)]
    rounds: usize,
    /// Fails when the decision costs more nanoseconds.
    #[arg(long)]
    max_ns: Option<f64>,
    /// Where decision.json goes.
    #[arg(long, default_value = "target/bench")]
    out: PathBuf,
    /// Cargo passes this to every benchmark.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> Result<()> {
    let options = Options::parse();
    ensure!(
        options.partitions >= 1000 && options.rounds > 0,
        "at least 1000 partitions and one round are needed to measure anything"
    );
    let figures = measure::measure(options.splits, options.partitions, options.rounds)?;
    println!("{}", table(options.splits, &figures));
    fs::create_dir_all(&options.out)?;
    let path = options.out.join("decision.json");
    fs::write(&path, json(options.splits, &figures))?;
    println!("written to {}", path.display());
    for (what, added) in [
        ("read", figures.added_ns()),
        ("write", figures.write_added_ns()),
    ] {
        if let Some(max) = options.max_ns {
            ensure!(
                added <= max,
                "the decision costs a {what} {added:.0} ns, more than {max:.0}"
            );
        }
    }
    Ok(())
}

fn table(splits: usize, figures: &Figures) -> String {
    let mut out = format!(
        "{splits} splits, none of them read; ns per request, and as a part of the decision\n\n"
    );
    for (name, ns) in figures.named() {
        let part = ns / figures.added_ns() * 100.0;
        out += &format!("{name:<14}{ns:>9.1}{part:>8.0} %\n");
    }
    out
}

fn json(splits: usize, figures: &Figures) -> String {
    let named = figures
        .named()
        .map(|(name, ns)| format!("  \"{name}_ns\": {ns:.1}"));
    format!(
        "{{\n  \"splits\": {splits},\n{},\n  \"false_positive_rate\": {:.6}\n}}\n",
        named.join(",\n"),
        figures.false_positive_rate
    )
}
