//! The rows of one reply as they came, and the memory that they hold until the client has them.

use super::share::Taken;
use crate::budget::Reserved;

pub(super) struct RowBytes {
    body: Vec<u8>,
    /// Where the Rows message begins, and where its rows do; both end with the body.
    message_at: usize,
    rows_at: usize,
    /// In the memory that all connections share.
    _reserved: Reserved,
    _taken: Taken,
}

impl RowBytes {
    /// A body that ends with a Rows message of `message` bytes, which ends with `rows` bytes of rows.
    pub(super) fn new(
        body: Vec<u8>,
        (message, rows): (usize, usize),
        reserved: Reserved,
        taken: Taken,
    ) -> Self {
        Self {
            message_at: body.len() - message,
            rows_at: body.len() - rows,
            body,
            _reserved: reserved,
            _taken: taken,
        }
    }

    pub(super) fn message(&self) -> &[u8] {
        &self.body[self.message_at..]
    }

    pub(super) fn rows(&self) -> &[u8] {
        &self.body[self.rows_at..]
    }
}
