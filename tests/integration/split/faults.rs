//! What can go wrong on the split side: the original answers, and it is counted; or Cassandra's own error is the answer.

use super::world::{ANSWERED, FALLBACKS, World, await_served, await_unserved};
use super::{Ask, CODECS, Clients, assert_same, state};
use crate::exactness::wire::ALL;
use crate::pipeline::world::replication;
use crate::support::cluster::old_cluster;
use crate::support::relay::Relay;
use crate::support::{Codec, Proxy, eventually};

const SKIPPED: &str = "narrows_validation_skipped_total";

const READS: [&str; 5] = [
    "SELECT * FROM {} WHERE k = 1",
    "SELECT * FROM {} WHERE k = 1 ORDER BY a DESC, b ASC LIMIT 13",
    "SELECT COUNT(*), MAX(v) FROM {} WHERE k = 1",
    "SELECT * FROM {} WHERE k = 1 AND v > 30 ALLOW FILTERING",
    "SELECT * FROM {} WHERE k IN (4, 1)",
];

fn split_world() -> World {
    let mut world = World::on_three(&[(1, 20), (4, 6)]);
    world.split(1);
    world
}

fn fallbacks(proxy: &Proxy, reason: &str) -> u64 {
    proxy.metric(&format!("{FALLBACKS}{{reason=\"{reason}\"}}"))
}

/// Every read, from its first page on, is what it is without Narrows.
fn assert_reads(world: &mut World, through: &mut Clients, codecs: &[Codec]) {
    for codec in codecs {
        for read in READS {
            let ask = Ask::new(*codec, world.text(read)).paged(6);
            let direct = ask.all(&mut world.direct);
            assert_same(&format!("{ask:?}"), &direct, &ask.all(through));
        }
    }
}

/// The scans of all reads, one page each.
fn begun(world: &World, through: &mut Clients, codec: Codec) -> Vec<(Ask, Vec<u8>)> {
    let begun = READS.iter().filter_map(|read| {
        let ask = Ask::new(codec, world.text(read)).paged(6);
        let state = state(&ask.once(through))?;
        Some((ask, state))
    });
    begun.collect()
}

fn assert_rest(world: &mut World, through: &mut Clients, begun: &[(Ask, Vec<u8>)]) {
    for (ask, state) in begun {
        let direct = ask.all(&mut world.direct);
        let rest = ask.clone().behind(state).all(through);
        assert_same(&format!("the rest of {ask:?}"), &direct[1..], &rest);
    }
}

/// Reads from the beginning or behind a first page, each on a connection of its own, since each of them may wait for long.
fn assert_side_by_side(world: &mut World, asks: &[(&Ask, Option<&[u8]>)]) {
    let address = world.proxy.address();
    let replies: Vec<_> = std::thread::scope(|scope| {
        let ask = |(ask, state): &(&Ask, Option<&[u8]>)| {
            let begun = (*ask).clone();
            let ask = state.map_or(begun.clone(), |state| begun.behind(state));
            scope.spawn(move || ask.all(&mut Clients::new(address)))
        };
        let asked: Vec<_> = asks.iter().map(ask).collect();
        let replies = asked
            .into_iter()
            .map(|asked| asked.join().expect("replies"));
        replies.collect()
    });
    for ((ask, state), through) in asks.iter().zip(&replies) {
        let direct = ask.all(&mut world.direct);
        let read = usize::from(state.is_some());
        assert_same(&format!("{ask:?}"), &direct[read..], through);
    }
}

#[test]
fn a_split_table_that_was_dropped_is_answered_by_the_original() {
    let mut world = split_world();
    let mut through = Clients::new(world.proxy.address());
    let scans: Vec<_> = CODECS
        .iter()
        .flat_map(|codec| begun(&world, &mut through, *codec))
        .collect();
    let before = world.proxy.metric_sum(FALLBACKS, "");
    let drop = format!("DROP TABLE {}.wide_events_1", world.keyspace.name);
    world.keyspace.run(&[&drop]);
    assert_rest(&mut world, &mut through, &scans);
    assert_reads(&mut world, &mut through, &CODECS);
    assert!(world.proxy.metric_sum(FALLBACKS, "") > before);
}

#[test]
fn a_layout_that_is_gone_is_answered_by_the_original() {
    let mut world = split_world();
    let id = world.splits[&1].id.clone();
    let key: String = id
        .key
        .bytes()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let text = format!(
        "DELETE FROM {}.wide_row_layout WHERE keyspace_name = '{}' AND table_name = 'events' \
         AND partition_key = 0x{key} AND generation = {}",
        world.control_keyspace.name, world.keyspace.name, world.splits[&1].generation.0
    );
    world.wire.write(&text, vec![], world.now);
    world.wire.settle();
    // One that has never seen it.
    let cold = world.builder().start();
    let mut through = Clients::new(cold.address());
    let read = world.read_one(1);
    eventually("it looks for the layout", || {
        read.once(&mut through);
        (fallbacks(&cold, "doubt") > 0).then_some(())
    });
    assert_reads(&mut world, &mut through, &CODECS);
    assert_eq!(cold.metric(ANSWERED), 0);
}

