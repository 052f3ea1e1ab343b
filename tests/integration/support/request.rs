//! Bodies of requests, written apart from the proxy's own code.

use super::Codec;

pub(crate) const ONE: u16 = 0x0001;
pub(crate) const QUORUM: u16 = 0x0004;
pub(crate) const SERIAL: u16 = 0x0008;

pub(crate) fn short(out: &mut Vec<u8>, value: usize) {
    let value = u16::try_from(value).expect("fits a [short]");
    out.extend_from_slice(&value.to_be_bytes());
}

pub(crate) fn int(out: &mut Vec<u8>, value: i32) {
    out.extend_from_slice(&value.to_be_bytes());
}

pub(crate) fn string(out: &mut Vec<u8>, text: &str) {
    short(out, text.len());
    out.extend_from_slice(text.as_bytes());
}

pub(crate) fn long_string(out: &mut Vec<u8>, text: &[u8]) {
    int(out, text.len() as i32);
    out.extend_from_slice(text);
}

pub(crate) fn short_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    short(out, bytes.len());
    out.extend_from_slice(bytes);
}

/// A bound value.
#[derive(Debug, Clone)]
pub(crate) enum Value {
    Bytes(Vec<u8>),
    Null,
    Unset,
}

impl Value {
    pub(crate) fn int(value: i32) -> Self {
        Self::Bytes(value.to_be_bytes().to_vec())
    }

    pub(crate) fn long(value: i64) -> Self {
        Self::Bytes(value.to_be_bytes().to_vec())
    }

    pub(crate) fn text(value: &str) -> Self {
        Self::Bytes(value.as_bytes().to_vec())
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Bytes(bytes) => long_string(out, bytes),
            Self::Null => int(out, -1),
            Self::Unset => int(out, -2),
        }
    }
}

/// `<query_parameters>`, all of them optional.
#[derive(Debug, Clone, Default)]
pub(crate) struct Parameters {
    pub(crate) consistency: Option<u16>,
    pub(crate) values: Vec<Value>,
    pub(crate) names: Vec<&'static str>,
    pub(crate) skip_metadata: bool,
    pub(crate) page_size: Option<i32>,
    pub(crate) paging_state: Option<Vec<u8>>,
    pub(crate) serial_consistency: Option<u16>,
    pub(crate) timestamp: Option<i64>,
    pub(crate) keyspace: Option<String>,
    pub(crate) now_in_seconds: Option<i32>,
}

impl Parameters {
    pub(crate) fn values(values: &[Value]) -> Self {
        Self {
            values: values.to_vec(),
            ..Self::default()
        }
    }

    fn flags(&self) -> u32 {
        [
            (0x01, !self.values.is_empty()),
            (0x02, self.skip_metadata),
            (0x04, self.page_size.is_some()),
            (0x08, self.paging_state.is_some()),
            (0x10, self.serial_consistency.is_some()),
            (0x20, self.timestamp.is_some()),
            (0x40, !self.names.is_empty()),
            (0x80, self.keyspace.is_some()),
            (0x100, self.now_in_seconds.is_some()),
        ]
        .iter()
        .filter(|(_, set)| *set)
        .fold(0, |flags, (bit, _)| flags | bit)
    }

    pub(crate) fn write(&self, codec: Codec, out: &mut Vec<u8>) {
        short(out, self.consistency.unwrap_or(ONE).into());
        let flags = self.flags();
        match codec.version {
            5 => int(out, flags as i32),
            _ => out.push(u8::try_from(flags).expect("only v5 has more flags")),
        }
        if !self.values.is_empty() {
            short(out, self.values.len());
            for (index, value) in self.values.iter().enumerate() {
                if let Some(name) = self.names.get(index) {
                    string(out, name);
                }
                value.write(out);
            }
        }
        if let Some(size) = self.page_size {
            int(out, size);
        }
        if let Some(state) = &self.paging_state {
            long_string(out, state);
        }
        if let Some(consistency) = self.serial_consistency {
            short(out, consistency.into());
        }
        if let Some(timestamp) = self.timestamp {
            out.extend_from_slice(&timestamp.to_be_bytes());
        }
        if let Some(keyspace) = &self.keyspace {
            string(out, keyspace);
        }
        if let Some(now) = self.now_in_seconds {
            int(out, now);
        }
    }
}

pub(crate) fn startup(compression: Option<&str>) -> Vec<u8> {
    let mut options = vec![("CQL_VERSION", "3.0.0"), ("DRIVER_NAME", "raw")];
    options.extend(compression.map(|name| ("COMPRESSION", name)));
    let mut body = Vec::new();
    short(&mut body, options.len());
    for (key, value) in options {
        string(&mut body, key);
        string(&mut body, value);
    }
    body
}

pub(crate) fn register(kinds: &[&str]) -> Vec<u8> {
    let mut body = Vec::new();
    short(&mut body, kinds.len());
    for kind in kinds {
        string(&mut body, kind);
    }
    body
}

pub(crate) fn query(codec: Codec, text: &str) -> Vec<u8> {
    query_with(codec, text, &Parameters::default())
}

pub(crate) fn query_with(codec: Codec, text: &str, parameters: &Parameters) -> Vec<u8> {
    query_bytes(codec, text.as_bytes(), parameters)
}

/// A QUERY whose text need not be UTF-8.
pub(crate) fn query_bytes(codec: Codec, text: &[u8], parameters: &Parameters) -> Vec<u8> {
    let mut body = Vec::new();
    long_string(&mut body, text);
    parameters.write(codec, &mut body);
    body
}

pub(crate) fn prepare(codec: Codec, text: &str, keyspace: Option<&str>) -> Vec<u8> {
    let mut body = Vec::new();
    long_string(&mut body, text.as_bytes());
    if codec.version == 5 {
        int(&mut body, i32::from(keyspace.is_some()));
        if let Some(keyspace) = keyspace {
            string(&mut body, keyspace);
        }
    }
    body
}

/// `id` is what `RawClient::prepare` returned.
pub(crate) fn execute(codec: Codec, id: &(Vec<u8>, Vec<u8>), parameters: &Parameters) -> Vec<u8> {
    let mut body = Vec::new();
    short_bytes(&mut body, &id.0);
    if codec.version == 5 {
        short_bytes(&mut body, &id.1);
    }
    parameters.write(codec, &mut body);
    body
}

/// One statement of a batch.
pub(crate) enum Item<'a> {
    Text(&'a str, Vec<Value>),
    Prepared(&'a [u8], Vec<Value>),
}

pub(crate) const LOGGED: u8 = 0;
pub(crate) const UNLOGGED: u8 = 1;
pub(crate) const COUNTER: u8 = 2;

pub(crate) fn batch(codec: Codec, kind: u8, items: &[Item<'_>]) -> Vec<u8> {
    batch_at(codec, kind, items, ONE)
}

pub(crate) fn batch_at(codec: Codec, kind: u8, items: &[Item<'_>], consistency: u16) -> Vec<u8> {
    let mut body = vec![kind];
    short(&mut body, items.len());
    for item in items {
        let values = match item {
            Item::Text(text, values) => {
                body.push(0);
                long_string(&mut body, text.as_bytes());
                values
            }
            Item::Prepared(id, values) => {
                body.push(1);
                short_bytes(&mut body, id);
                values
            }
        };
        short(&mut body, values.len());
        for value in values {
            value.write(&mut body);
        }
    }
    short(&mut body, consistency.into());
    match codec.version {
        5 => int(&mut body, 0),
        _ => body.push(0),
    }
    body
}
