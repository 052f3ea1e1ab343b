//! What a comparison found, in words. Pure.

use std::collections::BTreeSet;

use super::{Compared, Seen, Verdict};
use crate::cli::explain::lines::{counted, size};
use crate::pipeline::audit::finding::Demoted;
use crate::schema::names::TableName;
use crate::watched::Mode;

/// Said before anything is read.
pub(super) fn heading(splits: usize) -> String {
    let splits = counted(splits, "split");
    format!("compares {splits} in service with the original at consistency ALL; Ctrl-C ends it\n")
}

/// Said as soon as it is found.
pub(super) fn told(one: &Compared) -> String {
    let name = format!("{} {}", one.table, one.key);
    match &one.verdict {
        Verdict::Equal { .. } => format!("{name}: equal\n"),
        Verdict::Differs { reason, demoted } => {
            let then = match demoted {
                Some(_) => "; it is out of service now",
                None => "; it is still in service",
            };
            format!("{name}: DIFFERS: {reason}{then}\n")
        }
        Verdict::NotCompared(reason) => format!("{name}: not compared: {reason}\n"),
    }
}

/// What was compared, what differs, and what that means.
pub(super) fn compose(seen: &Seen, dry_run: bool) -> String {
    if seen.splits == 0 {
        return "no split is in service, so there is nothing to compare\n".to_owned();
    }
    let (rows, bytes) = (counted(seen.rows, "row"), size(seen.bytes));
    let equal = counted(seen.equal, "split");
    let mut text = match seen.equal {
        1 => format!("1 split is equal to its original: {rows}, {bytes}\n"),
        _ => format!("{equal} are equal to their originals: {rows}, {bytes}\n"),
    };
    for one in &seen.others {
        text.push_str(&told(one));
    }
    if seen.passed > 0 {
        let passed = counted(seen.passed, "split");
        text.push_str(&format!("{passed} went out of service meanwhile\n"));
    }
    if !seen.is_whole {
        let done = seen.equal + seen.others.len() + seen.passed;
        let total = counted(seen.splits, "split");
        text.push_str(&format!("stopped after {done} of {total}\n"));
    }
    text.push_str(&consequences(seen, dry_run));
    text
}

fn consequences(seen: &Seen, dry_run: bool) -> String {
    let mut text = String::new();
    let mut told: BTreeSet<&TableName> = BTreeSet::new();
    for one in &seen.others {
        let Verdict::Differs { demoted, .. } = &one.verdict else {
            continue;
        };
        if !told.insert(&one.table) {
            continue;
        }
        let table = &one.table;
        match demoted {
            Some(Demoted::Now(mode)) => {
                let mode = mode.map_or("unwatched", Mode::as_str);
                text.push_str(&format!(
                    "{table} is in mode {mode} now: the originals answer all its reads, and nothing of it is split\n\
                     find out who writes around the proxies, then: narrows mode {table} serve\n"
                ));
            }
            _ if dry_run => text.push_str(&format!(
                "nothing was changed: reads of {table} are still answered from its splits; without --dry-run \
                 those that differ go out of service, and the table to mode detect\n"
            )),
            _ => {}
        }
    }
    text
}
