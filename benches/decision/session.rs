//! A session that is established and has its statements prepared, all through its judge.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use narrows::config::Config;
use narrows::known::Known;
use narrows::known::cache::Layouts;
use narrows::known::lookup::Lookup;
use narrows::known::retire::Retirer;
use narrows::known::service::WideRow;
use narrows::protocol::Version;
use narrows::protocol::deframer::View;
use narrows::protocol::header::{Header, opcode};
use narrows::protocol::request::query;
use narrows::protocol::response::result::kind;
use narrows::protocol::types::Write;
use narrows::proxy::Proxy;
use narrows::proxy::measure::MeasuredSession;
use narrows::sighting::{Sightings, WAITING_MAX};
use narrows::upstream::balance::Balance;
use narrows::upstream::dial::Dialer;
use tokio::runtime::Runtime;

use crate::requests;

const VERSION: u8 = 5;
const RESPONSE: u8 = 0x85;
const STREAM: i16 = 7;
/// A result without rows (native_protocol_v5 §4.2.5.1).
const VOID: i32 = 1;

/// What is executed again and again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Statement {
    Read,
    Write,
    /// To a table that nobody watches.
    OtherRead,
    OtherWrite,
}

impl Statement {
    const ALL: [Self; 4] = [Self::Read, Self::Write, Self::OtherRead, Self::OtherWrite];

    pub(crate) fn id(self) -> [u8; 16] {
        [self as u8 + 1; 16]
    }

    fn text(self) -> &'static str {
        match self {
            Self::Read => {
                "SELECT ts, value FROM plant.reading WHERE series = ? AND day = ? AND ts >= ? LIMIT ?"
            }
            Self::Write => "INSERT INTO plant.reading (series, day, ts, value) VALUES (?, ?, ?, ?)",
            Self::OtherRead => {
                "SELECT ts, value FROM plant.other WHERE series = ? AND day = ? AND ts >= ? LIMIT ?"
            }
            Self::OtherWrite => {
                "INSERT INTO plant.other (series, day, ts, value) VALUES (?, ?, ?, ?)"
            }
        }
    }
}

pub(crate) struct JudgedSession {
    session: MeasuredSession,
    /// A page of 100 rows, and a result without rows.
    rows: Vec<u8>,
    void: [u8; 4],
}

impl JudgedSession {
    /// `known`: what is split, in a proxy that watches tables.
    pub(crate) fn open(runtime: &Runtime, known: Option<Arc<Known>>) -> Result<Self> {
        let environment = [("NARROWS__UPSTREAM__CONTACT_POINTS", "127.0.0.1:9042")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        let config = Config::load(None, environment.into_iter());
        let config = config.map_err(|mistakes| anyhow::anyhow!("{mistakes}"))?;
        let proxy = Proxy::new(
            config,
            Arc::new(Balance::default()),
            Arc::default(),
            None,
            Dialer::new(Duration::from_secs(1), None),
            known.map(|known| wide_row(known, runtime)),
        );
        let opened = runtime.block_on(MeasuredSession::open(Arc::new(proxy)));
        let session = Self {
            session: opened.context("two connections on loopback")?,
            rows: requests::reply(),
            void: VOID.to_be_bytes(),
        };
        let mut startup = Vec::new();
        startup.put_short(1);
        startup.put_string("CQL_VERSION");
        startup.put_string("3.0.0");
        ensure!(
            session.request(opcode::STARTUP, &startup) && session.reply(opcode::READY, &[]),
            "the session is established"
        );
        for statement in Statement::ALL {
            let prepare = query::encode_prepare(Version::V5, statement.text(), None);
            ensure!(
                session.request(opcode::PREPARE, &prepare)
                    && session.reply(opcode::RESULT, &prepared(statement)),
                "the statements are prepared"
            );
        }
        Ok(session)
    }

    /// An EXECUTE and its reply; `false` if either goes further than the judge.
    pub(crate) fn pass(&self, execute: &[u8], statement: Statement) -> bool {
        let reply = match statement {
            Statement::Read | Statement::OtherRead => &self.rows[..],
            Statement::Write | Statement::OtherWrite => &self.void,
        };
        self.request(opcode::EXECUTE, execute) && self.reply(opcode::RESULT, reply)
    }

    fn request(&self, opcode: u8, body: &[u8]) -> bool {
        self.session.forwards(view(VERSION, opcode, body))
    }

    fn reply(&self, opcode: u8, body: &[u8]) -> bool {
        self.session.passes(view(RESPONSE, opcode, body))
    }
}

fn view(version: u8, opcode: u8, body: &[u8]) -> View<'_> {
    View {
        header: Header {
            version,
            flags: 0,
            stream: STREAM,
            opcode,
            length: u32::try_from(body.len()).unwrap_or(u32::MAX),
        },
        body,
        complete: true,
    }
}

/// A PREPARED reply without columns (native_protocol_v5 §4.2.5.4): the judge reads its id only.
fn prepared(statement: Statement) -> Vec<u8> {
    let mut body = Vec::new();
    body.put_int(kind::PREPARED);
    body.put_short_bytes(&statement.id());
    body.put_short_bytes(&statement.id());
    body
}

fn wide_row(known: Arc<Known>, runtime: &Runtime) -> WideRow {
    let layouts = Layouts::new(1 << 20, None);
    let (sightings, _) = Sightings::channel(WAITING_MAX);
    WideRow {
        known,
        lookup: Arc::new(Lookup::new(Arc::default(), 1 << 20, layouts)),
        retirer: Retirer::new(Arc::default(), runtime.handle().clone()),
        sightings,
    }
}
