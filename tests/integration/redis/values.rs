//! What lies under a key: nothing, the layout, or anything else.

use narrows::known::cache::Tier;
use narrows::known::shared_cache::Fetched;
use narrows::wide_row::layout::{LAYOUT_BYTES_MAX, LayoutError, LayoutId};

use super::{Proxy, SCOPE, await_stored, fresh_id, layout, settings};
use crate::support::redis::Redis;

#[test]
fn what_one_proxy_read_the_others_find() {
    let redis = Redis::start();
    let (reader, other) = (
        Proxy::new(settings(redis.address)),
        Proxy::new(settings(redis.address)),
    );
    let id = fresh_id();
    assert_eq!(reader.look_up(&id), Tier::Store);
    assert_eq!(reader.shared("miss"), 1);
    await_stored(&redis, &id);
    assert_eq!(other.look_up(&id), Tier::Shared);
    assert_eq!(other.shared("hit"), 1);
    assert_eq!(other.shared("miss"), 0);
    let mut ttl = ::redis::cmd("TTL");
    let seconds: i64 = redis.run(ttl.arg(id.shared_key(SCOPE)));
    assert!((3000..=3600).contains(&seconds), "expires in {seconds} s");
}

#[test]
fn a_layout_lies_in_the_configured_database() {
    let redis = Redis::start();
    let proxy = Proxy::new(narrows::config::RedisSettings {
        database: 3,
        ..settings(redis.address)
    });
    let id = fresh_id();
    assert_eq!(proxy.look_up(&id), Tier::Store);
    crate::support::eventually("the layout is there", || {
        let keyspace: String = redis.run(::redis::cmd("INFO").arg("keyspace"));
        keyspace.contains("db3:keys=1").then_some(())
    });
    assert_eq!(proxy.look_up(&id), Tier::Shared);
}

#[test]
fn after_a_flush_layouts_come_from_the_store_and_are_shared_again() {
    let redis = Redis::start();
    let proxy = Proxy::new(settings(redis.address));
    let id = fresh_id();
    proxy.look_up(&id);
    await_stored(&redis, &id);
    let () = redis.run(&::redis::cmd("FLUSHALL"));
    assert_eq!(proxy.look_up(&id), Tier::Store);
    assert_eq!(proxy.shared("miss"), 2);
    await_stored(&redis, &id);
    assert_eq!(proxy.look_up(&id), Tier::Shared);
}

/// A value that is not the layout is ignored for this reason, and replaced by the right one.
fn is_ignored(value: Vec<u8>, id: &LayoutId, reason: LayoutError) {
    let redis = Redis::start();
    let proxy = Proxy::new(settings(redis.address));
    let () = redis.run(::redis::cmd("SET").arg(id.shared_key(SCOPE)).arg(value));
    assert_eq!(proxy.fetch(id), Fetched::Ignored(reason));
    assert_eq!(proxy.look_up(id), Tier::Store);
    assert_eq!(proxy.shared("ignored"), 1);
    assert_eq!(proxy.series("narrows_redis_breaker_open"), 0);
    await_stored(&redis, id);
    assert_eq!(proxy.look_up(id), Tier::Shared);
}

#[test]
fn garbage_is_ignored() {
    let garbage = b"\x00\xff not a layout".to_vec();
    is_ignored(garbage, &fresh_id(), LayoutError::NotALayout);
}

#[test]
fn a_damaged_layout_is_ignored() {
    let id = fresh_id();
    let mut bytes = layout(&id).encode().expect("sound");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    is_ignored(bytes, &id, LayoutError::OtherSeal);
}

#[test]
fn a_cut_layout_is_ignored() {
    let id = fresh_id();
    let mut bytes = layout(&id).encode().expect("sound");
    bytes.pop();
    is_ignored(bytes, &id, LayoutError::OtherSeal);
}

#[test]
fn the_layout_of_another_version_is_ignored() {
    let id = fresh_id();
    let mut bytes = layout(&id).encode().expect("sound");
    bytes[3] = 3;
    is_ignored(bytes, &id, LayoutError::OtherVersion(3));
}

#[test]
fn the_layout_of_another_generation_is_ignored() {
    let foreign = layout(&fresh_id()).encode().expect("sound");
    is_ignored(foreign, &fresh_id(), LayoutError::OtherSeal);
}

/// It would lose the rows between the two boundaries.
#[test]
fn a_well_formed_layout_with_other_boundaries_is_ignored() {
    let id = fresh_id();
    let mut lie = layout(&id).unproven();
    lie.buckets[1].first[0] = Box::new(*b"2025-01-01");
    let lie = super::proven(lie).encode().expect("sound");
    is_ignored(lie, &id, LayoutError::OtherSeal);
}

#[test]
fn a_value_that_no_layout_can_be_as_large_as_is_ignored() {
    let value = vec![0; 2 * LAYOUT_BYTES_MAX];
    is_ignored(value, &fresh_id(), LayoutError::TooLarge);
}

#[test]
fn a_value_of_another_type_is_ignored() {
    let redis = Redis::start();
    let proxy = Proxy::new(settings(redis.address));
    let id = fresh_id();
    let () = redis.run(
        ::redis::cmd("RPUSH")
            .arg(id.shared_key(SCOPE))
            .arg("element"),
    );
    assert_eq!(proxy.fetch(&id), Fetched::Ignored(LayoutError::NotALayout));
    assert_eq!(proxy.look_up(&id), Tier::Store);
    assert_eq!(proxy.shared("ignored"), 1);
}
