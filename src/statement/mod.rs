//! CQL texts, understood as far as the proxy's decisions need. Pure.
//!
//! A text that is not understood is never guessed at: it is forwarded, and Cassandra answers it. (SELECTs on topology
//! tables are the exception: one that is not understood is refused, since the answer would show real addresses.)

pub mod anonymous;
pub mod classify;
pub mod lexer;
mod parser;
pub mod select;
pub mod term;
pub mod topology;
pub mod touches;
pub mod write;

pub use classify::{Shape, classify};
pub use topology::TopologySelect;
pub use touches::{Touches, touches};

/// Quotes a name, so that CQL takes it as it is, whatever its letters are.
pub fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
