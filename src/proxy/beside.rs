//! Work beside a session's two loops: a request or a reply that takes longer must not hold up those behind it.

use std::cell::RefCell;
use std::rc::Rc;

use tokio::task::{JoinSet, spawn_local};

use super::Close;
use super::pending::Held;
use super::session::Session;
use crate::protocol::Header;
use crate::protocol::header::Envelope;

/// Requests that are worked on. They end with their session.
#[derive(Default)]
pub(super) struct Beside(RefCell<JoinSet<()>>);

impl Beside {
    fn begin(&self, work: impl Future<Output = ()> + 'static) {
        let mut tasks = self.0.borrow_mut();
        // Those that have ended are let go of here.
        while tasks.try_join_next().is_some() {}
        tasks.spawn_local(work);
    }

    pub(super) fn stop(&self) {
        self.0.borrow_mut().abort_all();
    }
}

/// Ends the session if the work on one of its requests panics: that would never be answered.
struct OrPanic(Rc<Session>);

impl Drop for OrPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            tracing::error!("the work on a request panicked; please report this");
            self.0.close(Close::Panic);
        }
    }
}

impl Session {
    /// Works on a request, at the longest until the session ends.
    pub(super) fn begin_beside(self: &Rc<Self>, work: impl Future<Output = ()> + 'static) {
        let or_panic = OrPanic(self.clone());
        self.beside.begin(async move {
            let _or_panic = or_panic;
            work.await;
        });
    }

    /// Works on a reply, then sends it. A session that ends does not end the work: it may concern others.
    pub(super) fn hold<F>(self: &Rc<Self>, held: Held, reply: Envelope, work: F)
    where
        F: AsyncFnOnce(&Session, Envelope) -> Envelope + 'static,
    {
        let session = self.clone();
        let or_panic = OrPanic(self.clone());
        spawn_local(async move {
            let (_held, _or_panic) = (held, or_panic);
            let Header { stream, .. } = reply.header;
            let reply = work(&session, reply).await;
            let Header { flags, opcode, .. } = reply.header;
            // A client that has gone needs no reply.
            drop(session.reply(stream, flags, opcode, reply.body).await);
        });
    }
}
