//! Bytes of other versions of the program: checksums are right, and something in them is not known here. What
//! cannot be read is rebuilt; what can be read answers; no key is lost, there and back again.

use super::super::composite::write_block;
use super::*;

/// A policy of a version to come: its filters hold everything, in an encoding that nobody here knows.
#[derive(Debug)]
struct Future(&'static str);

#[derive(Debug)]
struct FutureFilter;

impl FilterPolicy for Future {
    fn name(&self) -> &str {
        self.0
    }

    fn builder(&self) -> Box<dyn FilterBuilder> {
        Box::new(FutureFilter)
    }

    fn decode(&self, _: &[u8]) -> Result<Arc<dyn Filter>, DecodeError> {
        Ok(Arc::new(FutureFilter))
    }
}

impl FilterBuilder for FutureFilter {
    fn add(&mut self, _: &HashedKey) {}

    fn build(self: Box<Self>) -> Arc<dyn Filter> {
        Arc::new(Self)
    }
}

impl Filter for FutureFilter {
    fn might_match(&self, _: &Target) -> bool {
        true
    }

    /// As many keys as the format can say, and then a structure that no version has yet.
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[0xff; 8]);
        out.extend_from_slice(&[0xee; 100]);
    }

    fn bytes(&self) -> usize {
        0
    }

    fn keys(&self) -> usize {
        0
    }
}

fn future(name: &'static str) -> Arc<dyn FilterPolicy> {
    Arc::new(Future(name))
}

/// All sets of policies, each with one more from the future before, between or behind them.
fn with_future(random: &mut Random, policies: &Policies, name: &'static str) -> Policies {
    let mut mixed = policies.to_vec();
    mixed.insert(random.below(mixed.len() + 1), future(name));
    mixed.into()
}

#[test]
fn unknown_policies_come_and_go_without_losing_keys() {
    let mut random = Random::new();
    for policies in all_policies().iter().cycle().take(16 * scale()) {
        let newer = with_future(&mut random, policies, "ribbon:v2");
        let (mut filter, mut live) = aged(&mut random, policies, 100);
        let shards = filter.shards();
        for restart in 0..6 {
            let in_force = if restart % 2 == 0 { &newer } else { policies };
            let bytes = filter.encode(CONTEXT);
            let restored = TableFilter::decode(&bytes, CONTEXT, in_force.clone(), shards);
            assert_eq!(restored.damaged, 0);
            let known: Vec<&str> = in_force.iter().map(|policy| policy.name()).collect();
            let mut unknown = restored.unknown.iter();
            assert!(unknown.all(|name| !known.contains(&name.as_str())));
            filter = restored.filter;
            assert_holds(&filter, &live, &format!("restart {restart}"));
            let late = random.keys(10);
            filter.insert_all(&late);
            live.extend(late);
            if random.below(2) == 0 {
                let shard = random.below(shards);
                assert_eq!(filter.rebuild_shard(shard, &live), Installed::Yes);
            }
            assert_holds(&filter, &live, &format!("after restart {restart}"));
        }
    }
}

#[test]
fn a_part_that_its_own_policy_cannot_read_is_asked_for_again() {
    let mut random = Random::new();
    let live: BTreeSet<_> = random.keys(100).into_iter().collect();
    let cases = [
        ("fuse16", fuse()),
        ("bloom", bloom(Sizing::BitsPerKey(10.0))),
        ("prefix:columns=1", prefix(1)),
    ];
    for (name, policy) in cases {
        let theirs = built(&Policies::from([future(name), prefix(2)]), 2, &live);
        let ours = Policies::from([policy, prefix(2)]);
        let restored = TableFilter::decode(&theirs.encode(CONTEXT), CONTEXT, ours, 2);
        assert_eq!(restored.damaged, 2, "{name}: one part per shard");
        assert_eq!(restored.filter.needs_rebuild(), [0, 1], "{name}");
        assert_eq!(restored.filter.stats().shards_unknown, 0, "{name}");
        assert_holds(&restored.filter, &live, name);
    }
}

