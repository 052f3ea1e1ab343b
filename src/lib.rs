//! Narrows: a sidecar that speaks the CQL native protocol in front of an unmodified Apache Cassandra cluster.
//!
//! # Layout, in the order a request meets it
//! - [`cli`], [`config`], [`app`]: the process.
//! - [`proxy`]: client connections. Start reading at `proxy/session.rs`.
//! - [`protocol`], [`statement`]: bytes and texts, pure.
//! - [`schema`]: tables, types and their order, pure.
//! - [`rewrite`]: one partition's answer from its buckets, pure.
//! - [`filter`]: which partitions might be split, pure.
//! - [`wide_row`]: what is split, and what a proxy knows about it.
//! - [`upstream`]: Cassandra. [`transport`], [`tls`]: sockets.
//! - [`admin`], [`telemetry`]: what operators see.
//!
//! # Glossary
//! - *client*: who connects to us. *upstream*: Cassandra.
//! - *session*: one client connection with its one upstream connection.
//! - *envelope*: one CQL message, header and body. *segment*: the outer frame of protocol v5.
//! - *shape*: what a statement means to the proxy.
//! - *pending*: what a session remembers about a request whose reply it must look at.
//! - *presented*: what a client sees of the cluster's topology. *mirrored*: a node's address as clients see it.
//! - *control connection*: the proxy's own connection that learns the cluster's nodes.
//! - *control keyspace*: where what is watched and split is kept. *original*: the table a client knows.
//! - *watched table*: one that Narrows looks after. *partition key*: the serialized key of the original.
//! - *split*: the record of one partition. *generation*: one attempt at it, never reused. *guarded*: writes to it must be noticed.
//! - *bucket*: one narrow partition of a generation. *layout*: which buckets there are and where each begins.
//! - *shard*: a part of a table's splits, with a *version* that grows and an *epoch* that takes all of it out of service.
//! - *sighting*: what a session sees of a read that may be of a wide partition, by which such partitions are detected.
//! - *fresh*: known as of at most `max_staleness` ago. *doubt*: not found out in time; the original answers.

#![cfg_attr(
    test,
    allow(clippy::unwrap_used, reason = "a panic is how a test fails")
)]

pub mod cli;
pub mod config;

pub mod app;
pub mod process;
pub mod worker;

pub mod proxy;

pub mod protocol;
pub mod statement;

pub mod schema;
pub mod watched;

pub mod filter;
pub mod rewrite;

pub mod known;
pub mod wide_row;

pub mod detect;
pub mod pipeline;
pub mod sighting;

pub mod tls;
pub mod transport;
pub mod upstream;

pub mod admin;
pub mod telemetry;
