//! How commands print: numbers as people write them, labelled lines, aligned tables, and JSON lines. Pure.

use std::time::Duration;

use serde::Serialize;

/// Lines end before this column where their words allow it.
pub(super) const WIDTH: usize = 100;
/// The width of a label; lists below a label start here, too.
pub(super) const INDENT: usize = 13;

/// One JSON document on a line of its own.
pub(super) fn json(document: &impl Serialize) -> String {
    serde_json::to_string(document).expect("no map, so every key is a string") + "\n"
}

/// `1 row`, `2 rows`. The store's counts are signed but never negative; a negative one prints as 0.
pub(super) fn counted(count: impl TryInto<u64>, noun: &str) -> String {
    match count.try_into().unwrap_or(0) {
        1 => format!("1 {noun}"),
        count => format!("{count} {noun}s"),
    }
}

/// A number of bytes, rounded.
pub(super) fn size(bytes: impl TryInto<u64>) -> String {
    const UNITS: [(&str, u64); 3] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    let bytes = bytes.try_into().unwrap_or(0);
    match UNITS.iter().find(|(_, unit)| bytes >= *unit) {
        Some((name, unit)) => format!("{:.1} {name}", bytes as f64 / *unit as f64),
        None => format!("{bytes} B"),
    }
}

/// `12.1 MiB/s`.
pub(super) fn rate(bytes: u64, elapsed: Duration) -> String {
    let seconds = elapsed.as_secs_f64().max(0.001);
    format!("{}/s", size((bytes as f64 / seconds) as u64))
}

/// Ascending numbers; neighbours are joined: `0, 2 to 5`.
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

/// At most `width` characters; `…` replaces the end of a longer text.
pub(super) fn shortened(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    kept + "…"
}

/// Replaces control characters with spaces, because a reason may quote a server.
pub(super) fn one_line(text: &str) -> String {
    text.replace(char::is_control, " ")
}

/// The width of each column.
pub(super) fn widths<const N: usize>(lines: &[[String; N]]) -> [usize; N] {
    let mut widths = [0; N];
    for line in lines {
        for (width, cell) in widths.iter_mut().zip(line) {
            *width = (*width).max(cell.chars().count());
        }
    }
    widths
}

/// Columns under one another, two spaces apart; numbers are aligned to the right.
pub(super) fn table<const N: usize>(lines: &[[String; N]], right: [bool; N]) -> String {
    let widths = widths(lines);
    let mut text = String::new();
    for line in lines {
        let cells = line.iter().zip(widths).zip(right);
        let cells = cells.map(|((cell, width), right)| match right {
            true => format!("{cell:>width$}"),
            false => format!("{cell:width$}"),
        });
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

/// Lines under one another, each with a label.
#[derive(Default)]
pub(super) struct Lines {
    out: String,
}

impl Lines {
    /// A label and its text, wrapped between words. Keeps runs of spaces, because they may be part of a client's
    /// statement.
    pub(super) fn add(&mut self, label: &str, text: impl AsRef<str>) {
        let mut column = INDENT;
        self.out.push_str(&format!("{label:INDENT$}"));
        for (number, word) in text.as_ref().split([' ', '\n', '\r', '\t']).enumerate() {
            let length = word.chars().count();
            if number > 0 && column + 1 + length > WIDTH {
                self.out.push_str(&format!("\n{:INDENT$}", ""));
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

    pub(super) fn into_text(self) -> String {
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
        for (bytes, text) in [(0_u64, "0 B"), (1536, "1.5 KiB"), (5 << 30, "5.0 GiB")] {
            assert_eq!(size(bytes), text);
        }
        assert_eq!(rate(30 << 20, Duration::from_secs(2)), "15.0 MiB/s");
        assert_eq!(rate(0, Duration::ZERO), "0 B/s");
        assert_eq!(
            (counted(1_u64, "row"), counted(0_u64, "row")),
            ("1 row".into(), "0 rows".into())
        );
    }

    #[test]
    fn long_texts_go_on_below_their_beginning() {
        let mut lines = Lines::default();
        let word = "w".repeat(50);
        lines.add("label", format!("{word} 'a  b' {word}"));
        let expected = format!("label        {word} 'a  b'\n             {word}\n");
        assert_eq!(lines.into_text(), expected);
    }
}
