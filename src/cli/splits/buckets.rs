//! The buckets of a layout, a line each: number, rows, size, and whatever else is told of one. Pure.

use crate::cli::explain::lines::{counted, size};
use crate::schema::bucket::Bucket;

/// Of more than `max` the middle ones are only counted.
pub(super) fn list(buckets: &[Bucket], max: usize, tell: impl Fn(&Bucket) -> String) -> String {
    let count = |bucket: &Bucket| counted(bucket.row_count, "row");
    let width = buckets.iter().map(|bucket| count(bucket).len()).max();
    let width = width.unwrap_or(0);
    let digits = buckets.len().saturating_sub(1).to_string().len();
    let half = max / 2;
    let hidden = match buckets.len() > max {
        true => half..buckets.len() - half,
        false => 0..0,
    };
    let mut text = String::new();
    for (number, bucket) in buckets.iter().enumerate() {
        if hidden.contains(&number) {
            if number == hidden.start {
                let more = hidden.len();
                text.push_str(&format!("             … {more} more\n"));
            }
            continue;
        }
        let (rows, bytes, told) = (count(bucket), size(bucket.byte_count), tell(bucket));
        let line = format!("             {number:>digits$}  {rows:>width$}  {bytes:>10}  {told}");
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}
