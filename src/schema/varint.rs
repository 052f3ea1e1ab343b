//! Whole numbers of any size as `varint` and `decimal` hold them: two's complement, big-endian, as short as possible.
//!
//! Conversions are slow on long numbers, so their length is bounded.

use std::cmp::Ordering;

/// Longer numbers are left to Cassandra: converting them to digits and back takes quadratic time.
pub(super) const BYTES_MAX: usize = 1024;
const DIGITS_MAX: usize = 2400;

/// Compares two non-empty numbers, which may be longer than necessary.
pub(super) fn compare(a: &[u8], b: &[u8]) -> Ordering {
    let (a, b) = (trimmed(a), trimmed(b));
    let by_sign = is_negative(b).cmp(&is_negative(a));
    // With equal signs, the longer one is further from zero; with equal lengths, the order is that of the bytes.
    let by_length = match is_negative(a) {
        false => a.len().cmp(&b.len()),
        true => b.len().cmp(&a.len()),
    };
    by_sign.then(by_length).then_with(|| a.cmp(b))
}

pub(super) fn is_negative(number: &[u8]) -> bool {
    number.first().is_some_and(|byte| byte & 0x80 != 0)
}

/// Whether there is no shorter form of the same number.
pub(super) fn is_shortest(number: &[u8]) -> bool {
    !number.is_empty() && trimmed(number).len() == number.len()
}

/// The number without the leading bytes that only repeat the sign.
fn trimmed(mut number: &[u8]) -> &[u8] {
    while let [first, rest @ ..] = number {
        let repeats = match first {
            0x00 => rest.first().is_some_and(|next| next & 0x80 == 0),
            0xFF => rest.first().is_some_and(|next| next & 0x80 != 0),
            _ => false,
        };
        if !repeats {
            break;
        }
        number = rest;
    }
    number
}

/// The number with these ASCII digits. `None` if there are none or too many, or if one is not a digit.
pub(super) fn from_digits(negative: bool, digits: &str) -> Option<Vec<u8>> {
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let digits = digits.trim_start_matches('0');
    if digits.len() > DIGITS_MAX {
        return None;
    }
    // Least significant byte first while it grows.
    let mut magnitude: Vec<u8> = Vec::new();
    for digit in digits.bytes() {
        let mut carry = u32::from(digit - b'0');
        for byte in &mut magnitude {
            carry += u32::from(*byte) * 10;
            *byte = (carry & 0xFF) as u8;
            carry >>= 8;
        }
        if carry > 0 {
            magnitude.push((carry & 0xFF) as u8);
        }
    }
    // One byte more than needed holds the sign.
    magnitude.push(0);
    if negative {
        negate(&mut magnitude);
    }
    magnitude.reverse();
    Some(trimmed(&magnitude).to_vec())
}

/// The decimal digits of the number's absolute value, without leading zeros: none for zero. `None` if it is too long.
pub(super) fn digits(number: &[u8]) -> Option<Vec<u8>> {
    if number.len() > BYTES_MAX {
        return None;
    }
    let mut magnitude: Vec<u8> = number.iter().rev().copied().collect();
    if is_negative(number) {
        magnitude.push(0xFF);
        negate(&mut magnitude);
    }
    let mut digits = Vec::new();
    while magnitude.iter().any(|byte| *byte != 0) {
        let mut remainder = 0_u32;
        for byte in magnitude.iter_mut().rev() {
            remainder = (remainder << 8) | u32::from(*byte);
            *byte = (remainder / 10) as u8;
            remainder %= 10;
        }
        digits.push(remainder as u8);
        while magnitude.last() == Some(&0) {
            magnitude.pop();
        }
    }
    digits.reverse();
    Some(digits)
}

/// Two's complement, least significant byte first.
fn negate(number: &mut [u8]) {
    let mut carry = true;
    for byte in number {
        let (negated, overflow) = (!*byte).overflowing_add(u8::from(carry));
        *byte = negated;
        carry = overflow;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As short as it goes.
    fn bytes(number: i64) -> Vec<u8> {
        trimmed(&number.to_be_bytes()).to_vec()
    }

    fn samples() -> Vec<i64> {
        let near = [0, 1, 9, 10, 127, 128, 255, 256, 32767, 32768, 1 << 40];
        let mut all: Vec<i64> = near.iter().flat_map(|n| [*n, -n, n - 1, 1 - n]).collect();
        all.extend([i64::MAX, i64::MIN]);
        all
    }

    #[test]
    fn numbers_compare_as_numbers_however_long_they_are_written() {
        for a in samples() {
            for b in samples() {
                assert_eq!(compare(&bytes(a), &bytes(b)), a.cmp(&b), "{a} {b}");
                let long = i128::from(b).to_be_bytes();
                assert_eq!(compare(&bytes(a), &long), a.cmp(&b), "{a} long {b}");
            }
        }
    }

    #[test]
    fn digits_become_the_shortest_number_and_back() {
        for number in samples() {
            let text = number.unsigned_abs().to_string();
            let made = from_digits(number < 0, &format!("00{text}"));
            assert_eq!(made, Some(bytes(number)), "{number}");
            let expected: Vec<u8> = text.bytes().map(|digit| digit - b'0').collect();
            let expected = if number == 0 { Vec::new() } else { expected };
            assert_eq!(digits(&bytes(number)), Some(expected), "{number}");
        }
    }

    #[test]
    fn long_numbers_are_left_alone() {
        assert_eq!(from_digits(false, &"9".repeat(DIGITS_MAX + 1)), None);
        assert_eq!(digits(&[1; BYTES_MAX + 1]), None);
        assert_eq!(from_digits(false, ""), None);
        assert_eq!(from_digits(false, "1x"), None);
    }
}
