//! Tokens as a real Cassandra gave them, and replicas of small rings.

use super::*;
use crate::upstream::cluster::Node;

fn address(last: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, last], 9042))
}

fn node(last: u8, data_center: &str, rack: &str, tokens: &[i64]) -> Node {
    Node {
        host_id: [last; 16],
        address: address(last),
        advertised: address(last).ip(),
        data_center: data_center.to_owned(),
        rack: rack.to_owned(),
        release_version: "5.0.6".to_owned(),
        tokens: tokens.to_vec(),
        up: true,
    }
}

fn ring(nodes: Vec<Node>) -> Ring {
    Ring::new(&Cluster {
        name: "c".to_owned(),
        data_center: "west".to_owned(),
        nodes,
    })
}

fn replication(class: &str, options: &[(&str, &str)]) -> Vec<(String, String)> {
    let class = ("class", class);
    let all = std::iter::once(&class).chain(options);
    all.map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

/// The last bytes of the replicas' addresses. The key's token is 5048724184180415669.
fn of_key(ring: &Ring, class: &str, options: &[(&str, &str)]) -> Vec<u8> {
    let replicas = ring.replicas(&replication(class, options), &[0]);
    let last = |address: &SocketAddr| match address.ip() {
        std::net::IpAddr::V4(ip) => ip.octets()[3],
        std::net::IpAddr::V6(_) => panic!("not of these tests"),
    };
    replicas.iter().map(last).collect()
}

#[test]
fn tokens_are_those_of_cassandra() {
    let ascending = |length: u8| (0..length).collect::<Vec<u8>>();
    let descending = |length: u8| {
        (0..length)
            .map(|at| 255_u8.wrapping_sub(at.wrapping_mul(7)))
            .collect::<Vec<u8>>()
    };
    let seen = [
        (1, 5048724184180415669, -4442228696663692417),
        (2, 8985795910368437836, -2062774559483033959),
        (7, -4806350670375744152, 1285812995793384022),
        (8, 5163343703268274120, 4283474080575724166),
        (9, -309399207242814158, 3372097326892303166),
        (15, 5125964547706398185, -1001731882189536736),
        (16, 4920504430128807728, 9142094630292602337),
        (17, 6662781046685680142, -1796486441991153638),
        (24, 8308723920961462238, 6393901217995246393),
        (31, 377690909827715220, 801263828349082446),
        (32, -4148501202978516977, -6041126383646859770),
        (33, 9025539228862924306, 6992460642269699522),
        (50, -2245817054781354619, -6681000481728609790),
    ];
    for (length, up, down) in seen {
        assert_eq!(token(&ascending(length)), up, "{length}");
        assert_eq!(token(&descending(length)), down, "{length}");
    }
    assert_eq!(token(&[]), i64::MIN);
}

#[test]
fn a_range_ends_with_its_token_and_the_ring_closes() {
    let of = token(&[0]);
    let cases = [
        ([of - 1, of, of + 1], 2),
        ([of - 2, of - 1, of + 1], 3),
        // Nothing follows: the first of all is next.
        ([of - 3, of - 2, of - 1], 1),
    ];
    for (tokens, first) in cases {
        let nodes = tokens.iter().zip(1..);
        let ring = ring(
            nodes
                .map(|(t, last)| node(last, "west", "r", &[*t]))
                .collect(),
        );
        let one = of_key(&ring, SIMPLE, &[(REPLICATION_FACTOR, "1")]);
        assert_eq!(one, [first], "{tokens:?}");
    }
}

#[test]
fn simple_takes_the_next_nodes_and_shows_those_of_our_data_center() {
    let nodes = vec![
        node(1, "west", "r", &[i64::MAX - 5, i64::MAX - 4]),
        node(2, "east", "r", &[i64::MAX - 3]),
        node(3, "west", "r", &[i64::MAX - 2]),
        node(4, "west", "r", &[]),
    ];
    let ring = ring(nodes);
    let cases: [(&str, &[u8]); 6] = [
        ("1", &[1]),
        ("2", &[1]),
        ("3", &[1, 3]),
        ("9", &[1, 3]),
        ("0", &[]),
        ("many", &[]),
    ];
    for (copies, expected) in cases {
        let found = of_key(&ring, SIMPLE, &[(REPLICATION_FACTOR, copies)]);
        assert_eq!(found, expected, "{copies}");
    }
}

#[test]
fn network_topology_prefers_racks_it_has_not_met() {
    let end = i64::MAX;
    let nodes = vec![
        node(1, "west", "a", &[end - 9]),
        node(2, "west", "a", &[end - 8]),
        node(3, "east", "b", &[end - 7]),
        node(4, "west", "b", &[end - 6]),
        node(5, "west", "a", &[end - 5]),
        node(6, "west", "b", &[end - 4]),
    ];
    let ring = ring(nodes);
    let cases: [(&str, &[u8]); 7] = [
        ("1", &[1]),
        // Node 2 shares a rack with node 1, and there is another rack.
        ("2", &[1, 4]),
        // One more than there are racks: the first that repeats one is taken.
        ("3", &[1, 2, 4]),
        ("4", &[1, 2, 4, 5]),
        ("3/1", &[1, 2, 4]),
        ("5", &[1, 2, 4, 5, 6]),
        ("50", &[1, 2, 4, 5, 6]),
    ];
    for (copies, expected) in cases {
        let options = [("east", "1"), ("west", copies)];
        let full_name = "org.apache.cassandra.locator.NetworkTopologyStrategy";
        for class in [NETWORK_TOPOLOGY, full_name] {
            assert_eq!(of_key(&ring, class, &options), expected, "{copies}");
        }
    }
    assert!(of_key(&ring, NETWORK_TOPOLOGY, &[("east", "1")]).is_empty());
}

#[test]
fn what_is_not_known_gives_no_nodes() {
    let known = ring(vec![node(1, "west", "r", &[7])]);
    let one = [(REPLICATION_FACTOR, "1")];
    assert_eq!(of_key(&known, SIMPLE, &one), [1]);
    for class in ["EverywhereStrategy", "LocalStrategy", ""] {
        assert!(of_key(&known, class, &one).is_empty(), "{class}");
    }
    assert!(known.replicas(&[], &[0]).is_empty());
    // Under another partitioner nodes have no tokens.
    let unknown = ring(vec![node(1, "west", "r", &[])]);
    assert!(of_key(&unknown, SIMPLE, &one).is_empty());
    assert!(of_key(&unknown, NETWORK_TOPOLOGY, &[("west", "1")]).is_empty());
}
