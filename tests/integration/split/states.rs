//! Paging states that are somebody else's, of another request, or damaged: what Cassandra would say of its own, and a
//! protocol error where ours are damaged or of another table. Never rows that were not asked for, and never a closed
//! connection.

use super::world::{ANSWERED, WENT_ON, World};
use super::{Ask, CODECS, Clients, assert_same, state};
use crate::support::frame::flag;
use crate::support::random::{self, Random};
use crate::support::request::{QUORUM, Value};
use crate::support::{Codec, Frame, eventually};

const PROTOCOL_ERROR: i32 = 0x000A;
/// Where the format of our states stands, behind what tells them from others.
const FORMAT_AT: usize = 10;
const SELECT: &str = "SELECT * FROM {} WHERE k = ?";

fn split_world() -> World {
    let mut world = World::start(&[(1, 30), (2, 20), (4, 20)]);
    world.split(1);
    world.split(2);
    world
}

fn select(world: &World, codec: Codec, key: i32) -> Ask {
    Ask::new(codec, world.text(SELECT))
        .with(&[Value::int(key)])
        .paged(7)
}

fn state_of(ask: &Ask, clients: &mut Clients) -> Vec<u8> {
    state(&ask.once(clients)).expect("there is more")
}

/// The state behind the first page of the split, where it comes from Narrows.
fn ours(world: &mut World, ask: &Ask) -> Vec<u8> {
    eventually("the first page is from the split", || {
        let before = world.proxy.metric(ANSWERED);
        let state = state_of(ask, &mut world.through);
        (world.proxy.metric(ANSWERED) > before).then_some(state)
    })
}

fn assert_protocol_error(what: &str, reply: &Frame) {
    let code = reply.error().map(|(code, _)| code);
    assert_eq!(code, Some(PROTOCOL_ERROR), "{what}: {:?}", reply.error());
}

fn assert_alive(world: &mut World) {
    for codec in CODECS {
        assert!(world.through.of(codec).is_alive(), "{codec:?}");
    }
}

/// Both sides are given the same bytes.
fn assert_as_direct(world: &mut World, what: &str, ask: &Ask) {
    let direct = ask.once(&mut world.direct);
    let through = ask.once(&mut world.through);
    assert_same(&format!("{what}: {ask:?}"), &[direct], &[through]);
}

#[test]
fn states_that_fit_go_on_and_others_never_give_wrong_rows() {
    let mut world = split_world();
    a_state_goes_on_whatever_else_of_the_request_changes(&mut world);
    a_traced_page_goes_on_at_the_original(&mut world);
    native_states_mean_what_they_mean_to_cassandra(&mut world);
    damaged_states_are_refused(&mut world);
    states_of_a_later_format_are_refused(&mut world);
    states_of_another_request_go_on_as_cassandras_own_do(&mut world);
    states_of_another_table_are_refused(&mut world);
    states_of_the_first_format_mean_what_they_meant(&mut world);
}

fn native_states_mean_what_they_mean_to_cassandra(world: &mut World) {
    let mut random = Random::new(random::seed());
    for codec in CODECS {
        let native = |world: &mut World, ask: &Ask| state_of(ask, &mut world.direct);
        let of_one = select(world, codec, 1);
        let mut states = vec![("empty", Vec::new()), ("garbage", random.bytes(30))];
        for (name, key) in [
            ("its own", 1),
            ("of another split one", 2),
            ("of an unsplit one", 4),
        ] {
            let ask = select(world, codec, key);
            states.push((name, native(world, &ask)));
        }
        let table = format!("SELECT * FROM {}.wide_events_1", world.keyspace.name);
        states.push((
            "of another table",
            native(world, &Ask::new(codec, table).paged(3)),
        ));
        let counted = Ask::new(codec, world.text("SELECT * FROM {} WHERE k = 1 LIMIT 9")).paged(7);
        states.push(("of a limit", native(world, &counted)));
        let other = if codec == Codec::V3 {
            Codec::V5
        } else {
            Codec::V3
        };
        let ask = select(world, other, 1);
        states.push(("of another version", native(world, &ask)));
        let before = world.proxy.metric(ANSWERED);
        for (name, state) in states {
            for is_prepared in [false, true] {
                let ask = of_one.clone().prepared(is_prepared).behind(&state);
                assert_as_direct(world, name, &ask);
            }
        }
        assert_eq!(world.proxy.metric(ANSWERED), before, "{codec:?}");
    }
    assert_alive(world);
}

