//! Paging states of ours: what is written can be read, nothing else is taken for one, and old ones stay readable.

use super::*;
use crate::protocol::Version;
use crate::rewrite::native::{NativeState, UNLIMITED};

fn states() -> Vec<PagingState> {
    let marks: [&[Option<&[u8]>]; 3] = [
        &[],
        &[Some(b"2026")],
        &[Some(b""), None, Some(&[0xFF; 300])],
    ];
    let mut states = Vec::new();
    for (index, mark) in marks.iter().enumerate() {
        for limit in [None, Some(0), Some(u32::MAX)] {
            states.push(PagingState {
                generation: [None, Some(-1), Some(i32::MAX)][index],
                bucket: [0, 7, u32::MAX][index],
                key: [None, Some((1, vec![7])), Some((u32::MAX, vec![0; 300]))][index].clone(),
                clustering_columns: [0, 1, 3][index],
                mark: Mark::from_values(mark),
                limit_left: limit,
                partition_limit_left: limit.map(|limit| limit / 2).filter(|_| index != 1),
                fingerprint: 0xFEDC_BA98_7654_3210 >> index,
                table: Some(index as u64),
                is_extended: false,
            });
        }
    }
    states
}

#[test]
fn reads_what_it_writes() {
    for state in states() {
        assert_eq!(PagingState::decode(&state.encode()), Ok(Some(state)));
    }
}

#[test]
fn no_changed_byte_gives_another_state() {
    for state in states() {
        let encoded = state.encode();
        for at in 0..encoded.len() {
            for change in 1..=255 {
                let mut changed = encoded.clone();
                changed[at] ^= change;
                let decoded = PagingState::decode(&changed);
                assert!(matches!(decoded, Err(_) | Ok(None)), "{at} {decoded:?}");
                let ours = at >= PREFIX.len();
                assert_eq!(decoded.is_err(), ours, "{at}");
            }
        }
    }
}

#[test]
fn no_truncated_or_extended_state_is_one() {
    for state in states() {
        let encoded = state.encode();
        for end in 0..encoded.len() {
            let decoded = PagingState::decode(&encoded[..end]);
            assert!(matches!(decoded, Err(_) | Ok(None)), "{end} {decoded:?}");
        }
        for more in [&[0][..], &[0; 8], &encoded] {
            let longer = [&encoded, more].concat();
            assert_eq!(PagingState::decode(&longer), Err(StateError::Damaged));
        }
    }
}

#[test]
fn a_later_format_is_named() {
    let mut encoded = states()[0].encode();
    for later in [FORMAT + 1, u8::MAX] {
        encoded[PREFIX.len()] = later;
        assert_eq!(PagingState::decode(&encoded), Err(StateError::Newer(later)));
    }
    encoded[PREFIX.len()] = 0;
    assert_eq!(PagingState::decode(&encoded), Err(StateError::Damaged));
}

/// With another checksum, as whoever changed the content would have written it.
fn sealed(content: &[u8]) -> Vec<u8> {
    [content, &checksum(content)].concat()
}

#[test]
fn fields_of_a_later_version_are_noticed() {
    for state in states() {
        let encoded = state.encode();
        let content = &encoded[..encoded.len() - CHECKSUM_BYTES];
        let extended = sealed(&[content, &[0]].concat());
        let expected = PagingState {
            is_extended: true,
            ..state
        };
        assert_eq!(PagingState::decode(&extended), Ok(Some(expected)));
        let mut reserved = content.to_vec();
        reserved[PREFIX.len() + 1] |= 0x20;
        let decoded = PagingState::decode(&sealed(&reserved));
        assert_eq!(decoded, Err(StateError::Damaged));
    }
}

/// The states in each golden file.
fn golden() -> [PagingState; 3] {
    let on_a_split = PagingState {
        generation: Some(7),
        bucket: 3,
        key: None,
        clustering_columns: 2,
        mark: Mark::from_values(&[Some([0, 0, 0, 5]), Some([0, 0, 0, 9])]),
        limit_left: None,
        partition_limit_left: None,
        fingerprint: 0x0123_4567_89AB_CDEF,
        table: Some(0xFEDC_BA98_7654_3210),
        is_extended: false,
    };
    let at_the_original = PagingState {
        generation: None,
        bucket: 0,
        key: Some((4, vec![0, 0, 0, 42])),
        clustering_columns: 1,
        mark: Mark::from_values(&[Some(b"2026-11-17")]),
        limit_left: Some(93),
        partition_limit_left: Some(7),
        ..on_a_split.clone()
    };
    let before_a_key = PagingState {
        key: Some((5, vec![0, 0, 0, 43])),
        mark: None,
        limit_left: None,
        partition_limit_left: Some(10),
        ..at_the_original.clone()
    };
    [on_a_split, at_the_original, before_a_key]
}

fn unhex(line: &str) -> Vec<u8> {
    let digits = line.as_bytes().chunks(2);
    let byte = |pair| u8::from_str_radix(std::str::from_utf8(pair).expect("ASCII"), 16);
    digits.map(|pair| byte(pair).expect("hex")).collect()
}

#[test]
fn states_of_every_format_are_readable_for_ever() {
    let first = include_str!("golden/format_1.hex");
    let second = include_str!("golden/format_2.hex");
    for (format, file) in [(1, first), (2, second)] {
        assert_eq!(file.lines().count(), golden().len(), "{format}");
        for (line, state) in file.lines().zip(golden()) {
            let expected = PagingState {
                table: state.table.filter(|_| format > 1),
                ..state
            };
            assert_eq!(PagingState::decode(&unhex(line)), Ok(Some(expected)));
        }
    }
    let written: Vec<_> = golden().iter().map(PagingState::encode).collect();
    let stored: Vec<_> = second.lines().map(unhex).collect();
    assert_eq!(written, stored);
}

#[test]
fn ours_are_not_native_and_native_ones_not_ours() {
    for state in states() {
        assert_eq!(NativeState::read(&state.encode()), None);
    }
    for length in [0, 1, 127, 128, 254, 255, 16_383, 16_384, 65_534, 65_535] {
        let native = NativeState {
            key: PREFIX.repeat(length / PREFIX.len() + 1)[..length].to_vec(),
            mark: Mark::from_values(&[Some(PREFIX)]),
            remaining: UNLIMITED,
            remaining_in_partition: UNLIMITED,
        };
        for version in [Version::V3, Version::V4, Version::V5] {
            let bytes = native.encode(version, 1).expect("within the form");
            assert_eq!(
                PagingState::decode(&bytes),
                Ok(None),
                "{version:?} {length}"
            );
        }
    }
}

#[test]
fn noise_is_no_state() {
    let mut seed = 0x2545_F491_4F6C_DD1D_u64;
    for round in 0..5000 {
        let noise: Vec<u8> = (0..round % 90)
            .map(|_| {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (seed >> 56) as u8
            })
            .collect();
        assert_eq!(PagingState::decode(&noise), Ok(None));
        let prefixed = [PREFIX, &noise].concat();
        assert!(PagingState::decode(&prefixed).is_err(), "{round}");
    }
}
