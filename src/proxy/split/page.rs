//! Changes the page size and paging state of a client's QUERY or EXECUTE.

use crate::protocol::header::{Envelope, Version, opcode};
use crate::protocol::request::parameters::Parameters;
use crate::protocol::request::{self, execute, query};

/// `None`: the request cannot be parsed.
pub(super) fn parameters(version: Version, request: &Envelope) -> Option<Parameters<'_>> {
    let mut message = request::message(request.header, &request.body).ok()?;
    match request.header.opcode {
        opcode::QUERY => {
            query::text(&mut message).ok()?;
            Parameters::read(version, &mut message).ok()
        }
        opcode::EXECUTE => {
            execute::id(&mut message).ok()?;
            execute::parameters(version, message).ok()
        }
        _ => None,
    }
}

/// The same request with another page size and paging state.
pub(super) fn with_page(
    version: Version,
    request: &Envelope,
    page_size: Option<i32>,
    paging_state: Option<&[u8]>,
) -> Option<Envelope> {
    let parameters = parameters(version, request)?;
    let body = parameters.with_page(version, &request.body, page_size, paging_state)?;
    let header = request.header;
    Some(Envelope::with_flags(
        header.version,
        header.flags,
        header.stream,
        header.opcode,
        body,
    ))
}
