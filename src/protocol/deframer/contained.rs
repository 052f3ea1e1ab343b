//! Segments that hold only whole envelopes.

use super::{Part, Result, Then, Verdict, View};
use crate::protocol::ProtocolError;
use crate::protocol::framing::Framing;
use crate::protocol::header::{Envelope, HEADER_BYTES, Header};
use crate::protocol::segment::{Format, Segment};

/// Handles a segment of whole envelopes. It is relayed as it is, unless an envelope is taken out; the others are then
/// framed anew.
pub(super) fn self_contained<T>(
    segment: &Segment<'_>,
    format: Format,
    inspect: &mut dyn FnMut(View<'_>) -> Verdict<T>,
) -> Result<Then<T>> {
    let content = segment.content()?;
    let (mut rest, mut parts, mut taken) = (&content[..], Vec::new(), false);
    while !rest.is_empty() {
        let header = Header::peek(rest)?.ok_or(ProtocolError::SegmentShort)?;
        let length = HEADER_BYTES + header.length as usize;
        let (message, after) = rest
            .split_at_checked(length)
            .ok_or(ProtocolError::SegmentShort)?;
        let body = &message[HEADER_BYTES..];
        let verdict = inspect(View {
            header,
            body,
            complete: true,
        });
        taken |= matches!(verdict, Verdict::Take(_) | Verdict::Discard(_));
        parts.push((verdict, header, body));
        rest = after;
    }
    if !taken {
        return Ok(Then::Relay);
    }
    let replace = |(verdict, header, body): (Verdict<T>, Header, &[u8])| {
        let body = || body.to_vec();
        match verdict {
            Verdict::Take(why) => Part::Taken(
                Envelope {
                    header,
                    body: body(),
                },
                why,
            ),
            Verdict::Discard(why) => discarded(header, why),
            _ => Part::Raw(Framing::Segments(format).frame(&Envelope {
                header,
                body: body(),
            })),
        }
    };
    Ok(Then::Replace(parts.into_iter().map(replace).collect()))
}

/// A message whose body is dropped: only its header is left.
pub(super) fn discarded<T>(header: Header, why: T) -> Part<T> {
    let header = Header {
        length: 0,
        ..header
    };
    let body = Vec::new();
    Part::Taken(Envelope { header, body }, why)
}
