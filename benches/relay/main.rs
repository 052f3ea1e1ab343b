//! What does it cost to go through Narrows? Load on a real Cassandra node, directly,
//! through HAProxy as a plain TCP relay, and through Narrows, in turns short enough
//! that the noise of a shared machine hits all three alike.
//!
//! `make bench` runs it; the figures to trust are CPU per request and its ratio to
//! HAProxy in the same round. Results also go to `relay.json` in the output directory.
#![allow(
    clippy::print_stdout,
    reason = "a benchmark reports on standard output"
)]
#![allow(clippy::cast_precision_loss, reason = "counts here are far below 2^52")]

mod cql;
mod data;
mod load;
mod process;
mod report;

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::Parser;

use crate::cql::Connection;
use crate::data::{PAGE, POINT, Workload};
use crate::process::Target;
use crate::report::{Json, Rounds};

const FIXED_RATE: u32 = 2000;
const IDLE_CONNECTIONS: u32 = 1000;
const WARM_UP: Duration = Duration::from_secs(15);

#[derive(Parser)]
struct Options {
    /// The Cassandra node that answers.
    #[arg(long, default_value = "127.0.5.1:9042")]
    upstream: SocketAddr,
    /// What to send load to: direct, haproxy, narrows, or name=address=pid of a
    /// process that already runs.
    #[arg(long, value_delimiter = ',', default_value = "direct,haproxy,narrows")]
    targets: Vec<String>,
    /// The binary to measure.
    #[arg(long, default_value = "target/release/narrows")]
    narrows: PathBuf,
    /// Where configuration, logs and relay.json go.
    #[arg(long, default_value = "target/bench")]
    out: PathBuf,
    /// How often each target gets its turn.
    #[arg(long, default_value_t = 16)]
    rounds: usize,
    /// How long a turn lasts.
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Fail when Narrows costs more than this many times HAProxy's CPU per request.
    #[arg(long)]
    max_ratio: Option<f64>,
    /// Cargo passes this to every benchmark.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> Result<()> {
    let options = Options::parse();
    ensure!(
        options.rounds > 0 && options.seconds > 0.0,
        "rounds and seconds must be above zero"
    );
    fs::create_dir_all(&options.out)?;
    process::end_children_on_signal()?;
    let _end_children = process::EndChildren;

    let mut direct = Connection::open(options.upstream)
        .context("no Cassandra to measure; `make bench` starts one")?;
    let mut json = describe(&options, &mut direct)?;
    data::load(&mut direct)?;
    let targets: Vec<Target> = options
        .targets
        .iter()
        .map(|name| target(name, &options))
        .collect::<Result<_>>()?;
    let mut ratios = Vec::new();
    for workload in [POINT, PAGE] {
        let rounds = run_rounds(&options, &targets, &workload)?;
        ratios.extend(rounds.narrows_ratio());
        json.object(workload.name, &rounds.json());
        println!("{}", rounds.table());
    }
    let fixed = run_fixed_rate(&options, &targets)?;
    json.object("point_fixed_rate", &fixed.json());
    println!("{}", fixed.table());
    json.object("idle", &measure_idle(&targets)?);

    let path = options.out.join("relay.json");
    fs::write(&path, json.render(0) + "\n")?;
    println!("\nwritten to {}", path.display());
    options
        .max_ratio
        .map_or(Ok(()), |limit| check_ratios(&ratios, limit))
}

fn check_ratios(ratios: &[f64], limit: f64) -> Result<()> {
    let worst = ratios.iter().copied().reduce(f64::max);
    let worst = worst.context("--max-ratio needs both haproxy and narrows among the targets")?;
    ensure!(
        worst <= limit,
        "narrows costs {worst:.2} × HAProxy's CPU per request, the limit is {limit}"
    );
    Ok(())
}

fn target(name: &str, options: &Options) -> Result<Target> {
    match name.split('=').collect::<Vec<_>>()[..] {
        ["direct"] => Ok(Target {
            name: name.to_owned(),
            address: options.upstream,
            pid: None,
        }),
        ["haproxy"] => process::start_haproxy(options.upstream, &options.out),
        ["narrows"] => process::start_narrows(&options.narrows, options.upstream, &options.out),
        [name, address, pid] => Ok(Target {
            name: name.to_owned(),
            address: address.parse()?,
            pid: Some(pid.parse()?),
        }),
        _ => bail!("target {name:?} is not direct, haproxy, narrows or name=address=pid"),
    }
}

