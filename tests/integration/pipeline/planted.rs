//! Planted mistakes: what a wrong copier might write, one mistake at a time. Verify finds every one of them and says where.

mod mistakes;

use std::time::Duration;

use narrows::pipeline::verify::{DifferenceKind, Verified, VerifyError};
use tokio::task::LocalSet;

use self::mistakes::{CELLS_AND_TIMES, ELEMENTS, MARKERS, Mistake, ROWS_AND_PLACES};
use super::copies::{Copy, ROWS, SPLIT_TABLE, STARTS, What, World, Write};
use super::requests;
use crate::support::cluster::old_cluster;
use crate::support::{Cluster, single_cluster};

const AT_ONCE: [Duration; 3] = [Duration::ZERO; 3];
const GENERATION: i32 = 1000;

#[tokio::test]
async fn every_planted_mistake_is_found() {
    let mistakes = [ROWS_AND_PLACES, CELLS_AND_TIMES, MARKERS, ELEMENTS];
    plant(&single_cluster(), true, &mistakes).await;
}

#[tokio::test]
async fn every_planted_mistake_is_found_on_4_1() {
    let mistakes = [ROWS_AND_PLACES, CELLS_AND_TIMES, MARKERS];
    plant(&old_cluster(), false, &mistakes).await;
}

async fn plant(cluster: &Cluster, with_collections: bool, mistakes: &[&[Mistake]]) {
    let world = World::create(cluster, with_collections);
    let mut writer = world.writer(cluster);
    let test = async {
        let requests = requests(cluster.node()).await;
        let copy = world.copy();
        writer.write_copy(SPLIT_TABLE, &copy, GENERATION);
        let layout = world.layout(SPLIT_TABLE, &copy, GENERATION);
        let verified = world.verify(&requests, &layout, AT_ONCE).await;
        check_exact(&world, &verified.expect("an exact copy"));
        // Two apart, since one mistake writes to the next generation.
        let generations = (GENERATION + 2..).step_by(2);
        for (mistake, generation) in mistakes.iter().copied().flatten().zip(generations) {
            let mut copy = world.copy();
            (mistake.make)(&mut copy);
            writer.write_copy(SPLIT_TABLE, &copy, generation);
            let layout = world.layout(SPLIT_TABLE, &copy, generation);
            let found = world.verify(&requests, &layout, AT_ONCE).await;
            check_found(&world, mistake, &copy, found);
        }
    };
    LocalSet::new().run_until(test).await;
}

fn check_exact(world: &World, verified: &Verified) {
    let cells = world
        .writes
        .iter()
        .filter(|write| write.what != What::Marker);
    assert_eq!(verified.row_count, ROWS as u64);
    assert_eq!(verified.cell_count, cells.count() as u64);
    let mut checksums = verified.bucket_checksums.clone();
    assert_eq!(checksums.len(), STARTS.len());
    checksums.push(verified.checksum);
    checksums.sort_unstable();
    checksums.dedup();
    assert_eq!(checksums.len(), STARTS.len() + 1);
}

fn check_found(
    world: &World,
    mistake: &Mistake,
    copy: &Copy,
    found: Result<Verified, VerifyError>,
) {
    let name = mistake.name;
    let (kind, bucket, row) = mistake.found;
    let Err(VerifyError::Differs(difference)) = found else {
        panic!("{name}: {found:?}");
    };
    assert_eq!(
        (difference.kind, difference.bucket),
        (kind, bucket),
        "{name}"
    );
    // A row that is only in the copy is named by the copy's key.
    let writes = if kind == DifferenceKind::ExtraRow {
        &copy.writes
    } else {
        &world.writes
    };
    let mut keys = writes
        .iter()
        .filter(|write| write.row == row)
        .map(Write::key);
    assert!(
        keys.any(|key| key == difference.key),
        "{name}: {difference:?}"
    );
}
