//! Narrows: a sidecar that speaks the CQL native protocol in front of an unmodified Apache Cassandra cluster.
//!
//! # Layout, in the order a request meets it
//! - [`cli`], [`config`]: the command line and the settings. [`process`], [`app`], [`worker`]: the two kinds of
//!   process.
//! - [`proxy`]: client connections. Start reading at `proxy/session.rs`.
//! - [`protocol`], [`statement`]: bytes and texts, pure.
//! - [`schema`], [`watched`]: tables with their names, keys, types and order; the settings of watched tables. Pure.
//! - [`filter`]: which partitions might be split. [`rewrite`]: how the buckets of a partition answer for it. Both pure.
//! - [`known`]: what a process knows about the record of splits. [`wide_row`]: that record, in Cassandra.
//! - [`sighting`], [`detect`]: signs of wide partitions, and how these partitions are found.
//! - [`pipeline`]: how a wide partition is split, stage by stage.
//! - [`upstream`]: Cassandra. [`transport`], [`tls`]: sockets. [`budget`]: memory that is shared.
//! - [`admin`], [`telemetry`]: what operators see.
//!
//! # Glossary
//! - *client*: the application that connects to us. *upstream*: Cassandra.
//! - *session*: one client connection with its one upstream connection.
//! - *envelope*: one CQL message, header and body. *segment*: the outer frame of protocol v5.
//! - *shape*: what a statement means to the proxy.
//! - *pending*: what a session remembers about a request whose reply it must look at.
//! - *presented*: what a client sees of the cluster's topology. *mirrored*: a node's address as clients see it.
//! - *control connection*: the proxy's own connection that learns the cluster's nodes.
//! - *control keyspace*: the keyspace that records watched tables and splits. *original*: the table that clients know.
//! - *watched table*: a table that Narrows looks after. *partition key*: the serialized key of the original.
//! - *split*: the record of one partition. *generation*: one attempt at it, never reused. *guarded*: writes to it must
//!   be noticed. *retire*: to end a generation, so that it is neither guarded nor served any longer. *worker*: a
//!   process of `narrows worker`.
//! - *bucket*: one narrow partition of a generation. *layout*: which buckets there are and where each begins.
//! - *shard*: a part of a table's splits. Its *version* only grows; a change of its *epoch* takes all of it out of
//!   service.
//! - *sighting*: a sign that a partition may be wide, from which detection works.
//! - *fresh*: at most `max_staleness` old. *doubt*: a look-up that failed or took too long; the original answers.

#![cfg_attr(
    test,
    allow(clippy::unwrap_used, reason = "a panic is how a test fails")
)]

pub mod cli;
pub mod config;

pub mod app;
mod finding;
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
pub mod sighting;

pub mod pipeline;

pub mod budget;
pub mod transport;
pub mod upstream;

pub mod tls;

pub mod admin;
pub mod telemetry;
