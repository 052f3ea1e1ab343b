//! Named places where a test can end the process as `kill -9` would. Only in builds with debug assertions.

/// Ends the process if `NARROWS_FAIL_POINT` names this place: `name` ends it the first time the place is reached,
/// `name:N` the N-th time.
#[cfg(debug_assertions)]
pub(super) fn reached(name: &str) {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static SEEN: AtomicUsize = AtomicUsize::new(0);
    let Ok(wanted) = std::env::var("NARROWS_FAIL_POINT") else {
        return;
    };
    let (place, count) = wanted.split_once(':').unwrap_or((&wanted, "1"));
    let count = count.parse().unwrap_or(1);
    if place == name && SEEN.fetch_add(1, Ordering::Relaxed) + 1 == count {
        std::process::abort();
    }
}

#[cfg(not(debug_assertions))]
pub(super) fn reached(_: &str) {}
