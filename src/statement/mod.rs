//! CQL texts, understood as far as a decision needs it. Pure.
//!
//! A text that is not understood is never guessed at: it is forwarded, and Cassandra answers it.

pub mod classify;
pub mod lexer;
pub mod topology;

pub use classify::{Shape, classify};
pub use topology::TopologySelect;
