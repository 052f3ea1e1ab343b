//! Wall-clock time for the record.

/// Wall-clock time in microseconds since 1970: for versions and for recorded times, never where time must be monotonic.
pub fn unix_micros() -> i64 {
    let since = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(0)
}

pub fn unix_millis() -> i64 {
    unix_micros() / 1000
}
