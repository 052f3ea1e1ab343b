//! A message that is going to be taken out of the stream, as far as it has arrived.

use super::View;
use crate::protocol::header::Header;

#[derive(Debug)]
pub(super) struct Collected {
    pub(super) header: Header,
    /// As on the wire.
    pub(super) body: Vec<u8>,
}

impl Collected {
    pub(super) fn begin(header: Header, body: Vec<u8>) -> Self {
        Self { header, body }
    }

    /// Number of bytes that have not arrived yet.
    pub(super) fn missing(&self) -> usize {
        self.header.length as usize - self.body.len()
    }

    /// Adds bytes that have arrived, no more than are missing. The memory doubles as it fills, so that a header alone
    /// cannot claim much, but it never exceeds the message.
    pub(super) fn add(&mut self, arrived: &[u8]) {
        let length = self.body.len() + arrived.len();
        if length > self.body.capacity() {
            let capacity = (2 * length).min(self.header.length as usize);
            self.body.reserve_exact(capacity - self.body.len());
        }
        self.body.extend_from_slice(arrived);
    }

    pub(super) fn view(&self) -> View<'_> {
        View {
            header: self.header,
            body: &self.body,
            complete: self.missing() == 0,
        }
    }
}
