//! A copy that is not equal to its original is never served, or not any more: its generation ends with the bucket and the first
//! row named, and the next one follows.

use narrows::wide_row::layout::LayoutId;
use narrows::wide_row::names::Generation;
use narrows::wide_row::state::State;
use narrows::wide_row::store::SplitId;

use super::world::{Client, PLAIN, SPLIT_PATIENCE, World, until_answered};
use crate::exactness::control::Control;
use crate::support::{Codec, eventually_within, single_cluster};

const ROWS: i32 = 300;
/// The row that is made another one. It is in the first bucket.
const ROW: i32 = 7;

/// Changes a row of a copy, as nobody should.
fn plant(world: &mut World, control: &Control, id: &SplitId, generation: Generation, key: i32) {
    let layout = control.layout(&LayoutId {
        table: id.table.clone(),
        key: id.key.clone(),
        generation,
    });
    let layout = layout.expect("was planned");
    assert!(layout.buckets.len() > 1);
    let table = world.name(&layout.split_table);
    world.direct.write(&[format!(
        "UPDATE {table} SET v = 'planted' WHERE k = {key} AND narrows_generation = {generation} AND narrows_bucket = 0 \
         AND c = {ROW}"
    )]);
}

fn names_the_row(reason: Option<&str>) -> bool {
    let reason = reason.unwrap_or_default();
    let row = format!("at the row c = {ROW}");
    reason.contains("the copy differs: bucket 0: ") && reason.ends_with(&row)
}

#[test]
fn a_copy_that_differs_ends_its_generation_and_the_next_one_follows() {
    let cluster = single_cluster();
    let mut world = World::create(&cluster, Codec::V4, 1, &[PLAIN]);
    world.fill(1, ROWS);
    let text = world.select(1);
    let expected = world.direct.scan(&text);
    let copier = world.splitter().worker().failing_at("verify.before");
    let mut copier = copier.start();
    let (control, id) = (world.control(), world.id(1));
    let first = control.nominate(&id);
    copier.wait_for_exit();
    drop(copier);
    plant(&mut world, &control, &id, first, 1);
    let next = world.splitter().expecting("an attempt at a split failed");
    let next = next.start();
    let failed = eventually_within(SPLIT_PATIENCE, "the difference is found", || {
        let split = control.split(&id)?;
        (split.standing.state == State::Failed).then_some(split)
    });
    assert_eq!((failed.standing.generation, failed.failures), (first, 1));
    assert!(
        names_the_row(failed.reason.as_deref()),
        "{:?}",
        failed.reason
    );
    let log = next.log();
    assert!(log.contains("bucket 0: ") && !log.contains("at the row"));
    assert_eq!(next.metric("narrows_pipeline_verify_differences_total"), 1);
    let pause = failed.not_before.zip(failed.changed_at);
    let pause = pause.map(|(not_before, changed_at)| not_before - changed_at);
    assert!(
        pause.is_some_and(|pause| (50_000..=60_000).contains(&pause)),
        "{pause:?}"
    );
    let mut through = Client::connect(next.address(), Codec::V4);
    assert!(through.scan(&text) == expected, "while there is no split");
    let second = eventually_within(SPLIT_PATIENCE, "the next generation is split", || {
        let split = control.split(&id)?;
        (split.standing.state == State::Completed).then_some(split)
    });
    assert_eq!(second.standing.generation.0, first.0 + 1);
    until_answered(&next, &mut through, &text, &expected);
}
