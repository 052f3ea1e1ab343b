//! What the decision costs, and its parts. Each is timed over the same requests.

use std::hint::black_box;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use narrows::protocol::header::{Header, Version, opcode};
use narrows::protocol::request::parameters::Parameters;
use narrows::protocol::types::Cursor;
use narrows::proxy::{Statement, might_be_answered};
use narrows::statement::{Shape, classify};
use narrows::telemetry::metrics;
use narrows::wide_row::known::Known;

use crate::requests::{self, KEYSPACE, TABLE, TEXT};

/// Requests that are timed together.
const BATCH: usize = 1_000;
/// More than so many are not the filter's false positives.
const MIGHT_MAX: f64 = 0.01;

/// Nanoseconds per request, the best of all rounds.
pub(crate) struct Figures {
    /// Everything, from the bytes of the values to the filter's "no".
    decision: f64,
    /// Of it, reading the values.
    parameters: f64,
    /// Of it, finding the table.
    table: f64,
    /// What a table that is not watched costs.
    unwatched: f64,
    pub(crate) false_positive_rate: f64,
}

impl Figures {
    /// What a watched table costs more than another one.
    pub(crate) fn added_ns(&self) -> f64 {
        (self.decision - self.unwatched).max(0.1)
    }

    pub(crate) fn named(&self) -> [(&'static str, f64); 5] {
        [
            ("added", self.added_ns()),
            ("decision", self.decision),
            ("parameters", self.parameters),
            ("table", self.table),
            ("unwatched", self.unwatched),
        ]
    }
}

pub(crate) fn measure(splits: usize, partitions: usize, rounds: usize) -> Result<Figures> {
    // Counters cost what they cost in a proxy.
    let _metrics = metrics::install();
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let known = requests::known(splits, runtime.handle())?;
    let bodies = requests::bodies(partitions);
    let shape = classify(TEXT, || false);
    ensure!(shape == Shape::Other, "the statement is an ordinary one");
    let statement = Statement::new(shape, TEXT, None);
    let decide = |body: &[u8]| decide(&known, &statement, body);
    let might = bodies.iter().filter(|body| decide(body) == Some(true));
    let false_positive_rate = might.count() as f64 / partitions as f64;
    ensure!(
        bodies.iter().all(|body| decide(body).is_some()) && false_positive_rate < MIGHT_MAX,
        "the requests are understood, and their partitions are not split"
    );
    let watched = known.table(KEYSPACE, TABLE);
    watched.context("the table is watched")?;
    let best = |work: &dyn Fn(&[u8]) -> Option<bool>| {
        let rounds = (0..rounds).map(|_| per_request(&bodies, work));
        rounds.fold(f64::INFINITY, f64::min)
    };
    Ok(Figures {
        decision: best(&decide),
        parameters: best(&|body| Some(black_box(parameters(body)?).values.is_empty())),
        table: best(&|_| Some(black_box(known.table(black_box(KEYSPACE), TABLE)).is_some())),
        unwatched: best(&|_| Some(black_box(known.table(black_box(KEYSPACE), "other")).is_some())),
        false_positive_rate,
    })
}

/// As a session does it.
fn decide(known: &Known, statement: &Statement, body: &[u8]) -> Option<bool> {
    let watched = known.table(black_box(KEYSPACE), TABLE)?;
    let parameters = parameters(body)?;
    Some(might_be_answered(&watched, statement, HEADER, &parameters))
}

const HEADER: Header = Header {
    version: 5,
    flags: 0,
    stream: 0,
    opcode: opcode::EXECUTE,
    length: 0,
};

fn parameters(body: &[u8]) -> Option<Parameters<'_>> {
    Parameters::read(Version::V5, &mut Cursor::new(body)).ok()
}

/// The median over batches shorter than a time slice, so that other processes on the machine do not count.
fn per_request(bodies: &[Vec<u8>], work: &dyn Fn(&[u8]) -> Option<bool>) -> f64 {
    let time = |batch: &[Vec<u8>]| {
        let start = Instant::now();
        for body in batch {
            black_box(work(black_box(body)));
        }
        start.elapsed().as_secs_f64() * 1e9 / batch.len() as f64
    };
    let mut batches: Vec<f64> = bodies.chunks(BATCH).map(time).collect();
    batches.sort_unstable_by(f64::total_cmp);
    batches[batches.len() / 2]
}
