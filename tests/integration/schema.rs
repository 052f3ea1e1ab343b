//! Schema changes through a proxy that shows one node: drivers do not wait for agreement then, so the proxy does.

use crate::support::{
    Codec, Frame, Keyspace, Proxy, RawClient, cluster, keyspace, opcode, request,
};

#[test]
fn a_new_table_is_usable_on_every_node_at_once() {
    let cluster = cluster();
    let keyspace = Keyspace::create(&cluster, &[]);
    let proxy = Proxy::start(&cluster);
    let mut nodes: Vec<RawClient> = cluster
        .nodes()
        .iter()
        .map(|node| RawClient::connect(*node, Codec::V4))
        .collect();
    for (number, codec) in [Codec::V3, Codec::V4_LZ4, Codec::V5, Codec::V5_LZ4]
        .into_iter()
        .enumerate()
    {
        let table = format!("{}.t{number}", keyspace.name);
        let mut client = RawClient::connect(proxy.address(), codec);
        keyspace::alone(cluster.node(), || {
            client.query(&format!("CREATE TABLE {table} (k int PRIMARY KEY)"));
            for node in &mut nodes {
                node.query(&format!("INSERT INTO {table} (k) VALUES (1)"));
            }
        });
    }
    assert!(proxy.metric("narrows_proxy_held_schema_changes_total") >= 4);
}

#[test]
fn schema_changes_are_answered_as_by_cassandra() {
    let cluster = cluster();
    let keyspace = Keyspace::create(&cluster, &[]);
    let proxy = Proxy::start(&cluster);
    for codec in [Codec::V3, Codec::V4_LZ4, Codec::V5] {
        let say = |address| -> Vec<Frame> {
            let mut client = RawClient::connect(address, codec);
            client.query(&format!("USE {}", keyspace.name));
            let statements = [
                "CREATE TABLE t (k int PRIMARY KEY)",
                "CREATE TABLE IF NOT EXISTS t (k int PRIMARY KEY)",
                "CREATE TABLE t (k int PRIMARY KEY)",
                "ALTER TABLE t ADD v int",
                "CREATE INDEX ON t (v)",
                "CREATE TYPE u (a int)",
                "DROP TYPE u",
                "DROP TABLE t",
                "DROP TABLE IF EXISTS t",
                "CREATE FUNCTION f (a int) RETURNS NULL ON NULL INPUT RETURNS int LANGUAGE java AS 'return a;'",
            ];
            let mut ask = |text: &&str| {
                let mut reply = client.ask(opcode::QUERY, &request::query(codec, text));
                reply.flags &= !1;
                reply
            };
            statements.iter().map(&mut ask).collect()
        };
        keyspace::alone(cluster.node(), || {
            let direct = say(cluster.node());
            keyspace::settle(&mut RawClient::connect(cluster.node(), Codec::V4));
            assert_eq!(direct, say(proxy.address()), "{codec:?}");
        });
    }
}
