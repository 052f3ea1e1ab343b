//! SIGTERM: what is under way is answered, what is idle is closed, and the exit code is 0.

use std::net::TcpStream;

use crate::support::client::Received;
use crate::support::cluster::old_cluster;
use crate::support::relay::Relay;
use crate::support::{Cluster, Codec, Proxy, RawClient, eventually, opcode, request};

const QUERY: &str = "SELECT keyspace_name FROM system_schema.keyspaces";

/// A proxy whose only node is the relay, so that its gate holds back every reply.
fn start(cluster: &Cluster, drain_timeout: &str) -> (Relay, Proxy) {
    let relay = Relay::gated(cluster.node());
    let proxy = Proxy::builder(&[relay.address])
        .set("limits.drain_timeout", drain_timeout)
        .expecting("limits.drain_timeout is over")
        .start();
    (relay, proxy)
}

/// A client whose request has gone upstream and whose reply is held back.
fn waiting_client(proxy: &Proxy, relay: &Relay, codec: Codec) -> RawClient {
    let mut client = RawClient::connect(proxy.address(), codec);
    client.query(QUERY);
    relay.close_gate();
    let forwarded = || proxy.metric("narrows_proxy_requests_total{decision=\"forwarded\"}");
    let before = forwarded();
    client.send(9, opcode::QUERY, &request::query(codec, QUERY));
    eventually("the request is forwarded", || {
        (forwarded() > before).then_some(())
    });
    client
}

#[test]
fn sigterm_answers_what_is_under_way_and_closes_what_is_idle() {
    let cluster = old_cluster();
    for codec in [Codec::V4_LZ4, Codec::V5] {
        let (relay, mut proxy) = start(&cluster, "60s");
        let mut idle = RawClient::connect(proxy.address(), codec);
        let mut waiting = waiting_client(&proxy, &relay, codec);
        proxy.terminate();
        assert_eq!(idle.next(), Received::Closed);
        eventually("nobody new is let in", || {
            TcpStream::connect(proxy.address()).err()
        });
        assert_eq!(proxy.status("/readyz"), Some(503));
        relay.open_gate();
        let reply = waiting.receive();
        assert_eq!((reply.stream, reply.opcode), (9, opcode::RESULT));
        assert_eq!(waiting.next(), Received::Closed);
        assert_eq!(proxy.wait_for_exit().code(), Some(0));
        assert!(!proxy.log().contains("WARN"), "it was not cut off");
    }
}

#[test]
fn sigterm_does_not_wait_longer_than_it_may() {
    let cluster = old_cluster();
    let (relay, mut proxy) = start(&cluster, "100ms");
    let mut waiting = waiting_client(&proxy, &relay, Codec::V5);
    proxy.terminate();
    assert_eq!(proxy.wait_for_exit().code(), Some(0));
    assert!(matches!(
        waiting.next(),
        Received::Closed | Received::Broken
    ));
    assert!(proxy.log().contains("limits.drain_timeout is over"));
    relay.open_gate();
}
