//! Cuts pages short (`limits.max_page_bytes`). The proxy reads a page of huge rows from the original in small pieces on
//! the client's own connection, until the page is full or has that many bytes. The protocol allows a page to have fewer
//! rows than the client asked for.

use std::rc::Rc;

use super::fallback::Reply;
use super::page;
use super::reader::SplitReader;
use super::row_bytes::RowBytes;
use crate::protocol::deframer::View;
use crate::protocol::header::{Envelope, Header, flag, opcode};
use crate::protocol::request::parameters::Parameters;
use crate::protocol::response;
use crate::proxy::short_names::ShortRead;
use crate::proxy::sight::Sight;
use crate::proxy::source::Asking;
use crate::rewrite::rows::{Page, joined_head};
use crate::rewrite::warnings::{Quoted, Warnings, of_original};

/// Rows of the first piece: few enough that even very large rows do no harm.
const FIRST_ROWS: u32 = 16;
/// Maximum growth from one piece to the next, as a factor.
const GROWTH: u32 = 4;

/// A page that must not become too large.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::proxy) struct Cut {
    pub(super) bytes_max: usize,
    page_rows: u32,
}

impl SplitReader {
    /// `None`: pages of this request are not cut.
    pub(super) fn cut(&self, asking: &Asking<'_>, parameters: &Parameters<'_>) -> Option<Cut> {
        let bytes_max = self.wire.proxy.config.limits.max_page_bytes?;
        let header = asking.header;
        // Cassandra takes the largest page size to mean no paging.
        let size = parameters.page_size.filter(|size| *size < i32::MAX)?;
        let page_rows = u32::try_from(size).ok()?;
        if page_rows <= 1 || header.has(flag::TRACING) || header.has(flag::CUSTOM_PAYLOAD) {
            return None;
        }
        let limit = asking.source.pageable()?.limit(&parameters.values).ok()?;
        // If the limit fits into one page, Cassandra ignores paging states.
        if limit.is_some_and(|limit| limit <= page_rows) {
            return None;
        }
        Some(Cut {
            bytes_max,
            page_rows,
        })
    }

    /// Reads a page piece by piece and sends it to the client. `false`: it is not sent, because upstream is gone, sent
    /// something unexpected, or more than there is room for.
    pub(super) async fn answer_cut(
        self: &Rc<Self>,
        request: &Envelope,
        cut: Cut,
        sight: Option<&Sight>,
        short: &mut Option<ShortRead>,
    ) -> bool {
        let pieces = self.read_pieces(request, cut, short.as_ref()).await;
        let (opcode, reply) = match pieces {
            Some(Piece::Page(reply)) => (opcode::RESULT, reply),
            Some(Piece::Error(Envelope { header, body })) => {
                let reply = Reply {
                    flags: header.flags,
                    head: body,
                    rows: Vec::new(),
                };
                (header.opcode, reply)
            }
            None => return false,
        };
        // No further piece is sent, so a USE need not wait.
        drop(short.take());
        if let Some(sight) = sight {
            self.look(sight, (reply.flags, opcode), &reply.body());
        }
        self.send(request, opcode, &reply).await;
        true
    }

    /// Looks at a reply that the proxy composed from pieces of the original. Its first part has all that is looked at.
    fn look(&self, sight: &Sight, (flags, opcode): (u8, u8), body: &[&[u8]]) {
        let length: usize = body.iter().map(|part| part.len()).sum();
        let header = Header {
            version: self.wire.version.get().byte(),
            flags,
            stream: 0,
            opcode,
            length: u32::try_from(length).unwrap_or(u32::MAX),
        };
        let view = View {
            header,
            body: body.first().copied().unwrap_or_default(),
            complete: true,
        };
        sight.look(view, &self.wide_row.sightings);
    }

