//! What is not CQL, or lies about its length.

use super::{assert_refused, beside_a_healthy_client, send_and_finish};
use crate::support::frame::{self, Compression, flag};
use crate::support::random::Random;
use crate::support::request::{self, Item, Parameters};
use crate::support::{Codec, Proxy, RawClient, opcode, single_cluster};

#[test]
fn what_is_not_cql_ends_with_an_error_frame_or_a_clean_close() {
    let cluster = single_cluster();
    let proxy = Proxy::start(&cluster);
    let refused: &[(&str, &[u8])] = &[
        ("HTTP", b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n"),
        (
            "TLS",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 and more of it",
        ),
        ("SSH", b"SSH-2.0-OpenSSH_9.2\r\n"),
        ("zeros", &[0; 4096]),
        ("ones", &[0xFF; 4096]),
    ];
    beside_a_healthy_client(&proxy, || {
        for (what, bytes) in refused {
            assert_eq!(send_and_finish(proxy.address(), bytes, what), 1, "{what}");
        }
        let mut random = Random::new(7);
        for count in [1, 8, 9, 10, 1000, 300_000] {
            let noise = random.bytes(count);
            send_and_finish(proxy.address(), &noise, "noise");
        }
    });
}

#[test]
fn frames_cut_short_are_closed_cleanly() {
    let cluster = single_cluster();
    let proxy = Proxy::start(&cluster);
    let startup = frame::raw(4, 0, 1, opcode::STARTUP, &request::startup(None));
    for end in 0..startup.len() {
        let errors = send_and_finish(proxy.address(), &startup[..end], "a cut STARTUP");
        assert_eq!(errors, 0, "cut at {end}");
    }
    let query = request::query(Codec::V4, "SELECT * FROM system_schema.keyspaces");
    let query = frame::raw(4, 0, 1, opcode::QUERY, &query);
    for end in (1..query.len()).step_by(7) {
        let mut client = RawClient::connect(proxy.address(), Codec::V4);
        client.send_raw(&query[..end]);
        client.finish();
        super::assert_ends_cleanly(&mut client, "a cut QUERY");
    }
}

#[test]
fn lengths_that_cannot_be_true_are_refused() {
    let cluster = single_cluster();
    let proxy = Proxy::start(&cluster);
    let address = proxy.address();
    beside_a_healthy_client(&proxy, || {
        for length in [-1, -2, i32::MIN] {
            let first = frame::header(4, 0, 1, opcode::STARTUP, length as u32);
            assert_refused(
                RawClient::open(address, Codec::V4),
                &first,
                "a negative length",
            );
            let later = frame::header(4, 0, 1, opcode::QUERY, length as u32);
            assert_refused(
                RawClient::connect(address, Codec::V4),
                &later,
                "a negative length later",
            );
        }
        // What must be read whole cannot be as long as it says.
        let huge = i32::MAX as u32;
        let startup = frame::header(4, 0, 1, opcode::STARTUP, huge);
        assert_refused(
            RawClient::open(address, Codec::V4),
            &startup,
            "a huge STARTUP",
        );
        let mut execute = frame::header(4, 0, 1, opcode::EXECUTE, huge);
        request::short_bytes(&mut execute, b"0123456789abcdef");
        assert_refused(
            RawClient::connect(address, Codec::V4),
            &execute,
            "a huge EXECUTE",
        );
        let mut query = frame::header(4, 0, 1, opcode::QUERY, huge);
        request::int(&mut query, i32::MAX - 10);
        assert_refused(
            RawClient::connect(address, Codec::V4),
            &query,
            "a huge QUERY",
        );
    });
}

#[test]
fn compression_that_lies_is_refused() {
    let cluster = single_cluster();
    let proxy = Proxy::start(&cluster);
    let refuse = |compression, body: &[u8], what| {
        let client = RawClient::connect(proxy.address(), Codec::new(4, compression));
        let bytes = frame::raw(4, flag::COMPRESSED, 1, opcode::QUERY, body);
        assert_refused(client, &bytes, what);
    };
    beside_a_healthy_client(&proxy, || {
        refuse(
            Compression::None,
            b"anything",
            "compressed without compression",
        );
        let bomb = [&[0x7F, 0xFF, 0xFF, 0xFF, 0x1F][..], &[0; 1000]].concat();
        refuse(Compression::Lz4, &bomb, "lz4 of 2 GiB");
        refuse(
            Compression::Lz4,
            &[0x80, 0, 0, 0, 0],
            "lz4 of a negative length",
        );
        refuse(
            Compression::Lz4,
            &[0, 0, 0, 100, 0xF0, 1, 2],
            "lz4 cut short",
        );
        refuse(Compression::Lz4, &[], "lz4 of nothing");
        let bomb = [&[0xFF, 0xFF, 0xFF, 0xFF, 0x0F][..], &[0; 1000]].concat();
        refuse(Compression::Snappy, &bomb, "snappy of 4 GiB");
        refuse(Compression::Snappy, &[200, 1, 2, 3], "snappy cut short");
    });
}

#[test]
fn the_largest_batch_is_cassandras_to_judge() {
    let cluster = single_cluster();
    let proxy = Proxy::start(&cluster);
    let items: Vec<Item<'_>> = (0..65_535).map(|_| Item::Text("", Vec::new())).collect();
    for codec in [Codec::V4, Codec::V5, Codec::V5_LZ4] {
        let body = request::batch(codec, request::UNLOGGED, &items);
        let ask = |address| RawClient::connect(address, codec).ask(opcode::BATCH, &body);
        assert_eq!(ask(cluster.node()), ask(proxy.address()), "{codec:?}");
    }
    let known = [Item::Prepared(b"unknown", Vec::new())];
    let body = request::batch(Codec::V4, request::UNLOGGED, &known);
    let mut client = RawClient::connect(proxy.address(), Codec::V4);
    assert_eq!(client.ask(opcode::BATCH, &body).unprepared_id(), b"unknown");
}

#[test]
fn negative_stream_ids_are_refused_and_the_connection_goes_on() {
    let cluster = single_cluster();
    let proxy = Proxy::start(&cluster);
    for codec in [Codec::V4_LZ4, Codec::V5] {
        let mut client = RawClient::connect(proxy.address(), codec);
        let body = request::query_with(codec, "SELECT * FROM system.local", &Parameters::default());
        for stream in [-1, -2, i16::MIN] {
            client.send(stream, opcode::QUERY, &body);
            let reply = client.receive();
            assert_eq!(reply.error().expect("an ERROR").0, 0x000A);
            assert_eq!(reply.stream, stream);
        }
        assert!(client.is_alive());
    }
}
