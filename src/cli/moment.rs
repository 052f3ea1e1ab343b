//! Times and spans of time as commands print them: in UTC, because operators of one cluster sit in several time zones.
//! Pure.

use std::time::Duration;

/// `2026-11-16` from days since 1970; `None` outside the years 1 to 9999.
pub(super) fn day(days: i64) -> Option<String> {
    /// From 0001-01-01 to 9999-12-31.
    const WRITTEN: std::ops::RangeInclusive<i64> = -719_162..=2_932_896;
    if !WRITTEN.contains(&days) {
        return None;
    }
    // Counted from the first of March of the year 0, so that a leap day is the last of its year; 146,097 days are 400
    // years.
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let months = (5 * of_year + 2) / 153;
    let day = of_year - (153 * months + 2) / 5 + 1;
    let (month, next) = match months {
        0..=9 => (months + 3, 0),
        _ => (months - 9, 1),
    };
    let year = era * 400 + year_of_era + next;
    Some(format!("{year:04}-{month:02}-{day:02}"))
}

/// `2026-11-16 15:10:08Z` from milliseconds since 1970.
pub(super) fn stamp(millis: i64) -> String {
    match day(millis.div_euclid(86_400_000)) {
        Some(day) => format!("{day} {}Z", clock(millis)),
        None => format!("{millis} ms since 1970"),
    }
}

/// `2026-11-16T15:10:08.123Z`, for programs.
pub(super) fn iso(millis: i64) -> Option<String> {
    let day = day(millis.div_euclid(86_400_000))?;
    let fraction = millis.rem_euclid(1000);
    Some(format!("{day}T{}.{fraction:03}Z", clock(millis)))
}

/// `15:10:08`.
pub(super) fn clock(millis: i64) -> String {
    let seconds = millis.div_euclid(1000).rem_euclid(86_400);
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{hours:02}:{minutes:02}:{seconds:02}")
}

/// One number and its unit: `45 s`, `3 min`, `2 h`, `5 d`.
pub(super) fn span(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..90 => format!("{seconds} s"),
        90..5400 => format!("{} min", (seconds + 30) / 60),
        5400..129_600 => format!("{} h", (seconds + 1800) / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// How long ago; zero for a time in the future, because clocks differ.
pub(super) fn since(millis: i64, now: i64) -> Duration {
    Duration::from_millis(u64::try_from(now.saturating_sub(millis)).unwrap_or(0))
}

/// A stamp with its distance from now: `…, 2 h ago` or `…, in 2 h`.
pub(super) fn stamp_and_distance(millis: i64, now: i64) -> String {
    let stamp = stamp(millis);
    if millis > now {
        format!("{stamp}, in {}", span(since(now, millis)))
    } else {
        format!("{stamp}, {} ago", span(since(millis, now)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        for (days, text) in [
            (0, "1970-01-01"),
            (-1, "1969-12-31"),
            (11_016, "2000-02-29"),
            (11_017, "2000-03-01"),
            (20_391, "2025-10-30"),
            (47_540, "2100-02-28"),
            (47_541, "2100-03-01"),
            (-719_162, "0001-01-01"),
            (2_932_896, "9999-12-31"),
        ] {
            assert_eq!(day(days).as_deref(), Some(text));
        }
        for days in [-719_163, 2_932_897, i64::MIN, i64::MAX] {
            assert_eq!(day(days), None);
        }
    }

    #[test]
    fn times_are_told_with_their_distance() {
        let at = 1_700_000_000_123;
        assert_eq!(stamp(at), "2023-11-14 22:13:20Z");
        assert_eq!(iso(at).as_deref(), Some("2023-11-14T22:13:20.123Z"));
        assert_eq!(
            stamp_and_distance(at, at + 7_200_000),
            "2023-11-14 22:13:20Z, 2 h ago"
        );
        assert_eq!(
            stamp_and_distance(at, at - 60_000),
            "2023-11-14 22:13:20Z, in 60 s"
        );
        assert_eq!(stamp(i64::MIN), "-9223372036854775808 ms since 1970");
        assert_eq!(clock(-1), "23:59:59");
    }

    #[test]
    fn spans_have_one_unit() {
        for (seconds, text) in [
            (0, "0 s"),
            (89, "89 s"),
            (90, "2 min"),
            (3599, "60 min"),
            (5400, "2 h"),
            (86_400, "24 h"),
            (200_000, "2 d"),
            (u64::MAX, "213503982334601 d"),
        ] {
            assert_eq!(span(Duration::from_secs(seconds)), text);
        }
        assert_eq!(since(5, 3), Duration::ZERO);
        assert_eq!(
            since(i64::MIN, i64::MAX),
            Duration::from_millis(i64::MAX as u64)
        );
    }
}
