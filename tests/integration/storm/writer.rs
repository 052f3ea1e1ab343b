//! Threads that write: each its own rows, one statement at a time, through one proxy or the other. What they were told is
//! written down in the models, and now and then read at once through the other proxy.

use std::sync::{RwLockReadGuard, RwLockWriteGuard};
use std::thread::sleep;
use std::time::Duration;

use super::field::{Field, count};
use super::line::{Line, Way};
use super::model::Outcome;
use super::reader::{Scope, Where, check};
use super::statement::{Pen, ROWS, Statement};
use crate::support::Frame;
use crate::support::random::Random;
use crate::support::request::{LOGGED, UNLOGGED};

/// Unavailable, overloaded, write and read timeouts and failures, and a conditional write of unknown outcome.
const UNKNOWN: [i32; 7] = [0x1000, 0x1001, 0x1100, 0x1200, 0x1300, 0x1500, 0x1700];
/// Conditional writes take their time from Cassandra, to the millisecond; others must be on the right side of them.
const CLOCKS: Duration = Duration::from_millis(5);
const PAUSE_MAX_MILLIS: usize = 12;

pub(super) struct Writer<'a> {
    pub(super) field: &'a Field,
    pub(super) pen: Pen<'a>,
    /// One through each proxy.
    pub(super) lines: [Line; 2],
    pub(super) random: Random,
}

impl Writer<'_> {
    pub(super) fn run(mut self) {
        while !self.field.stops() {
            match self.field.busy(&mut self.random) {
                Some(partition) => self.write(partition),
                None => sleep(CLOCKS),
            }
            let millis = self.random.below(PAUSE_MAX_MILLIS) as u64;
            sleep(Duration::from_millis(millis));
        }
    }

    /// Statements are made behind the gates: what they say of time and conditions is true there.
    fn write(&mut self, partition: usize) {
        let random = &mut self.random;
        let row = random.below(ROWS as usize) as i32;
        match random.below(40) {
            0 => {
                let gates = Gates::alone(self.field, partition);
                let statement = self.pen.delete_partition(partition);
                self.send(gates, vec![statement]);
            }
            1..5 => {
                let gates = Gates::shared(self.field, &[partition]);
                if let Some(statement) = self.pen.conditional(partition, random) {
                    self.send(gates, vec![statement]);
                }
            }
            5..8 => {
                let other = self.field.busy(random).filter(|other| *other != partition);
                if let Some(other) = other {
                    let gates = Gates::shared(self.field, &[partition, other]);
                    let statement = self.pen.update_both([partition, other], row);
                    self.send(gates, vec![statement]);
                }
            }
            8..14 => self.write_batch(partition),
            _ => {
                let gates = Gates::shared(self.field, &[partition]);
                let statement = self.pen.plain(partition, row, random);
                self.send(gates, vec![statement]);
            }
        }
    }

    fn write_batch(&mut self, partition: usize) {
        let random = &mut self.random;
        let other = self.field.busy(random).unwrap_or(partition);
        let rows = 2 + random.below(4) as i32;
        let first = random.below(ROWS as usize) as i32;
        let gates = Gates::shared(self.field, &[partition, other]);
        let statements = (0..rows).map(|number| {
            let partition = if number % 2 == 0 { partition } else { other };
            self.pen.plain(partition, (first + number) % ROWS, random)
        });
        let statements: Vec<Statement> = statements.collect();
        self.send(gates, statements);
    }

    /// Sends one statement, or a batch of several.
    fn send(&mut self, gates: Gates<'_>, statements: Vec<Statement>) {
        let proxy = self.random.below(2);
        let way = *self.random.pick(&Way::ALL);
        for (partition, change) in statements.iter().flat_map(|one| &one.changes) {
            self.field.partitions[*partition].model().begin(&[*change]);
        }
        let reply = match &statements[..] {
            [only] => self.lines[proxy].write(way, only),
            _ => {
                let kind = *self.random.pick(&[LOGGED, UNLOGGED]);
                self.lines[proxy].write_batch(way, kind, &statements)
            }
        };
        let outcome = self.outcome(reply, &statements);
        for statement in &statements {
            if outcome == Outcome::Unknown {
                for (partition, place) in &statement.unsure {
                    self.field.partitions[*partition].model().set_unsure(*place);
                }
            }
            for (partition, change) in &statement.changes {
                self.field.partitions[*partition]
                    .model()
                    .end(&[*change], outcome);
            }
        }
        drop(gates);
        if let Some((partition, change)) = statements.first().and_then(|one| one.changes.first())
            && self.random.one_in(2)
        {
            let scope = Scope::Row(change.place);
            let through = &mut self.lines[1 - proxy];
            check(
                self.field,
                through,
                Where::Proxy,
                (*partition, scope),
                &mut self.random,
            );
        }
    }

    fn outcome(&self, reply: Option<Frame>, statements: &[Statement]) -> Outcome {
        let counts = &self.field.counts;
        let error = reply.as_ref().and_then(Frame::error);
        let (Some(reply), None) = (&reply, &error) else {
            if let Some((code, text)) = error {
                let what = &statements[0].text;
                assert!(UNKNOWN.contains(&code), "{code:#06x} {text}: {what}");
            }
            count(&counts.unknown);
            return Outcome::Unknown;
        };
        if let Some(applies) = statements.iter().find_map(|one| one.applies) {
            let applied = reply.rows().rows[0][0] == Some(vec![1]);
            assert_eq!(applied, applies, "{:?}", statements[0]);
        }
        count(&counts.acknowledged);
        Outcome::Acknowledged
    }
}

/// The right to write to some partitions.
enum Gates<'a> {
    Shared { _held: Vec<RwLockReadGuard<'a, ()>> },
    Alone { _held: RwLockWriteGuard<'a, ()> },
}

impl<'a> Gates<'a> {
    fn alone(field: &'a Field, partition: usize) -> Self {
        let gate = field.partitions[partition].gate.write();
        let held = gate.expect("nobody panicked");
        sleep(CLOCKS);
        Self::Alone { _held: held }
    }

    fn shared(field: &'a Field, partitions: &[usize]) -> Self {
        let mut partitions = partitions.to_vec();
        // In one order, so that nobody waits for one who waits for him.
        partitions.sort_unstable();
        partitions.dedup();
        let gates = partitions.into_iter().map(|partition| {
            let gate = field.partitions[partition].gate.read();
            gate.expect("nobody panicked")
        });
        Self::Shared {
            _held: gates.collect(),
        }
    }
}

impl Drop for Gates<'_> {
    fn drop(&mut self) {
        if matches!(self, Self::Alone { .. }) {
            sleep(CLOCKS);
        }
    }
}
