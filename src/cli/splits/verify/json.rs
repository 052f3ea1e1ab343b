//! What a comparison found of one split, as JSON. Pure.

use super::{Compared, Verdict};
use crate::cli::splits::constant;
use crate::cli::splits::list::json::{null, object, string, text};
use crate::pipeline::audit::finding::Demoted;
use crate::watched::Mode;

/// One object a line, for programs.
pub(super) fn line(one: &Compared) -> String {
    let key: Vec<String> = one.constants.iter().map(|value| string(value)).collect();
    let (result, reason, rows, bytes) = match &one.verdict {
        Verdict::Equal { rows, bytes } => ("equal", None, Some(rows), Some(bytes)),
        Verdict::Differs { reason, .. } => ("differs", Some(reason.as_str()), None, None),
        Verdict::NotCompared(reason) => ("not_compared", Some(reason.as_str()), None, None),
    };
    let mode = match &one.verdict {
        Verdict::Differs {
            demoted: Some(Demoted::Now(mode)),
            ..
        } => mode.map(Mode::as_str),
        _ => None,
    };
    let number = |number: Option<&u64>| number.map_or_else(null, u64::to_string);
    let is_out = matches!(
        one.verdict,
        Verdict::Differs {
            demoted: Some(_),
            ..
        }
    );
    object(&[
        ("table", string(&one.table.to_string())),
        ("key", format!("[{}]", key.join(","))),
        ("partition_key", string(&constant::hex(one.bytes.bytes()))),
        ("generation", one.generation.to_string()),
        ("result", string(result)),
        ("reason", text(reason)),
        ("rows", number(rows)),
        ("bytes", number(bytes)),
        ("taken_out_of_service", is_out.to_string()),
        ("table_mode", text(mode)),
    ]) + "\n"
}
