//! States as Cassandra 4.1 and 5.0 wrote them, and everything that is not one.

use super::*;

fn hex(text: &str) -> Vec<u8> {
    let digits = |at| u8::from_str_radix(&text[at..at + 2], 16).expect("hex");
    (0..text.len()).step_by(2).map(digits).collect()
}

fn values(values: &[&[u8]]) -> Vec<Option<Vec<u8>>> {
    values.iter().map(|value| Some(value.to_vec())).collect()
}

/// The same place in both forms, as seen on the wire for `(c int, d text, e int)`. In the older one the server names the
/// row's first column, here `v`; ours name none.
#[test]
fn composes_what_cassandra_writes() {
    let (zero, nine, seven) = ([0, 0, 0, 0], [0, 0, 0, 9], [0, 0, 0, 7]);
    let state = |key: &[u8], mark: &[&[u8]], remaining, in_partition| NativeState {
        key: key.to_vec(),
        mark: Mark::from_values(&values(mark)),
        remaining,
        remaining_in_partition: in_partition,
    };
    let cases = [
        (
            state(&[], &[&zero, b"b", &seven], 0x7FFF_FFFE, 0x7FFF_FFFE),
            "000d00040000000001620400000007f07ffffffef07ffffffe",
            "00000015000400000000000001620000040000000700000000 7ffffffe7ffffffe",
        ),
        (
            state(&[0, 0, 0, 1], &[&nine, b"", &seven], 7, 0x7FFF_FFFE),
            "04000000010b040400000009040000000707f07ffffffe",
            "00040000000100140004000000090000000000040000000700000000 000000077ffffffe",
        ),
        (
            state(&[0, 0, 0, 1], &[], UNLIMITED, 3),
            "040000000100f07fffffff03",
            "0004000000010000 7fffffff00000003",
        ),
    ];
    for (state, modern, legacy) in cases {
        let modern = hex(modern);
        let legacy = hex(&legacy.replace(' ', ""));
        assert_eq!(state.encode(Version::V5, 3), Some(modern.clone()));
        assert_eq!(state.encode(Version::V4, 3), Some(modern.clone()));
        assert_eq!(state.encode(Version::V3, 3), Some(legacy));
        assert_eq!(NativeState::read(&modern), Some(state));
    }
}

#[test]
fn truncated_and_extended_states_are_none() {
    let state = hex("04000000010d00040000000001620400000007f07ffffffef07ffffffe");
    for end in 0..state.len() {
        assert_eq!(NativeState::read(&state[..end]), None, "{end}");
    }
    let longer = [&state[..], &[0]].concat();
    assert_eq!(NativeState::read(&longer), None);
}

#[test]
fn counts_beyond_an_int_are_none() {
    assert_eq!(NativeState::read(&hex("0000f08000000000")), None);
    assert_eq!(NativeState::read(&hex("000000f080000000")), None);
    let mut state = NativeState::read(&hex("0000f07fffffff00")).expect("a state");
    state.remaining = -1;
    assert_eq!(state.encode(Version::V4, 0), None);
}

#[test]
fn marks_hold_any_number_of_values() {
    for count in [1, 2, 31, 32, 33, 64, 65, 100] {
        let value = |index: usize| match index % 5 {
            1 => None,
            3 => Some(Vec::new()),
            _ => Some(vec![7; index * 3 + 1]),
        };
        let values: Vec<_> = (0..count).map(value).collect();
        let mark = Mark::from_values(&values).expect("clustering columns");
        assert_eq!(mark.values(count), Some(values), "{count}");
        assert_eq!(mark.values(count + 1), None, "{count}");
        assert_eq!(mark.values(count - 1), None, "{count}");
    }
}

#[test]
fn a_value_cannot_be_empty_and_null() {
    let mark = Mark::from_bytes(&[0b11]).expect("bytes");
    assert_eq!(mark.values(1), None);
    assert_eq!(Mark::from_bytes(&[]), None);
    assert_eq!(Mark::from_values::<Vec<u8>>(&[]), None);
}

#[test]
fn what_the_older_form_cannot_say_is_none() {
    let state = |key: usize, value: Option<usize>| NativeState {
        key: vec![1; key],
        mark: Mark::from_values(&[value.map(|length| vec![1; length])]),
        remaining: 1,
        remaining_in_partition: 1,
    };
    let longest = usize::from(u16::MAX);
    let cases = [
        (longest, Some(longest - 6), true),
        (longest, Some(longest - 5), false),
        (longest + 1, Some(1), false),
        (0, None, false),
    ];
    for (key, value, possible) in cases {
        let state = state(key, value);
        assert_eq!(
            state.encode(Version::V3, 1).is_some(),
            possible,
            "{key} {value:?}"
        );
        assert!(state.encode(Version::V4, 1).is_some(), "{key} {value:?}");
    }
}

#[test]
fn noise_is_read_without_harm() {
    let mut seed = 0x9E37_79B9_7F4A_7C15_u64;
    for length in 0..2000 {
        let noise: Vec<u8> = (0..length % 40)
            .map(|_| {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (seed >> 56) as u8
            })
            .collect();
        if let Some(state) = NativeState::read(&noise) {
            let again = state.encode_modern();
            assert_eq!(NativeState::read(&again), Some(state), "{noise:02x?}");
        }
        if let Some(mark) = Mark::from_bytes(&noise) {
            assert!(mark.values(3).is_none_or(|values| values.len() == 3));
        }
    }
}
