//! A connection that cannot be served is told why on the stream it asked on; it is never just closed.

use std::net::SocketAddr;

use crate::support::client::Received;
use crate::support::{Codec, Proxy, RawClient, eventually, opcode, request, single_cluster};

const OVERLOADED: i32 = 0x1001;

fn assert_turned_away(address: SocketAddr, codec: Codec) -> String {
    let mut client = RawClient::open(address, codec);
    client.asking = "a connection that cannot be served".to_owned();
    client.send(123, opcode::STARTUP, &request::startup(None));
    let reply = client.receive();
    assert_eq!((reply.version, reply.stream), (0x80 | codec.version, 123));
    let (code, text) = reply.error().expect("an ERROR");
    assert_eq!(code, OVERLOADED, "{text}");
    assert_eq!(client.next(), Received::Closed);
    text
}

#[test]
fn without_upstream_clients_are_turned_away_with_an_error() {
    // Nobody listens on this address.
    let nowhere: SocketAddr = "127.0.99.99:9042".parse().expect("an address");
    let proxy = Proxy::builder(&[nowhere])
        .unready()
        .expecting("no control connection")
        .expecting("a client is turned away")
        .start();
    assert_eq!(proxy.status("/readyz"), Some(503));
    for codec in [Codec::V3, Codec::V4, Codec::V5] {
        let text = assert_turned_away(proxy.address(), codec);
        assert!(!text.contains("127.0.99.99"), "no address: {text}");
    }
}

#[test]
fn clients_beyond_the_limit_are_turned_away_until_there_is_room() {
    let cluster = single_cluster();
    let proxy = Proxy::builder(cluster.nodes())
        .set("limits.connections", "2")
        .start();
    let mut first = RawClient::connect(proxy.address(), Codec::V4);
    let second = RawClient::connect(proxy.address(), Codec::V5);
    for codec in [Codec::V3, Codec::V4, Codec::V5] {
        let text = assert_turned_away(proxy.address(), codec);
        assert!(text.contains("limits.connections"), "{text}");
    }
    assert_eq!(proxy.metric("narrows_proxy_refused_total"), 3);
    assert!(first.is_alive());
    drop(second);
    eventually("there is room", || {
        let mut client = RawClient::open(proxy.address(), Codec::V4);
        (client.startup().opcode == opcode::READY).then_some(())
    });
    assert!(first.is_alive());
}

#[test]
fn clients_that_say_nothing_are_closed() {
    let cluster = single_cluster();
    let proxy = Proxy::builder(cluster.nodes())
        .set("limits.handshake_timeout", "100ms")
        .start();
    let mut silent = RawClient::open(proxy.address(), Codec::V4);
    let mut hesitant = RawClient::open(proxy.address(), Codec::V4);
    hesitant.send_raw(&[4, 0, 0]);
    for client in [&mut silent, &mut hesitant] {
        assert_eq!(client.next(), Received::Closed);
    }
}
