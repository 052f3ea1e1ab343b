//! A worker that is killed at random moments, again and again: whoever comes next goes on from the last checkpoint and comes
//! to the same copy, and meanwhile every read is right.
//!
//! `KILLS` says how many (10 in every run, `SCALE` multiplies), `SEED` replays when.

use std::thread::sleep;
use std::time::{Duration, Instant};

use narrows::wide_row::names::Generation;
use narrows::wide_row::state::{PostSplitData, PreSplitData, Progress, State};
use narrows::wide_row::store::{Split, SplitId};

use super::world::{
    ANSWERED, COPIED_ROWS, Client, PLAIN, TAKEOVERS, World, until_answered, until_completed,
};
use crate::exactness::control::Control;
use crate::exactness::say;
use crate::exactness::wire::Row;
use crate::support::random::{Random, seed};
use crate::support::{Cluster, Codec, Proxy, cluster, eventually, scale};

const KEY: i32 = 1;
/// Some five megabytes. At this speed a split takes some fifteen seconds, and each of its stages a few.
const ROWS: i32 = 5000;
const BYTES_PER_SECOND: &str = "2MiB";
/// Most workers do not live to see the end of a split.
const LIFE_MAX_MILLIS: usize = 8000;
/// Reads take their time from whoever else runs.
const PAUSE_MAX_MILLIS: usize = 400;
/// The stages, in order.
const STAGES: [State; 6] = [
    State::Detected,
    State::Planned,
    State::Guarded,
    State::Copying,
    State::Verifying,
    State::Completed,
];

fn kills() -> usize {
    let kills = std::env::var("KILLS").map(|text| text.parse().expect("KILLS is a number"));
    kills.unwrap_or(10 * scale())
}

/// One partition that is split over and over, and a proxy that splits nothing and reads it all the time.
struct Siege {
    control: Control,
    reader: Proxy,
    through: Client,
    id: SplitId,
    text: String,
    expected: Vec<Row>,
    /// What a split finds and leaves that nobody disturbs.
    undisturbed: (Option<PreSplitData>, Option<PostSplitData>),
    splits: usize,
    resumed: usize,
    random: Random,
    world: World,
}

/// What a worker found when it began on a generation.
struct Begun {
    split: Split,
    /// What it had copied of those before.
    copied: u64,
    takeovers: u64,
    is_checked: bool,
}

impl Siege {
    fn begin(cluster: &Cluster, random: Random) -> Self {
        let mut world = World::create(cluster, Codec::V4, 1, &[PLAIN]);
        world.fill(KEY, ROWS);
        let text = world.select(KEY);
        let expected = world.direct.scan(&text);
        assert_eq!(expected.len(), ROWS as usize);
        let worker = world.splitter().worker().start();
        let (control, id) = (world.control(), world.id(KEY));
        control.nominate(&id);
        let first = until_completed(&control, &id);
        drop(worker);
        let reader = world.proxy().start();
        let mut siege = Self {
            control,
            through: Client::connect(reader.address(), Codec::V4),
            reader,
            id,
            text,
            expected,
            undisturbed: (first.pre_split_data.clone(), first.post_split_data.clone()),
            splits: 0,
            resumed: 0,
            random,
            world,
        };
        siege.next_generation(first.standing.generation);
        siege
    }

    fn split(&self) -> Split {
        self.control.split(&self.id).expect("was nominated")
    }

    fn next_generation(&mut self, last: Generation) {
        assert!(self.control.invalidate(&self.id, last), "was in service");
        let next = self.control.nominate(&self.id);
        assert_eq!(next.0, last.0 + 1);
    }

    /// The rows are always the same, and never from a split that is not completed.
    fn read(&mut self) {
        let (state, answered) = (self.split().standing.state, self.reader.metric(ANSWERED));
        assert!(self.through.scan(&self.text) == self.expected, "{state:?}");
        let is_served = self.reader.metric(ANSWERED) > answered;
        let states = [state, self.split().standing.state];
        assert!(
            !is_served || states.contains(&State::Completed),
            "{states:?}"
        );
    }

