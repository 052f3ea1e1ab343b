//! Work beside a session's two loops: a request or a reply that takes longer must not hold up those behind it.

use std::cell::RefCell;

use tokio::task::JoinSet;

/// Requests that are worked on. The work ends with its session.
#[derive(Default)]
pub(super) struct Beside(RefCell<JoinSet<()>>);

impl Beside {
    pub(super) fn begin(&self, work: impl Future<Output = ()> + 'static) {
        let mut tasks = self.0.borrow_mut();
        // Let go of those that have ended.
        while tasks.try_join_next().is_some() {}
        tasks.spawn_local(work);
    }

    pub(super) fn stop(&self) {
        self.0.borrow_mut().abort_all();
    }
}
