//! What Linux knows about this process, read from `/proc/self` at each scrape, and which build it is.
//!
//! If `/proc` is not mounted, those lines are left out rather than shown as zero.

use std::fmt::Write;
use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

/// The unit of CPU time in `/proc` is a hundredth of a second on every Linux that Rust supports (USER_HZ).
const TICKS_PER_SECOND: f64 = 100.0;

/// The facts that do not change while the process runs.
#[derive(Clone)]
pub(super) struct ProcessMetrics {
    start_seconds: f64,
}

impl ProcessMetrics {
    pub(super) fn starting_now() -> Self {
        let since_epoch = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Self {
            start_seconds: since_epoch.as_secs_f64(),
        }
    }

    pub(super) fn render(&self, text: &mut String) {
        let version = env!("CARGO_PKG_VERSION");
        family(
            text,
            "narrows_build_info",
            "gauge",
            "Which build this is; always 1.",
        );
        line(
            text,
            &format!("narrows_build_info{{version=\"{version}\"}} 1"),
        );
        let seconds = format!("{:.3}", self.start_seconds);
        sample(
            text,
            "process_start_time_seconds",
            "gauge",
            "Start of the process, Unix time.",
            Some(seconds),
        );
        let cpu = cpu_seconds().map(|seconds| format!("{seconds:.2}"));
        sample(
            text,
            "process_cpu_seconds_total",
            "counter",
            "User and system CPU time.",
            cpu,
        );
        let memory = resident_bytes().map(|bytes| bytes.to_string());
        sample(
            text,
            "process_resident_memory_bytes",
            "gauge",
            "Memory in use.",
            memory,
        );
        let files = open_files().map(|count| count.to_string());
        sample(
            text,
            "process_open_fds",
            "gauge",
            "Open file descriptors.",
            files,
        );
    }
}

fn sample(text: &mut String, name: &str, kind: &str, help: &str, value: Option<String>) {
    if let Some(value) = value {
        family(text, name, kind, help);
        line(text, &format!("{name} {value}"));
    }
}

fn family(text: &mut String, name: &str, kind: &str, help: &str) {
    line(text, &format!("# HELP {name} {help}\n# TYPE {name} {kind}"));
}

fn line(text: &mut String, line: &str) {
    writeln!(text, "{line}").expect("writing to a String cannot fail");
}

fn cpu_seconds() -> Option<f64> {
    cpu_seconds_in(&fs::read_to_string("/proc/self/stat").ok()?)
}

/// Fields 14 and 15 of proc_pid_stat(5); the second field may hold blanks and brackets, so counting starts after it.
fn cpu_seconds_in(stat: &str) -> Option<f64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut times = after_name.split_ascii_whitespace().skip(11);
    let user: f64 = times.next()?.parse().ok()?;
    let system: f64 = times.next()?.parse().ok()?;
    Some((user + system) / TICKS_PER_SECOND)
}

fn resident_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kibibytes * 1024)
}

/// One less than the directory holds: reading it needs a descriptor itself.
fn open_files() -> Option<usize> {
    Some(
        fs::read_dir("/proc/self/fd")
            .ok()?
            .count()
            .saturating_sub(1),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_cpu_time_behind_a_name_with_brackets() {
        let stat = "7 (a ) (b) S 1 7 7 0 -1 4194304 100 0 0 0 250 150 0 0 20 0 1 0 100 1000 10";
        assert_eq!(cpu_seconds_in(stat), Some(4.0));
        assert_eq!(cpu_seconds_in("7 (a) S 1"), None);
    }

    #[test]
    fn sees_this_process() {
        assert!(cpu_seconds().is_some_and(|seconds| seconds >= 0.0));
        assert!(resident_bytes().is_some_and(|bytes| bytes > 100_000));
        assert!(open_files().is_some_and(|count| count >= 3));
    }
}
