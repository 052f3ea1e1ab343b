//! Exit codes, after sysexits.h, so that supervisors can tell a mistake from an outage; and how an error is printed.

use std::error::Error;

use crate::pipeline::plan::StageError;
use crate::upstream::UpstreamError;
use crate::wide_row::schema::SchemaError;
use crate::wide_row::store::StoreError;
use crate::wide_row::store::connect::ConnectError;

/// Stopped as asked, or nothing wrong was found.
pub const OK: u8 = 0;
/// The configuration or the command line is wrong, or the command refused; starting again will not help.
pub const CONFIGURATION: u8 = 64;
/// A split in service was not equal to its original.
pub const DIFFERENCE: u8 = 65;
/// Cassandra cannot be reached, or its version is not supported; starting again may help.
pub const UPSTREAM_UNAVAILABLE: u8 = 69;
/// A fault in Narrows.
pub const INTERNAL: u8 = 70;
/// Narrows cannot listen on one of its addresses.
pub const CANNOT_LISTEN: u8 = 71;
/// The control keyspace is missing or incompatible, or our role may not create it; an operator must act in Cassandra.
pub const CONTROL_KEYSPACE: u8 = 78;

/// An error with an exit code of its own. Errors from the cluster get theirs by type; all others exit with
/// [`CONFIGURATION`].
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
struct Coded {
    code: u8,
    text: String,
}

pub(super) fn error(code: u8, text: String) -> anyhow::Error {
    Coded { code, text }.into()
}

/// The exit code of a failed command: the code of the outermost cause that has one.
pub fn code(error: &anyhow::Error) -> u8 {
    error.chain().find_map(code_of).unwrap_or(CONFIGURATION)
}

fn code_of(cause: &(dyn Error + 'static)) -> Option<u8> {
    if let Some(coded) = cause.downcast_ref::<Coded>() {
        return Some(coded.code);
    }
    if let Some(error) = cause.downcast_ref::<ConnectError>() {
        return Some(match error {
            ConnectError::Tls(_) | ConnectError::DataCenter { .. } => CONFIGURATION,
            ConnectError::Upstream(_) | ConnectError::Session(_) | ConnectError::Slow => {
                UPSTREAM_UNAVAILABLE
            }
        });
    }
    if let Some(error) = cause.downcast_ref::<SchemaError>() {
        return Some(match error {
            SchemaError::Read(_) | SchemaError::NoNode(_) | SchemaError::NoAgreement(_) => {
                UPSTREAM_UNAVAILABLE
            }
            SchemaError::NotAllowed { .. }
            | SchemaError::NotAltered { .. }
            | SchemaError::Create { .. }
            | SchemaError::Different { .. } => CONTROL_KEYSPACE,
        });
    }
    if let Some(error) = cause.downcast_ref::<StoreError>() {
        return Some(match error {
            StoreError::Refused(_) | StoreError::NotUnderstood(_) => CONTROL_KEYSPACE,
            _ => UPSTREAM_UNAVAILABLE,
        });
    }
    let is_upstream = cause.is::<UpstreamError>() || cause.is::<StageError>();
    is_upstream.then_some(UPSTREAM_UNAVAILABLE)
}

/// An error with its causes, on one line. Many errors quote their source already: such a cause is not repeated.
pub fn describe(error: &anyhow::Error) -> String {
    let mut text = format!("error: {error}");
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.contains(&cause) {
            text.push_str(": caused by ");
            text.push_str(&cause);
        }
    }
    text + "\n"
}

#[cfg(test)]
mod tests {
    use anyhow::{Context as _, anyhow};

    use super::*;

    #[test]
    fn the_outermost_cause_with_a_code_decides() {
        let refused = || StoreError::Refused("no such table".into());
        let down = || StoreError::Unreachable("no answer".into());
        for (error, expected) in [
            (anyhow!("plain"), CONFIGURATION),
            (refused().into(), CONTROL_KEYSPACE),
            (
                anyhow::Error::from(down()).context("reading"),
                UPSTREAM_UNAVAILABLE,
            ),
            (error(DIFFERENCE, "1 split differs".to_owned()), DIFFERENCE),
            (ConnectError::Slow.into(), UPSTREAM_UNAVAILABLE),
            (
                UpstreamError::NoneReachable("a".to_owned()).into(),
                UPSTREAM_UNAVAILABLE,
            ),
        ] {
            assert_eq!(code(&error), expected, "{error:?}");
        }
    }

    #[test]
    fn causes_are_printed_once() {
        let upstream = UpstreamError::NoneReachable("10.0.0.1:9042".to_owned());
        // ConnectError prints exactly its source.
        let error = Err::<(), _>(ConnectError::from(upstream)).context("cannot read the table");
        assert_eq!(
            describe(&error.expect_err("failed")),
            "error: cannot read the table: caused by no upstream node can be reached; tried 10.0.0.1:9042\n"
        );
    }
}
