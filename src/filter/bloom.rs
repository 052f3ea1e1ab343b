//! Policy `bloom`: a Bloom filter over whole keys, their prefixes or both, sized by bits per key or by false-positive
//! rate. Smaller than `fuse16` where one false positive in a hundred is good enough, and slower.

use std::f64::consts::LN_2;
use std::sync::Arc;

use bloomfilter::Bloom;
use thiserror::Error;

use super::hashes::{HashBuilder, HashFilter, Keying, Structure};
use super::policy::{DecodeError, Filter, FilterBuilder, FilterPolicy, Target};
use super::prefix::PrefixExtractor;

/// The size of a Bloom filter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Sizing {
    /// 9.6 bits give one false positive in a hundred, 14.4 one in a thousand; 10 give 0.8 %.
    BitsPerKey(f64),
    /// A share between 0 and 1: 0.01 is one in a hundred.
    FalsePositiveRate(f64),
}

/// A size that nobody can have meant.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum SizingError {
    #[error(
        "{0} bits per key are not between 1 and 64: 9.6 give 1 % false positives, 14.4 give 0.1 %"
    )]
    BitsPerKey(f64),
    #[error("false-positive rate {0} is not between 0.000000001 and 0.5: 0.01 is 1 %")]
    FalsePositiveRate(f64),
}

impl Sizing {
    /// Fallback for a failed fuse construction: nearly the same rate as a fuse filter's.
    pub(super) const FALLBACK: Self = Self::FalsePositiveRate(1.0 / 65_536.0);

    fn check(self) -> Result<Self, SizingError> {
        match self {
            Self::BitsPerKey(bits) if !(1.0..=64.0).contains(&bits) => {
                Err(SizingError::BitsPerKey(bits))
            }
            Self::FalsePositiveRate(rate) if !(1e-9..=0.5).contains(&rate) => {
                Err(SizingError::FalsePositiveRate(rate))
            }
            fine => Ok(fine),
        }
    }

    /// The optimum is `log2(1 / rate) / ln 2` bits.
    pub fn bits_per_key(self) -> f64 {
        match self {
            Self::BitsPerKey(bits) => bits,
            Self::FalsePositiveRate(rate) => -rate.log2() / LN_2,
        }
    }

    /// The rate to expect of the filter that is really built. The number of hash functions is an integer, so a
    /// requested rate is met within a few per cent, not exactly.
    pub fn false_positive_rate(self) -> f64 {
        let bits = self.bits_per_key();
        let functions = (bits * LN_2).round().max(1.0);
        (1.0 - (-functions / bits).exp()).powf(functions)
    }

    fn bytes(self, keys: usize) -> usize {
        ((keys as f64 * self.bits_per_key() / 8.0).ceil() as usize).max(1)
    }
}

#[derive(Debug, Clone)]
pub struct BloomPolicy {
    name: String,
    sizing: Sizing,
    keying: Keying,
}

impl BloomPolicy {
    pub const NAME: &'static str = "bloom";

    /// Over whole keys.
    pub fn new(sizing: Sizing) -> Result<Self, SizingError> {
        Ok(Self {
            name: Self::NAME.to_owned(),
            sizing: sizing.check()?,
            keying: Keying::whole_key(),
        })
    }

    /// Holds prefixes, too, in the same bits. Without `whole_key_filtering` it holds nothing else, so it grows with the
    /// number of prefixes, and a key is asked for by its prefix.
    pub fn with_prefix_extractor(
        self,
        extractor: Arc<dyn PrefixExtractor>,
        whole_key_filtering: bool,
    ) -> Self {
        // Asked for a whole key, a filter of prefixes would say `false` about a key that it holds.
        let whole_keys = match whole_key_filtering {
            true => "",
            false => ",whole_key_filtering=false",
        };
        Self {
            name: format!("{}:{}{whole_keys}", Self::NAME, extractor.name()),
            keying: Keying::prefix(extractor, whole_key_filtering),
            ..self
        }
    }

    pub fn sizing(&self) -> Sizing {
        self.sizing
    }
}

impl FilterPolicy for BloomPolicy {
    /// The name leaves out the size: a stored filter has its own.
    fn name(&self) -> &str {
        &self.name
    }

    fn prefix_hash(&self, target: &Target) -> Option<u64> {
        self.keying.prefix_hash(target)
    }

    fn builder(&self) -> Box<dyn FilterBuilder> {
        let structure = Structure::Bloom(self.sizing);
        Box::new(HashBuilder::new(self.keying.clone(), structure))
    }

    fn decode(&self, bytes: &[u8]) -> Result<Arc<dyn Filter>, DecodeError> {
        let keying = self.keying.clone();
        Ok(Arc::new(HashFilter::decode(keying, bytes, &self.name)?))
    }
}

/// Fixed, so that the same keys give the same bytes. Its bytes travel with the stored filter.
const SEED: [u8; 32] = *b"narrows: bloom over xxh3 hashes.";

/// A hash to be looked up. It hashes as a `u64` does, but a type of its own gives [`check`] its own copy of the crate's
/// code, into which the hash functions are inlined instead of called once per probe.
#[derive(Debug, Clone, Copy, Hash)]
pub(super) struct Probed(u64);

pub(super) fn build(sizing: Sizing, hashes: &[u64]) -> Option<Bloom<Probed>> {
    let bytes = sizing.bytes(hashes.len());
    let mut bloom = Bloom::<u64>::new_with_seed(bytes, hashes.len().max(1), &SEED).ok()?;
    for hash in hashes {
        bloom.set(hash);
    }
    Bloom::from_bytes(bloom.into_bytes()).ok()
}

/// The only caller of the crate's check: a second one would defeat the purpose of [`Probed`].
#[inline(never)]
pub(super) fn check(bloom: &Bloom<Probed>, hash: u64) -> bool {
    bloom.check(&Probed(hash))
}

/// Maximum number of hash functions; no accepted size needs that many.
const FUNCTIONS_MAX: u32 = 64;

pub(super) fn decode(bytes: &[u8]) -> Result<Bloom<Probed>, DecodeError> {
    let bloom = Bloom::from_slice(bytes).map_err(DecodeError::Dimensions)?;
    // The crate divides by the number of bits, and asks once per function.
    if bloom.len() < 8 || bloom.number_of_hash_functions() > FUNCTIONS_MAX {
        return Err(DecodeError::Dimensions(
            "bits or functions of a bloom filter",
        ));
    }
    Ok(bloom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_is_honest() {
        let bits = |rate| Sizing::FalsePositiveRate(rate).bits_per_key();
        assert!((bits(0.01) - 9.6).abs() < 0.05);
        assert!((bits(0.001) - 14.4).abs() < 0.05);
        let rate = |bits| Sizing::BitsPerKey(bits).false_positive_rate();
        assert!((rate(9.6) / 0.01 - 1.0).abs() < 0.05);
        assert!((rate(14.4) / 0.001 - 1.0).abs() < 0.05);
        assert!((rate(10.0) / 0.008 - 1.0).abs() < 0.05);
    }

    #[test]
    fn impossible_sizes_are_refused() {
        for bits in [0.0, -1.0, 65.0, f64::NAN, f64::INFINITY] {
            assert!(
                BloomPolicy::new(Sizing::BitsPerKey(bits)).is_err(),
                "{bits}"
            );
        }
        for rate in [0.0, 1.0, -0.1, f64::NAN] {
            assert!(
                BloomPolicy::new(Sizing::FalsePositiveRate(rate)).is_err(),
                "{rate}"
            );
        }
    }
}
