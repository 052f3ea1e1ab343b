//! Whether the buckets of a layout have exactly the rows that a request would find in the original, at its second.
//!
//! Two things cannot be copied: cells that had expired before, and row markers that expire before a cell. Verify found
//! out which buckets and which columns that concerns; where a request depends on it, the original answers.

use super::read::Asked;
use crate::rewrite::{Readable, Reason};
use crate::wide_row::clock::unix_millis;
use crate::wide_row::layout::Layout;

/// How far the clock of a node may be ahead of ours.
const CLOCK_SKEW_SECONDS: i64 = 60;

pub(super) fn check(
    readable: &Readable,
    asked: &Asked,
    layout: &Layout,
    buckets: &[usize],
) -> Result<(), Reason> {
    let present = unix_millis() / 1000 + CLOCK_SKEW_SECONDS;
    judge(
        readable.queried.as_deref(),
        asked.now_in_seconds,
        layout,
        buckets,
        present,
    )
}

fn judge(
    queried: Option<&[String]>,
    now_in_seconds: Option<i32>,
    layout: &Layout,
    buckets: &[usize],
    present: i64,
) -> Result<(), Reason> {
    let Some(proof) = layout.proof() else {
        // An earlier version completed it, and did not look.
        return match (now_in_seconds, queried) {
            (Some(_), _) => Err(Reason::Second),
            (None, Some(_)) => Err(Reason::Uneven),
            (None, None) => Ok(()),
        };
    };
    let second = match now_in_seconds.map(i64::from) {
        None => present,
        // A negative second is long ago for 4.1, and in the far future for 5.0.
        Some(second) if second < proof.as_of.max(0) => return Err(Reason::Second),
        Some(second) => second,
    };
    let Some(queried) = queried else {
        return Ok(());
    };
    if queried.iter().any(|column| proof.anchors.contains(column)) {
        return Ok(());
    }
    let is_even = |bucket: &usize| {
        let bucket = proof.buckets.get(*bucket);
        bucket.is_some_and(|bucket| bucket.uneven_from.is_none_or(|from| second < from))
    };
    match buckets.iter().all(is_even) {
        true => Ok(()),
        false => Err(Reason::Uneven),
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

    /// Two buckets; the second becomes uneven at 5,000, and column `a` is an anchor.
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
        let proof = |uneven_from| BucketProof {
            row_count: 1,
            first_expiry: None,
            uneven_from,
            checksum: [0; 16],
        };
        let proof = Proof {
            as_of: AS_OF,
            anchors: vec!["a".to_owned()],
            buckets: vec![proof(None), proof(Some(5_000))],
        };
        layout.prove(proof).expect("sound")
    }

    fn judged(
        queried: Option<&[&str]>,
        second: Option<i32>,
        buckets: &[usize],
    ) -> Result<(), Reason> {
        let queried = queried.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
        let queried: Option<Vec<String>> = queried;
        judge(queried.as_deref(), second, &layout(true), buckets, PRESENT)
    }

    #[test]
    fn earlier_seconds_are_the_originals() {
        assert_eq!(judged(None, None, &[0, 1]), Ok(()));
        assert_eq!(judged(None, Some(1_000), &[0, 1]), Ok(()));
        assert_eq!(judged(None, Some(999), &[0]), Err(Reason::Second));
        assert_eq!(judged(None, Some(-1), &[0]), Err(Reason::Second));
    }

    #[test]
    fn uneven_buckets_answer_reads_of_an_anchor_only() {
        let late = Some(5_000);
        assert_eq!(judged(Some(&["b"]), None, &[0, 1]), Ok(()), "not yet");
        assert_eq!(judged(Some(&["b"]), Some(4_999), &[1]), Ok(()));
        assert_eq!(judged(Some(&["b"]), late, &[1]), Err(Reason::Uneven));
        assert_eq!(judged(Some(&["b"]), late, &[0]), Ok(()), "the other bucket");
        assert_eq!(judged(Some(&["b", "a"]), late, &[0, 1]), Ok(()));
        assert_eq!(judged(None, late, &[0, 1]), Ok(()));
    }

    #[test]
    fn without_a_proof_only_whole_rows_of_the_present_are_read() {
        let layout = layout(false);
        let judged = |queried, second| judge(queried, second, &layout, &[0], PRESENT);
        assert_eq!(judged(None, None), Ok(()));
        assert_eq!(judged(None, Some(i32::MAX)), Err(Reason::Second));
        assert_eq!(
            judged(Some(&["a".to_owned()][..]), None),
            Err(Reason::Uneven)
        );
    }
}
