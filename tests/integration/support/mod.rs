//! What the tests stand on: a real cluster, the real binary, and a client that shares no code with it.

pub(crate) mod certificates;
pub(crate) mod client;
pub(crate) mod cluster;
pub(crate) mod driver;
pub(crate) mod frame;
pub(crate) mod keyspace;
pub(crate) mod metrics;
pub(crate) mod proxy;
pub(crate) mod random;
pub(crate) mod redis;
pub(crate) mod relay;
pub(crate) mod request;
pub(crate) mod response;
pub(crate) mod segment;

pub(crate) use client::RawClient;
pub(crate) use cluster::{Cluster, cluster, cluster_alone, control_cluster, single_cluster};
pub(crate) use frame::{Codec, Frame, opcode};
pub(crate) use keyspace::Keyspace;
pub(crate) use proxy::Proxy;

use std::time::{Duration, Instant};

/// Nothing that works takes this long, not even on a busy machine; what takes longer has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Tries until `attempt` gives something, and fails with what was awaited if it never does.
pub(crate) fn eventually<T>(what: &str, attempt: impl FnMut() -> Option<T>) -> T {
    eventually_within(PATIENCE, what, attempt)
}

/// For what is long work, such as a whole split beside other tests.
pub(crate) fn eventually_within<T>(
    patience: Duration,
    what: &str,
    mut attempt: impl FnMut() -> Option<T>,
) -> T {
    let deadline = Instant::now() + patience;
    loop {
        if let Some(found) = attempt() {
            return found;
        }
        assert!(Instant::now() < deadline, "never happened: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// How much more than the small default the counted tests do; `SCALE=20` for a long run.
pub(crate) fn scale() -> usize {
    std::env::var("SCALE").map_or(1, |scale| scale.parse().expect("SCALE is a number"))
}

/// The project's directory.
pub(crate) fn root() -> &'static std::path::Path {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
}
