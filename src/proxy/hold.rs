//! Writes that wait while the knowledge about splits is stale. All of them share one refresh. After a short wait the
//! proxy either forwards the write or refuses it with 0x1001; a refused write was never forwarded.

use std::future::pending;
use std::rc::Rc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use super::concern::Stale;
use super::decision::{Refusal, Taken};
use super::held::Held;
use super::metrics::Close;
use super::session::{Acted, Session};
use crate::known::Known;
use crate::known::freshness::Parts;
use crate::protocol::Envelope;
use crate::protocol::response::error::ErrorCode;

/// How long a write waits for a refresh; drivers give up after seconds.
const REFRESH_PATIENCE: Duration = Duration::from_millis(500);
const SCHEMA_POLL: Duration = Duration::from_millis(20);
/// If a held write cannot even begin to be sent within this time, upstream has stopped reading, and the session ends.
const HELD_PATIENCE: Duration = Duration::from_secs(30);

impl Session {
    /// Lets the write wait in a task of its own, so that it holds up no other request. `Err`: the memory for waiting
    /// writes is used up.
    pub(super) fn hold_write(
        self: &Rc<Self>,
        request: Envelope,
        stale: Stale,
        held: Held,
    ) -> Result<(), (i16, Refusal)> {
        let bytes = self.wire.proxy.held_writes.reserve(request.body.len());
        let Some(bytes) = bytes else {
            let refusal = Refusal::held(ErrorCode::Overloaded, TOO_MUCH);
            return Err((request.header.stream, refusal));
        };
        let session = self.clone();
        self.wire.begin_beside(async move {
            let _bytes = bytes;
            session.release_or_refuse(request, stale, held).await;
        });
        Ok(())
    }

    /// Judges the write again after every wait: a table may have been replaced meanwhile, and more than one thing may
    /// be stale.
    async fn release_or_refuse(
        self: &Rc<Self>,
        mut request: Envelope,
        mut stale: Stale,
        held: Held,
    ) {
        let Some(watching) = &self.watching else {
            return;
        };
        let known = &watching.wide_row.known;
        let mut held = Some(held);
        let deadline = Instant::now() + REFRESH_PATIENCE;
        let mut unlisted = stale.keyspaces();
        loop {
            let listing = async {
                match std::mem::take(&mut unlisted) {
                    keyspaces if keyspaces.is_empty() => pending().await,
                    keyspaces => {
                        let ask = async |text: &str| self.wire.ask_rows_beside(text).await;
                        let listed = &watching.writes.listed;
                        listed.refresh(&keyspaces, known, ask).await;
                    }
                }
            };
            tokio::select! {
                () = stale.wait(known, deadline) => {}
                () = listing => {}
            }
            let taken = match self.forward_held(&request, &mut held).await {
                Released::Forwarded => {
                    self.wire.proxy.metrics.held_writes_released.increment(1);
                    return;
                }
                Released::Ended => return,
                Released::Not(taken) => taken,
            };
            let taken = match taken {
                Taken::HoldWrite(still, place) if Instant::now() < deadline => {
                    (stale, held) = (still, Some(place));
                    continue;
                }
                Taken::HoldWrite(still, _) => {
                    Taken::Refuse(Refusal::held(ErrorCode::Overloaded, still.refusal(known)))
                }
                Taken::PrepareFirst(statements, _) => {
                    let prepared = self.wire.prepare_upstream(statements, &self.pool);
                    match timeout(HELD_PATIENCE, prepared).await {
                        Ok(Ok(())) => continue,
                        Ok(Err(id)) => Taken::Refuse(Refusal::unprepared(&id)),
                        Err(_) => return self.wire.close(Close::Upstream),
                    }
                }
                taken => taken,
            };
            match self.act(request, taken).await {
                Ok(Acted::JudgeAgain(same)) => request = same,
                Ok(Acted::Forward(request)) => return self.wire.forward(&request).await,
                // A client that has gone needs no reply.
                Ok(Acted::Done) | Err(_) => return,
            }
        }
    }

    /// Forwards the request unless the judge takes it again. It locks the writer before it asks the judge, because the
    /// knowledge must be fresh when the request goes out. Only the wait for the lock has a time limit: a message must
    /// not be cut off half-way.
    async fn forward_held(&self, request: &Envelope, held: &mut Option<Held>) -> Released {
        let Ok(mut upstream) = timeout(HELD_PATIENCE, self.wire.lock_upstream()).await else {
            self.wire.close(Close::Upstream);
            return Released::Ended;
        };
        if self.wire.is_closed() {
            return Released::Ended;
        }
        // Otherwise the request would count twice when it is judged again.
        drop(held.take());
        if let Some(taken) = self.judge_again(request) {
            return Released::Not(taken);
        }
        self.wire.forward_locked(&mut upstream, request).await;
        Released::Forwarded
    }
}

/// What happened to a held write that was judged again.
enum Released {
    Forwarded,
    Not(Taken),
    /// The session is over.
    Ended,
}

impl Stale {
    /// Waits for the refreshes that this write needs. All waiting writes share them.
    async fn wait(&self, known: &Known, deadline: Instant) {
        let rest = || deadline.saturating_duration_since(Instant::now());
        match self {
            Self::Catalog(_) => {
                known.catalog.wait(&Parts::All, rest()).await;
            }
            Self::Tables(tables) => {
                for (watched, parts) in tables {
                    watched.freshness.wait(parts, rest()).await;
                }
            }
            // Nothing signals that a schema has arrived, so poll.
            Self::Schema(_) => sleep(SCHEMA_POLL.min(rest())).await,
        }
    }
}

const TOO_MUCH: &str = "narrows: too many writes are waiting for the control keyspace; this one was not forwarded, try again";
