//! Finds out whether the original may hide rows that lack a column from reads of that column.
//!
//! Cassandra skips a cell of a column that is not selected if it is older than the row's marker. A marker may expire
//! before such a cell, and then a read that selects none of the living columns does not find the row. A copy has no
//! such marker. Markers cannot be read, but rows can, at a second shortly before their cells end, selecting only a
//! column that they lack. A row that is found then is found before, too: markers and cells only expire.

use super::VerifyError;
use super::facts::{Lacking, NEVER};
use super::presence::{Placed, Presence};
use super::reader::{Reader, Selection, Side};

/// The last second that readers are answered for, see `proxy::split::even`.
const LAST: i64 = i32::MAX as i64;

/// A row that lacks columns.
#[derive(Debug)]
pub(super) struct Gap {
    pub(super) placed: Placed,
    pub(super) lacking: Lacking,
}

impl Reader<'_> {
    /// The first second in which the original may hide one of these rows.
    pub(super) async fn uneven_from(&self, rows: &[Gap]) -> Result<i64, VerifyError> {
        let ends = || rows.iter().map(|row| row.lacking.until);
        let (Some(first), Some(last)) = (ends().min(), ends().max()) else {
            return Ok(NEVER);
        };
        let at = u32::try_from((first - 1).min(LAST)).unwrap_or_default();
        for (column, rows) in probes(rows) {
            let presence = Presence {
                reader: self,
                side: Side::Original,
                selection: Selection::Column(column),
                at,
            };
            if presence.of(&rows).await?.contains(&false) {
                return Ok(self.now().into());
            }
        }
        // A row without cells is there by its marker, for every read alike. So rows that end together stay even.
        Ok(if first == last { NEVER } else { first })
    }
}

/// Which rows to look for with which column: each row once, with few columns.
fn probes(rows: &[Gap]) -> Vec<(usize, Vec<&Placed>)> {
    let mut left: Vec<&Gap> = rows.iter().collect();
    let mut probes = Vec::new();
    while let Some(column) = lacked_most(&left) {
        let (with, without): (Vec<_>, Vec<_>) = left
            .into_iter()
            .partition(|row| row.lacking.columns.contains(&column));
        probes.push((column, with.iter().map(|row| &row.placed).collect()));
        left = without;
    }
    probes
}

fn lacked_most(rows: &[&Gap]) -> Option<usize> {
    let columns = rows.iter().flat_map(|row| &row.lacking.columns);
    let count = columns.clone().max()? + 1;
    let lacks = columns.fold(vec![0_usize; count], |mut lacks, column| {
        lacks[*column] += 1;
        lacks
    });
    (0..count).max_by_key(|column| lacks[*column])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gap(place: usize, columns: &[usize]) -> Gap {
        Gap {
            placed: Placed {
                key: Vec::new(),
                place,
            },
            lacking: Lacking {
                columns: columns.to_vec(),
                until: NEVER,
            },
        }
    }

    #[test]
    fn each_row_is_looked_for_once_with_few_columns() {
        let rows = [
            gap(0, &[1]),
            gap(1, &[0, 2]),
            gap(2, &[2, 3]),
            gap(3, &[0]),
            gap(4, &[2]),
        ];
        let found: Vec<(usize, Vec<usize>)> = probes(&rows)
            .into_iter()
            .map(|(column, rows)| (column, rows.iter().map(|row| row.place).collect()))
            .collect();
        assert_eq!(found[0], (2, vec![1, 2, 4]));
        assert_eq!(found.len(), 3);
        assert!(found.contains(&(0, vec![3])) && found.contains(&(1, vec![0])));
        assert!(probes(&[]).is_empty());
    }
}
