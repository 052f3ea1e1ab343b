//! The proxy as a whole: the real binary between a raw client and real Cassandra.
//!
//! `SCALE` makes the counted tests longer, `SEED` replays a random one. `support` starts what is needed.

mod support;

mod bad_input;
mod detect;
mod drain;
mod events;
mod exactness;
mod handshake;
mod late;
mod limits;
mod literals;
mod metadata;
mod native_paging;
mod order;
mod page_bytes;
mod pipeline;
mod pool;
mod prepared;
mod redis;
mod ring;
mod schema;
mod split;
mod statements;
mod storm;
mod top_partitions;
mod topology;
mod transparency;
mod upstream;
mod versions;
mod wide_row;
mod written;
