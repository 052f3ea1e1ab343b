//! What a session's judge costs. Each kind of request is timed over the same partitions.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Result, ensure};
use narrows::telemetry::metrics;
use tokio::runtime::Runtime;

use crate::requests;
use crate::session::{JudgedSession, Statement};

/// Requests that are timed together.
const BATCH: usize = 1_000;
/// More than so many are not the filter's false positives.
const MIGHT_MAX: f64 = 0.01;

/// Nanoseconds for a request and its reply, the best of all rounds.
pub(crate) struct Figures {
    /// In a proxy that watches no table.
    relay: f64,
    /// A read of a watched table.
    pub(crate) read: f64,
    /// A read of another table.
    unwatched_read: f64,
    /// A write to a watched table.
    pub(crate) write: f64,
    /// A write to another table: its name is remembered, in case somebody watches it by the time of the reply.
    unwatched_write: f64,
    pub(crate) false_positive_rate: f64,
}

impl Figures {
    /// What a request costs more than in a proxy that watches nothing.
    pub(crate) fn added(&self, ns: f64) -> f64 {
        (ns - self.relay).max(0.0)
    }

    pub(crate) fn named(&self) -> [(&'static str, f64); 5] {
        [
            ("relay", self.relay),
            ("read", self.read),
            ("unwatched_read", self.unwatched_read),
            ("write", self.write),
            ("unwatched_write", self.unwatched_write),
        ]
    }
}

pub(crate) fn measure(splits: usize, partitions: usize, rounds: usize) -> Result<Figures> {
    // Counters cost what they cost in a proxy.
    let _metrics = metrics::install();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let known = requests::known(splits, runtime.handle())?;
    let relay = JudgedSession::open(&runtime, None)?;
    let watching = JudgedSession::open(&runtime, Some(Arc::new(known)))?;
    let executes = |statement: Statement| requests::executes(statement.id(), partitions);
    let passed = |session: &JudgedSession, statement: Statement| {
        let executes = executes(statement);
        let passed = executes.iter().filter(|body| session.pass(body, statement));
        passed.count() as f64 / partitions as f64
    };
    let false_positive_rate = 1.0 - passed(&watching, Statement::Read);
    ensure!(
        false_positive_rate < MIGHT_MAX && passed(&watching, Statement::Write) > 1.0 - MIGHT_MAX,
        "the requests are understood, and touch nothing that is split"
    );
    for statement in [Statement::OtherRead, Statement::OtherWrite] {
        ensure!(
            passed(&watching, statement) == 1.0,
            "nobody watches the other table"
        );
    }
    let best = |session: &JudgedSession, statement: Statement| {
        let executes = executes(statement);
        let rounds = (0..rounds).map(|_| per_request(&executes, session, statement, &runtime));
        rounds.fold(f64::INFINITY, f64::min)
    };
    Ok(Figures {
        relay: best(&relay, Statement::Read),
        read: best(&watching, Statement::Read),
        unwatched_read: best(&watching, Statement::OtherRead),
        write: best(&watching, Statement::Write),
        unwatched_write: best(&watching, Statement::OtherWrite),
        false_positive_rate,
    })
}

/// The median over batches shorter than a time slice, so that other processes on the machine do not count.
fn per_request(
    executes: &[Vec<u8>],
    session: &JudgedSession,
    statement: Statement,
    runtime: &Runtime,
) -> f64 {
    let _entered = runtime.enter();
    let time = |batch: &[Vec<u8>]| {
        let start = Instant::now();
        for body in batch {
            black_box(session.pass(black_box(body), statement));
        }
        start.elapsed().as_secs_f64() * 1e9 / batch.len() as f64
    };
    let mut batches: Vec<f64> = executes.chunks(BATCH).map(time).collect();
    batches.sort_unstable_by(f64::total_cmp);
    batches[batches.len() / 2]
}