fn damaged_states_are_refused(world: &mut World) {
    let seed = random::seed();
    let mut random = Random::new(seed);
    for codec in CODECS {
        let ask = select(world, codec, 1);
        let state = ours(world, &ask);
        for at in 0..state.len() {
            let mut changed = state.clone();
            changed[at] ^= 1 << random.below(8);
            let what = format!("SEED={seed} {codec:?}, byte {at} of {changed:02x?}");
            assert_protocol_error(
                &what,
                &ask.clone().behind(&changed).once(&mut world.through),
            );
            assert_as_or_ours(world, &what, &ask.clone().behind(&changed), at);
            let what = format!("{codec:?}, the first {at} bytes");
            let cut = ask.clone().behind(&state[..at]);
            match at {
                0 => assert_as_direct(world, &what, &cut),
                _ => assert_protocol_error(&what, &cut.once(&mut world.through)),
            }
        }
        let longer = [&state[..], &[0]].concat();
        assert_protocol_error(
            "longer",
            &ask.clone().behind(&longer).once(&mut world.through),
        );
        // The connection goes on, and so does the scan.
        let rest = ask.clone().behind(&state).all(&mut world.through);
        assert_same("the rest", &ask.all(&mut world.direct)[1..], &rest);
    }
    assert_alive(world);
}

/// What does not look like ours any more is Cassandra's to refuse, in its words.
fn assert_as_or_ours(world: &mut World, what: &str, ask: &Ask, at: usize) {
    if at < FORMAT_AT {
        assert_as_direct(world, what, ask);
    }
}

fn states_of_a_later_format_are_refused(world: &mut World) {
    for codec in CODECS {
        let ask = select(world, codec, 1);
        let mut state = ours(world, &ask);
        for format in [0, 3, 255] {
            state[FORMAT_AT] = format;
            let reply = ask.clone().behind(&state).once(&mut world.through);
            assert_protocol_error(&format!("{codec:?}, format {format}"), &reply);
        }
    }
    assert_alive(world);
}

/// The requests that another page of the same table may be asked for with.
fn others(world: &World) -> Vec<(&'static str, String, i32)> {
    let texts = [
        ("of other columns", "SELECT v FROM {} WHERE k = ?"),
        (
            "of another order",
            "SELECT * FROM {} WHERE k = ? ORDER BY a DESC, b ASC",
        ),
        ("of another limit", "SELECT * FROM {} WHERE k = ? LIMIT 20"),
        ("of another space", "SELECT *  FROM {} WHERE k = ?"),
        ("of a count", "SELECT COUNT(*) FROM {} WHERE k = ?"),
        (
            "of what is forwarded",
            "SELECT * FROM {} WHERE k = ? AND x = 1",
        ),
        ("of another bound", "SELECT * FROM {} WHERE k = ? AND a < 6"),
        ("of several", "SELECT * FROM {} WHERE k IN (?, 2)"),
    ];
    let mut others = vec![
        ("of other values", world.text(SELECT), 2),
        ("of an unsplit partition", world.text(SELECT), 4),
        ("of a partition without rows", world.text(SELECT), 5),
    ];
    others.extend(texts.map(|(name, text)| (name, world.text(text), 1)));
    others
}

fn states_of_another_request_go_on_as_cassandras_own_do(world: &mut World) {
    for codec in CODECS {
        let first = select(world, codec, 1);
        let native = state_of(&first, &mut world.direct);
        let ours = ours(world, &first);
        let (went_on, answered) = (world.proxy.metric(WENT_ON), world.proxy.metric(ANSWERED));
        let mut asked = 0;
        for (name, text, key) in others(world) {
            for is_prepared in [false, true] {
                let ask = Ask::new(codec, &text)
                    .with(&[Value::int(key)])
                    .paged(7)
                    .prepared(is_prepared);
                let direct = ask.clone().behind(&native).all(&mut world.direct);
                let through = ask.clone().behind(&ours).all(&mut world.through);
                assert_same(&format!("{name} {ask:?}"), &direct, &through);
                asked += 1;
            }
        }
        // A node may have forgotten a statement, which is then executed twice.
        let went_on = world.proxy.metric(WENT_ON) - went_on;
        assert!(went_on >= asked, "{codec:?}: {went_on} of {asked}");
        assert_eq!(world.proxy.metric(ANSWERED), answered, "{codec:?}");
    }
    assert_alive(world);
}

