//! Keys like those of a time series: `((series uuid, day int))`, serialized as Cassandra does, and absent ones of
//! the same form.

/// Bytes of one key: two components, each with its length before and a zero behind.
const KEY: usize = 2 + 16 + 1 + 2 + 4 + 1;
/// The leading component.
const SERIES: usize = 2 + 16 + 1;
/// Days per series.
const DAYS: usize = 100;

/// Keys side by side in memory, in no order that a filter could profit from.
pub(crate) struct Keys {
    present: Vec<[u8; KEY]>,
    absent: Vec<[u8; KEY]>,
}

impl Keys {
    pub(crate) fn new(count: usize) -> Self {
        let present = (0..count).map(|n| key(n, 1)).collect();
        let absent = (0..count).map(|n| key(n, 2)).collect();
        Self { present, absent }
    }

    /// How many are present, and as many are absent.
    pub(crate) fn count(&self) -> usize {
        self.present.len()
    }

    pub(crate) fn present(&self) -> impl Iterator<Item = &[u8]> + Clone {
        self.present.iter().map(<[u8; KEY]>::as_slice)
    }

    pub(crate) fn absent(&self) -> impl Iterator<Item = &[u8]> {
        self.absent.iter().map(<[u8; KEY]>::as_slice)
    }

    /// The leading column of absent keys, once per series.
    pub(crate) fn absent_prefixes(&self) -> impl Iterator<Item = &[u8]> {
        self.absent.iter().step_by(DAYS).map(|key| &key[..SERIES])
    }
}

fn key(n: usize, kind: u64) -> [u8; KEY] {
    let series = (n / DAYS) as u64;
    let day = (n % DAYS) as u32;
    let mut key = [0; KEY];
    key[..2].copy_from_slice(&16u16.to_be_bytes());
    key[2..10].copy_from_slice(&scramble(series * 4 + kind).to_be_bytes());
    key[10..18].copy_from_slice(&scramble(!series * 4 + kind).to_be_bytes());
    key[19..21].copy_from_slice(&4u16.to_be_bytes());
    key[21..25].copy_from_slice(&day.to_be_bytes());
    key
}

/// The finalizer of splitmix64: a bijection, so different series stay different.
fn scramble(mut n: u64) -> u64 {
    n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}
