//! Writes to partitions that are being split, or are: no read that begins after a write was acknowledged misses it, whatever
//! kind of write it is and whatever happens on its way. Random ones are the storm's.

mod accept_limit;
mod changes;
mod every_statement;
mod hints;
mod keyspaces;
mod kinds;
mod on_its_way;
mod proxies;
mod relays;
mod split_tables;
mod unknown;

use narrows::wide_row::names::Generation;
use narrows::wide_row::state::State;
use narrows::wide_row::store::SplitId;

use crate::exactness::control::Control;
use crate::exactness::seconds_now;
use crate::pipeline::world::{Client, World, days_ago, until_answered, until_completed};
use crate::support::proxy::Builder;
use crate::support::request::Parameters;
use crate::support::{Cluster, Codec, Proxy, RawClient};

const ROWS: i32 = 300;
/// So that nobody waits for long until all know of a change.
const POLL_INTERVAL: &str = "100ms";
const CODECS: [Codec; 2] = [Codec::V5, Codec::V4];

/// Two proxies before one table, and a worker that splits its partitions. Dropped in this order.
struct Pair {
    through: [Client; 2],
    writing: [RawClient; 2],
    proxies: [Proxy; 2],
    control: Control,
    _worker: Proxy,
    world: World,
}

/// A machine that is very busy says so.
const TOO_LATE: &str = "cannot be followed; writes and reads go on";

/// Somebody has, around the proxies.
const CHANGED: &str = "the table was changed; all its splits are out of service";

fn quick(builder: Builder) -> Builder {
    builder
        .set("control.poll_interval", POLL_INTERVAL)
        .expecting(TOO_LATE)
}

impl Pair {
    /// `table` is `CREATE TABLE t …`; `fill` writes a partition of it.
    fn start(cluster: &Cluster, table: &str, expected: &'static str) -> Self {
        let world = World::create(cluster, Codec::V5, 1, &[table]);
        let proxies = [0, 1].map(|_| quick(world.proxy()).expecting(expected).start());
        let worker = quick(world.splitter().worker()).expecting(expected).start();
        Self {
            through: [0, 1].map(|at| Client::connect(proxies[at].address(), CODECS[at])),
            writing: [0, 1].map(|at| RawClient::connect(proxies[at].address(), CODECS[at])),
            control: world.control(),
            proxies,
            _worker: worker,
            world,
        }
    }

    fn id(&self) -> SplitId {
        self.world.id(1)
    }

    /// All of partition 1 that can be seen.
    fn text(&self) -> String {
        let table = self.world.name("t");
        format!("SELECT c, v, WRITETIME(v), TTL(v) FROM {table} WHERE k = 1")
    }

    /// Splits partition 1, and returns when both proxies read from it.
    fn split(&mut self) -> Generation {
        let id = self.id();
        let generation = self.control.nominate(&id);
        until_completed(&self.control, &id);
        let text = format!(
            "SELECT c, v, WRITETIME(v) FROM {} WHERE k = 1",
            self.world.name("t")
        );
        let expected = self.world.direct.scan(&text);
        for (proxy, through) in self.proxies.iter().zip(&mut self.through) {
            until_answered(proxy, through, &text, &expected);
        }
        generation
    }

    /// A statement through one of them that must succeed; `{}` is the table.
    fn write(&mut self, at: usize, statement: &str) {
        let text = statement.replace("{}", &self.world.name("t"));
        self.writing[at].query(&text);
    }

    /// Everybody sees the same, and the rows are so many.
    fn assert_same(&mut self, what: &str, rows: usize) {
        let text = self.text();
        let [parameters, older] = [Some(seconds_now()), None].map(|now_in_seconds| Parameters {
            now_in_seconds,
            ..Parameters::default()
        });
        let expected = self.world.direct.scan_with(&text, parameters.clone());
        assert_eq!(expected.len(), rows, "{what}");
        let found = self.through[0].scan_with(&text, parameters);
        assert!(found == expected, "{what}, with its time");
        let keys = |rows: Vec<Vec<Option<Vec<u8>>>>| -> Vec<_> {
            rows.into_iter().map(|row| row[..3].to_vec()).collect()
        };
        let found = self.through[1].scan_with(&text, older);
        assert!(keys(found) == keys(expected), "{what}");
    }

    /// A generation was ended by a write.
    fn assert_ended(&self, generation: Generation) {
        let split = self.control.split(&self.id()).expect("was nominated");
        assert_eq!(split.standing.generation, generation);
        assert_eq!(split.standing.state, State::Invalidated);
        assert!(split.reason.is_some());
    }
}

/// Microseconds since 1970, long after all rows were filled in, and long enough ago for a partition to be closed.
fn recently() -> i64 {
    days_ago(1)
}
