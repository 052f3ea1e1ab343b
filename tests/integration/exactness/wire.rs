//! Writes and reads of the test's own, on one v5 connection: many at a time, at a time that is given.
//!
//! Nothing is prepared: a node whose cache of statements is full takes new ones only now and then.

use std::net::SocketAddr;

use crate::support::request::{self, Parameters, Value};
use crate::support::{Codec, RawClient, opcode};

pub(crate) const ALL: u16 = 0x0005;
/// Requests under way at a time.
const WINDOW: usize = 64;

pub(crate) type Row = Vec<Option<Vec<u8>>>;

pub(crate) struct Wire {
    pub(crate) node: SocketAddr,
    client: RawClient,
    under_way: usize,
}

impl Wire {
    pub(crate) fn open(node: SocketAddr) -> Self {
        Self {
            node,
            client: RawClient::connect(node, Codec::V5),
            under_way: 0,
        }
    }

    /// Sends a write to all replicas; it has happened when [`Self::settle`] returns.
    pub(crate) fn write(&mut self, text: &str, values: Vec<Value>, now: i32) {
        let body = request::query_with(Codec::V5, text, &parameters(values, now));
        if self.under_way == WINDOW {
            self.receive(text);
        }
        self.client.asking = text.to_owned();
        self.client.send(1, opcode::QUERY, &body);
        self.under_way += 1;
    }

    fn receive(&mut self, text: &str) {
        let reply = self.client.receive();
        assert_eq!(reply.opcode, opcode::RESULT, "{text}: {:?}", reply.error());
        self.under_way -= 1;
    }

    pub(crate) fn settle(&mut self) {
        while self.under_way > 0 {
            self.receive("an earlier write");
        }
    }

    /// All rows, from all replicas, as they are at this time.
    pub(crate) fn read(&mut self, text: &str, values: Vec<Value>, now: i32) -> Vec<Row> {
        self.settle();
        let body = request::query_with(Codec::V5, text, &parameters(values, now));
        self.client.asking = text.to_owned();
        let reply = self.client.ask(opcode::QUERY, &body);
        assert_eq!(reply.opcode, opcode::RESULT, "{text}: {:?}", reply.error());
        reply.rows().rows
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
