//! Both real parts together: Redis between two proxies and Cassandra, in every mood; the answer stays the same.

use std::sync::Arc;
use std::time::Duration;

use narrows::config::RedisSettings;
use narrows::known::lookup::LookupAnswer;
use narrows::known::shared_cache::SharedCache;
use tokio::runtime::Handle;

use super::control::{Control, split};
use super::knowing::{Knowing, eventually};
use super::lookup::{invalidate, serve};
use crate::redis::proven;
use crate::support::redis::Redis;
use crate::support::{PATIENCE, control_cluster};

fn settings(redis: &Redis) -> RedisSettings {
    RedisSettings {
        host: redis.address.ip().to_string(),
        port: redis.address.port(),
        username: None,
        password: None,
        database: 0,
        tls: None,
        timeout: Duration::from_millis(200),
        entry_ttl: PATIENCE,
    }
}

/// A proxy that remembers nothing yet: it asks Redis, then Cassandra.
async fn cold(control: &Control, redis: &Redis) -> Knowing {
    let shared = SharedCache::new(settings(redis), Handle::current()).expect("no TLS");
    shared.set_scope(control.store.scope());
    Knowing::start(control, Some(shared)).await
}

fn stored(redis: &Redis, key: &str) -> Option<Vec<u8>> {
    redis.run(redis::cmd("GET").arg(key))
}

#[tokio::test]
async fn whatever_redis_does_the_layout_is_right() {
    let cluster = control_cluster();
    let control = Control::create(&cluster).await;
    let mut redis = Redis::start();
    let id = split("shared");
    let layout = serve(&control, &id).await;
    let key = layout.id().shared_key(control.store.scope());
    let right = LookupAnswer::Split(Arc::new(layout.clone()));
    assert_eq!(cold(&control, &redis).await.find(&id).await, right);
    eventually("the first proxy shares it", || {
        stored(&redis, &key).is_some()
    })
    .await;
    assert_eq!(cold(&control, &redis).await.find(&id).await, right);
    // Garbage, a later version's bytes, another partition's layout, and a lie.
    let mut later = layout.encode().expect("it is sound");
    later[3] = 99;
    let mut other = layout.clone().unproven();
    other.split_table = "wide_orders_9".to_owned();
    other.key = split("another").key;
    let other = proven(other).encode().expect("it is sound");
    // A layout of this very generation with another boundary: reads would miss the rows between the two.
    let mut moved = layout.clone().unproven();
    moved.buckets[2].first[0] = Box::new(*b"2028");
    let moved = proven(moved).encode().expect("it is sound");
    for lie in [b"garbage".to_vec(), later, other, moved] {
        redis.run::<()>(redis::cmd("SET").arg(&key).arg(&lie));
        assert_eq!(cold(&control, &redis).await.find(&id).await, right);
    }
    redis.run::<()>(&redis::cmd("FLUSHALL"));
    assert_eq!(cold(&control, &redis).await.find(&id).await, right);
    redis.pause();
    let paused = cold(&control, &redis).await;
    assert_eq!(paused.find(&id).await, right);
    redis.resume();
    redis.kill();
    let killed = cold(&control, &redis).await;
    assert_eq!(killed.find(&id).await, right);
    // A shared layout never outlives its split.
    redis.restart();
    let knowing = cold(&control, &redis).await;
    assert_eq!(knowing.find(&id).await, right);
    eventually("it is shared again", || stored(&redis, &key).is_some()).await;
    invalidate(&control, &id).await;
    assert_eq!(knowing.find(&id).await, LookupAnswer::NotSplit);
    assert_eq!(
        cold(&control, &redis).await.find(&id).await,
        LookupAnswer::NotSplit
    );
}
