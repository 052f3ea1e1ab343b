//! Segments of protocol v5 as this test client reads and writes them; written apart from the proxy's own code.

pub(crate) const PAYLOAD_MAX: usize = 131_071;

/// One segment around `payload`.
pub(crate) fn encode(payload: &[u8], self_contained: bool, lz4: bool) -> Vec<u8> {
    assert!(payload.len() <= PAYLOAD_MAX, "too long for a segment");
    let compressed = lz4_flex::block::compress(payload);
    let mut head = Vec::new();
    let body = if !lz4 {
        let bits = payload.len() | usize::from(self_contained) << 17;
        head.extend_from_slice(&bits.to_le_bytes()[..3]);
        payload
    } else {
        // What does not shrink is sent as it is, and says so by an uncompressed length of 0.
        let (body, uncompressed) = if compressed.len() < payload.len() {
            (&compressed[..], payload.len())
        } else {
            (payload, 0)
        };
        let bits = body.len() | uncompressed << 17 | usize::from(self_contained) << 34;
        head.extend_from_slice(&bits.to_le_bytes()[..5]);
        body
    };
    let mut out = head.clone();
    out.extend_from_slice(&crc24(&head).to_le_bytes()[..3]);
    out.extend_from_slice(body);
    out.extend_from_slice(&crc32(body).to_le_bytes());
    out
}

/// Takes one whole segment from the front of `bytes` and returns what it carries.
pub(crate) fn decode(bytes: &mut Vec<u8>, lz4: bool) -> Option<Vec<u8>> {
    let head = if lz4 { 5 } else { 3 };
    if bytes.len() < head + 3 {
        return None;
    }
    let mut bits = [0; 8];
    bits[..head].copy_from_slice(&bytes[..head]);
    let bits = usize::from_le_bytes(bits);
    assert_eq!(
        bytes[head..head + 3],
        crc24(&bytes[..head]).to_le_bytes()[..3],
        "CRC24 of a segment"
    );
    let length = bits & PAYLOAD_MAX;
    let end = head + 3 + length;
    if bytes.len() < end + 4 {
        return None;
    }
    let payload = &bytes[head + 3..end];
    assert_eq!(
        bytes[end..end + 4],
        crc32(payload).to_le_bytes(),
        "CRC32 of a segment"
    );
    let content = match (lz4, bits >> 17 & PAYLOAD_MAX) {
        (false, _) | (true, 0) => payload.to_vec(),
        (true, length) => lz4_flex::block::decompress(payload, length).expect("an lz4 block"),
    };
    bytes.drain(..end + 4);
    Some(content)
}

pub(crate) fn crc24(bytes: &[u8]) -> u32 {
    let mut crc = 0x87_5060_u32;
    for byte in bytes {
        crc ^= u32::from(*byte) << 16;
        for _ in 0..8 {
            crc <<= 1;
            if crc & 0x100_0000 != 0 {
                crc ^= 0x197_4F0B;
            }
        }
    }
    crc & 0xFF_FFFF
}

pub(crate) fn crc32(payload: &[u8]) -> u32 {
    let prefix = [0xFA, 0x2D, 0x55, 0xCA];
    let crc = prefix.iter().chain(payload).fold(u32::MAX, |crc, byte| {
        TABLE[usize::from(crc as u8 ^ *byte)] ^ crc >> 8
    });
    !crc
}

static TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let mut crc = index as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 {
                crc >> 1 ^ 0xEDB8_8320
            } else {
                crc >> 1
            };
            bit += 1;
        }
        table[index] = crc;
        index += 1;
    }
    table
};
