//! A client's connection to somebody who may be killed: what is lost is said, and the next request goes over a new one.

use std::collections::HashMap;
use std::net::SocketAddr;

use super::statement::Statement;
use crate::support::request::{self, Item, Parameters, QUORUM, Value};
use crate::support::{Codec, Frame, RawClient, eventually, opcode};

const UNPREPARED: i32 = 0x2500;
/// A node whose cache is full may forget a statement at once.
const ATTEMPTS: usize = 20;

/// How a statement is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// With its values in the text.
    Literal,
    /// As text with values.
    Bound,
    Executed,
}

impl Way {
    pub(super) const ALL: [Self; 3] = [Self::Literal, Self::Bound, Self::Executed];
}

/// Of a statement, and in v5 of its result metadata.
type Id = (Vec<u8>, Vec<u8>);

pub(super) struct Line {
    address: SocketAddr,
    codec: Codec,
    client: Option<RawClient>,
    prepared: HashMap<String, Id>,
}

impl Line {
    pub(super) fn new(address: SocketAddr, codec: Codec) -> Self {
        Self {
            address,
            codec,
            client: None,
            prepared: HashMap::new(),
        }
    }

    /// A request that is to be sent as it is; nothing if the connection was lost before its reply.
    fn ask(&mut self, opcode: u8, body: &[u8]) -> Option<Frame> {
        let (address, codec) = (self.address, self.codec);
        let client = self.client.get_or_insert_with(|| {
            eventually("somebody listens", || {
                RawClient::try_connect(address, codec)
            })
        });
        let reply = client.try_ask(opcode, body);
        if reply.is_none() {
            self.client = None;
            self.prepared.clear();
        }
        reply
    }

    fn id(&mut self, text: &str) -> Option<Id> {
        if let Some(id) = self.prepared.get(text) {
            return Some(id.clone());
        }
        let reply = self.ask(opcode::PREPARE, &request::prepare(self.codec, text, None))?;
        assert_eq!(reply.error(), None, "{text}");
        let id = reply.prepared(self.codec);
        self.prepared.insert(text.to_owned(), id.clone());
        Some(id)
    }

    /// A statement at QUORUM, with what else is in the parameters.
    pub(super) fn say(&mut self, way: Way, text: &str, parameters: &Parameters) -> Option<Frame> {
        let parameters = Parameters {
            consistency: Some(QUORUM),
            ..parameters.clone()
        };
        if way != Way::Executed {
            let body = request::query_with(self.codec, text, &parameters);
            return self.ask(opcode::QUERY, &body);
        }
        self.until_prepared(|line| {
            let id = line.id(text)?;
            let body = request::execute(line.codec, &id, &parameters);
            line.ask(opcode::EXECUTE, &body)
        })
    }

    pub(super) fn write(&mut self, way: Way, statement: &Statement) -> Option<Frame> {
        match way {
            Way::Literal => self.say(way, &statement.literal(), &Parameters::default()),
            _ => self.say(
                way,
                &statement.text,
                &Parameters::values(&values(statement)),
            ),
        }
    }

    /// As one BATCH of this kind.
    pub(super) fn write_batch(
        &mut self,
        way: Way,
        kind: u8,
        statements: &[Statement],
    ) -> Option<Frame> {
        if way == Way::Literal {
            let kind = if kind == request::UNLOGGED {
                "UNLOGGED "
            } else {
                ""
            };
            let texts: Vec<String> = statements.iter().map(Statement::literal).collect();
            let text = format!("BEGIN {kind}BATCH {}; APPLY BATCH", texts.join("; "));
            return self.say(way, &text, &Parameters::default());
        }
        self.until_prepared(|line| {
            let mut ids = Vec::new();
            if way == Way::Executed {
                for statement in statements {
                    ids.push(line.id(&statement.text)?);
                }
            }
            let item = |(number, statement): (usize, &'_ Statement)| match ids.get(number) {
                Some(id) => Item::Prepared(&id.0, values(statement)),
                None => Item::Text(&statements[number].text, values(statement)),
            };
            let items: Vec<Item<'_>> = statements.iter().enumerate().map(item).collect();
            let body = request::batch_at(line.codec, kind, &items, QUORUM);
            line.ask(opcode::BATCH, &body)
        })
    }

    /// As drivers do: what is not prepared any more is prepared again.
    fn until_prepared(
        &mut self,
        mut attempt: impl FnMut(&mut Self) -> Option<Frame>,
    ) -> Option<Frame> {
        for _ in 1..ATTEMPTS {
            let reply = attempt(self)?;
            if reply.error().is_none_or(|(code, _)| code != UNPREPARED) {
                return Some(reply);
            }
            self.prepared.clear();
        }
        attempt(self)
    }
}

fn values(statement: &Statement) -> Vec<Value> {
    statement
        .values
        .iter()
        .map(super::statement::Bound::value)
        .collect()
}
