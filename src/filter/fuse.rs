//! Policy `fuse16`, the default: a binary fuse filter with 16-bit fingerprints over whole keys. About 2.3 bytes
//! per key, one false positive in 65,536, three memory accesses whatever the answer. It cannot grow.

use std::sync::Arc;

use xorf::{BinaryFuse16, Descriptor, Filter as _};

use super::hashes::{HashBuilder, HashFilter, Keying, Structure};
use super::policy::{DecodeError, Filter, FilterBuilder, FilterPolicy};

#[derive(Debug, Clone, Copy, Default)]
pub struct FusePolicy;

impl FusePolicy {
    pub const NAME: &'static str = "fuse16";
    /// The theoretical rate; an empty filter has no false positives.
    pub const FALSE_POSITIVE_RATE: f64 = 1.0 / 65_536.0;
}

impl FilterPolicy for FusePolicy {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn builder(&self) -> Box<dyn FilterBuilder> {
        Box::new(HashBuilder::new(Keying::whole_key(), Structure::Fuse))
    }

    fn decode(&self, bytes: &[u8]) -> Result<Arc<dyn Filter>, DecodeError> {
        let keying = Keying::whole_key();
        Ok(Arc::new(HashFilter::decode(keying, bytes, Self::NAME)?))
    }
}

/// `None` if the construction failed, or if there are more hashes than the format can count.
pub(super) fn build(hashes: &[u64]) -> Option<BinaryFuse16> {
    // The crate computes sizes in 32 bits with a factor of up to two.
    if hashes.len() > (u32::MAX / 4) as usize {
        return None;
    }
    BinaryFuse16::try_from(hashes).ok()
}

pub(super) fn encode(fuse: &BinaryFuse16, out: &mut Vec<u8>) {
    let descriptor = &fuse.descriptor;
    out.reserve(16 + fuse.len() * 2);
    out.extend_from_slice(&descriptor.seed.to_le_bytes());
    out.extend_from_slice(&descriptor.segment_length.to_le_bytes());
    out.extend_from_slice(&descriptor.segment_count_length.to_le_bytes());
    out.extend(fuse.fingerprints.iter().flat_map(|f| f.to_le_bytes()));
}

pub(super) fn decode(bytes: &[u8]) -> Result<BinaryFuse16, DecodeError> {
    let truncated = DecodeError::Truncated(bytes.len());
    let (seed, rest) = bytes.split_first_chunk().ok_or(truncated.clone())?;
    let (length, rest) = rest.split_first_chunk().ok_or(truncated.clone())?;
    let (count, rest) = rest.split_first_chunk().ok_or(truncated)?;
    let segment_length = u32::from_le_bytes(*length);
    let segment_count_length = u32::from_le_bytes(*count);
    let (fingerprints, odd) = rest.as_chunks::<2>();
    // A check computes three indices from these without looking at the array's length: with
    // dimensions that do not fit, it would panic or answer wrongly.
    let expected = u64::from(segment_count_length) + 2 * u64::from(segment_length);
    let whole = segment_length.is_power_of_two()
        && segment_count_length.is_multiple_of(segment_length)
        && segment_count_length != 0;
    if !whole {
        return Err(DecodeError::Dimensions("segments of a fuse filter"));
    }
    if !odd.is_empty() || fingerprints.len() as u64 != expected || expected > u64::from(u32::MAX) {
        return Err(DecodeError::Dimensions("fingerprints of a fuse filter"));
    }
    Ok(BinaryFuse16 {
        descriptor: Descriptor {
            seed: u64::from_le_bytes(*seed),
            segment_length,
            segment_length_mask: segment_length - 1,
            segment_count_length,
        },
        fingerprints: fingerprints
            .iter()
            .map(|f| u16::from_le_bytes(*f))
            .collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seed, segment length, length of all segments but two, and as many fingerprints as given.
    fn bytes(segment: u32, segments: u32, fingerprints: usize) -> Vec<u8> {
        let numbers = [segment.to_le_bytes(), segments.to_le_bytes()].concat();
        [vec![7; 8], numbers, vec![0; fingerprints * 2]].concat()
    }

    #[test]
    fn dimensions_that_do_not_fit_are_refused() {
        assert!(decode(&bytes(4, 8, 16)).is_ok());
        for (segment, segments, fingerprints) in [
            (4, 0, 8),
            (0, 0, 0),
            (3, 3, 9),
            (4, 6, 14),
            (4, 8, 15),
            (4, 8, 17),
            (1 << 31, 1 << 31, 0),
            (4, u32::MAX - 3, 4),
        ] {
            let refused = decode(&bytes(segment, segments, fingerprints));
            assert!(refused.is_err(), "{segment} {segments} {fingerprints}");
        }
        let odd = [bytes(4, 8, 16), vec![0]].concat();
        assert!(decode(&odd).is_err() && decode(&odd[..15]).is_err());
    }
}
