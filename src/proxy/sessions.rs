//! The sessions of one thread, which closes idle ones, and ends all of them gracefully at shutdown or when a relay begins
//! to follow a control keyspace.

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::{Rc, Weak};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::metrics::Close;
use super::session::Session;
use super::shared::Proxy;
use super::wire::Stage;
use crate::upstream::pool::Pool;

const DRAIN_POLL: Duration = Duration::from_millis(5);

#[derive(Default)]
pub(super) struct Sessions {
    all: RefCell<Vec<Kept>>,
    /// Sessions that have not closed their client's connection yet; some are no longer in `all`.
    carried: Cell<usize>,
    /// Created with the first session.
    pool: OnceCell<Rc<Pool>>,
}

struct Kept {
    session: Weak<Session>,
    began: Instant,
    /// The last seen value of [`Session::activity`], and when it last changed.
    seen: Cell<(u64, Instant)>,
}

impl Sessions {
    pub(super) fn pool(&self, proxy: &Proxy) -> Rc<Pool> {
        let pool = || Rc::new(Pool::new(proxy.pool.clone()));
        self.pool.get_or_init(pool).clone()
    }

    /// Counts a session in until the returned guard is dropped.
    pub(super) fn add(self: &Rc<Self>, session: &Rc<Session>) -> Carried {
        self.carried.set(self.carried.get() + 1);
        let began = Instant::now();
        let seen = Cell::new((session.activity(), began));
        self.all.borrow_mut().push(Kept {
            session: Rc::downgrade(session),
            began,
            seen,
        });
        Carried(self.clone())
    }

    /// Ends sessions that have been idle for too long, or whose handshake takes too long.
    pub(super) fn close_overdue(&self) {
        let now = Instant::now();
        self.all.borrow_mut().retain(|kept| {
            let Some(session) = kept.session.upgrade() else {
                return false;
            };
            let (activity, since) = kept.seen.get();
            if session.activity() != activity {
                kept.seen.set((session.activity(), now));
            } else if now - since > session.wire.proxy.idle_timeout() {
                session.wire.close(Close::Idle);
            }
            let patience = session.wire.proxy.config.limits.handshake_timeout;
            if session.wire.stage.get() != Stage::Established && now - kept.began > patience {
                session.wire.close(Close::Handshake);
            }
            true
        });
    }

    pub(super) async fn drain(&self, deadline: Instant) {
        while self.carried.get() > 0 {
            self.all.borrow().iter().for_each(|kept| {
                end_if_idle(&kept.session);
            });
            if Instant::now() >= deadline {
                let sessions = self.carried.get();
                tracing::warn!(
                    sessions,
                    "limits.drain_timeout is over, cutting off sessions with requests in flight"
                );
                return;
            }
            sleep(DRAIN_POLL).await;
        }
    }

    /// Ends the sessions of now, each when its requests in flight are answered, however long that takes. Those that begin
    /// meanwhile go on.
    pub(super) async fn renew(&self) {
        let session = |kept: &Kept| kept.session.clone();
        let mut old: Vec<Weak<Session>> = self.all.borrow().iter().map(session).collect();
        while !old.is_empty() {
            old.retain(end_if_idle);
            sleep(DRAIN_POLL).await;
        }
    }
}

/// Lets a session read no further request, and ends it once nothing is under way. `false`: it is gone.
fn end_if_idle(session: &Weak<Session>) -> bool {
    let Some(session) = session.upgrade() else {
        return false;
    };
    session.drain();
    if !session.has_requests_under_way() {
        session.wire.close(Close::Drain);
    }
    true
}

/// Counts a session until it has closed.
pub(super) struct Carried(Rc<Sessions>);

impl Drop for Carried {
    fn drop(&mut self) {
        self.0.carried.set(self.0.carried.get() - 1);
    }
}
