//! A node that dies under a session: nobody waits for what will not come.

use crate::support::client::Received;
use crate::support::relay::Relay;
use crate::support::{Codec, Proxy, RawClient, cluster, eventually, opcode, request};

const QUERY: &str = "SELECT keyspace_name FROM system_schema.keyspaces";

#[test]
fn clients_of_a_node_that_dies_are_closed_and_new_ones_are_served() {
    let cluster = cluster();
    for codec in [Codec::V4, Codec::V5_LZ4] {
        let node = Relay::gated(cluster.node());
        let proxy = Proxy::builder(&[node.address])
            .expecting("no control connection")
            .start();
        // One for each node, as they are spread.
        let mut clients = [(); 3].map(|()| RawClient::connect(proxy.address(), codec));
        node.close_gate();
        for client in &mut clients {
            client.send(5, opcode::QUERY, &request::query(codec, QUERY));
        }
        node.cut();
        let lost = clients
            .iter_mut()
            .map(RawClient::next)
            .filter(|received| *received == Received::Closed)
            .count();
        assert_eq!(lost, 1, "{codec:?}");
        node.open_gate();
        for _ in 0..4 {
            RawClient::connect(proxy.address(), codec).query(QUERY);
        }
        eventually("the control connection is back", || {
            (proxy.status("/readyz") == Some(200)).then_some(())
        });
    }
}

#[test]
fn a_client_that_goes_takes_its_upstream_connection_along() {
    let cluster = cluster();
    let node = Relay::gated(cluster.node());
    let proxy = Proxy::builder(&[node.address]).start();
    node.close_gate();
    let mut clients: Vec<RawClient> = Vec::new();
    for _ in 0..20 {
        let mut client = RawClient::open(proxy.address(), Codec::V4);
        client.send(1, opcode::STARTUP, &request::startup(None));
        clients.push(client);
    }
    let connected = |count: u64| {
        eventually("connections are counted", || {
            (proxy.metric("narrows_proxy_connections") == count).then_some(())
        });
    };
    connected(20);
    drop(clients);
    connected(0);
    node.open_gate();
    RawClient::connect(proxy.address(), Codec::V5).query(QUERY);
}
