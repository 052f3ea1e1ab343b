//! An independent decoder: what `narrows::protocol` reads from bytes is what `cassandra-protocol` reads from them.
//!
//! [`captures`] compares the two on what drivers and Cassandra really said, [`random_messages`] on random valid messages,
//! [`our_messages`] on what Narrows writes itself. [`deviations`] has a test for everything that `cassandra-protocol`
//! reads wrongly, and each fails when that is no longer so.
//! `SEED=…` replays a random test, `SCALE=…` multiplies how much it does.

#![allow(
    clippy::result_large_err,
    reason = "the errors of cassandra-protocol are as large as they are"
)]

mod captures;
mod deviations;
mod framing;
mod generate;
mod generate_response;
mod our_messages;
mod ours;
#[path = "../integration/support/random.rs"]
mod random;
mod random_messages;
mod reading;
mod theirs;
