//! The beginning of a compressed message, for an inspector that needs no more.

use super::{Verdict, View};
use crate::protocol::compression::Compression;
use crate::protocol::header::{Header, flag};

/// Maximum number of decompressed bytes that are shown as the head of a compressed message.
const HEAD_BYTES_MAX: usize = 16 << 10;

/// Shows the beginning of a compressed message. One that cannot be decompressed is shown as empty and passes as it is.
pub(super) fn inspect_head<T>(
    (header, body): (Header, &[u8]),
    complete: bool,
    compression: Option<Compression>,
    inspect: &mut dyn FnMut(View<'_>) -> Verdict<T>,
) -> Verdict<T> {
    let head = compression.and_then(|compression| compression.head(body, HEAD_BYTES_MAX));
    let (length, plain) = head.unwrap_or((header.length, Vec::new()));
    let is_all = plain.len() >= HEAD_BYTES_MAX.min(length as usize);
    let flags = header.flags & !flag::COMPRESSED;
    inspect(View {
        header: Header {
            flags,
            length,
            ..header
        },
        body: &plain,
        complete: complete || is_all || compression.is_none(),
    })
}
