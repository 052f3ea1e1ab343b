//! Redis dies, returns, or says nothing: look-ups go on.

use std::time::Duration;

use narrows::config::RedisSettings;
use narrows::known::breaker::FAILURES_MAX;
use narrows::known::cache::Tier;
use narrows::wide_row::layout::LayoutId;

use super::{Proxy, await_stored, fresh_id, settings};
use crate::support::eventually;
use crate::support::redis::Redis;

/// The store answers every time; the shared cache fails at first and is then left alone.
fn soon_skipped(proxy: &Proxy, id: &LayoutId) {
    const LOOKUPS: u64 = 2 * FAILURES_MAX as u64;
    let counts = || (proxy.shared("failed"), proxy.shared("skipped"));
    let before = counts();
    for _ in 0..LOOKUPS {
        assert_eq!(proxy.look_up(id), Tier::Store);
    }
    let (failed, skipped) = (counts().0 - before.0, counts().1 - before.1);
    assert!(failed > 0 && skipped > 0, "{failed} and {skipped}");
    assert_eq!(failed + skipped, LOOKUPS);
    assert_eq!(proxy.series("narrows_redis_breaker_open"), 1);
}

#[test]
fn killed_and_restarted_it_is_used_again() {
    let mut redis = Redis::start();
    let proxy = Proxy::new(settings(redis.address));
    let id = fresh_id();
    proxy.look_up(&id);
    await_stored(&redis, &id);
    assert_eq!(proxy.look_up(&id), Tier::Shared);

    redis.kill();
    assert_eq!(proxy.look_up(&id), Tier::Store);
    assert_eq!(proxy.shared("failed"), 1);

    redis.restart();
    // A restarted Redis is empty: the first look-up that reaches it shares the layout again.
    eventually("the layout is shared again", || {
        (proxy.look_up(&id) == Tier::Shared).then_some(())
    });
    assert!(proxy.shared("miss") >= 2);
    assert_eq!(proxy.series("narrows_redis_breaker_open"), 0);
}

#[test]
fn dead_from_the_start_it_is_soon_not_asked_any_more() {
    let mut redis = Redis::start();
    redis.kill();
    let proxy = Proxy::new(settings(redis.address));
    soon_skipped(&proxy, &fresh_id());

    redis.restart();
    let id = fresh_id();
    eventually("a probe finds it and the layout is shared", || {
        (proxy.look_up(&id) == Tier::Shared).then_some(())
    });
    assert_eq!(proxy.series("narrows_redis_breaker_open"), 0);
}

#[test]
fn while_it_says_nothing_the_store_answers_within_the_deadline() {
    let redis = Redis::start();
    let id = fresh_id();
    let patient = Proxy::new(settings(redis.address));
    patient.look_up(&id);
    await_stored(&redis, &id);
    let proxy = Proxy::new(RedisSettings {
        timeout: Duration::from_millis(20),
        ..settings(redis.address)
    });
    eventually("the layout is found in time", || {
        (proxy.look_up(&id) == Tier::Shared).then_some(())
    });

    redis.pause();
    // Were the shared cache waited for beyond its deadline, the look-up would end with an error.
    soon_skipped(&proxy, &id);

    redis.resume();
    eventually("it is used again", || {
        (proxy.look_up(&id) == Tier::Shared).then_some(())
    });
    assert_eq!(proxy.series("narrows_redis_breaker_open"), 0);
}

#[test]
fn many_threads_share_one_connection() {
    const THREADS: usize = 8;
    let redis = Redis::start();
    let first = Proxy::new(settings(redis.address));
    let look_up_and_end = || {
        let (proxy, id) = (first.thread(), fresh_id());
        // Each thread's runtime goes with it; the connection must not.
        eventually("the layout is shared", || {
            (proxy.look_up(&id) == Tier::Shared).then_some(())
        });
    };
    for _ in 0..2 {
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(look_up_and_end);
            }
        });
    }
    let stats: String = redis.run(::redis::cmd("INFO").arg("stats"));
    let accepted = stats
        .lines()
        .find_map(|line| line.strip_prefix("total_connections_received:"))
        .and_then(|count| count.trim().parse::<u32>().ok())
        .expect("a count");
    // Ours, and the one that asks here.
    assert_eq!(accepted, 2);
}
