//! Splits the bytes of one direction of a connection into messages.
//!
//! The deframer sees bytes as they arrive, in whatever pieces the network chose, and shows every message to an
//! `inspect` function as early as possible. It reports what to forward as a length, so that the caller can write whole
//! runs of messages straight from its read buffer. It copies only messages that the inspector takes out.

mod collected;
mod contained;
mod head;

use std::borrow::Cow;

pub use super::framing::Framing;

use self::collected::Collected;
use self::contained::{discarded, self_contained};
use self::head::inspect_head;
use super::ProtocolError;
use super::compression::Compression;
use super::header::{BODY_BYTES_MAX, Envelope, HEADER_BYTES, Header, Version, flag};
use super::segment::Format;

type Result<T> = std::result::Result<T, ProtocolError>;

/// A message as far as it has arrived, uncompressed.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    pub header: Header,
    pub body: &'a [u8],
    /// Whether `body` is the whole body or, after [`Verdict::Head`], as much of it as will ever be shown.
    pub complete: bool,
}

/// What to do with a message. After `More`, `Head` or `Collect`, or `Take` of an incomplete view, the inspector sees the
/// message again once more of it has arrived, so it must have no side effects before its final verdict.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict<T> {
    Forward,
    /// Forward, and expect this framing from the next message on.
    ForwardThen(Framing),
    More,
    /// Like `More`, for an inspector that needs only the beginning and then forwards. If the message is compressed,
    /// only the beginning is decompressed, and the header that is shown has the uncompressed length of the whole body.
    Head,
    /// Like `More`, for a message that is going to be taken or discarded. Only one copy of it is kept.
    Collect,
    /// Take the message out of the stream; this value stays with it.
    Take(T),
    /// Take the message out at once, without its body, which is dropped as it arrives.
    Discard(T),
}

/// A replacement for input that cannot be relayed as it is.
#[derive(Debug, PartialEq, Eq)]
pub enum Part<T> {
    /// Bytes to forward: messages that shared a segment with a taken one, or were held back until the verdict.
    Raw(Vec<u8>),
    /// A message that the inspector took out, with the value of its verdict.
    Taken(Envelope, T),
}

#[derive(Debug, PartialEq, Eq)]
pub struct Step<T> {
    /// Number of bytes to forward from the start of the input, before `then`.
    pub relay: usize,
    /// Where the last message that ends within these bytes ends. Another message may be inserted there.
    pub boundary: usize,
    /// Parts to handle next, in this order.
    pub then: Vec<Part<T>>,
    /// Number of bytes to drop from the start of the input, including the forwarded ones.
    pub consumed: usize,
}

/// The state of a message that has arrived only in part.
#[derive(Debug)]
enum Carry {
    Nothing,
    /// Forwarded; this many bytes (bare: on the wire; segments: of content) are still to come.
    Relaying(usize),
    /// Refused; this many bytes are still to come, and are dropped.
    Discarding(usize),
    /// A message that is going to be taken out.
    Collecting(Collected),
    /// Segments held back until the inspector can decide.
    Holding {
        wire: Vec<u8>,
        message: Vec<u8>,
    },
}

#[derive(Debug)]
pub struct Deframer {
    framing: Framing,
    /// Maximum number of bytes of one message that may be held back for inspection.
    hold_limit: usize,
    carry: Carry,
}

impl Deframer {
    pub fn new(hold_limit: usize) -> Self {
        Self {
            framing: Framing::Bare(None),
            hold_limit,
            carry: Carry::Nothing,
        }
    }

    pub fn set_framing(&mut self, framing: Framing) {
        self.framing = framing;
    }

    /// Whether the bytes relayed so far end between two messages, so that another may be inserted.
    pub fn at_boundary(&self) -> bool {
        !matches!(self.carry, Carry::Relaying(_))
    }

