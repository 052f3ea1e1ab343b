//! States that a later version may bring: nobody here knows what they mean, so a write ends them before it is forwarded, and
//! reads are the original's.

use narrows::wide_row::state::State;

use super::quick;
use crate::pipeline::world::{ANSWERED, PLAIN, World};
use crate::support::{Codec, RawClient, eventually, single_cluster};

const FILTER_KEYS: &str = "narrows_filter_keys";

#[test]
fn a_state_that_a_later_version_brought_is_ended_by_a_write() {
    let cluster = single_cluster();
    let mut world = World::create(&cluster, Codec::V4, 1, &[PLAIN]);
    let proxy = quick(world.proxy()).start();
    let control = world.control();
    let mut direct = RawClient::connect(cluster.node(), Codec::V4);
    for (key, codec) in (1..).zip([Codec::V3, Codec::V4, Codec::V5]) {
        world.fill(key, 3);
        let id = world.id(key);
        control.bring(&[(id.clone(), State::Detected)]);
        let place = format!(
            "keyspace_name = '{}' AND table_name = 't' AND shard = {} AND partition_key = 0x{key:08x}",
            world.keyspace.name, id.shard
        );
        let wide_row = format!("{}.wide_row", world.control_keyspace.name);
        let rows = direct.query(&format!(
            "SELECT version, state FROM {wide_row} WHERE {place}"
        ));
        let version = rows.rows().rows[0][0].clone().expect("a version");
        let version = i64::from_be_bytes(version.try_into().expect("a bigint"));
        let known = proxy.metric_sum(FILTER_KEYS, "");
        let moved = direct.query(&format!(
            "UPDATE {wide_row} SET state = 'FROZEN', version = {next}, row_version = {next} WHERE {place} \
             IF version = {version}",
            next = version + 1
        ));
        assert_eq!(
            moved.rows().rows[0][0].as_deref(),
            Some(&[1_u8][..]),
            "applied"
        );
        eventually("the proxy knows of it", || {
            (proxy.metric_sum(FILTER_KEYS, "") > known).then_some(())
        });
        let mut client = RawClient::connect(proxy.address(), codec);
        assert_eq!(client.query(&world.select(key)).rows().rows.len(), 3);
        assert!(
            control.standing(&id).is_none(),
            "nobody knows how it stands"
        );
        let table = world.name("t");
        client.query(&format!("DELETE FROM {table} WHERE k = {key} AND c = 1"));
        let standing = control.standing(&id).expect("it is known again");
        assert_eq!(standing.state, State::Invalidated);
        assert_eq!(client.query(&world.select(key)).rows().rows.len(), 2);
    }
    assert_eq!(proxy.metric(ANSWERED), 0);
}
