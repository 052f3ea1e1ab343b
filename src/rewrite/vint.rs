//! Cassandra's unsigned variable-length integers: the leading ones of the first byte count the bytes that follow it.

use crate::protocol::types::Cursor;

/// Reads one; `None` if it is cut off.
pub(super) fn read(cursor: &mut Cursor<'_>) -> Option<u64> {
    let first = cursor.byte().ok()?;
    let extra = first.leading_ones();
    // With seven or eight extra bytes, the first byte holds no bit of the value.
    let mask = 0xFF_u8.checked_shr(extra + 1).unwrap_or(0);
    let more = cursor.take(extra as usize, "vint").ok()?;
    let start = u64::from(first & mask);
    Some(
        more.iter()
            .fold(start, |value, byte| value << 8 | u64::from(*byte)),
    )
}

/// Writes one, in as few bytes as possible.
pub(super) fn put(out: &mut Vec<u8>, value: u64) {
    let bits = u64::BITS - value.leading_zeros();
    let bytes = value.to_be_bytes();
    // Each byte adds room for seven bits of the value, until the first byte has no bit left for it.
    if bits > 56 {
        out.push(0xFF);
        out.extend_from_slice(&bytes);
        return;
    }
    let extra = bits.saturating_sub(1) / 7;
    let kept = &bytes[7 - extra as usize..];
    out.push(kept[0] | !(0xFF_u8 >> extra));
    out.extend_from_slice(&kept[1..]);
}

/// Reads a length, then that many bytes.
pub(super) fn read_bytes<'a>(cursor: &mut Cursor<'a>) -> Option<&'a [u8]> {
    let length = usize::try_from(read(cursor)?).ok()?;
    cursor.take(length, "bytes behind a vint").ok()
}

pub(super) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_as_cassandra_does() {
        let cases: [(u64, &[u8]); 9] = [
            (0, &[0]),
            (127, &[0x7F]),
            (128, &[0x80, 0x80]),
            (16_383, &[0xBF, 0xFF]),
            (16_384, &[0xC0, 0x40, 0x00]),
            (0x7FFF_FFFE, &[0xF0, 0x7F, 0xFF, 0xFF, 0xFE]),
            (
                (1 << 56) - 1,
                &[0xFE, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF],
            ),
            (1 << 56, &[0xFF, 1, 0, 0, 0, 0, 0, 0, 0]),
            (u64::MAX, &[0xFF; 9]),
        ];
        for (value, bytes) in cases {
            let mut out = Vec::new();
            put(&mut out, value);
            assert_eq!(out, bytes, "{value}");
            assert_eq!(read(&mut Cursor::new(bytes)), Some(value), "{value}");
        }
    }

    #[test]
    fn every_width_survives_a_round_trip_and_no_truncation() {
        for shift in 0..64 {
            for value in [1_u64 << shift, (1_u64 << shift) - 1, u64::MAX >> shift] {
                let mut out = Vec::new();
                put(&mut out, value);
                let mut cursor = Cursor::new(&out);
                assert_eq!(read(&mut cursor), Some(value), "{value}");
                assert!(cursor.rest().is_empty(), "{value}");
                let short = &out[..out.len() - 1];
                assert_eq!(read(&mut Cursor::new(short)), None, "{value}");
            }
        }
    }
}
