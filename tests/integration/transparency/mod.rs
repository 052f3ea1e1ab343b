//! Byte for byte: the same requests get the same bytes back, directly and through the proxy.

mod malformed;
mod script;
mod talk;

use crate::support::{
    Cluster, Codec, Keyspace, Proxy, cluster,
    cluster::{old_cluster, single_cluster},
    relay::Relay,
};
use script::TABLES;
use talk::Talk;

fn keyspace(cluster: &Cluster) -> Keyspace {
    let keyspace = Keyspace::create(cluster, TABLES);
    script::prepare_state(cluster.node(), &keyspace.name);
    keyspace
}

/// Says the script to both and compares what came back, request by request.
fn compare(
    codec: Codec,
    direct: std::net::SocketAddr,
    through: std::net::SocketAddr,
    keyspace: &str,
) {
    let say = |address| {
        let mut talk = Talk::open(address, codec);
        script::say(&mut talk, keyspace);
        talk.heard
    };
    talk::assert_same(&format!("{codec:?}"), &say(direct), &say(through));
}

fn all_codecs_of(version: u8) {
    let cluster = cluster();
    let keyspace = keyspace(&cluster);
    let proxy = Proxy::start(&cluster);
    for codec in Codec::ALL {
        if codec.version == version {
            compare(codec, cluster.node(), proxy.address(), &keyspace.name);
        }
    }
}

#[test]
fn v3_replies_are_byte_for_byte_those_of_cassandra() {
    all_codecs_of(3);
}

#[test]
fn v4_replies_are_byte_for_byte_those_of_cassandra() {
    all_codecs_of(4);
}

#[test]
fn v5_replies_are_byte_for_byte_those_of_cassandra() {
    all_codecs_of(5);
}

/// Reads of watched tables are looked at, and so are writes to them.
#[test]
fn replies_of_watched_tables_are_byte_for_byte_those_of_cassandra() {
    let cluster = cluster();
    let (keyspace, control) = (keyspace(&cluster), Keyspace::create(&cluster, &[]));
    let mut watched = String::new();
    for table in ["kv", "wide", "nothing", "types"] {
        // So little is wide here that almost everything is worth telling.
        watched += &format!(
            "[[table]]\nname = '{}.{table}'\nshards = 2\nmode = 'detect'\nwide_bytes = '1KiB'\ntarget_bytes = '1KiB'\n",
            keyspace.name
        );
    }
    let proxy = Proxy::builder(cluster.nodes())
        .set("control.keyspace", &control.name)
        .toml(&watched)
        .start();
    script::fill_wide_row(cluster.node(), &keyspace.name);
    for codec in Codec::ALL {
        compare(codec, cluster.node(), proxy.address(), &keyspace.name);
        let say = |address| {
            let mut talk = Talk::open(address, codec);
            script::say_huge_page(&mut talk, &keyspace.name);
            talk.heard
        };
        let through = say(proxy.address());
        talk::assert_same(&format!("{codec:?}"), &say(cluster.node()), &through);
    }
    assert!(proxy.metric_sum("narrows_detect_partitions_total", "wide") > 0);
}

#[test]
fn replies_are_the_same_with_cassandra_4_1() {
    let cluster = old_cluster();
    let keyspace = keyspace(&cluster);
    let proxy = Proxy::start(&cluster);
    for codec in [Codec::V4_LZ4, Codec::V5, Codec::V5_LZ4] {
        compare(codec, cluster.node(), proxy.address(), &keyspace.name);
    }
}

/// One of the two that `make quick` runs.
#[test]
fn replies_are_the_same_on_one_node() {
    let cluster = single_cluster();
    let keyspace = keyspace(&cluster);
    let proxy = Proxy::start(&cluster);
    for codec in [Codec::V4, Codec::V5_LZ4] {
        compare(codec, cluster.node(), proxy.address(), &keyspace.name);
    }
}

#[test]
fn replies_are_the_same_when_bytes_come_one_at_a_time() {
    // A cluster of one node, which to the proxy is the relay.
    let cluster = old_cluster();
    let keyspace = keyspace(&cluster);
    let far = Relay::one_by_one(cluster.node());
    let proxy = Proxy::builder(&[far.address]).start();
    let near = Relay::one_by_one(proxy.address());
    for codec in Codec::ALL {
        let say = |address| {
            let mut talk = Talk::open(address, codec);
            script::say_small(&mut talk, &keyspace.name);
            talk.heard
        };
        talk::assert_same(
            &format!("{codec:?}"),
            &say(cluster.node()),
            &say(near.address),
        );
    }
    // One for each conversation, and the proxy's own to look at the nodes.
    assert!(
        far.connections() > Codec::ALL.len(),
        "{}",
        far.connections()
    );
}

#[test]
fn pages_beyond_16_mib_pass() {
    let cluster = cluster();
    let keyspace = keyspace(&cluster);
    let proxy = Proxy::start(&cluster);
    script::fill_wide_row(cluster.node(), &keyspace.name);
    for codec in Codec::ALL {
        let say = |address| {
            let mut talk = Talk::open(address, codec);
            script::say_huge_page(&mut talk, &keyspace.name);
            talk.heard
        };
        let through = say(proxy.address());
        talk::assert_same(&format!("{codec:?}"), &say(cluster.node()), &through);
    }
}
