//! The time of the wall, as the record writes it down.

/// The time of the wall, in microseconds since 1970: for people and for write times, never for what must go on.
pub fn unix_micros() -> i64 {
    let since = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(0)
}

pub fn unix_millis() -> i64 {
    unix_micros() / 1000
}
