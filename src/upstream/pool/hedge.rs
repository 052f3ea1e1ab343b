//! Asks another node when one is late, or fails; the first good answer counts. Only for what may be sent twice.
//!
//! A read is late when it takes longer than few reads of its statement do (see `pace`). Late reads are repeated within an
//! allowance. Where a node answers nothing at all (see `silence`), or was lost, there is no such limit, because it has
//! nothing to do for them. Dropping the loser gives its stream up, and its late reply is discarded.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{FuturesUnordered, StreamExt};
use tokio::time::{Instant, sleep_until};

use super::link::Link;
use super::node::Node;
use super::pace::DELAY_FIRST;
use super::route::Standing;
use super::silence::{OVERDUE, TICK};
use super::{
    ATTEMPTS_MAX, Pool, PoolConfig, PoolError, Prepared, Request, SubRead, SubReply, after,
};

/// Why a request is sent to another node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    Late,
    /// The node answers nothing at the moment.
    Silent,
    /// The connection broke, or could not be opened.
    Lost,
    /// The node answered with an error that another may not have.
    Refused,
}

impl Why {
    fn of(error: &PoolError) -> Self {
        match error {
            PoolError::Refused { .. } => Self::Refused,
            _ => Self::Lost,
        }
    }

    /// Whether the cluster may be slow as a whole, so that more requests would make it slower.
    fn is_limited(self) -> bool {
        matches!(self, Self::Late | Self::Refused)
    }
}

/// One request on its way to one node or several.
struct Race<'a> {
    route: &'a [SocketAddr],
    turn: usize,
    /// The time after which a node is late.
    delay: Duration,
    attempts: usize,
    /// Not asked again.
    passed: Vec<SocketAddr>,
    /// Who was asked last, and when.
    last: Rc<Node>,
    since: Instant,
}

/// Counts a read that nobody waits for any more.
struct Counted<'a> {
    config: &'a PoolConfig,
    has_ended: bool,
}

impl Pool {
    /// Executes a statement that only reads, on the best node of `route`, and on others if that is late or fails.
    pub async fn read(
        &self,
        prepared: &Arc<Prepared>,
        request: &SubRead<'_>,
        route: &[SocketAddr],
        within: Duration,
    ) -> Result<SubReply, PoolError> {
        let request = Request::execute(prepared, request)?;
        let (statements, deadline) = (std::slice::from_ref(prepared), after(within));
        self.allowance.borrow_mut().earn();
        let delay = self.statements.borrow().pace(&prepared.text).delay();
        let mut counted = Counted {
            config: &self.config,
            has_ended: false,
        };
        let ask = async |link: &Link| self.asked(link, statements, &request, deadline).await;
        let result = self.raced(route, deadline, delay, ask).await;
        counted.has_ended = true;
        self.ended(statements, &result);
        result
    }

    /// The statement with this text. If it is not known yet, it is prepared on the best node of `route`, and on others if
    /// that is late or fails.
    pub async fn prepared(
        &self,
        text: &str,
        route: &[SocketAddr],
        within: Duration,
    ) -> Result<Arc<Prepared>, PoolError> {
        let known = self.statements.borrow_mut().get(text);
        if let Some(prepared) = known {
            return Ok(prepared);
        }
        let deadline = after(within);
        let ask = async |link: &Link| self.prepare_on(link, text, deadline).await;
        self.raced(route, deadline, DELAY_FIRST, ask).await
    }

    async fn raced<T>(
        &self,
        route: &[SocketAddr],
        deadline: Instant,
        delay: Duration,
        ask: impl AsyncFn(&Link) -> Result<T, PoolError>,
    ) -> Result<T, PoolError> {
        let mut race = self.start(route, delay)?;
        let attempt = |node: Rc<Node>| {
            let (pool, ask) = (self, &ask);
            async move {
                let link = node.opened(&pool.config, deadline).await;
                let link = link.ok_or(PoolError::Unreachable)?;
                ask(&link).await
            }
        };
        let mut attempts = FuturesUnordered::new();
        attempts.push(attempt(race.last.clone()));
        let mut look_at = race.since + delay.min(OVERDUE);
        loop {
            let another = tokio::select! {
                // A reply that is there is not late.
                biased;
                Some(result) = attempts.next() => match result {
                    Err(error) if error.may_differ_elsewhere() && Instant::now() < deadline => {
                        let another = self.after_failure(&mut race, &error);
                        if another.is_none() && attempts.is_empty() {
                            return Err(error);
                        }
                        another
                    }
                    result => return result,
                },
                () = sleep_until(look_at), if race.attempts < ATTEMPTS_MAX => {
                    look_at = Instant::now() + TICK;
                    let why = race.is_late(Instant::now());
                    why.and_then(|why| self.another(&mut race, why))
                }
            };
            if let Some(node) = another {
                attempts.push(attempt(node));
            }
        }
    }

