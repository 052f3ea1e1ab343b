//! Short aligned lines for a terminal, and numbers as people write them. Pure.

use std::fmt::Write as _;

/// Lines end before this column where their words allow it.
pub(super) const WIDTH: usize = 100;
const INDENT: usize = 13;

/// `1 row`, `2 rows`.
pub(in crate::cli) fn counted(count: impl TryInto<u64>, noun: &str) -> String {
    match count.try_into().unwrap_or(u64::MAX) {
        1 => format!("1 {noun}"),
        count => format!("{count} {noun}s"),
    }
}

/// Bytes, rounded.
pub(in crate::cli) fn size(bytes: u64) -> String {
    const UNITS: [(&str, u64); 3] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match UNITS.iter().find(|(_, unit)| bytes >= *unit) {
        Some((name, unit)) => format!("{:.1} {name}", bytes as f64 / *unit as f64),
        None => format!("{bytes} B"),
    }
}

/// Ascending numbers, those that follow one another drawn together: `0, 2 to 5`.
pub(super) fn runs(numbers: &[usize]) -> String {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for number in numbers {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == *number => *last = *number,
            _ => runs.push((*number, *number)),
        }
    }
    let text = |(first, last): &(usize, usize)| match last - first {
        0 => first.to_string(),
        1 => format!("{first}, {last}"),
        _ => format!("{first} to {last}"),
    };
    runs.iter().map(text).collect::<Vec<_>>().join(", ")
}

/// Lines under one another, each with a label.
#[derive(Default)]
pub(in crate::cli) struct Lines {
    out: String,
}

impl Lines {
    pub(super) fn forwarded(&mut self, because: &str) {
        self.add("decision", "forwarded: the original answers");
        self.add("because", because);
    }

    /// A label and its text, broken between words where it is too long. Spaces stay as many as they are: some are a client's.
    pub(in crate::cli) fn add(&mut self, label: &str, text: &str) {
        let mut column = INDENT;
        write!(self.out, "{label:INDENT$}").expect("writing to a string cannot fail");
        for (number, word) in text.split([' ', '\n', '\r', '\t']).enumerate() {
            let length = word.chars().count();
            if number > 0 && column + 1 + length > WIDTH {
                write!(self.out, "\n{:INDENT$}", "").expect("writing to a string cannot fail");
                column = INDENT;
            } else if number > 0 {
                self.out.push(' ');
                column += 1;
            }
            self.out.push_str(word);
            column += length;
        }
        self.out.push('\n');
    }

    pub(in crate::cli) fn into_text(self) -> String {
        self.out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_drawn_together() {
        for (numbers, text) in [
            (&[0][..], "0"),
            (&[0, 1], "0, 1"),
            (&[0, 2, 3, 4, 7, 8], "0, 2 to 4, 7, 8"),
        ] {
            assert_eq!(runs(numbers), text);
        }
        for (bytes, text) in [(0, "0 B"), (1536, "1.5 KiB"), (5 << 30, "5.0 GiB")] {
            assert_eq!(size(bytes), text);
        }
        assert_eq!(
            (counted(1_u64, "row"), counted(0_u64, "row")),
            ("1 row".into(), "0 rows".into())
        );
    }

    #[test]
    fn long_texts_go_on_below_their_beginning() {
        let mut lines = Lines::default();
        let word = "w".repeat(50);
        lines.add("label", &format!("{word} 'a  b' {word}"));
        let expected = format!("label        {word} 'a  b'\n             {word}\n");
        assert_eq!(lines.into_text(), expected);
    }
}
