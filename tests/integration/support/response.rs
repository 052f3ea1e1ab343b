//! Reads responses, apart from the proxy's own code. A response that cannot be read fails the test.

use super::frame::flag;
use super::{Codec, Frame, opcode};

/// A cursor over a body.
pub(crate) struct Body<'a>(pub(crate) &'a [u8]);

impl<'a> Body<'a> {
    pub(crate) fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count);
        self.0 = rest;
        taken
    }

    pub(crate) fn short(&mut self) -> usize {
        let bytes = self.take(2);
        u16::from_be_bytes([bytes[0], bytes[1]]).into()
    }

    pub(crate) fn int(&mut self) -> i32 {
        let bytes = self.take(4);
        i32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
    }

    pub(crate) fn string(&mut self) -> String {
        let length = self.short();
        String::from_utf8(self.take(length).to_vec()).expect("UTF-8")
    }

    pub(crate) fn short_bytes(&mut self) -> &'a [u8] {
        let length = self.short();
        self.take(length)
    }

    pub(crate) fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = self.int();
        usize::try_from(length).ok().map(|length| self.take(length))
    }

    fn option(&mut self) {
        match self.short() {
            0x00 => drop(self.string()),
            0x20 | 0x22 => self.option(),
            0x21 => {
                self.option();
                self.option();
            }
            0x31 => {
                for _ in 0..self.short() {
                    self.option();
                }
            }
            0x30 => {
                self.string();
                self.string();
                for _ in 0..self.short() {
                    self.string();
                    self.option();
                }
            }
            _ => {}
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rows {
    pub(crate) names: Vec<String>,
    pub(crate) paging_state: Option<Vec<u8>>,
    /// The bytes of the whole metadata.
    pub(crate) metadata: Vec<u8>,
    pub(crate) rows: Vec<Vec<Option<Vec<u8>>>>,
}

impl Rows {
    /// A value of the only row.
    pub(crate) fn only(&self, name: &str) -> Option<&[u8]> {
        assert_eq!(self.rows.len(), 1, "one row");
        self.get(0, name)
    }

    pub(crate) fn get(&self, row: usize, name: &str) -> Option<&[u8]> {
        let index = self.names.iter().position(|column| column == name);
        let index = index.unwrap_or_else(|| panic!("no column {name}"));
        self.rows[row][index].as_deref()
    }
}

impl Frame {
    /// The message behind trace id, warnings and custom payload.
    pub(crate) fn message(&self) -> Body<'_> {
        let mut body = Body(&self.body);
        if self.flags & flag::TRACING != 0 {
            body.take(16);
        }
        if self.flags & flag::WARNING != 0 {
            for _ in 0..body.short() {
                body.string();
            }
        }
        if self.flags & flag::CUSTOM_PAYLOAD != 0 {
            for _ in 0..body.short() {
                body.string();
                body.bytes();
            }
        }
        body
    }

    /// Code and text of an ERROR; nothing for other messages.
    pub(crate) fn error(&self) -> Option<(i32, String)> {
        if self.opcode != opcode::ERROR {
            return None;
        }
        let mut message = self.message();
        Some((message.int(), message.string()))
    }

    /// The id that UNPREPARED names.
    pub(crate) fn unprepared_id(&self) -> Vec<u8> {
        let mut message = self.message();
        assert_eq!(message.int(), 0x2500, "UNPREPARED");
        message.string();
        message.short_bytes().to_vec()
    }

    pub(crate) fn prepared(&self, codec: Codec) -> (Vec<u8>, Vec<u8>) {
        let mut message = self.message();
        assert_eq!(message.int(), 4, "PREPARED");
        let id = message.short_bytes().to_vec();
        let metadata_id = match codec.version {
            5 => message.short_bytes().to_vec(),
            _ => Vec::new(),
        };
        (id, metadata_id)
    }

    /// The names of the bind variables of a PREPARED.
    pub(crate) fn bind_names(&self, codec: Codec) -> Vec<String> {
        let mut message = self.message();
        assert_eq!(message.int(), 4, "PREPARED");
        message.short_bytes();
        if codec.version == 5 {
            message.short_bytes();
        }
        let global = message.int() & 1 != 0;
        let columns = message.int();
        if codec.version > 3 {
            for _ in 0..message.int() {
                message.short();
            }
        }
        if global {
            message.string();
            message.string();
        }
        let name = |_| {
            if !global {
                message.string();
                message.string();
            }
            let name = message.string();
            message.option();
            name
        };
        (0..columns).map(name).collect()
    }

    pub(crate) fn rows(&self) -> Rows {
        assert_eq!(self.opcode, opcode::RESULT, "{:?}", self.error());
        let mut message = self.message();
        assert_eq!(message.int(), 2, "Rows");
        let before = message.0;
        let (names, paging_state) = metadata(&mut message);
        let metadata = before[..before.len() - message.0.len()].to_vec();
        let count = message.int();
        let rows = (0..count)
            .map(|_| {
                let value = |_: &String| message.bytes().map(<[u8]>::to_vec);
                names.iter().map(value).collect()
            })
            .collect();
        assert!(message.0.is_empty(), "bytes behind the last row");
        Rows {
            names,
            paging_state,
            metadata,
            rows,
        }
    }
}

fn metadata(message: &mut Body<'_>) -> (Vec<String>, Option<Vec<u8>>) {
    let flags = message.int();
    let columns = message.int();
    let paging_state = (flags & 2 != 0).then(|| message.bytes().expect("a state").to_vec());
    if flags & 8 != 0 {
        message.short_bytes();
    }
    if flags & 4 != 0 {
        return (vec![String::new(); columns as usize], paging_state);
    }
    if flags & 1 != 0 {
        message.string();
        message.string();
    }
    let names = (0..columns)
        .map(|_| {
            if flags & 1 == 0 {
                message.string();
                message.string();
            }
            let name = message.string();
            message.option();
            name
        })
        .collect();
    (names, paging_state)
}
