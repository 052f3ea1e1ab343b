//! Tasks beside a session's two loops, so that a slow request or reply does not hold up the ones behind it.

use std::cell::RefCell;

use tokio::task::JoinSet;

/// The tasks of one session. They end with it.
#[derive(Default)]
pub(super) struct Beside(RefCell<JoinSet<()>>);

impl Beside {
    pub(super) fn begin(&self, work: impl Future<Output = ()> + 'static) {
        let mut tasks = self.0.borrow_mut();
        // Remove the tasks that have ended.
        while tasks.try_join_next().is_some() {}
        tasks.spawn_local(work);
    }

    pub(super) fn stop(&self) {
        self.0.borrow_mut().abort_all();
    }
}