    /// Decides on as much of `input` as possible. A step that consumes nothing asks for more input.
    pub fn step<T>(
        &mut self,
        input: &[u8],
        inspect: &mut dyn FnMut(View<'_>) -> Verdict<T>,
    ) -> Result<Step<T>> {
        let (mut at, mut boundary) = (0, 0);
        loop {
            let (consumed, then) = match self.framing {
                Framing::Bare(compression) => self.bare(&input[at..], compression, inspect)?,
                Framing::Segments(format) => self.segment(&input[at..], format, inspect)?,
            };
            match then {
                Then::Relay if consumed > 0 => {
                    at += consumed;
                    if self.at_boundary() {
                        boundary = at;
                    }
                }
                Then::Relay => {
                    return Ok(Step {
                        relay: at,
                        boundary,
                        then: Vec::new(),
                        consumed: at,
                    });
                }
                Then::Replace(parts) => {
                    return Ok(Step {
                        relay: at,
                        boundary,
                        then: parts,
                        consumed: at + consumed,
                    });
                }
            }
        }
    }

    fn bare<T>(
        &mut self,
        input: &[u8],
        compression: Option<Compression>,
        inspect: &mut dyn FnMut(View<'_>) -> Verdict<T>,
    ) -> Result<(usize, Then<T>)> {
        if let Carry::Relaying(left) = self.carry {
            let now = left.min(input.len());
            self.relay_rest(left, now);
            return Ok((now, Then::Relay));
        }
        if let Carry::Discarding(left) = self.carry {
            let now = left.min(input.len());
            self.discard_rest(left, now);
            return Ok((now, Then::Replace(Vec::new())));
        }
        if let Carry::Collecting(collected) = std::mem::replace(&mut self.carry, Carry::Nothing) {
            return self.collect_bare(collected, input, compression, inspect);
        }
        let Some(header) = Header::peek(input)? else {
            return Ok((0, Then::Relay));
        };
        if Version::from_byte(header.version).is_none() {
            return Err(ProtocolError::Version(header.version));
        }
        let length = body_length(header)?;
        let arrived = &input[HEADER_BYTES..];
        let complete = arrived.len() >= length;
        let body = &arrived[..length.min(arrived.len())];
        let (verdict, plain) = self.inspect_bare((header, body), complete, compression, inspect)?;
        let wire_length = HEADER_BYTES + length;
        let now = wire_length.min(input.len());
        match verdict {
            Verdict::Forward => self.relay_rest(wire_length, now),
            Verdict::ForwardThen(framing) => {
                self.framing = framing;
                self.relay_rest(wire_length, now);
            }
            Verdict::Discard(why) => {
                self.discard_rest(wire_length, now);
                return Ok((now, Then::Replace(vec![discarded(header, why)])));
            }
            Verdict::Take(why) if complete => {
                let taken = plain_envelope(header, plain.into_owned());
                return Ok((now, Then::Replace(vec![Part::Taken(taken, why)])));
            }
            Verdict::Take(_) | Verdict::Collect => {
                self.within_limit(length)?;
                self.carry = Carry::Collecting(Collected::begin(header, body.to_vec()));
                return Ok((now, Then::Replace(Vec::new())));
            }
            Verdict::More => {
                self.within_limit(length)?;
                return Ok((0, Then::Relay));
            }
            Verdict::Head => return Ok((0, Then::Relay)),
        }
        Ok((now, Then::Relay))
    }

    /// Shows a bare message, uncompressed. Returns the verdict, and the body in case the message is taken.
    fn inspect_bare<'a, T>(
        &self,
        (header, body): (Header, &'a [u8]),
        complete: bool,
        compression: Option<Compression>,
        inspect: &mut dyn FnMut(View<'_>) -> Verdict<T>,
    ) -> Result<(Verdict<T>, Cow<'a, [u8]>)> {
        if !header.has(flag::COMPRESSED) {
            let view = View {
                header,
                body,
                complete,
            };
            return Ok((inspect(view), Cow::Borrowed(body)));
        }
        // The header alone decides most compressed messages. The others must arrive whole, unless their head is enough.
        let mut verdict = inspect(View {
            header,
            body: &[],
            complete: false,
        });
        if matches!(verdict, Verdict::Head) {
            verdict = inspect_head((header, body), complete, compression, inspect);
        }
        let is_wanted = matches!(verdict, Verdict::More | Verdict::Collect | Verdict::Take(_));
        if !complete || !is_wanted {
            return Ok((verdict, Cow::Borrowed(&[])));
        }
        let compression = compression.ok_or(ProtocolError::UnexpectedCompression)?;
        let plain = compression.decompress_body(body, self.hold_limit)?;
        let view = View {
            header,
            body: &plain,
            complete,
        };
        Ok((inspect(view), Cow::Owned(plain)))
    }

    fn segment<T>(
        &mut self,
        input: &[u8],
        format: Format,
        inspect: &mut dyn FnMut(View<'_>) -> Verdict<T>,
    ) -> Result<(usize, Then<T>)> {
        let Some(segment) = format.peek(input)? else {
            return Ok((0, Then::Relay));
        };
        let wire = &input[..segment.wire_length];
        let then = match std::mem::replace(&mut self.carry, Carry::Nothing) {
            Carry::Relaying(left) => {
                let now = segment.content_length();
                if now > left {
                    return Err(ProtocolError::SegmentShort);
                }
                self.relay_rest(left, now);
                Then::Relay
            }
            Carry::Discarding(left) => {
                let now = segment.content_length();
                if now > left {
                    return Err(ProtocolError::SegmentShort);
                }
                self.discard_rest(left, now);
                Then::Replace(Vec::new())
            }
            Carry::Collecting(mut collected) => {
                let content = segment.content()?;
                if content.len() > collected.missing() {
                    return Err(ProtocolError::SegmentShort);
                }
                collected.add(&content);
                let verdict = inspect(collected.view());
                self.collected(collected, None, verdict)
            }
            Carry::Nothing if segment.self_contained => self_contained(&segment, format, inspect)?,
            Carry::Nothing => self.part(wire, segment.content()?, Vec::new(), inspect)?,
            Carry::Holding {
                wire: held,
                mut message,
            } => {
                message.extend_from_slice(&segment.content()?);
                self.part(wire, message.into(), held, inspect)?
            }
        };
        Ok((segment.wire_length, then))
    }

    /// Handles one more segment of an envelope that spans several and is not decided yet.
    fn part<T>(
        &mut self,
        wire: &[u8],
        message: Cow<'_, [u8]>,
        mut held: Vec<u8>,
        inspect: &mut dyn FnMut(View<'_>) -> Verdict<T>,
    ) -> Result<Then<T>> {
        let header = Header::peek(&message)?;
        if let Some(header) = header {
            body_length(header)?;
        }
        let verdict = header.map_or(Verdict::More, |header| {
            let complete = message.len() >= HEADER_BYTES + header.length as usize;
            inspect(View {
                header,
                body: &message[HEADER_BYTES..],
                complete,
            })
        });
        let total = header.map_or(HEADER_BYTES, |header| HEADER_BYTES + header.length as usize);
        if message.len() > total {
            return Err(ProtocolError::SegmentShort);
        }
        match (verdict, header) {
            (Verdict::Take(why), Some(header)) if message.len() == total => {
                let body = body_of(message);
                let taken = Envelope { header, body };
                Ok(Then::Replace(vec![Part::Taken(taken, why)]))
            }
            (Verdict::Take(_) | Verdict::Collect, Some(header)) => {
                self.within_limit(total)?;
                self.carry = Carry::Collecting(Collected::begin(header, body_of(message)));
                Ok(Then::Replace(Vec::new()))
            }
            (Verdict::Discard(why), Some(header)) => {
                self.discard_rest(total, message.len());
                Ok(Then::Replace(vec![discarded(header, why)]))
            }
            (
                Verdict::More
                | Verdict::Head
                | Verdict::Collect
                | Verdict::Take(_)
                | Verdict::Discard(_),
                _,
            ) => {
                self.within_limit(total)?;
                held.extend_from_slice(wire);
                self.carry = Carry::Holding {
                    wire: held,
                    message: message.into_owned(),
                };
                Ok(Then::Replace(Vec::new()))
            }
            (Verdict::Forward | Verdict::ForwardThen(_), _) => {
                self.relay_rest(total, message.len());
                if held.is_empty() {
                    return Ok(Then::Relay);
                }
                held.extend_from_slice(wire);
                Ok(Then::Replace(vec![Part::Raw(held)]))
            }
        }
    }

    /// Adds to a bare message that is going to be taken out.
    fn collect_bare<T>(
        &mut self,
        mut collected: Collected,
        input: &[u8],
        compression: Option<Compression>,
        inspect: &mut dyn FnMut(View<'_>) -> Verdict<T>,
    ) -> Result<(usize, Then<T>)> {
        let now = collected.missing().min(input.len());
        if now == 0 {
            self.carry = Carry::Collecting(collected);
            return Ok((0, Then::Relay));
        }
        collected.add(&input[..now]);
        let View {
            header,
            body,
            complete,
        } = collected.view();
        let (verdict, plain) = self.inspect_bare((header, body), complete, compression, inspect)?;
        let decompressed = match plain {
            Cow::Owned(plain) => Some(plain),
            Cow::Borrowed(_) => None,
        };
        Ok((now, self.collected(collected, decompressed, verdict)))
    }

    /// Decides on a message that is going to be taken out, as far as it has arrived.
    fn collected<T>(
        &mut self,
        collected: Collected,
        decompressed: Option<Vec<u8>>,
        verdict: Verdict<T>,
    ) -> Then<T> {
        let header = collected.header;
        if let Verdict::Discard(why) = verdict {
            self.discard_rest(collected.missing(), 0);
            return Then::Replace(vec![discarded(header, why)]);
        }
        if collected.missing() > 0 {
            self.carry = Carry::Collecting(collected);
            return Then::Replace(Vec::new());
        }
        let body = decompressed.unwrap_or(collected.body);
        let envelope = plain_envelope(header, body);
        Then::Replace(vec![match verdict {
            Verdict::Take(why) => Part::Taken(envelope, why),
            // The inspector has changed its mind. The message is framed anew.
            _ => Part::Raw(self.framing.frame(&envelope)),
        }])
    }

    fn relay_rest(&mut self, total: usize, now: usize) {
        self.carry = if now < total {
            Carry::Relaying(total - now)
        } else {
            Carry::Nothing
        };
    }

    fn discard_rest(&mut self, total: usize, now: usize) {
        self.carry = if now < total {
            Carry::Discarding(total - now)
        } else {
            Carry::Nothing
        };
    }

    fn within_limit(&self, length: usize) -> Result<()> {
        if length > self.hold_limit {
            return Err(ProtocolError::TooLarge {
                length: length as u64,
                limit: self.hold_limit as u64,
            });
        }
        Ok(())
    }
}

fn body_length(header: Header) -> Result<usize> {
    let length = header.length as usize;
    if length > BODY_BYTES_MAX {
        return Err(ProtocolError::TooLarge {
            length: length as u64,
            limit: BODY_BYTES_MAX as u64,
        });
    }
    Ok(length)
}

/// A message of its own, without compression.
fn plain_envelope(header: Header, body: Vec<u8>) -> Envelope {
    let Header {
        version,
        flags,
        stream,
        opcode,
        ..
    } = header;
    Envelope::with_flags(version, flags, stream, opcode, body)
}

/// The body of a whole message, in the same memory if it is ours.
fn body_of(message: Cow<'_, [u8]>) -> Vec<u8> {
    match message {
        Cow::Borrowed(message) => message[HEADER_BYTES..].to_vec(),
        Cow::Owned(mut message) => {
            message.drain(..HEADER_BYTES);
            message
        }
    }
}

enum Then<T> {
    Relay,
    Replace(Vec<Part<T>>),
}

#[cfg(test)]
mod tests;
