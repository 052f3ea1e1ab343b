//! Writes and reads of the test's own, on one v5 connection: prepared, many at a time, at a time that is given.

use std::collections::HashMap;
use std::net::SocketAddr;

use crate::support::request::{self, Parameters, Value};
use crate::support::{Codec, Frame, RawClient, opcode};

pub(crate) const ALL: u16 = 0x0005;
const UNPREPARED: i32 = 0x2500;
/// Requests under way at a time.
const WINDOW: usize = 64;

pub(crate) type Row = Vec<Option<Vec<u8>>>;
type Id = (Vec<u8>, Vec<u8>);

pub(crate) struct Wire {
    client: RawClient,
    prepared: HashMap<String, Id>,
    /// By stream.
    under_way: HashMap<i16, Write>,
}

struct Write {
    text: String,
    values: Vec<Value>,
    now: i32,
}

impl Wire {
    pub(crate) fn open(node: SocketAddr) -> Self {
        Self {
            client: RawClient::connect(node, Codec::V5),
            prepared: HashMap::new(),
            under_way: HashMap::new(),
        }
    }

    fn id(&mut self, text: &str) -> Id {
        if let Some(id) = self.prepared.get(text) {
            return id.clone();
        }
        self.settle();
        let id = self.client.prepare(text);
        self.prepared.insert(text.to_owned(), id.clone());
        id
    }

    /// Sends a write to all replicas; it has happened when [`Self::settle`] returns.
    pub(crate) fn write(&mut self, text: &str, values: Vec<Value>, now: i32) {
        // Before a stream is taken: preparing waits for those that are.
        self.id(text);
        if self.under_way.len() == WINDOW {
            self.receive();
        }
        let free = (1..).find(|stream| !self.under_way.contains_key(stream));
        let write = Write {
            text: text.to_owned(),
            values,
            now,
        };
        self.send(free.expect("fewer are under way than there are"), write);
    }

    fn send(&mut self, stream: i16, write: Write) {
        let id = &self.prepared[&write.text];
        let body = request::execute(Codec::V5, id, &parameters(write.values.clone(), write.now));
        self.client.asking = write.text.clone();
        self.client.send(stream, opcode::EXECUTE, &body);
        self.under_way.insert(stream, write);
    }

    /// A node forgets statements when others prepare many; then the write is sent again.
    fn receive(&mut self) {
        let reply = self.client.receive();
        let write = self
            .under_way
            .remove(&reply.stream)
            .expect("a write of ours");
        let forgotten = reply.error().is_some_and(|(code, _)| code == UNPREPARED);
        if forgotten {
            self.prepared.remove(&write.text);
            self.id(&write.text);
            return self.send(reply.stream, write);
        }
        let text = &write.text;
        assert_eq!(reply.opcode, opcode::RESULT, "{text}: {:?}", reply.error());
    }

    pub(crate) fn settle(&mut self) {
        while !self.under_way.is_empty() {
            self.receive();
        }
    }

    /// All rows, from all replicas, as they are at this time.
    pub(crate) fn read(&mut self, text: &str, values: Vec<Value>, now: i32) -> Vec<Row> {
        self.settle();
        let parameters = Parameters {
            skip_metadata: true,
            ..parameters(values, now)
        };
        self.client.asking = text.to_owned();
        let mut reply = self.execute(text, &parameters);
        if reply.error().is_some_and(|(code, _)| code == UNPREPARED) {
            self.prepared.remove(text);
            reply = self.execute(text, &parameters);
        }
        assert_eq!(reply.opcode, opcode::RESULT, "{text}: {:?}", reply.error());
        reply.rows().rows
    }

    fn execute(&mut self, text: &str, parameters: &Parameters) -> Frame {
        let id = self.id(text);
        let body = request::execute(Codec::V5, &id, parameters);
        self.client.ask(opcode::EXECUTE, &body)
    }
}

fn parameters(values: Vec<Value>, now: i32) -> Parameters {
    Parameters {
        consistency: Some(ALL),
        values,
        now_in_seconds: Some(now),
        ..Parameters::default()
    }
}
