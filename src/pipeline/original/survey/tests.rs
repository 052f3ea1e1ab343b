//! How a survey walks around the ring, with a table of rows in the place of a cluster.

use super::*;

const WIDE: u64 = 100;

fn row(token: i64, bytes: u64) -> Row {
    Row {
        token,
        key: PartitionKey::new(token.to_be_bytes()),
        bytes,
    }
}

/// A table that answers pages of so many rows, and fails where it meets one of these tokens.
struct Table {
    rows: Vec<Row>,
    page: usize,
    unreadable: Vec<i64>,
    requests: usize,
}

impl Table {
    fn new(partitions: &[(i64, usize, u64)], page: usize, unreadable: &[i64]) -> Self {
        let rows = partitions.iter().flat_map(|&(token, count, bytes)| {
            std::iter::repeat_with(move || row(token, bytes)).take(count)
        });
        let mut rows: Vec<Row> = rows.collect();
        rows.sort_by_key(|row| row.token);
        Self {
            rows,
            page,
            unreadable: unreadable.to_vec(),
            requests: 0,
        }
    }

    /// A paging state is the number of rows of the range that were read.
    fn read(&mut self, walk: &Walk) -> Option<(Vec<Row>, Option<Vec<u8>>)> {
        self.requests += 1;
        let range = walk.from..=walk.up_to;
        let within = |token: &i64| range.contains(token) && *token > walk.from;
        let skipped = walk.state.as_ref().map_or(0, |state| {
            usize::from_be_bytes(state.as_slice().try_into().expect("of ours"))
        });
        let rows = self.rows.iter().filter(|row| within(&row.token));
        let rows: Vec<Row> = rows.cloned().collect();
        let (before, rows) = rows.split_at(skipped);
        let page = rows[..rows.len().min(self.page)].to_vec();
        let more = rows.len() > page.len();
        let behind = before.last().map_or(walk.from, |row| row.token - 1);
        let last = match more {
            false => walk.up_to,
            true => page.last()?.token,
        };
        let met = |token: &i64| within(token) && *token > behind && *token <= last;
        if self.unreadable.iter().any(met) {
            return None;
        }
        let state = more.then(|| (skipped + page.len()).to_be_bytes().to_vec());
        Some((page, state))
    }

    /// What a survey finds, wide ones by their tokens, and the tokens that it could not read.
    fn survey(&mut self) -> (Vec<(i64, bool)>, Vec<i64>, Counted) {
        let mut walk = Walk::default();
        let (mut wide, mut alone) = (Vec::new(), Vec::new());
        let mut share = 0.0;
        while !walk.is_end {
            assert!(self.requests < 100_000, "it comes to an end");
            match self.read(&walk) {
                Some((rows, state)) => {
                    for found in walk.page(rows, state, WIDE) {
                        let Surveyed::Wide(found) = found else {
                            panic!("read");
                        };
                        let token = found.key.bytes().try_into().expect("a token");
                        wide.push((i64::from_be_bytes(token), found.is_whole));
                    }
                    assert!(walk.share() >= share, "{} {share}", walk.share());
                    share = walk.share();
                }
                None => alone.extend(walk.narrow()),
            }
        }
        (wide, alone, walk.counted)
    }
}

/// From one end of the ring to the other; the second and the last are wide.
const PARTITIONS: [(i64, usize, u64); 5] = [
    (i64::MIN + 1, 3, 10),
    (-7, 1000, 10),
    (0, 4, 20),
    (5, 1, 99),
    (i64::MAX, 12, 10),
];

#[test]
fn wide_partitions_are_found_wherever_pages_end_and_the_rest_of_them_skipped() {
    for page in [1, 2, 3, 7, 10, 50, 5000] {
        let mut table = Table::new(&PARTITIONS, page, &[]);
        let (wide, alone, counted) = table.survey();
        let tokens: Vec<i64> = wide.iter().map(|(token, _)| *token).collect();
        assert_eq!((tokens, alone), (vec![-7, i64::MAX], vec![]), "{page}");
        assert_eq!(wide[0].1, page == 5000, "{page}");
        assert_eq!(counted.partitions, 5, "{page}");
        assert!(counted.rows <= 20 + 10 + 2 * page as u64 || page == 5000);
        assert!(counted.largest_bytes >= WIDE, "{page}");
    }
}

#[test]
fn what_cannot_be_read_is_narrowed_down_to_its_token() {
    for page in [1, 3, 50, 5000] {
        for unreadable in [vec![0], vec![5, 0], vec![i64::MAX], vec![-7, 3]] {
            let mut table = Table::new(&PARTITIONS, page, &unreadable);
            let (wide, mut alone, _) = table.survey();
            let mut expected = unreadable.clone();
            expected.sort_unstable();
            alone.sort_unstable();
            assert_eq!(alone, expected, "{page}");
            let tokens: Vec<i64> = wide.iter().map(|(token, _)| *token).collect();
            let readable = [-7, i64::MAX].iter();
            let readable = readable.filter(|token| !unreadable.contains(token));
            assert_eq!(tokens, readable.copied().collect::<Vec<_>>(), "{page}");
            assert!(table.requests < 2500, "{}", table.requests);
        }
    }
}

#[test]
fn an_empty_table_takes_one_request() {
    let mut table = Table::new(&[], 10, &[]);
    assert_eq!(table.survey(), (vec![], vec![], Counted::default()));
    assert_eq!(table.requests, 1);
}
