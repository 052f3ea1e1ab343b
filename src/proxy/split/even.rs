//! Whether the buckets of a layout have exactly the rows that a request would find in the original, at its second.
//!
//! Two things cannot be copied: cells that had expired before, and row markers that expire before a cell. Verify found
//! out which buckets and which columns that may concern. There, a row that shows a value is certain; at any other row,
//! the original answers.

use super::read::Asked;
use crate::rewrite::queried::Queried;
use crate::rewrite::{Readable, Reason};
use crate::wide_row::clock::unix_millis;
use crate::wide_row::layout::{BucketProof, Layout};

/// How far the clock of a node may be ahead of ours.
const CLOCK_SKEW_SECONDS: i64 = 60;

/// Which rows of the buckets the original certainly shows, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Certain {
    All,
    /// Those with a value in one of the places that tell ([`Queried::telling`]).
    Telling,
}

pub(super) fn check(
    readable: &Readable,
    asked: &Asked,
    layout: &Layout,
    buckets: &[usize],
) -> Result<Certain, Reason> {
    let present = unix_millis() / 1000 + CLOCK_SKEW_SECONDS;
    judge(
        readable.queried.as_ref(),
        asked.now_in_seconds,
        layout,
        buckets,
        present,
    )
}

fn judge(
    queried: Option<&Queried>,
    now_in_seconds: Option<i32>,
    layout: &Layout,
    buckets: &[usize],
    present: i64,
) -> Result<Certain, Reason> {
    let Some(proof) = layout.proof() else {
        // An earlier version completed it, and did not look.
        return match now_in_seconds {
            Some(_) => Err(Reason::Second),
            None => queried.map_or(Ok(Certain::All), by_row),
        };
    };
    let of = |bucket: &usize| proof.buckets.get(*bucket);
    let has_expired =
        |bucket: &BucketProof| bucket.first_expiry.is_some_and(|second| second <= present);
    let second = match now_in_seconds.map(i64::from) {
        None => present,
        // A negative second is long ago for 4.1, and in the far future for 5.0.
        Some(second) if second < proof.as_of.max(0) => return Err(Reason::Second),
        // Compaction removes what has expired, on one side sooner than on the other.
        Some(second) if second < present && buckets.iter().filter_map(of).any(has_expired) => {
            return Err(Reason::Second);
        }
        Some(second) => second,
    };
    let Some(queried) = queried else {
        return Ok(Certain::All);
    };
    let is_anchor = |column: &String| proof.anchors.contains(column);
    let is_even = |bucket: &usize| {
        of(bucket).is_some_and(|bucket| bucket.uneven_from.is_none_or(|from| second < from))
    };
    match queried.columns.iter().any(is_anchor) || buckets.iter().all(is_even) {
        true => Ok(Certain::All),
        false => by_row(queried),
    }
}

fn by_row(queried: &Queried) -> Result<Certain, Reason> {
    match queried.telling.is_empty() {
        true => Err(Reason::Uneven),
        false => Ok(Certain::Telling),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::bucket::Bucket;
    use crate::schema::names::{PartitionKey, TableName};
    use crate::wide_row::layout::{BucketProof, LayoutId, Proof};
    use crate::wide_row::names::Generation;

    const AS_OF: i64 = 1_000;
    const PRESENT: i64 = 2_000;

    /// Two buckets; in the second, something expires at 1,500, and it becomes uneven at 5,000. Column `a` is an anchor.
    fn layout(is_proven: bool) -> Layout {
        let bucket = |first: &[&[u8]]| Bucket {
            first: first.iter().map(|value| (*value).into()).collect(),
            row_count: 1,
            byte_count: 1,
            home: None,
        };
        let id = LayoutId {
            table: TableName::new("ks", "t"),
            key: PartitionKey::new(*b"k"),
            generation: Generation(1),
        };
        let layout = Layout::new(id, "wide_t_1", "s", vec![bucket(&[]), bucket(&[b"c"])]);
        if !is_proven {
            return layout;
        }
        let proof = |first_expiry, uneven_from| BucketProof {
            row_count: 1,
            first_expiry,
            uneven_from,
            checksum: [0; 16],
        };
        let proof = Proof {
            as_of: AS_OF,
            anchors: vec!["a".to_owned()],
            buckets: vec![proof(None, None), proof(Some(1_500), Some(5_000))],
        };
        layout.prove(proof).expect("sound")
    }

    /// Columns that are selected plainly.
    fn queried(names: &[&str]) -> Queried {
        Queried {
            columns: names.iter().map(|name| (*name).to_owned()).collect(),
            telling: (0..names.len()).collect(),
        }
    }

    fn judged(
        names: Option<&[&str]>,
        second: Option<i32>,
        buckets: &[usize],
    ) -> Result<Certain, Reason> {
        let queried = names.map(queried);
        judge(queried.as_ref(), second, &layout(true), buckets, PRESENT)
    }

    #[test]
    fn earlier_seconds_are_the_originals() {
        let all = Ok(Certain::All);
        assert_eq!(judged(None, None, &[0, 1]), all);
        assert_eq!(judged(None, Some(1_000), &[0]), all);
        assert_eq!(judged(None, Some(999), &[0]), Err(Reason::Second));
        assert_eq!(judged(None, Some(-1), &[0]), Err(Reason::Second));
        // Here something has expired between then and now.
        assert_eq!(judged(None, Some(1_000), &[0, 1]), Err(Reason::Second));
        assert_eq!(judged(None, Some(2_000), &[0, 1]), all);
    }

    #[test]
    fn rows_of_uneven_buckets_are_certain_if_they_tell() {
        let (late, all) = (Some(5_000), Ok(Certain::All));
        assert_eq!(judged(Some(&["b"]), None, &[0, 1]), all, "not yet");
        assert_eq!(judged(Some(&["b"]), Some(4_999), &[1]), all);
        assert_eq!(judged(Some(&["b"]), late, &[1]), Ok(Certain::Telling));
        assert_eq!(judged(Some(&["b"]), late, &[0]), all, "the other bucket");
        assert_eq!(judged(Some(&["b", "a"]), late, &[0, 1]), all);
        assert_eq!(judged(None, late, &[0, 1]), all);
        let silent = Queried {
            telling: Vec::new(),
            ..queried(&["b"])
        };
        let judged = judge(Some(&silent), late, &layout(true), &[1], PRESENT);
        assert_eq!(judged, Err(Reason::Uneven));
    }

    #[test]
    fn without_a_proof_rows_of_the_present_must_be_whole_or_tell() {
        let (layout, column) = (layout(false), queried(&["a"]));
        let judged = |queried, second| judge(queried, second, &layout, &[0], PRESENT);
        assert_eq!(judged(None, None), Ok(Certain::All));
        assert_eq!(judged(None, Some(i32::MAX)), Err(Reason::Second));
        assert_eq!(judged(Some(&column), None), Ok(Certain::Telling));
    }
}
