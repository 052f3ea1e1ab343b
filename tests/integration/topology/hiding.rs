//! Ways to ask for real addresses that a proxy could miss.

use super::{ANSWERED, CODECS, ODD, assert_no_real_address, both_ways};
use crate::support::request::{self, Parameters};
use crate::support::{Codec, Proxy, RawClient, cluster, frame, opcode};

#[test]
fn no_form_of_select_shows_a_real_address() {
    let cluster = cluster();
    let proxy = Proxy::start(&cluster);
    for codec in CODECS {
        let mut client = RawClient::connect(proxy.address(), codec);
        for text in ANSWERED.iter().chain(ODD) {
            for reply in both_ways(&mut client, text) {
                // The client's own words may come back in an error.
                if reply.error().is_none() {
                    assert_no_real_address(&reply, text);
                }
            }
        }
    }
}

#[test]
fn answered_forms_have_the_metadata_of_cassandra() {
    let cluster = cluster();
    let proxy = Proxy::start(&cluster);
    for codec in CODECS {
        let mut direct = RawClient::connect(cluster.node(), codec);
        let mut through = RawClient::connect(proxy.address(), codec);
        for text in ANSWERED {
            let direct = both_ways(&mut direct, text);
            let through = both_ways(&mut through, text);
            for (direct, through) in direct.iter().zip(&through) {
                assert_eq!(direct.rows().metadata, through.rows().metadata, "{text}");
                assert_eq!(direct.flags & !1, through.flags & !1, "{text}");
            }
        }
    }
}

#[test]
fn unqualified_names_are_understood_after_use() {
    let cluster = cluster();
    let proxy = Proxy::start(&cluster);
    for codec in CODECS {
        for usage in ["USE system", "use \"system\";", "/* x */ USE System"] {
            let mut client = RawClient::connect(proxy.address(), codec);
            client.query(usage);
            for text in [
                "SELECT * FROM local",
                "SELECT JSON * FROM local",
                "SELECT * FROM peers_v2",
            ] {
                for reply in both_ways(&mut client, text) {
                    reply.rows();
                    assert_no_real_address(&reply, text);
                }
            }
        }
        // A prepared USE is one, too.
        let mut client = RawClient::connect(proxy.address(), codec);
        super::execute(&mut client, "USE system");
        let reply = client.query("SELECT * FROM local");
        assert_no_real_address(&reply, "after a prepared USE");
    }
}

#[test]
fn unqualified_names_are_understood_when_use_is_still_under_way() {
    let cluster = cluster();
    let proxy = Proxy::start(&cluster);
    for codec in CODECS {
        for _ in 0..10 {
            let mut client = RawClient::connect(proxy.address(), codec);
            let mut envelopes = Vec::new();
            for (stream, text) in ["USE system", "SELECT * FROM local", "SELECT * FROM peers"]
                .iter()
                .enumerate()
            {
                let body = request::query(codec, text);
                envelopes.extend(frame::request(
                    codec,
                    0,
                    stream as i16,
                    opcode::QUERY,
                    &body,
                ));
            }
            client.send_envelopes(&envelopes);
            for _ in 0..3 {
                // Cassandra may have none of it: it runs what comes together side by side.
                assert_no_real_address(&client.receive(), "with USE");
            }
        }
    }
}

#[test]
fn the_keyspace_of_a_request_is_understood() {
    let cluster = cluster();
    let proxy = Proxy::start(&cluster);
    let in_system = Parameters {
        keyspace: Some("system".to_owned()),
        ..Parameters::default()
    };
    // v3 and v4 have no such parameter, but Cassandra reads it there all the same.
    for codec in Codec::ALL {
        let mut client = RawClient::connect(proxy.address(), codec);
        for text in ["SELECT * FROM local", "SELECT * FROM peers"] {
            let body = request::query_with(codec, text, &in_system);
            let reply = client.ask(opcode::QUERY, &body);
            assert_no_real_address(&reply, text);
            if codec.version < 5 {
                continue;
            }
            reply.rows();
            let reply = client.ask(
                opcode::PREPARE,
                &request::prepare(codec, text, Some("system")),
            );
            let id = reply.prepared(codec);
            let reply = client.ask(opcode::EXECUTE, &request::execute(codec, &id, &in_system));
            reply.rows();
            assert_no_real_address(&reply, text);
        }
    }
}

#[test]
fn texts_that_are_not_utf_8_hide_nothing() {
    let cluster = cluster();
    let proxy = Proxy::start(&cluster);
    for codec in CODECS {
        let mut client = RawClient::connect(proxy.address(), codec);
        for text in [
            &b"SELECT * FROM system.local /* \xFF */"[..],
            b"SELECT * FROM system.peers -- \xC3\x28",
            b"SELECT rpc_address AS \"\xFE\" FROM system.local",
        ] {
            let body = request::query_bytes(codec, text, &Parameters::default());
            let reply = client.ask(opcode::QUERY, &body);
            assert_no_real_address(&reply, "a text that is not UTF-8");
        }
    }
}

#[test]
fn requests_with_payload_tracing_or_company_hide_nothing() {
    let cluster = cluster();
    let proxy = Proxy::start(&cluster);
    for codec in CODECS {
        let mut client = RawClient::connect(proxy.address(), codec);
        let query = request::query(codec, "SELECT * FROM system.local");
        client.send_flagged(frame::flag::TRACING, 3, opcode::QUERY, &query);
        let reply = client.receive();
        assert_eq!(reply.rows().rows.len(), 1);
        assert_no_real_address(&reply, "with tracing");
        if codec.version > 3 {
            let mut body = Vec::new();
            request::short(&mut body, 1);
            request::string(&mut body, "k");
            request::long_string(&mut body, b"v");
            body.extend_from_slice(&query);
            client.send_flagged(frame::flag::CUSTOM_PAYLOAD, 3, opcode::QUERY, &body);
            assert_no_real_address(&client.receive(), "with a payload");
        }
        // Many together, of which each is answered on its own stream.
        let envelopes: Vec<u8> = (0..50)
            .flat_map(|stream| frame::request(codec, 0, stream, opcode::QUERY, &query))
            .collect();
        client.send_envelopes(&envelopes);
        let mut streams: Vec<i16> = (0..50)
            .map(|_| {
                let reply = client.receive();
                assert_eq!(reply.rows().rows.len(), 1);
                assert_no_real_address(&reply, "among others");
                reply.stream
            })
            .collect();
        streams.sort_unstable();
        assert!(streams.iter().copied().eq(0..50));
    }
}
