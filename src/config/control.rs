//! `[control]`: its defaults and the rules between its settings.

use std::time::Duration;

use super::reader::Section;
use super::sections::{WAIT_MAX, wait_from};
use super::{Control, Enabled, show_duration, values};
use crate::filter::MIN_FILTER_KEYS_MAX;

/// Minimum of `max_staleness` in polls: a proxy that misses one poll must not stop writes.
const POLLS_OF_STALENESS: u32 = 2;

const POLL_MIN: Duration = Duration::from_millis(50);

impl Default for Control {
    fn default() -> Self {
        Self {
            enabled: Enabled::IfFound,
            keyspace: "narrows".to_owned(),
            replication: None,
            apply_schema: true,
            poll_interval: Duration::from_secs(1),
            max_staleness: Duration::from_secs(600),
            layout_cache_bytes: 64 << 20,
            min_filter_keys: 1000,
            snapshot_directory: None,
        }
    }
}

pub(super) fn read(mut section: Section<'_>, any_table: bool) -> Control {
    let mut control = Control {
        enabled: match section.optional("enabled", values::boolean) {
            Some(true) => Enabled::Yes,
            Some(false) => Enabled::No,
            None if any_table => Enabled::Yes,
            None => Enabled::IfFound,
        },
        ..Control::default()
    };
    section.set("keyspace", &mut control.keyspace, values::control_keyspace);
    control.replication = section.optional("replication", values::replication);
    section.set("apply_schema", &mut control.apply_schema, values::boolean);
    section.set(
        "poll_interval",
        &mut control.poll_interval,
        wait_from(POLL_MIN),
    );
    section.set(
        "max_staleness",
        &mut control.max_staleness,
        values::duration(POLL_MIN * POLLS_OF_STALENESS..=WAIT_MAX),
    );
    section.set(
        "layout_cache_bytes",
        &mut control.layout_cache_bytes,
        values::bytes(1 << 20..=1 << 40),
    );
    section.set(
        "min_filter_keys",
        &mut control.min_filter_keys,
        values::count(0..=MIN_FILTER_KEYS_MAX),
    );
    control.snapshot_directory = section.optional("snapshot_directory", values::writable_directory);
    check_staleness(&mut section, &control);
    control
}

fn check_staleness(section: &mut Section<'_>, control: &Control) {
    let min = control.poll_interval * POLLS_OF_STALENESS;
    if control.max_staleness < min {
        let problem = format!(
            "must be at least {POLLS_OF_STALENESS} times control.poll_interval, that is {}",
            show_duration(min)
        );
        section.mistake("max_staleness", problem);
    }
}
