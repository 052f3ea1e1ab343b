//! The proxy as a whole: the real binary between a raw client and real Cassandra.
//!
//! `SCALE` makes the counted tests longer, `SEED` replays a random one. `support` starts what is needed.

mod support;

mod bad_input;
mod drain;
mod events;
mod handshake;
mod limits;
mod prepared;
mod redis;
mod schema;
mod topology;
mod transparency;
mod upstream;
mod versions;
mod wide_row;
