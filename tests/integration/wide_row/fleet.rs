//! What concerns all proxies and workers together.

use std::time::Duration;

use narrows::config::Config;
use narrows::pipeline::settle::Settle;
use narrows::wide_row::store::ClusterPatience;

use super::control::Control;
use crate::pipeline::world::{PLAIN, World};
use crate::support::{Codec, cluster, control_cluster};

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

#[tokio::test]
async fn the_longest_staleness_of_any_proxy_counts() {
    let control = Control::create(&cluster()).await;
    let store = &control.store;
    assert_eq!(store.read_max_staleness().await.expect("read"), None);
    for (own, longest) in [(10, 10), (2, 10), (10, 10), (60, 60), (10, 60)] {
        let announced = store.announce_max_staleness(seconds(own)).await;
        assert_eq!(announced.expect("answered"), seconds(longest));
        let read = store.read_max_staleness().await.expect("read");
        assert_eq!(read, Some(seconds(longest)));
    }
    // Many at once.
    let all = (61..=68).map(|own| store.announce_max_staleness(seconds(own)));
    for (own, announced) in (61..).zip(futures::future::join_all(all).await) {
        assert!(announced.expect("answered") >= seconds(own));
    }
    let read = store.read_max_staleness().await.expect("read");
    assert_eq!(read, Some(seconds(68)));
}

#[tokio::test]
async fn a_guard_waits_for_the_longest_of_its_own_and_that_of_the_proxies() {
    let control = Control::create(&control_cluster()).await;
    let patience = ClusterPatience::default();
    let mut config = Config::default();
    let settle = async |config: &Config| {
        let settle = Settle::new(config, patience);
        settle.time(&control.store).await.expect("read")
    };
    assert_eq!(
        settle(&config).await,
        config.control.max_staleness + 2 * patience.write_timeout
    );
    let announced = control.store.announce_max_staleness(seconds(900)).await;
    announced.expect("answered");
    assert_eq!(
        settle(&config).await,
        seconds(900) + 2 * patience.write_timeout
    );
    config.control.max_staleness = seconds(1200);
    assert_eq!(
        settle(&config).await,
        seconds(1200) + 2 * patience.write_timeout
    );
    config.pipeline.settle = Some(seconds(1));
    assert_eq!(settle(&config).await, seconds(1));
}

#[test]
fn a_proxy_announces_what_its_file_says() {
    let cluster = control_cluster();
    let world = World::create(&cluster, Codec::V4, 1, &[PLAIN]);
    let file = |staleness: &str| {
        world
            .proxy()
            .set("control.max_staleness", staleness)
            .start()
    };
    let _proxies = [file("30s"), file("90s"), file("20s")];
    let control = world.control();
    let longest = control.max_staleness();
    assert_eq!(longest, Some(seconds(90)));
}