    /// Reads while a new worker works, for so long; then kills it.
    fn outlive(&mut self, life: Duration) {
        let mut begun = Begun {
            split: self.split(),
            copied: 0,
            takeovers: 0,
            is_checked: false,
        };
        let worker = self.world.splitter().worker();
        let speed = ("pipeline.bytes_per_second", BYTES_PER_SECOND);
        let worker = worker.set(speed.0, speed.1).start();
        let end = Instant::now() + life;
        while Instant::now() < end {
            self.read();
            let split = self.split();
            self.check_copied(&mut begun, &split, &worker);
            if self.complete(&split) {
                begun = Begun {
                    split: self.split(),
                    copied: worker.metric(COPIED_ROWS),
                    takeovers: worker.metric(TAKEOVERS),
                    is_checked: false,
                };
            }
            sleep(Duration::from_millis(
                self.random.below(PAUSE_MAX_MILLIS) as u64
            ));
        }
        drop(worker);
        let left = self.split();
        check_went_on(&begun.split, &left);
        self.read();
        self.complete(&left);
        eventually("nobody holds it any more", || {
            self.split().lease.is_none().then_some(())
        });
    }

    /// A copy that a worker went on with and finished was gone on with exactly where its last checkpoint was.
    fn check_copied(&mut self, begun: &mut Begun, now: &Split, worker: &Proxy) {
        let is_copied = stage(&begun.split) <= COPYING && stage(now) > COPYING;
        if !is_copied || std::mem::replace(&mut begun.is_checked, true) {
            return;
        }
        let saved = progress_in(&begun.split, State::Copying).map_or(0, |saved| saved.row_count);
        let missing = u64::try_from(i64::from(ROWS) - saved).expect("no more than there are");
        let copied = worker.metric(COPIED_ROWS) - begun.copied;
        // On a machine so busy that it lost its lease meanwhile, it has taken over from itself.
        let expected = u64::from(begun.split.progress.is_some());
        if worker.metric(TAKEOVERS) - begun.takeovers <= expected {
            assert_eq!(copied, missing, "copied, and missing at the checkpoint");
        } else {
            assert!(copied >= missing, "{copied} of {missing}");
        }
        self.resumed += usize::from(saved > 0);
    }

    /// If a split has come to its end it is as if nobody had been killed, is served, and the next one begins.
    fn complete(&mut self, split: &Split) -> bool {
        if split.standing.state != State::Completed {
            return false;
        }
        let found = (split.pre_split_data.clone(), split.post_split_data.clone());
        assert_eq!(found, self.undisturbed);
        until_answered(&self.reader, &mut self.through, &self.text, &self.expected);
        self.splits += 1;
        self.next_generation(split.standing.generation);
        true
    }
}

/// The place of COPYING among the stages.
const COPYING: usize = 3;

fn stage(split: &Split) -> usize {
    let state = split.standing.state;
    let stage = STAGES.iter().position(|known| *known == state);
    stage.unwrap_or_else(|| panic!("{state:?}: {:?}", split.reason))
}

fn progress_in(split: &Split, state: State) -> Option<&Progress> {
    let progress = split.progress.as_ref();
    progress.filter(|progress| progress.state == state && split.standing.state == state)
}

/// What one worker left and what the next one left of the same generation: nothing was begun again.
fn check_went_on(before: &Split, after: &Split) {
    assert_eq!(before.standing.generation, after.standing.generation);
    assert!(stage(before) <= stage(after), "{before:?}, then {after:?}");
    for state in [State::Detected, State::Copying, State::Verifying] {
        if let (Some(one), Some(other)) = (progress_in(before, state), progress_in(after, state)) {
            assert_eq!(one.began_at, other.began_at, "{state:?} began again");
            let counts = |progress: &Progress| (progress.row_count, progress.byte_count);
            assert!(counts(one) <= counts(other), "{one:?}, then {other:?}");
        }
    }
}

#[test]
fn a_worker_killed_at_random_moments_is_gone_on_from() {
    let (kills, seed) = (kills(), seed());
    say(&format!("random kills: {kills}, seed {seed}"));
    let cluster = cluster();
    let mut random = Random::new(seed);
    // First of all, so that a replay has the same ones.
    let lives: Vec<usize> = (0..kills).map(|_| random.below(LIFE_MAX_MILLIS)).collect();
    let mut siege = Siege::begin(&cluster, random);
    for (number, life) in lives.into_iter().enumerate() {
        siege.outlive(Duration::from_millis(life as u64));
        if number % 10 == 9 {
            let state = siege.split().standing.state;
            say(&format!("kill {}, {state:?}", number + 1));
        }
    }
    let worker = siege.world.splitter().worker().start();
    let last = until_completed(&siege.control, &siege.id);
    assert!(siege.complete(&last));
    drop(worker);
    let (splits, resumed) = (siege.splits, siege.resumed);
    say(&format!(
        "{kills} kills, {splits} splits, {resumed} copies resumed, seed {seed}"
    ));
}