#[test]
fn a_consistency_that_cannot_be_had_is_cassandras_error() {
    let mut world = split_world();
    let alter = format!(
        "ALTER KEYSPACE {} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 5}}",
        world.keyspace.name
    );
    world.keyspace.run(&[&alter]);
    for codec in CODECS {
        for read in READS {
            let ask = Ask::new(codec, world.text(read)).paged(6).consistency(ALL);
            let direct = ask.all(&mut world.direct);
            let through = ask.all(&mut world.through);
            assert_eq!(
                direct[0].error().map(|error| error.0),
                Some(0x1000),
                "{ask:?}"
            );
            assert_same(&format!("{ask:?}"), &direct, &through);
            assert!(world.through.of(codec).is_alive());
        }
    }
    assert!(fallbacks(&world.proxy, "error") > 0);
}

#[test]
fn a_column_that_was_added_past_the_proxy_is_soon_served() {
    let altered = "the table was changed; all its splits are out of service";
    let mut world = World::with(&[(1, 20), (4, 6)], &[], &[altered]);
    world.split(1);
    let mut through = Clients::new(world.proxy.address());
    let scans = begun(&world, &mut through, Codec::V4);
    let alter = format!("ALTER TABLE {} ADD later int", world.schema.name());
    world.keyspace.run(&[&alter]);
    let write = world.text("UPDATE {} SET later = 5 WHERE k = 1 AND a = 0 AND b = 3");
    world.wire.write(&write, vec![], world.now);
    world.wire.settle();
    let read = world.read_one(1);
    await_unserved(&world.proxy, &mut through, &read);
    assert_reads(&mut world, &mut through, &CODECS);
    // A scan goes on, with the column from now on.
    for (ask, state) in &scans {
        let rest = ask.clone().behind(state).all(&mut through);
        let direct = ask.all(&mut world.direct);
        assert_same(&format!("the rest of {ask:?}"), &direct[1..], &rest);
    }
}

#[test]
fn buckets_that_do_not_answer_in_time_are_answered_by_the_original() {
    let cluster = old_cluster();
    // The proxy's own connections speak v5, its clients' here do not.
    let relay = Relay::before(cluster.node(), 5);
    let mut world = World::on(cluster, &[relay.address], &[(1, 20), (4, 6)]);
    world.split(1);
    let mut through = Clients::new(world.proxy.address());
    let codecs = [Codec::V3, Codec::V4];
    let scans: Vec<_> = codecs
        .iter()
        .flat_map(|codec| begun(&world, &mut through, *codec))
        .collect();
    let reads = READS.map(|read| Ask::new(Codec::V4, world.text(read)).paged(6));
    let rests = scans
        .iter()
        .map(|(ask, state)| (ask, Some(state.as_slice())));
    let asks: Vec<_> = rests.chain(reads.iter().map(|ask| (ask, None))).collect();
    relay.close_gate();
    assert_side_by_side(&mut world, &asks);
    assert!(fallbacks(&world.proxy, "timeout") > 0);
    relay.open_gate();
    let read = world.read_one(1);
    await_served(&world.proxy, &mut through, &read);
    assert_reads(&mut world, &mut through, &codecs);
}

#[test]
fn a_control_keyspace_that_fails_is_soon_not_asked_and_the_original_answers() {
    let mut world = split_world();
    let mut through = Clients::new(world.proxy.address());
    let read = world.read_one(1);
    await_served(&world.proxy, &mut through, &read);
    let replicate = |world: &World, replicas: usize| {
        let (name, replication) = (&world.control_keyspace.name, replication(replicas));
        let alter = format!("ALTER KEYSPACE {name} WITH replication = {{{replication}}}");
        world.control_keyspace.run(&[&alter]);
    };
    // Nine replicas on three nodes have no quorum.
    replicate(&world, 9);
    eventually("the control keyspace is left alone", || {
        read.once(&mut through);
        (world.proxy.metric_sum(SKIPPED, "") > 0).then_some(())
    });
    let answered = world.proxy.metric(ANSWERED);
    assert_reads(&mut world, &mut through, &CODECS);
    assert_eq!(world.proxy.metric(ANSWERED), answered);
    replicate(&world, world.cluster.nodes().len());
    await_served(&world.proxy, &mut through, &read);
    assert_reads(&mut world, &mut through, &CODECS);
}
