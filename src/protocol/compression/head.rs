//! Decompresses the beginning of a body from the bytes that have arrived. It checks only what it must to stay in
//! bounds: the head ends where the input is invalid.

use super::Compression;

impl Compression {
    /// The uncompressed length of a v3 or v4 frame's body, and up to `limit` bytes of its beginning. `None` until the
    /// length has arrived.
    pub fn head(self, body: &[u8], limit: usize) -> Option<(u32, Vec<u8>)> {
        let mut input = Input(body);
        let mut out = Head {
            bytes: Vec::new(),
            limit,
        };
        let length = match self {
            Self::Lz4 => {
                let length = input.little_endian(4)?.swap_bytes();
                while lz4_sequence(&mut input, &mut out).is_some() {}
                length
            }
            Self::Snappy => {
                let length = input.varint()?;
                while snappy_element(&mut input, &mut out).is_some() {}
                length
            }
        };
        // The last literal or copy may exceed the stated length.
        out.bytes.truncate(length as usize);
        Some((length, out.bytes))
    }
}

/// Literals and a copy. `None`: the input has ended or is invalid, or the head is full.
fn lz4_sequence(input: &mut Input<'_>, out: &mut Head) -> Option<()> {
    const COPY_MIN: usize = 4;
    let token = input.byte()?;
    let literals = input.lz4_length(token >> 4);
    out.literals(input, literals)?;
    let offset = input.little_endian(2)? as usize;
    let length = input.lz4_length(token & 0x0F);
    out.copy(offset, length.saturating_add(COPY_MIN))
}

/// Literals or a copy; the two lowest bits of the tag say which.
fn snappy_element(input: &mut Input<'_>, out: &mut Head) -> Option<()> {
    let tag = usize::from(input.byte()?);
    let upper = tag >> 2;
    match tag & 0x03 {
        0 => {
            let length = match upper {
                0..=59 => upper,
                _ => input.little_endian(upper - 59)? as usize,
            };
            out.literals(input, length.saturating_add(1))
        }
        1 => {
            let offset = (tag >> 5) << 8 | usize::from(input.byte()?);
            out.copy(offset, (upper & 0x07) + 4)
        }
        2 => {
            let offset = input.little_endian(2)? as usize;
            out.copy(offset, upper + 1)
        }
        _ => {
            let offset = input.little_endian(4)? as usize;
            out.copy(offset, upper + 1)
        }
    }
}

struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// A number of up to four bytes.
    fn little_endian(&mut self, bytes: usize) -> Option<u32> {
        let (number, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        let add = |sum: u32, byte: &u8| sum << 8 | u32::from(*byte);
        Some(number.iter().rev().fold(0, add))
    }

    fn varint(&mut self) -> Option<u32> {
        let mut number = 0_u32;
        for shift in [0, 7, 14, 21, 28] {
            let byte = self.byte()?;
            number |= u32::from(byte & 0x7F) << shift;
            if byte & 0x80 == 0 {
                break;
            }
        }
        Some(number)
    }

    /// A length that begins with these four bits. If all are set, bytes to add follow, the last of which is not 255. If
    /// the input ends among them, the result is a lower bound.
    fn lz4_length(&mut self, bits: u8) -> usize {
        let mut length = usize::from(bits);
        let mut goes_on = bits == 0x0F;
        while goes_on && let Some(more) = self.byte() {
            length = length.saturating_add(usize::from(more));
            goes_on = more == u8::MAX;
        }
        length
    }
}

struct Head {
    bytes: Vec<u8>,
    limit: usize,
}

impl Head {
    fn room(&self) -> usize {
        self.limit.saturating_sub(self.bytes.len())
    }

    fn literals(&mut self, input: &mut Input<'_>, length: usize) -> Option<()> {
        let now = length.min(input.0.len()).min(self.room());
        let (literals, rest) = input.0.split_at_checked(now)?;
        self.bytes.extend_from_slice(literals);
        input.0 = rest;
        (now == length).then_some(())
    }

    /// A copy may overlap the bytes that it writes.
    fn copy(&mut self, offset: usize, length: usize) -> Option<()> {
        let from = self.bytes.len().checked_sub(offset)?;
        for at in from..from + length.min(self.room()) {
            let byte = *self.bytes.get(at)?;
            self.bytes.push(byte);
        }
        (self.room() > 0).then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts() -> Vec<Vec<u8>> {
        let noise = |length: u32| (0..length).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8);
        vec![
            Vec::new(),
            b"short".to_vec(),
            vec![b'x'; 100_000],
            b"a head, then rows; ".repeat(5_000),
            noise(70_000).collect(),
            [noise(300).collect(), vec![0; 500], noise(300).collect()].concat(),
        ]
    }

    fn compressed(text: &[u8]) -> [(Compression, Vec<u8>); 2] {
        let mut lz4 = (text.len() as u32).to_be_bytes().to_vec();
        lz4.extend(lz4_flex::block::compress(text));
        let snappy = snap::raw::Encoder::new().compress_vec(text).unwrap();
        [(Compression::Lz4, lz4), (Compression::Snappy, snappy)]
    }

    #[test]
    fn the_head_is_what_all_of_it_begins_with() {
        for text in texts() {
            for (compression, body) in compressed(&text) {
                for limit in [0, 1, 17, 1024, 200_000] {
                    let (length, head) = compression.head(&body, limit).unwrap();
                    assert_eq!(length as usize, text.len());
                    assert_eq!(head, text[..limit.min(text.len())], "{compression:?}");
                }
            }
        }
    }

    #[test]
    fn less_input_gives_less_of_it() {
        for text in texts() {
            for (compression, body) in compressed(&text) {
                let mut longest = 0;
                for end in (0..body.len().min(600)).chain([body.len()]) {
                    let Some((_, head)) = compression.head(&body[..end], 1024) else {
                        continue;
                    };
                    assert!(text.starts_with(&head) && head.len() >= longest);
                    longest = head.len();
                }
                assert_eq!(longest, text.len().min(1024));
            }
        }
    }

    #[test]
    fn garbage_ends_the_head_and_nothing_else() {
        for seed in 0..2_000_u32 {
            let mut state = seed;
            let mut byte = || {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 24) as u8
            };
            let garbage: Vec<u8> = (0..64).map(|_| byte()).collect();
            for compression in [Compression::Lz4, Compression::Snappy] {
                let head = compression.head(&garbage, 100);
                assert!(head.is_none_or(|(_, head)| head.len() <= 100), "{seed}");
            }
        }
    }
}
