//! What does it cost to ask whether a partition is split? For each policy: nanoseconds per check with the key's
//! hashing, bytes per key, and the processor time to rebuild a whole table shard by shard. And does a rebuild stall
//! a reader? See `reader`.
//!
//! `make bench-filter` runs it. Results also go to `filter.json` in the output directory. On a busy machine trust
//! the lowest figures: costs are the best of several rounds, a reader's are those of all rounds together.
#![allow(
    clippy::print_stdout,
    reason = "a benchmark reports on standard output"
)]
#![allow(clippy::cast_precision_loss, reason = "counts here are far below 2^52")]

mod keys;
mod measure;
mod reader;
mod report;

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Result, ensure};
use clap::Parser;
use narrows::filter::{
    BloomPolicy, FilterPolicy, FusePolicy, LeadingColumns, Policies, PrefixPolicy, Sizing,
};

use crate::keys::Keys;
use crate::measure::{Figures, measure};

#[derive(Parser)]
struct Options {
    /// How many keys the filter holds.
    #[arg(long, default_value_t = 1_000_000)]
    keys: usize,
    /// How often everything is measured; the best round counts.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Measures only this one of the policies.
    #[arg(long)]
    only: Option<String>,
    /// Where filter.json goes.
    #[arg(long, default_value = "target/bench")]
    out: PathBuf,
    /// Cargo passes this to every benchmark.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> Result<()> {
    let options = Options::parse();
    ensure!(
        options.keys >= 1000 && options.rounds > 0,
        "at least 1000 keys and one round are needed to measure anything"
    );
    let keys = Keys::new(options.keys);
    let mut results: Vec<(&str, Figures)> = Vec::new();
    for (name, policies) in choices()? {
        if options.only.as_deref().is_none_or(|only| only == name) {
            results.push((name, measure(&policies, &keys, options.rounds)));
        }
    }
    ensure!(
        !results.is_empty(),
        "--only names no policy that is measured"
    );
    println!("{}", report::costs(options.keys, &results));
    println!("{}", report::reader(&results));
    fs::create_dir_all(&options.out)?;
    let path = options.out.join("filter.json");
    fs::write(&path, report::json(options.keys, &results))?;
    println!("written to {}", path.display());
    Ok(())
}

/// The policies by the names they have in `filter.json`.
fn choices() -> Result<Vec<(&'static str, Policies)>> {
    let fuse: Arc<dyn FilterPolicy> = Arc::new(FusePolicy);
    let bloom = |rate| -> Result<Arc<dyn FilterPolicy>> {
        Ok(Arc::new(BloomPolicy::new(Sizing::FalsePositiveRate(rate))?))
    };
    let prefix: Arc<dyn FilterPolicy> =
        Arc::new(PrefixPolicy::new(Arc::new(LeadingColumns::new(1))));
    Ok(vec![
        ("fuse16", Policies::from([Arc::clone(&fuse)])),
        ("bloom_1_percent", Policies::from([bloom(0.01)?])),
        ("bloom_0_1_percent", Policies::from([bloom(0.001)?])),
        ("prefix", Policies::from([Arc::clone(&prefix)])),
        ("fuse16_prefix", Policies::from([fuse, prefix])),
    ])
}
