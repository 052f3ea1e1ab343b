//! Segments of v5 that are not what they should be.

use super::{assert_refused, beside_a_healthy_client};
use crate::support::client::Received;
use crate::support::{Codec, Proxy, RawClient, frame, opcode, request, segment, single_cluster};

fn query(codec: Codec) -> Vec<u8> {
    let body = request::query(codec, "SELECT cluster_name FROM system.local");
    frame::raw(5, 0, 1, opcode::QUERY, &body)
}

#[test]
fn damaged_segments_end_the_connection_with_an_error() {
    let cluster = single_cluster();
    let proxy = Proxy::start(&cluster);
    beside_a_healthy_client(&proxy, || {
        for codec in [Codec::V5, Codec::V5_LZ4] {
            let lz4 = codec == Codec::V5_LZ4;
            let good = segment::encode(&query(codec), true, lz4);
            let header = if lz4 { 8 } else { 6 };
            // Every byte of the header and of its checksum, then the payload and its checksum.
            for at in (0..header).chain([header, good.len() - 5, good.len() - 4, good.len() - 1]) {
                let mut damaged = good.clone();
                damaged[at] ^= 0x10;
                let client = RawClient::connect(proxy.address(), codec);
                assert_refused(client, &damaged, &format!("byte {at} ({codec:?})"));
            }
        }
    });
}

#[test]
fn segments_that_do_not_hold_what_they_say_end_the_connection_with_an_error() {
    let cluster = single_cluster();
    let proxy = Proxy::start(&cluster);
    for codec in [Codec::V5, Codec::V5_LZ4] {
        let lz4 = codec == Codec::V5_LZ4;
        let envelope = query(codec);
        let refuse = |bytes: &[u8], what: &str| {
            assert_refused(RawClient::connect(proxy.address(), codec), bytes, what);
        };
        for end in [1, 8, 9, 10, envelope.len() - 1] {
            let short = segment::encode(&envelope[..end], true, lz4);
            refuse(&short, &format!("an envelope cut at {end}"));
        }
        let beyond = [&envelope[..], &envelope[..5]].concat();
        refuse(
            &segment::encode(&beyond, true, lz4),
            "half an envelope more",
        );
        let negative = frame::header(5, 0, 1, opcode::QUERY, u32::MAX);
        refuse(&segment::encode(&negative, true, lz4), "a negative length");
    }
    refuse_lz4_that_lies(&proxy);
}

/// The header's checksum is right; what it says is not.
fn refuse_lz4_that_lies(proxy: &Proxy) {
    for uncompressed in [1_usize, 131_071] {
        let payload = [0xF0, 1, 2, 3];
        let bits = payload.len() | uncompressed << 17 | 1 << 34;
        let mut wire = bits.to_le_bytes()[..5].to_vec();
        let crc = segment::crc24(&wire).to_le_bytes();
        wire.extend_from_slice(&crc[..3]);
        wire.extend_from_slice(&payload);
        wire.extend_from_slice(&segment::crc32(&payload).to_le_bytes());
        let client = RawClient::connect(proxy.address(), Codec::V5_LZ4);
        assert_refused(client, &wire, &format!("lz4 of {uncompressed} bytes"));
    }
}

#[test]
fn an_envelope_in_many_small_segments_is_understood_as_far_as_cassandra_does() {
    let cluster = single_cluster();
    let proxy = Proxy::start(&cluster);
    for codec in [Codec::V5, Codec::V5_LZ4] {
        // Cassandra wants the whole header in the first segment.
        for size in [1, 8, 9, 10, 30] {
            let wire: Vec<u8> = query(codec)
                .chunks(size)
                .flat_map(|part| segment::encode(part, false, codec == Codec::V5_LZ4))
                .collect();
            let ask = |address| {
                let mut client = RawClient::connect(address, codec);
                client.send_raw(&wire);
                match client.next() {
                    Received::Frame(frame) => Some(frame),
                    Received::Closed | Received::Broken => None,
                }
            };
            let direct = ask(cluster.node());
            let understood = direct.as_ref().is_some_and(|reply| reply.error().is_none());
            assert_eq!(understood, size >= 9, "{codec:?}, {size}");
            assert_eq!(direct, ask(proxy.address()), "{codec:?}, {size}");
        }
    }
}