fn run_rounds(options: &Options, targets: &[Target], workload: &Workload) -> Result<Rounds> {
    // The JVM compiles its hot paths under load; every target gets a share of it.
    let share = WARM_UP / u32::try_from(targets.len())?;
    for target in targets {
        load::closed_loop(target, workload, share)?;
    }
    let length = Duration::from_secs_f64(options.seconds);
    take_turns(targets, options.rounds, workload.name, |target| {
        load::closed_loop(target, workload, length)
    })
}

fn run_fixed_rate(options: &Options, targets: &[Target]) -> Result<Rounds> {
    let length = Duration::from_secs_f64(options.seconds);
    let title = format!("point, {FIXED_RATE} requests/s");
    take_turns(targets, options.rounds.div_ceil(2), &title, |target| {
        load::fixed_rate(target, &POINT, length, FIXED_RATE)
    })
}

/// Every round starts with another target, so that none always follows the same one.
fn take_turns(
    targets: &[Target],
    rounds: usize,
    title: &str,
    mut turn: impl FnMut(&Target) -> Result<load::Slice>,
) -> Result<Rounds> {
    let mut all = Vec::new();
    for round in 0..rounds {
        let mut slices = vec![None; targets.len()];
        for step in 0..targets.len() {
            let index = (round + step) % targets.len();
            slices[index] = Some(turn(&targets[index])?);
        }
        all.push(slices.into_iter().flatten().collect());
    }
    Ok(Rounds {
        workload: title.to_owned(),
        targets: targets.iter().map(|target| target.name.clone()).collect(),
        rounds: all,
    })
}

/// Resident memory of each proxy, before and with many clients that only stay connected.
fn measure_idle(targets: &[Target]) -> Result<Json> {
    let mut json = Json::default();
    json.number("connections", f64::from(IDLE_CONNECTIONS));
    println!("\nresident memory with {IDLE_CONNECTIONS} idle clients (after all the load above)");
    for target in targets {
        let Some(before) = target.resident_kib()? else {
            continue;
        };
        let clients: Vec<Connection> = (0..IDLE_CONNECTIONS)
            .map(|_| Connection::open(target.address))
            .collect::<Result<_>>()?;
        let during = target.resident_kib()?.unwrap_or_default();
        drop(clients);
        println!(
            "{:<12}{:>8.1} MiB, before {:.1} MiB",
            target.name,
            during as f64 / 1024.0,
            before as f64 / 1024.0
        );
        json.number(&format!("{}_rss_kib", target.name), during as f64);
        json.number(&format!("{}_rss_before_kib", target.name), before as f64);
    }
    Ok(json)
}

/// Prints and records what the figures were measured on.
fn describe(options: &Options, direct: &mut Connection) -> Result<Json> {
    let cpu_info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu_info
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .unwrap_or("unknown");
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let facts = [
        ("cores", std::thread::available_parallelism()?.to_string()),
        ("cpu", model.trim_start_matches([' ', '\t', ':']).to_owned()),
        ("kernel", kernel.trim().to_owned()),
        ("cassandra", release_version(direct)?),
        ("haproxy", first_line("haproxy", "-v")),
        ("narrows", first_line(&options.narrows, "--version")),
        (
            "load",
            "4 connections, 32 requests in flight, v4, prepared, no compression".to_owned(),
        ),
        (
            "turns",
            format!(
                "{} rounds of {} s per target, medians",
                options.rounds, options.seconds
            ),
        ),
    ];
    let mut json = Json::default();
    for (name, value) in &facts {
        println!("{name:<12}{value}");
        json.text(name, value);
    }
    Ok(json)
}

fn first_line(program: impl AsRef<Path>, argument: &str) -> String {
    let output = Command::new(program.as_ref()).arg(argument).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    text.unwrap_or_default()
        .lines()
        .next()
        .unwrap_or("not found")
        .to_owned()
}

/// The one text of the one row ends the Rows result, after its [int] length.
fn release_version(direct: &mut Connection) -> Result<String> {
    let rows = direct.query("SELECT release_version FROM system.local")?;
    let tail: Vec<u8> = rows
        .iter()
        .rev()
        .take_while(|byte| byte.is_ascii_graphic())
        .copied()
        .collect();
    Ok(String::from_utf8(tail.into_iter().rev().collect())?)
}
