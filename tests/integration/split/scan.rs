//! Many scans side by side, so that what happens in the middle happens to all of them.

use std::rc::Rc;

use super::world::World;
use super::{Ask, CODECS, Clients, assert_same, state};
use crate::support::Frame;
use crate::support::request::Value;

pub(super) const PAGE: i32 = 4;

/// Of the partitions 1 and 2, which are split at times, and 4, which never is.
const STATEMENTS: [&str; 11] = [
    "SELECT * FROM {} WHERE k = ?",
    "SELECT * FROM {} WHERE k = ? ORDER BY a DESC, b ASC",
    "SELECT v, w FROM {} WHERE k = ? LIMIT 23",
    "SELECT b, v FROM {} WHERE k = ? ORDER BY a DESC, b ASC LIMIT 17",
    "SELECT * FROM {} WHERE k = ? PER PARTITION LIMIT 18",
    "SELECT * FROM {} WHERE k = ? AND (a, b) > (0, 2) AND (a, b) <= (6, 1)",
    "SELECT * FROM {} WHERE k = ? AND a IN (6, 1, 2, 5, 3)",
    "SELECT * FROM {} WHERE k = ? AND v >= 20 ALLOW FILTERING",
    "SELECT * FROM {} WHERE k IN (4, ?, 2)",
    "SELECT * FROM {} WHERE k IN (4, ?, 2) LIMIT 51",
    "SELECT * FROM {} WHERE k IN (4, ?, 2) PER PARTITION LIMIT 13",
];

/// One scan, its pages so far, and those that a direct client got.
#[derive(Clone)]
pub(super) struct Scan {
    ask: Ask,
    pages: Vec<Frame>,
    is_done: bool,
    direct: Rc<Vec<Frame>>,
}

impl Scan {
    /// Of every statement, on every version, as QUERY and as EXECUTE. The original must not change from here on.
    pub(super) fn all(world: &mut World) -> Vec<Self> {
        let mut scans = Vec::new();
        for codec in CODECS {
            for statement in STATEMENTS {
                for is_prepared in [false, true] {
                    let ask = Ask::new(codec, world.text(statement))
                        .with(&[Value::int(1)])
                        .paged(PAGE)
                        .prepared(is_prepared);
                    let direct = Rc::new(ask.all(&mut world.direct));
                    scans.push(Self {
                        ask,
                        pages: Vec::new(),
                        is_done: false,
                        direct,
                    });
                }
            }
        }
        scans
    }

    pub(super) fn is_done(&self) -> bool {
        self.is_done
    }

    pub(super) fn next(&mut self, clients: &mut Clients) {
        if self.is_done {
            return;
        }
        let reply = self.ask.once(clients);
        match state(&reply) {
            Some(state) => self.ask.parameters.paging_state = Some(state),
            None => self.is_done = true,
        }
        self.pages.push(reply);
        assert!(self.pages.len() < 100, "{:?} never ends", self.ask);
    }

    /// To the end, where all of it must be what a direct client got.
    pub(super) fn finish(&mut self, clients: &mut Clients) {
        while !self.is_done {
            self.next(clients);
        }
        self.assert_same();
    }

    pub(super) fn assert_same(&self) {
        assert_same(&format!("{:?}", self.ask), &self.direct, &self.pages);
    }
}
