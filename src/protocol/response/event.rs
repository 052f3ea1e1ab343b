//! EVENT (native_protocol_v5 §4.2.6).

use std::net::{IpAddr, SocketAddr};

use crate::protocol::ProtocolError;
use crate::protocol::types::{Cursor, Write, int_len};

/// The event types a client can REGISTER for.
pub const TYPES: [&str; 3] = ["TOPOLOGY_CHANGE", "STATUS_CHANGE", "SCHEMA_CHANGE"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'a> {
    /// A node joins, leaves, goes up or down: TOPOLOGY_CHANGE and STATUS_CHANGE.
    Node {
        kind: &'a str,
        change: &'a str,
        address: SocketAddr,
    },
    /// A table was created, altered or dropped.
    Table { keyspace: &'a str, table: &'a str },
    /// Any other schema change: keyspaces, types, functions, aggregates.
    Schema,
    /// An event type this version does not know.
    Other,
}

pub fn read<'a>(mut message: Cursor<'a>) -> Result<Event<'a>, ProtocolError> {
    match message.string()? {
        kind @ ("TOPOLOGY_CHANGE" | "STATUS_CHANGE") => {
            let change = message.string()?;
            let address = read_inet(&mut message)?;
            Ok(Event::Node {
                kind,
                change,
                address,
            })
        }
        "SCHEMA_CHANGE" => read_schema(message),
        _ => Ok(Event::Other),
    }
}

/// Kind of change, kind of target, and the target's names: the layout is the same in v3, v4 and v5.
fn read_schema<'a>(mut message: Cursor<'a>) -> Result<Event<'a>, ProtocolError> {
    let _change = message.string()?;
    Ok(match message.string()? {
        "TABLE" => Event::Table {
            keyspace: message.string()?,
            table: message.string()?,
        },
        _ => Event::Schema,
    })
}

/// The body of a node event with this address.
pub fn encode_node(kind: &str, change: &str, address: SocketAddr) -> Vec<u8> {
    let mut body = Vec::new();
    body.put_string(kind);
    body.put_string(change);
    match address.ip() {
        IpAddr::V4(ip) => {
            body.put_byte(4);
            body.extend_from_slice(&ip.octets());
        }
        IpAddr::V6(ip) => {
            body.put_byte(16);
            body.extend_from_slice(&ip.octets());
        }
    }
    body.put_int(int_len(address.port().into()));
    body
}

fn read_inet(cursor: &mut Cursor<'_>) -> Result<SocketAddr, ProtocolError> {
    let length = usize::from(cursor.byte()?);
    let ip = ip_from_bytes(cursor.take(length, "inet")?).ok_or(ProtocolError::Truncated("inet"))?;
    let port = cursor.int()?;
    let port = u16::try_from(port).map_err(|_| ProtocolError::NegativeLength(port, "port"))?;
    Ok(SocketAddr::new(ip, port))
}

/// An `inet` value: four or sixteen bytes.
pub fn ip_from_bytes(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from),
        16 => <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_told_from_other_changes_of_the_schema() {
        let event = |words: &[&str]| {
            let mut body = Vec::new();
            words.iter().for_each(|word| body.put_string(word));
            body
        };
        let table = event(&["SCHEMA_CHANGE", "CREATED", "TABLE", "plant", "reading"]);
        let read_table = Event::Table {
            keyspace: "plant",
            table: "reading",
        };
        assert_eq!(read(Cursor::new(&table)), Ok(read_table));
        for end in 0..table.len() {
            assert!(read(Cursor::new(&table[..end])).is_err(), "{end}");
        }
        for other in [
            &["SCHEMA_CHANGE", "DROPPED", "KEYSPACE", "plant"][..],
            &["SCHEMA_CHANGE", "UPDATED", "TYPE", "plant", "reading"],
        ] {
            assert_eq!(read(Cursor::new(&event(other))), Ok(Event::Schema));
        }
    }

    #[test]
    fn node_events_survive_a_round_trip() {
        for address in ["127.0.0.1:9042", "[::1]:9142"] {
            let address = address.parse().expect("an address");
            let body = encode_node("STATUS_CHANGE", "UP", address);
            let event = Event::Node {
                kind: "STATUS_CHANGE",
                change: "UP",
                address,
            };
            assert_eq!(read(Cursor::new(&body)), Ok(event));
            for end in 0..body.len() {
                assert!(read(Cursor::new(&body[..end])).is_err(), "{end}");
            }
        }
    }
}
