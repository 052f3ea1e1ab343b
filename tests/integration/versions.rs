//! Version negotiation: drivers that begin with a version of another product or of the future must find ours.

use crate::support::client::Received;
use crate::support::frame::{self, Compression, flag};
use crate::support::{Codec, Frame, Proxy, RawClient, opcode, request, single_cluster};

/// The first bytes of a driver that speaks this version.
fn greet(address: std::net::SocketAddr, version: u8, flags: u8) -> (Frame, Received) {
    let mut client = RawClient::open(address, Codec::V5);
    let options = frame::raw(version, flags, 5, opcode::OPTIONS, &[]);
    client.asking = format!("version {version}, flags {flags}");
    client.send_raw(&options);
    let reply = client.receive();
    client.finish();
    (reply, client.next())
}

#[test]
fn versions_that_are_not_spoken_are_refused_as_cassandra_does() {
    let cluster = single_cluster();
    let proxy = Proxy::start(&cluster);
    for version in [0x42, 0x41, 7, 127, 0] {
        let (direct, _) = greet(cluster.node(), version, 0);
        let (through, then) = greet(proxy.address(), version, 0);
        let (code, text) = direct.error().expect("an ERROR");
        // Cassandra also lists its beta, which the proxy does not speak.
        let expected = (code, text.replace(", 6/v6-beta", ""));
        assert_eq!(through.error(), Some(expected), "{version}");
        // 5.0 answers on the request's stream, 4.1 on stream 0, which is the one that every driver understands.
        assert_eq!(
            (through.version, through.stream),
            (direct.version, 0),
            "{version}"
        );
        assert_eq!(then, Received::Closed, "{version}");
    }
}

#[test]
fn the_beta_and_the_oldest_versions_are_refused_with_the_list() {
    let cluster = single_cluster();
    let proxy = Proxy::start(&cluster);
    // Cassandra would take the beta, and answer v1 and v2 with headers of theirs that no driver of today reads.
    for (version, flags) in [(6, 0), (6, flag::BETA), (2, 0), (1, 0)] {
        let (reply, then) = greet(proxy.address(), version, flags);
        let (code, text) = reply.error().expect("an ERROR");
        assert_eq!(code, 0x000A, "{version}");
        let list = "supported versions are (3/v3, 4/v4, 5/v5)";
        assert_eq!(
            text,
            format!("Invalid or unsupported protocol version ({version}); {list}")
        );
        assert_eq!((reply.version, reply.stream), (0x85, 0), "{version}");
        assert_eq!(then, Received::Closed, "{version}");
    }
}

#[test]
fn a_response_is_no_request() {
    let cluster = single_cluster();
    let proxy = Proxy::start(&cluster);
    for version in [0x84, 0x85, 0xFF] {
        let (reply, then) = greet(proxy.address(), version, 0);
        assert_eq!(reply.error().expect("an ERROR").0, 0x000A, "{version}");
        assert_eq!((reply.version, reply.stream), (0x85, 0), "{version}");
        assert_eq!(then, Received::Closed, "{version}");
    }
}

#[test]
fn snappy_in_v5_is_refused_by_cassandra_itself() {
    let cluster = single_cluster();
    let proxy = Proxy::start(&cluster);
    let codec = Codec::new(5, Compression::Snappy);
    let ask = |address| RawClient::open(address, codec).startup();
    let (direct, through) = (ask(cluster.node()), ask(proxy.address()));
    assert_eq!(direct, through);
    assert_eq!(through.error().expect("an ERROR").0, 0x000A);
}

#[test]
fn supported_is_that_of_cassandra_without_the_beta() {
    let cluster = single_cluster();
    let proxy = Proxy::start(&cluster);
    for codec in Codec::ALL {
        let ask = |address, started: bool| {
            let mut client = match started {
                true => RawClient::connect(address, codec),
                false => RawClient::open(address, codec),
            };
            options_of(&client.ask(opcode::OPTIONS, &[]))
        };
        for started in [false, true] {
            let mut direct = ask(cluster.node(), started);
            for (key, values) in &mut direct {
                values.retain(|value| key != "PROTOCOL_VERSIONS" || value != "6/v6-beta");
            }
            assert_eq!(ask(proxy.address(), started), direct, "{codec:?}");
        }
    }
}

fn options_of(frame: &Frame) -> Vec<(String, Vec<String>)> {
    assert_eq!(frame.opcode, opcode::SUPPORTED, "{:?}", frame.error());
    let mut message = frame.message();
    let mut options: Vec<(String, Vec<String>)> = (0..message.short())
        .map(|_| {
            let key = message.string();
            let count = message.short();
            (key, (0..count).map(|_| message.string()).collect())
        })
        .collect();
    options.sort();
    options
}

#[test]
fn another_version_in_the_middle_of_a_connection_ends_it_with_an_error() {
    let cluster = single_cluster();
    let proxy = Proxy::start(&cluster);
    let mut client = RawClient::connect(proxy.address(), Codec::V4);
    let query = request::query(Codec::V4, "SELECT * FROM system.local");
    client.send_raw(&frame::raw(0x42, 0, 3, opcode::QUERY, &query));
    assert_eq!(client.receive().error().expect("an ERROR").0, 0x000A);
    client.finish();
    assert_eq!(client.next(), Received::Closed);
}
