//! A conversation that remembers every reply with the request it answers.

use std::net::SocketAddr;

use crate::support::frame::flag;
use crate::support::request::{self, Parameters};
use crate::support::{Codec, Frame, RawClient, opcode};

pub(crate) struct Talk {
    pub(crate) client: RawClient,
    /// What was asked, and the bytes that came back.
    pub(crate) heard: Vec<(String, Vec<u8>)>,
    stream: i16,
}

impl Talk {
    pub(crate) fn open(address: SocketAddr, codec: Codec) -> Self {
        Self {
            client: RawClient::open(address, codec),
            heard: Vec::new(),
            stream: 0,
        }
    }

    pub(crate) fn codec(&self) -> Codec {
        self.client.codec
    }

    pub(crate) fn startup(&mut self) {
        self.client.startup();
        let bytes = self.client.take_record();
        self.heard.push(("STARTUP".to_owned(), bytes));
    }

    /// Asks and remembers the reply as it came from the wire.
    pub(crate) fn ask(&mut self, label: &str, flags: u8, opcode: u8, body: &[u8]) -> Frame {
        self.client.asking = label.to_owned();
        let frame = self.send(flags, opcode, body);
        let bytes = self.client.take_record();
        self.heard.push((label.to_owned(), bytes));
        frame
    }

    /// Asks what may be answered by the proxy itself, which compresses nothing, or with a trace id, which is different
    /// every time.
    pub(crate) fn ask_unpacked(&mut self, label: &str, flags: u8, opcode: u8, body: &[u8]) {
        self.client.asking = label.to_owned();
        let mut frame = self.send(flags, opcode, body);
        self.client.take_record();
        if frame.flags & flag::TRACING != 0 {
            frame.body[..16].fill(0);
        }
        self.heard.push((label.to_owned(), frame.bytes()));
    }

    /// Asks something whose reply is the proxy's business.
    pub(crate) fn ask_aside(&mut self, opcode: u8, body: &[u8]) -> Frame {
        let frame = self.send(0, opcode, body);
        self.client.take_record();
        frame
    }

    fn send(&mut self, flags: u8, opcode: u8, body: &[u8]) -> Frame {
        // Low, high and all in between: ids are the client's to choose.
        self.stream = self.stream.wrapping_add(4099) & i16::MAX;
        self.client.send_flagged(flags, self.stream, opcode, body);
        let frame = self.client.receive();
        assert_eq!(frame.stream, self.stream, "{:?}", frame.error());
        frame
    }

    pub(crate) fn query(&mut self, text: &str) -> Frame {
        self.query_with(text, &Parameters::default())
    }

    pub(crate) fn query_with(&mut self, text: &str, parameters: &Parameters) -> Frame {
        let body = request::query_with(self.codec(), text, parameters);
        let label = format!("{} {parameters:.200?}", &text[..text.len().min(100)]);
        self.ask(&label, 0, opcode::QUERY, &body)
    }

    /// Sends all at once and remembers each reply by its stream, in whatever order they come.
    pub(crate) fn ask_together(&mut self, label: &str, requests: &[(u8, Vec<u8>)]) {
        let codec = self.codec();
        let envelopes: Vec<u8> = requests
            .iter()
            .enumerate()
            .flat_map(|(stream, (opcode, body))| {
                crate::support::frame::request(codec, 0, stream as i16, *opcode, body)
            })
            .collect();
        self.client.send_envelopes(&envelopes);
        let mut replies: Vec<Frame> = requests.iter().map(|_| self.client.receive()).collect();
        replies.sort_by_key(|reply| reply.stream);
        self.client.take_record();
        for reply in replies {
            let label = format!("{label}, stream {}", reply.stream);
            self.heard.push((label, reply.bytes()));
        }
    }
}

pub(crate) fn assert_same(
    context: &str,
    direct: &[(String, Vec<u8>)],
    through: &[(String, Vec<u8>)],
) {
    for ((asked, direct), (_, through)) in direct.iter().zip(through) {
        assert!(
            direct == through,
            "{context}: {asked}\n  direct: {}\n through: {}",
            shown(direct),
            shown(through)
        );
    }
    assert_eq!(direct.len(), through.len(), "{context}");
}

/// Long ones around where they may differ are no use to a reader.
fn shown(bytes: &[u8]) -> String {
    let start = bytes[..bytes.len().min(300)].escape_ascii();
    format!("{} bytes, {start}", bytes.len())
}