fn states_of_another_table_are_refused(world: &mut World) {
    let buckets = format!(
        "SELECT * FROM {}.wide_events_1 WHERE k = ? AND narrows_generation = 1 AND narrows_bucket = 0",
        world.keyspace.name
    );
    for codec in CODECS {
        let first = select(world, codec, 1);
        let state = ours(world, &first);
        for is_prepared in [false, true] {
            let ask = Ask::new(codec, &buckets)
                .with(&[Value::int(1)])
                .paged(7)
                .prepared(is_prepared)
                .behind(&state);
            assert_protocol_error(&format!("{ask:?}"), &ask.once(&mut world.through));
        }
    }
    assert_alive(world);
}

/// As a proxy of version 0.1 would have written the state: without the table, and with the mark as its rest.
fn in_first_format(state: &[u8]) -> Vec<u8> {
    const CHECKSUM_BYTES: usize = 8;
    /// Behind the statement's fingerprint.
    const TABLE_AT: usize = FORMAT_AT + 1 + 2 + 4 + 16 + 8;
    let content = &state[..state.len() - CHECKSUM_BYTES];
    let mut first = content[..TABLE_AT].to_vec();
    first[FORMAT_AT] = 1;
    // The scan is of one key: the length of none, then that of the mark.
    first.extend_from_slice(&content[TABLE_AT + 8..TABLE_AT + 12]);
    first.extend_from_slice(&content[TABLE_AT + 16..]);
    let checksum = twox_hash::XxHash3_64::oneshot(&first);
    first.extend_from_slice(&checksum.to_be_bytes());
    first
}

fn states_of_the_first_format_mean_what_they_meant(world: &mut World) {
    for codec in CODECS {
        let ask = select(world, codec, 1);
        let ours = ours(world, &ask);
        let state = in_first_format(&ours);
        let rest = ask.clone().behind(&state).all(&mut world.through);
        assert_same("the rest", &ask.all(&mut world.direct)[1..], &rest);
        let other = select(world, codec, 2).behind(&state);
        assert_protocol_error("of other values", &other.once(&mut world.through));
    }
}

fn a_state_goes_on_whatever_else_of_the_request_changes(world: &mut World) {
    for codec in CODECS {
        for text in [SELECT, "SELECT * FROM {} WHERE k = ? LIMIT 19"] {
            let first = Ask::new(codec, world.text(text))
                .with(&[Value::int(1)])
                .paged(7);
            let native = state_of(&first, &mut world.direct);
            let ours = ours(world, &first);
            let both = |world: &mut World, what: &str, change: &dyn Fn(Ask) -> Ask| {
                let [direct, through] =
                    [&native, &ours].map(|state| change(first.clone().behind(state)));
                let direct = direct.all(&mut world.direct);
                let through = through.all(&mut world.through);
                assert_same(&format!("{codec:?} {text} {what}"), &direct, &through);
            };
            for size in [1, 3, 8, 18, 19, 20, 100, -1, i32::MAX] {
                both(world, &format!("by {size}"), &|ask| ask.paged(size));
            }
            both(world, "unpaged", &|mut ask| {
                ask.parameters.page_size = None;
                ask
            });
            both(world, "prepared", &|ask| ask.prepared(true));
            both(world, "at QUORUM", &|ask| ask.consistency(QUORUM));
            both(world, "without metadata", &|mut ask| {
                ask.parameters.skip_metadata = true;
                ask.prepared(true)
            });
        }
    }
}

fn a_traced_page_goes_on_at_the_original(world: &mut World) {
    for codec in CODECS {
        let ask = select(world, codec, 1);
        let native = state_of(&ask, &mut world.direct);
        let ours = ours(world, &ask);
        let before = world.proxy.metric(WENT_ON);
        let ask = ask.flagged(flag::TRACING);
        let direct = ask.clone().behind(&native).once(&mut world.direct);
        let through = ask.behind(&ours).once(&mut world.through);
        assert_eq!(through.flags, direct.flags, "{codec:?}");
        // The state behind it is native, and counts rows from another number than the scan's beginning.
        assert!(state(&through).is_some() && state(&direct).is_some());
        let [direct, through] = [direct, through].map(|page| (page.rows().names, page.rows().rows));
        assert_eq!(through, direct, "{codec:?}");
        assert!(world.proxy.metric(WENT_ON) > before, "{codec:?}");
    }
}