    /// `None`: upstream is gone, or sent something unexpected or too much.
    async fn read_pieces(
        self: &Rc<Self>,
        request: &Envelope,
        cut: Cut,
        short: Option<&ShortRead>,
    ) -> Option<Piece> {
        let version = self.wire.version.get();
        let parameters = page::parameters(version, request)?;
        let mut state = parameters.paging_state.map(<[u8]>::to_vec);
        // A piece is a page of the client's own statement.
        let quoted = Quoted {
            table: "",
            page_size: parameters.page_size,
            keys: None,
        };
        let (mut pieces, mut warnings) = (Vec::<RowBytes>::new(), Warnings::default());
        let mut read = Read::default();
        loop {
            let rows = cut.next_rows(&read);
            let size = i32::try_from(rows).ok()?;
            let piece = page::with_page(version, request, Some(size), state.as_deref())?;
            let asked = self.wire.ask_large(piece.header.opcode, piece.body);
            let (reply, reserved) = asked.await.ok()?;
            if reply.header.opcode != opcode::RESULT {
                return Some(Piece::Error(reply));
            }
            let parts = response::warnings_and_message(reply.header, &reply.body);
            let (texts, message) = parts.ok()?;
            let texts = texts.into_iter().map(str::to_owned).collect();
            warnings.add(of_original(texts, &quoted));
            let page = Page::read(message.rest())?;
            read.add(rows, page.row_count, page.rows.len());
            state = page.paging_state.map(<[u8]>::to_vec);
            let lengths = (message.rest().len(), page.rows.len());
            let taken = self.share.take(reply.body.len())?;
            pieces.push(RowBytes::new(reply.body, lengths, reserved, taken));
            // Behind a USE the next piece would be of another table. The page may end here as well as anywhere.
            let is_hurried = short.is_some_and(ShortRead::is_hurried);
            let is_full = read.rows >= cut.page_rows || read.bytes >= cut.bytes_max;
            if state.is_none() || is_full || is_hurried {
                let messages: Vec<&[u8]> = pieces.iter().map(RowBytes::message).collect();
                let (flags, head) = warnings.before(version, joined_head(&messages)?);
                let rows = pieces;
                return Some(Piece::Page(Reply { flags, head, rows }));
            }
        }
    }
}

/// The reply to the client.
enum Piece {
    Page(Reply),
    /// Upstream's own ERROR.
    Error(Envelope),
}

/// The part of a page that was read so far.
#[derive(Debug, Default)]
pub(super) struct Read {
    pub(super) rows: u32,
    pub(super) bytes: usize,
    /// Number of rows requested for the last piece.
    asked: u32,
}

impl Read {
    pub(super) fn add(&mut self, asked: u32, rows: usize, bytes: usize) {
        self.asked = asked;
        self.rows = self.rows.saturating_add(rows as u32);
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// Number of rows to request for the next piece: as many as fit into the remaining bytes, judging by the rows so
    /// far.
    pub(super) fn next_rows(&self, bytes_max: usize) -> u32 {
        if self.rows == 0 {
            return FIRST_ROWS;
        }
        let row_bytes = (self.bytes / self.rows as usize).max(1);
        let fitting = bytes_max.saturating_sub(self.bytes) / row_bytes;
        let fitting = u32::try_from(fitting).unwrap_or(u32::MAX);
        fitting.min(self.asked.saturating_mul(GROWTH)).max(1)
    }
}

impl Cut {
    fn next_rows(&self, read: &Read) -> u32 {
        let left = self.page_rows.saturating_sub(read.rows).max(1);
        left.min(read.next_rows(self.bytes_max))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(rows: u32, bytes: usize, asked: u32) -> u32 {
        let cut = Cut {
            bytes_max: 1_000_000,
            page_rows: 5_000,
        };
        cut.next_rows(&Read { rows, bytes, asked })
    }

    #[test]
    fn pieces_grow_with_what_is_known_of_the_rows() {
        assert_eq!(next(0, 0, 0), FIRST_ROWS);
        assert_eq!(next(16, 160, 16), 64, "small rows");
        assert_eq!(next(16, 900_000, 16), 1, "large ones");
        assert_eq!(next(16, 500_000, 16), 16);
        assert_eq!(next(4_990, 49_900, 1_000), 10, "the page's end");
    }
}
