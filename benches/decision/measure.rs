//! What the decision costs, and its parts. Each is timed over the same requests.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use narrows::known::Known;
use narrows::known::retire::Retirer;
use narrows::protocol::header::{Header, Version, opcode};
use narrows::protocol::request::parameters::Parameters;
use narrows::protocol::splitter::View;
use narrows::protocol::types::Cursor;
use narrows::proxy::{SightedReads, Statement, WatchedWrites, might_be_answered};
use narrows::statement::{Shape, classify};
use narrows::telemetry::metrics;

use crate::requests::{self, ELSEWHERE, KEYSPACE, TABLE, TEXT, WRITE};

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
    /// Besides the decision: which partition is read is remembered, and the head of the reply looked at.
    sighting: f64,
    /// A write from the bytes of its values to its reply: its key is held against the filter twice, and remembered between.
    write: f64,
    /// The same to a table that nobody watches: its name is remembered, in case somebody does by the time of the reply.
    unwatched_write: f64,
    pub(crate) false_positive_rate: f64,
}

impl Figures {
    /// What a watched table costs more than another one.
    pub(crate) fn added_ns(&self) -> f64 {
        (self.decision - self.unwatched).max(0.1)
    }

    /// The same of a write.
    pub(crate) fn write_added_ns(&self) -> f64 {
        (self.write - self.unwatched).max(0.1)
    }

    pub(crate) fn named(&self) -> [(&'static str, f64); 9] {
        [
            ("added", self.added_ns()),
            ("decision", self.decision),
            ("parameters", self.parameters),
            ("table", self.table),
            ("unwatched", self.unwatched),
            ("sighting", self.sighting),
            ("write", self.write),
            ("write_added", self.write_added_ns()),
            ("unwatched_write", self.unwatched_write),
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
    let watched = watched.context("the table is watched")?;
    let (reads, reply) = (SightedReads::default(), requests::reply());
    let look = |body: &[u8]| {
        let reply = View {
            header: reply_header(reply.len()),
            body: black_box(&reply),
            complete: true,
        };
        let told = reads.look(&watched, &statement, &parameters(body)?, reply)?;
        Some(told > 0)
    };
    ensure!(
        bodies.iter().all(|body| look(body) == Some(false)),
        "all replies are looked at, and none is worth telling"
    );
    let [writes, elsewhere] = {
        let guards = Retirer::new(Arc::default(), runtime.handle().clone());
        [WRITE, ELSEWHERE].map(|text| WatchedWrites::new(guards.clone(), text))
    };
    let insert = Statement::new(classify(WRITE, || false), WRITE, None);
    // A RESULT of the kind Void.
    let done = 1_i32.to_be_bytes();
    let reply = || View {
        header: reply_header(done.len()),
        body: black_box(&done),
        complete: true,
    };
    let write = |body: &[u8]| {
        let watched = known.table(black_box(KEYSPACE), TABLE)?;
        Some(writes.pass((&known, &watched), &insert, &parameters(body)?, reply()))
    };
    let write_elsewhere = |_: &[u8]| Some(elsewhere.pass_unwatched(black_box(&known), reply()));
    ensure!(
        write_elsewhere(&[]) == Some(true),
        "nobody watches the other table"
    );
    let passed = bodies.iter().filter(|body| write(body) == Some(true));
    ensure!(
        passed.count() as f64 / partitions as f64 > 1.0 - MIGHT_MAX,
        "the writes are understood, and touch nothing that is split"
    );
    let best = |work: &dyn Fn(&[u8]) -> Option<bool>| {
        let rounds = (0..rounds).map(|_| per_request(&bodies, work));
        rounds.fold(f64::INFINITY, f64::min)
    };
    let parameters_ns = best(&|body| Some(black_box(parameters(body)?).values.is_empty()));
    Ok(Figures {
        decision: best(&decide),
        parameters: parameters_ns,
        // The values are read once for both.
        sighting: (best(&look) - parameters_ns).max(0.1),
        table: best(&|_| Some(black_box(known.table(black_box(KEYSPACE), TABLE)).is_some())),
        unwatched: best(&|_| Some(black_box(known.table(black_box(KEYSPACE), "other")).is_some())),
        write: best(&write),
        unwatched_write: best(&write_elsewhere),
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

fn reply_header(length: usize) -> Header {
    Header {
        version: 0x85,
        flags: 0,
        stream: 7,
        opcode: opcode::RESULT,
        length: u32::try_from(length).unwrap_or(u32::MAX),
    }
}

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