#[test]
fn a_block_of_another_version_is_not_read() {
    let mut random = Random::new();
    for policies in all_policies() {
        let keys = random.keys(60);
        let composite = Composite::build(&policies, keys.iter().map(Vec::as_slice));
        let mut bytes = Vec::new();
        composite.encode(7, &mut bytes);
        let sound = Composite::decode(&bytes, 7, &policies);
        assert_eq!((sound.damaged, sound.missing.len()), (0, 0));
        for version in [0, 2, 255] {
            bytes[3] = version;
            let header = check(7, &bytes[..6]);
            bytes[6..14].copy_from_slice(&header.to_le_bytes());
            let decoded = Composite::decode(&bytes, 7, &policies);
            assert_eq!(decoded.damaged, 1, "version {version}");
            assert_eq!(decoded.missing.len(), policies.len());
            let target = |key| decoded.composite.might_match(&Target::key(key));
            assert!(keys.iter().all(|key| target(key)), "version {version}");
        }
    }
}

#[test]
fn any_damaged_byte_of_a_block_loses_no_key() {
    let mut random = Random::new();
    for policies in all_policies() {
        let keys = random.keys(40);
        let composite = Composite::build(&policies, keys.iter().map(Vec::as_slice));
        let mut bytes = Vec::new();
        composite.encode(7, &mut bytes);
        let holds = |bytes: &[u8], what: &str| {
            let decoded = Composite::decode(bytes, 7, &policies);
            assert!(decoded.damaged > 0, "{what} was not noticed");
            let target = |key| decoded.composite.might_match(&Target::key(key));
            assert!(keys.iter().all(|key| target(key)), "{what}");
        };
        for at in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 + random.below(255) as u8;
            holds(&flipped, &format!("byte {at}"));
            holds(&bytes[..at], &format!("end {at}"));
        }
    }
}

/// A newer version may store a part twice, or an older one's leftovers may stand before the right one.
#[test]
fn of_parts_with_one_name_the_first_counts_and_the_rest_is_unknown() {
    let policy = fuse();
    let mut builder = policy.builder();
    builder.add(&HashedKey::new(b"key"));
    let mut part = Vec::new();
    builder.build().encode(&mut part);
    let parts = [("fuse16", part.clone()), ("fuse16", part)];
    let mut bytes = Vec::new();
    write_block(parts.into_iter(), 7, &mut bytes);
    let decoded = Composite::decode(&bytes, 7, &[policy]);
    assert_eq!((decoded.damaged, decoded.missing.len()), (0, 0));
    assert_eq!(decoded.unknown, ["fuse16"]);
    assert!(decoded.composite.might_match(&Target::key(b"key")));
}

/// The keys and policies of `snapshot_1.hex`.
fn golden() -> (Policies, BTreeSet<Vec<u8>>) {
    let policies = Policies::from([fuse(), prefix(1), bloom(Sizing::FalsePositiveRate(0.01))]);
    let key = |n: u8| [component(b"series"), component(&[n])].concat();
    (policies, (0..8).map(key).collect())
}

/// A snapshot of 0.1, whose format needs no second version: parts have names, and unknown ones are skipped. It must be
/// readable for ever.
#[test]
fn a_snapshot_of_the_first_version_is_read() {
    let (policies, keys) = golden();
    let text: String = include_str!("snapshot_1.hex").split_whitespace().collect();
    let digits = (0..text.len()).step_by(2).map(|at| &text[at..at + 2]);
    let bytes: Vec<u8> = digits
        .map(|pair| u8::from_str_radix(pair, 16).expect("hexadecimal"))
        .collect();
    let restored = TableFilter::decode(&bytes, CONTEXT, policies, 2);
    assert_eq!((restored.damaged, restored.unknown.len()), (0, 0));
    assert_eq!(restored.filter.needs_rebuild(), Vec::<usize>::new());
    assert_holds(&restored.filter, &keys, "golden");
    let others = (0..100_u8).map(|n| component(&[n, n, n]));
    let found = others.filter(|key| restored.filter.might_match(&Target::key(key)));
    assert!(found.count() < 5, "it says no to what it does not hold");
}
