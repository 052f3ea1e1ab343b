//! Durations and sizes as people write them: `500ms` `5s` `10m` `1h` `1d`, `64KiB` `16MiB` `1GiB` or plain bytes.

use std::time::Duration;

const DURATION_UNITS: [(&str, u64); 5] = [
    ("ms", 1),
    ("s", 1_000),
    ("m", 60_000),
    ("h", 3_600_000),
    ("d", 86_400_000),
];

const SIZE_UNITS: [(&str, u64); 4] = [
    ("", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
];

/// A duration with its unit. A bare number is refused: its unit would be a guess.
pub(super) fn parse_duration(text: &str) -> Option<Duration> {
    scaled(text, &DURATION_UNITS).map(Duration::from_millis)
}

/// A size in bytes.
pub(super) fn parse_bytes(text: &str) -> Option<u64> {
    scaled(text, &SIZE_UNITS)
}

/// The duration in the largest unit that shows it exactly.
pub(crate) fn show_duration(duration: Duration) -> String {
    let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    if millis == 0 {
        return "0s".to_owned();
    }
    show(millis, &DURATION_UNITS)
}

/// The size in the largest unit that shows it exactly.
pub(crate) fn show_bytes(bytes: u64) -> String {
    show(bytes, &SIZE_UNITS)
}

fn scaled(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let (_, factor) = units.iter().find(|(name, _)| *name == unit)?;
    number.parse::<u64>().ok()?.checked_mul(*factor)
}

fn show(amount: u64, units: &[(&str, u64)]) -> String {
    let exact = units
        .iter()
        .rev()
        .find(|(_, factor)| amount >= *factor && amount.is_multiple_of(*factor));
    let (unit, factor) = exact.unwrap_or(&units[0]);
    format!("{}{unit}", amount / factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_durations_and_shows_them_again() {
        for (text, millis) in [
            ("500ms", 500),
            ("5s", 5_000),
            ("10m", 600_000),
            ("1h", 3_600_000),
            ("36h", 129_600_000),
            ("1d", 86_400_000),
            ("0s", 0),
        ] {
            let duration = Duration::from_millis(millis);
            assert_eq!(parse_duration(text), Some(duration), "{text}");
            assert_eq!(show_duration(duration), text);
        }
    }

    #[test]
    fn reads_sizes_and_shows_them_again() {
        for (text, bytes) in [
            ("64KiB", 65_536),
            ("16MiB", 16 << 20),
            ("1GiB", 1 << 30),
            ("1000", 1000),
            ("0", 0),
        ] {
            assert_eq!(parse_bytes(text), Some(bytes), "{text}");
            assert_eq!(show_bytes(bytes), text);
        }
    }

    #[test]
    fn refuses_what_would_be_a_guess() {
        for text in [
            "",
            "5",
            "s",
            "5 s",
            "-5s",
            "1.5s",
            "5S",
            "5sec",
            "99999999999999999999h",
        ] {
            assert_eq!(parse_duration(text), None, "{text}");
        }
        for text in [
            "",
            "KiB",
            "16MB",
            "16 MiB",
            "-1",
            "1.5GiB",
            "99999999999GiB",
        ] {
            assert_eq!(parse_bytes(text), None, "{text}");
        }
    }
}
