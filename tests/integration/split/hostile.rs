//! What clients and nodes can do to a proxy, with times and sizes: `make hostile` runs this.
//!
//! Every check prints what was seen and what is allowed. The last line says how many failed. `ONLY=paused` runs the parts
//! with that in their name.

use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use super::backlog::{
    BESIDE_MIB, POINT_READ, SCANS, UNSPLIT, UNSPLIT_READ, UNSPLIT_TEXT, WIDE, WIDE_TEXT, ask_wide,
    idle, second_pages,
};
use super::world::{ANSWERED, World};
use super::{Ask, CODECS, Clients, state};
use crate::exactness::compare::comparable;
use crate::exactness::say;
use crate::support::request::{self, Parameters};
use crate::support::{Codec, RawClient, cluster_alone, opcode};

/// Takes minutes and measures times, so only `make hostile` asks for it.
#[test]
#[ignore = "make hostile runs it"]
fn every_check_holds() {
    let mut checks = Checks::default();
    type Part = (&'static str, fn(&mut Checks));
    let parts: [Part; 4] = [
        ("300 scans on one connection", many_scans),
        ("clients that never read", clients_that_never_read),
        ("a slow reader", a_slow_reader),
        ("a paused replica", a_paused_replica),
    ];
    let only = std::env::var("ONLY").unwrap_or_default();
    for (name, part) in parts.into_iter().filter(|(name, _)| name.contains(&only)) {
        say(&format!("{name}:"));
        if catch_unwind(AssertUnwindSafe(|| part(&mut checks))).is_err() {
            checks.check(false, "it ended early");
        }
    }
    say(&format!("{} checks, {} failed", checks.all, checks.failed));
    assert_eq!(checks.failed, 0);
}

#[derive(Default)]
struct Checks {
    all: usize,
    failed: usize,
}

impl Checks {
    fn check(&mut self, holds: bool, what: &str) {
        self.all += 1;
        self.failed += usize::from(!holds);
        let verdict = if holds { "ok    " } else { "FAILED" };
        say(&format!("  {verdict} {what}"));
    }

    /// What was measured is no more than allowed.
    fn at_most<T: PartialOrd + std::fmt::Debug>(&mut self, what: &str, found: T, most: T) {
        let holds = found <= most;
        self.check(holds, &format!("{what}: {found:?}, at most {most:?}"));
    }
}

fn many_scans(checks: &mut Checks) {
    let mut world = World::start(&[(1, 30)]);
    world.split(1);
    for codec in CODECS {
        let (expected, replies) = second_pages(&mut world, codec, false);
        let differs = |reply: &&crate::support::Frame| comparable(reply) != comparable(&expected);
        let others = replies.iter().filter(differs).count();
        let what = format!("{codec:?}: pages of {SCANS} that are not Cassandra's");
        checks.at_most(&what, others, 0);
    }
}

fn clients_that_never_read(checks: &mut Checks) {
    const BUDGET_MIB: u64 = 128;
    const CLIENTS: usize = 40;
    // Cassandra itself dies of a gigabyte of replies that nobody reads.
    const READS: usize = 3;
    const WATCHED: Duration = Duration::from_secs(30);
    let settings = &[("limits.split_read_bytes", "128MiB")];
    let mut world = World::large(&[WIDE, (2, 20)], WIDE_TEXT, settings);
    world.split(1);
    world.split(2);
    let small = Ask::new(Codec::V5, world.text("SELECT v FROM {} WHERE k = 2"));
    let direct = small.once(&mut world.direct);
    let mut clients: Vec<RawClient> = (0..CLIENTS).map(|number| idle(&world, number)).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        ask_wide(&world, client, number, READS);
    }
    let (began, mut most, mut others) = (Instant::now(), 0, 0);
    while began.elapsed() < WATCHED {
        most = most.max(world.proxy.memory_kib() >> 10);
        let beside = small.once(&mut world.through);
        others += usize::from(comparable(&beside) != comparable(&direct));
        sleep(Duration::from_millis(100));
    }
    let what = format!("MiB with {} replies of 5 MB unread", CLIENTS * READS);
    checks.at_most(&what, most, BUDGET_MIB + BESIDE_MIB);
    checks.at_most("replies beside them that are not Cassandra's", others, 0);
    drop(clients);
}

fn a_slow_reader(checks: &mut Checks) {
    let mut world = World::large(&[(1, 30), UNSPLIT], UNSPLIT_TEXT, &[]);
    world.split(1);
    for codec in CODECS {
        let direct = point_beside_pages(&world, world.cluster.node(), codec);
        let before = world.proxy.metric(ANSWERED);
        let through = point_beside_pages(&world, world.proxy.address(), codec);
        let what = format!("{codec:?}: a split read beside a slow reader's pages");
        checks.at_most(&what, through, direct + Duration::from_secs(1));
        let is_answered = world.proxy.metric(ANSWERED) > before;
        checks.check(is_answered, &format!("{codec:?}: the split answered"));
    }
}

