//! One comparison as `narrows verify --json` prints it.

use serde::Serialize;

use super::{Compared, Verdict};
use crate::cli::constant;
use crate::pipeline::audit::finding::Demoted;
use crate::watched::Mode;

/// One comparison as a JSON object.
#[derive(Serialize)]
pub(super) struct Row<'a> {
    table: String,
    key: &'a [String],
    partition_key: String,
    generation: i32,
    result: &'static str,
    reason: Option<&'a str>,
    rows: Option<u64>,
    bytes: Option<u64>,
    checksum: Option<String>,
    taken_out_of_service: bool,
    table_mode: Option<&'static str>,
}

impl<'a> Row<'a> {
    pub(super) fn new(one: &'a Compared) -> Self {
        let mut row = Self {
            table: one.table.to_string(),
            key: &one.literals,
            partition_key: constant::hex(one.bytes.bytes()),
            generation: one.generation.0,
            result: "equal",
            reason: None,
            rows: None,
            bytes: None,
            checksum: None,
            taken_out_of_service: false,
            table_mode: None,
        };
        match &one.verdict {
            Verdict::Equal {
                rows,
                bytes,
                checksum,
            } => {
                (row.rows, row.bytes) = (Some(*rows), Some(*bytes));
                row.checksum = Some(constant::hex(checksum));
            }
            Verdict::NotCompared(reason) => {
                (row.result, row.reason) = ("not_compared", Some(reason.as_str()));
            }
            Verdict::Differs { reason, demoted } => {
                (row.result, row.reason) = ("differs", Some(reason.as_str()));
                row.taken_out_of_service = demoted.is_some();
                if let Some(Demoted::Now(mode)) = demoted {
                    row.table_mode = mode.map(Mode::as_str);
                }
            }
        }
        row
    }
}
