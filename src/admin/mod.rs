//! The admin listener: health and metrics for operators, apart from the clients' traffic.

mod http;
mod readiness;
mod request;

pub use http::{AdminState, serve};
pub use readiness::Readiness;
