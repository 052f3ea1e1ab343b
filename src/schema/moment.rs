//! Dates, times of day and timestamps as written in constants: only the forms that denote one moment on every node.

/// The number that stands for 1970-01-01 in a `date`.
const EPOCH: i64 = 1 << 31;
const NANOS_PER_DAY: u64 = 24 * 60 * 60 * 1_000_000_000;

/// `date` as a number: days, with 1970-01-01 at 2³¹.
pub(super) fn raw_date(digits: &str) -> Option<Vec<u8>> {
    Some(digits.parse::<u32>().ok()?.to_be_bytes().to_vec())
}

/// `time` as a number: nanoseconds since midnight.
pub(super) fn raw_time(digits: &str) -> Option<Vec<u8>> {
    let nanos: u64 = digits.parse().ok()?;
    (nanos < NANOS_PER_DAY).then(|| nanos.to_be_bytes().to_vec())
}

/// `2024-01-31`, or a number in quotes.
pub(super) fn date(text: &str) -> Option<Vec<u8>> {
    if is_number(text) {
        return raw_date(text);
    }
    let mut reader = Reader { rest: text };
    let days = reader.day()?;
    let number = u32::try_from(days + EPOCH).ok()?;
    reader
        .rest
        .is_empty()
        .then(|| number.to_be_bytes().to_vec())
}

/// `08:12:54.123456789`, or a number in quotes.
pub(super) fn time(text: &str) -> Option<Vec<u8>> {
    if is_number(text) {
        return raw_time(text);
    }
    let mut reader = Reader { rest: text };
    let minutes = reader.hours_and_minutes()?;
    let nanos = reader.seconds_as_nanos()?;
    let whole = u64::from(minutes) * 60_000_000_000 + nanos;
    reader.rest.is_empty().then(|| whole.to_be_bytes().to_vec())
}

/// A day, optionally a time, and the zone: without one, Cassandra would use the node's own. Or a number in quotes.
pub(super) fn timestamp(text: &str) -> Option<Vec<u8>> {
    if is_number(text.strip_prefix('-').unwrap_or(text)) {
        return Some(text.parse::<i64>().ok()?.to_be_bytes().to_vec());
    }
    let mut reader = Reader { rest: text };
    // Java's calendar for timestamps has no year 0, though the one for `date` has.
    let days = reader.day().filter(|_| !text.starts_with("0000"))?;
    let millis = reader.time_of_day()?;
    reader.take(' ');
    let offset_minutes = reader.zone()?;
    let moment = days * 86_400_000 + millis - offset_minutes * 60_000;
    reader
        .rest
        .is_empty()
        .then(|| moment.to_be_bytes().to_vec())
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// The rest of a constant.
struct Reader<'a> {
    rest: &'a str,
}

impl Reader<'_> {
    /// `yyyy-mm-dd` in days since 1970.
    fn day(&mut self) -> Option<i64> {
        let year = self.number(4)?;
        let month = self.behind('-')?;
        let day = self.behind('-')?;
        let is_day = (1..=12).contains(&month) && (1..=days_of(year, month)).contains(&day);
        is_day.then(|| days_since_1970(year.into(), month.into(), day.into()))
    }

    /// `hh:mm` in minutes.
    fn hours_and_minutes(&mut self) -> Option<u32> {
        let hours = self.number(2).filter(|hours| *hours < 24)?;
        let minutes = self.behind(':').filter(|minutes| *minutes < 60)?;
        Some(hours * 60 + minutes)
    }

    /// `:ss`, optionally with a fraction of up to nine digits.
    fn seconds_as_nanos(&mut self) -> Option<u64> {
        let seconds = self.behind(':').filter(|seconds| *seconds < 60)?;
        let nanos = match self.take('.') {
            true => self.fraction()?,
            false => 0,
        };
        Some(u64::from(seconds) * 1_000_000_000 + nanos)
    }

    fn fraction(&mut self) -> Option<u64> {
        let count = self.rest.bytes().take_while(u8::is_ascii_digit).count();
        let missing = 9_usize.checked_sub(count).filter(|_| count > 0)?;
        let digits = self.number(count)?;
        Some(u64::from(digits) * 10_u64.pow(missing as u32))
    }

    /// The time between a timestamp's day and its zone, in milliseconds; further digits are cut off.
    fn time_of_day(&mut self) -> Option<i64> {
        let has_time = self
            .rest
            .get(1..)
            .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
        if !(has_time && (self.take('T') || self.take(' '))) {
            return Some(0);
        }
        let minutes = self.hours_and_minutes()?;
        let nanos = match self.rest.starts_with(':') {
            true => self.seconds_as_nanos()?,
            false => 0,
        };
        i64::try_from(u64::from(minutes) * 60_000 + nanos / 1_000_000).ok()
    }

    /// `Z`, `+hh`, `+hhmm` or `+hh:mm`, in minutes.
    fn zone(&mut self) -> Option<i64> {
        if self.take('Z') {
            return Some(0);
        }
        let sign = match (self.take('+'), self.take('-')) {
            (true, false) => 1,
            (false, true) => -1,
            _ => return None,
        };
        let hours = self.number(2)?;
        let minutes = match self.rest {
            "" => 0,
            _ => {
                self.take(':');
                self.number(2)?
            }
        };
        // Java's offsets go up to 18 hours.
        let is_zone = minutes < 60 && hours * 60 + minutes <= 18 * 60;
        is_zone.then(|| sign * i64::from(hours * 60 + minutes))
    }

    fn behind(&mut self, sign: char) -> Option<u32> {
        self.take(sign).then(|| self.number(2)).flatten()
    }

    fn number(&mut self, digits: usize) -> Option<u32> {
        let (number, rest) = self.rest.split_at_checked(digits)?;
        self.rest = rest;
        is_number(number).then(|| number.parse().ok())?
    }

    fn take(&mut self, sign: char) -> bool {
        let rest = self.rest.strip_prefix(sign);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }
}

fn days_of(year: u32, month: u32) -> u32 {
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    match month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days in the proleptic Gregorian calendar. Years are counted from March, so that the leap day is a year's last.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let (year, months) = match month {
        1 | 2 => (year - 1, month + 9),
        _ => (year, month - 3),
    };
    let before_months = (153 * months + 2) / 5;
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    year * 365 + leap_days + before_months + day - 1 - 719_468
}
