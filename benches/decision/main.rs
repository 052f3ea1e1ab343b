//! What does it cost a request that its table is watched, although its partition is not split? A real session judges EXECUTEs
//! and their replies: of a watched table, of another table, and in a proxy that watches nothing. A watched read's key is put
//! together, hashed and held against the filter, and the head of its reply is looked at; a write is checked when it is
//! forwarded and again at its reply.
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
mod session;

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
    /// Fails when a watched table costs a read or a write more nanoseconds.
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
        ("read", figures.added(figures.read)),
        ("write", figures.added(figures.write)),
    ] {
        if let Some(max) = options.max_ns {
            ensure!(
                added <= max,
                "a watched table costs a {what} {added:.0} ns more, over the limit of {max:.0}"
            );
        }
    }
    Ok(())
}

fn table(splits: usize, figures: &Figures) -> String {
    let mut out = format!(
        "{splits} splits, none of them touched; ns for judging a request and its reply\n\n{:<18}{:>10}{:>10}\n",
        "", "in all", "added"
    );
    for (name, ns) in figures.named() {
        out += &format!("{name:<18}{ns:>10.1}{:>10.1}\n", figures.added(ns));
    }
    out
}

fn json(splits: usize, figures: &Figures) -> String {
    let named = figures.named().map(|(name, ns)| {
        let added = figures.added(ns);
        format!("  \"{name}_ns\": {ns:.1},\n  \"{name}_added_ns\": {added:.1}")
    });
    format!(
        "{{\n  \"splits\": {splits},\n{},\n  \"false_positive_rate\": {:.6}\n}}\n",
        named.join(",\n"),
        figures.false_positive_rate
    )
}