/// How long one row takes on a connection that has 64 pages of 100 KB under way, and reads 2 MB a second.
fn point_beside_pages(world: &World, address: SocketAddr, codec: Codec) -> Duration {
    const PAGES: usize = 64;
    const BYTES_PER_SECOND: u64 = 2_000_000;
    const BEFORE: Duration = Duration::from_secs(5);
    const PATIENCE: Duration = Duration::from_secs(40);
    const POINT: i16 = 30_000;
    let page = request::query(codec, &world.text(UNSPLIT_READ));
    let point = request::query(codec, &world.text(POINT_READ));
    let mut client = RawClient::connect(address, codec);
    for stream in 0..PAGES {
        client.send(stream as i16, opcode::QUERY, &page);
    }
    let (began, mut bytes, mut asked) = (Instant::now(), 0, None::<Instant>);
    loop {
        let reply = client.receive();
        assert_eq!(reply.error(), None, "{codec:?}");
        match asked {
            Some(asked) if reply.stream == POINT => return asked.elapsed(),
            None if began.elapsed() > BEFORE => {
                client.send(POINT, opcode::QUERY, &point);
                asked = Some(Instant::now());
            }
            _ => {}
        }
        if began.elapsed() > PATIENCE {
            return PATIENCE;
        }
        client.send(reply.stream, opcode::QUERY, &page);
        bytes += reply.body.len() as u64;
        let due = Duration::from_micros(bytes * 1_000_000 / BYTES_PER_SECOND);
        sleep(due.saturating_sub(began.elapsed()));
    }
}

fn a_paused_replica(checks: &mut Checks) {
    const PAUSED: usize = 3;
    const PAUSE: Duration = Duration::from_secs(4);
    let mut world = World::everywhere(cluster_alone(), &[(1, 400)]);
    world.split(1);
    let text = world.text("SELECT * FROM {} WHERE k = 1");
    let nodes = world.cluster.nodes().to_vec();
    let direct = RawClient::connect(nodes[0], Codec::V4);
    let through = on_another_node(world.proxy.address(), nodes[PAUSED - 1]);
    // The first reads find out what later ones know.
    drop(
        Ask::new(Codec::V4, &text)
            .paged(50)
            .all(&mut Clients::new(world.proxy.address())),
    );
    let before = world.proxy.metric(ANSWERED);
    let paused = world.cluster.pause_node(PAUSED);
    let [direct, through] = scope(|scope| {
        let text = text.as_str();
        let read = |client| scope.spawn(move || pages_for(client, text, PAUSE));
        [direct, through].map(read).map(|pages| pages.join())
    });
    drop(paused);
    let [direct, through] = [direct, through].map(|pages| pages.expect("replies"));
    let errors = |pages: &Pages| format!("{:?}", pages.errors);
    say(&format!(
        "  {} and {} pages, errors {} and {}",
        direct.times.len(),
        through.times.len(),
        errors(&direct),
        errors(&through)
    ));
    let new = |code: &&i32| !direct.errors.contains(code);
    let new = through.errors.iter().filter(new).count();
    checks.at_most("errors that direct does not have", new, 0);
    let most = 2 * direct.p99() + Duration::from_millis(50);
    checks.at_most("99 of 100 pages", through.p99(), most);
    let is_answered = world.proxy.metric(ANSWERED) > before;
    checks.check(is_answered, "the split answered");
}

/// A connection whose own node is not this one: a client on a paused node waits with Narrows and without.
fn on_another_node(proxy: SocketAddr, node: SocketAddr) -> RawClient {
    let ask = "SELECT value FROM system_views.settings WHERE name = 'rpc_address'";
    // The others are held meanwhile, so that the next one is on another node.
    let mut held = Vec::new();
    loop {
        let mut client = RawClient::connect(proxy, Codec::V4);
        let rows = client.query(ask).rows();
        if rows.only("value") != Some(node.ip().to_string().as_bytes()) {
            return client;
        }
        held.push(client);
    }
}

struct Pages {
    times: Vec<Duration>,
    errors: Vec<i32>,
}

impl Pages {
    fn p99(&self) -> Duration {
        let mut times = self.times.clone();
        times.sort_unstable();
        times[times.len() * 99 / 100]
    }
}

/// Scan after scan, page by page.
fn pages_for(mut client: RawClient, text: &str, time: Duration) -> Pages {
    let began = Instant::now();
    let mut pages = Pages {
        times: Vec::new(),
        errors: Vec::new(),
    };
    let mut parameters = Parameters {
        page_size: Some(50),
        ..Parameters::default()
    };
    while began.elapsed() < time {
        let asked = Instant::now();
        let body = request::query_with(client.codec, text, &parameters);
        let reply = client.ask(opcode::QUERY, &body);
        pages.times.push(asked.elapsed());
        pages.errors.extend(reply.error().map(|(code, _)| code));
        parameters.paging_state = state(&reply);
    }
    pages
}