    fn start<'a>(&self, route: &'a [SocketAddr], delay: Duration) -> Result<Race<'a>, PoolError> {
        let turn = self.next_turn();
        let (node, _) = self
            .choose(route, turn, &[])
            .ok_or(PoolError::Unreachable)?;
        Ok(Race {
            route,
            turn,
            delay,
            attempts: 1,
            passed: vec![node.address],
            last: node,
            since: Instant::now(),
        })
    }

    /// The node to ask after one has failed.
    fn after_failure(&self, race: &mut Race<'_>, error: &PoolError) -> Option<Rc<Node>> {
        // Even the same node may answer on another connection.
        if let PoolError::Unsent(lost) | PoolError::Broken(lost) = error {
            race.passed.retain(|address| address != lost);
        }
        self.another(race, Why::of(error))
    }

    /// The node to ask next. `None`: there is none, or the allowance is used up.
    fn another(&self, race: &mut Race<'_>, why: Why) -> Option<Rc<Node>> {
        if race.attempts >= ATTEMPTS_MAX {
            return None;
        }
        let (node, standing) = self.choose(race.route, race.turn, &race.passed)?;
        // One that seems to be in the same trouble is worth a request only if the others have failed.
        let in_trouble = standing >= Standing::Overdue;
        if in_trouble && matches!(why, Why::Late | Why::Silent) {
            return None;
        }
        if why.is_limited() && !self.allowance.borrow_mut().spend() {
            return None;
        }
        self.config.metrics.hedged(why);
        race.attempts += 1;
        race.passed.push(node.address);
        race.last = node.clone();
        race.since = Instant::now();
        Some(node)
    }
}

impl Race<'_> {
    fn is_late(&self, now: Instant) -> Option<Why> {
        let waited = now - self.since;
        let is_silent = match self.last.link() {
            Some(link) => link.is_overdue(),
            // Its connection is still being opened.
            None => waited >= OVERDUE,
        };
        match is_silent {
            true => Some(Why::Silent),
            false => (waited >= self.delay).then_some(Why::Late),
        }
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        if !self.has_ended {
            self.config.metrics.given_up();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::ProtocolError;

    const NODE: SocketAddr =
        SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 9042);

    fn refused(code: i32, text: &str) -> PoolError {
        PoolError::Refused {
            address: NODE,
            code,
            text: text.to_owned(),
        }
    }

    #[test]
    fn only_what_another_node_may_answer_is_asked_of_another() {
        let tombstones = "Operation failed - received 0 responses and 1 failures: READ_TOO_MANY_TOMBSTONES from 127.0.0.1:7000";
        let cases = [
            (PoolError::Unreachable, Some(Why::Lost)),
            (PoolError::Broken(NODE), Some(Why::Lost)),
            (PoolError::Unsent(NODE), Some(Why::Lost)),
            (refused(0x1000, "unavailable"), Some(Why::Refused)),
            (refused(0x1001, "overloaded"), Some(Why::Refused)),
            (refused(0x1200, "read timeout"), Some(Why::Refused)),
            (
                refused(0x1300, "UNKNOWN from 127.0.0.1"),
                Some(Why::Refused),
            ),
            (refused(0x1300, tombstones), None),
            (refused(0x2000, "syntax"), None),
            (refused(0x2100, "rights"), None),
            (refused(0x2200, "no such table"), None),
            (refused(0x2500, "unprepared"), None),
            (PoolError::Changed, None),
            (PoolError::NoRoom, None),
            (PoolError::Encode(ProtocolError::UnknownStream), None),
        ];
        for (error, why) in cases {
            let found = error.may_differ_elsewhere().then(|| Why::of(&error));
            assert_eq!(found, why, "{error}");
        }
        let limited = [Why::Late, Why::Silent, Why::Lost, Why::Refused].map(Why::is_limited);
        assert_eq!(limited, [true, false, false, true]);
    }
}
