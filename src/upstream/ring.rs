//! Which nodes hold a partition: its token, and Cassandra's two replication strategies. Pure.
//!
//! This only saves a hop: a wrong answer costs time, never rows, because every node can coordinate every read. So an
//! unknown partitioner or strategy yields no nodes, which means any.

use std::collections::HashSet;
use std::net::SocketAddr;

use super::cluster::Cluster;

const CLASS: &str = "class";
const SIMPLE: &str = "SimpleStrategy";
const NETWORK_TOPOLOGY: &str = "NetworkTopologyStrategy";
const REPLICATION_FACTOR: &str = "replication_factor";

/// The tokens of a cluster, in order, with their nodes.
#[derive(Debug, Default)]
pub struct Ring {
    data_center: String,
    nodes: Vec<Place>,
    /// Token and index into `nodes`.
    tokens: Vec<(i64, usize)>,
}

#[derive(Debug)]
struct Place {
    address: SocketAddr,
    data_center: String,
    rack: String,
}

impl Ring {
    pub fn new(cluster: &Cluster) -> Self {
        // A node without tokens has not joined the ring.
        let joined = || cluster.nodes.iter().filter(|node| !node.tokens.is_empty());
        let nodes = joined().map(|node| Place {
            address: node.address,
            data_center: node.data_center.clone(),
            rack: node.rack.clone(),
        });
        let mut tokens: Vec<(i64, usize)> = joined()
            .enumerate()
            .flat_map(|(index, node)| node.tokens.iter().map(move |&token| (token, index)))
            .collect();
        tokens.sort_unstable();
        Self {
            data_center: cluster.data_center.clone(),
            nodes: nodes.collect(),
            tokens,
        }
    }

    /// The replicas of a serialized partition key in our data centre, in the ring's order. Replicas in other data
    /// centres are left out: LOCAL_QUORUM and similar levels refer to the coordinator's data centre.
    pub fn replicas(&self, replication: &[(String, String)], key: &[u8]) -> Vec<SocketAddr> {
        let option = |name: &str| {
            let found = replication.iter().find(|(key, _)| key == name);
            found.map_or("", |(_, value)| value.as_str())
        };
        let walk = self.walk(token(key));
        let class = option(CLASS);
        // Both the short class name and the one with its package are in use.
        let replicas = match class.rsplit('.').next().unwrap_or(class) {
            SIMPLE => simple(walk, copies(option(REPLICATION_FACTOR))),
            NETWORK_TOPOLOGY => self.network_topology(walk, copies(option(&self.data_center))),
            _ => Vec::new(),
        };
        let local = replicas
            .into_iter()
            .filter(|place| place.data_center == self.data_center);
        local.map(|place| place.address).collect()
    }

    /// The nodes of all tokens, once around the ring, from the owner of this token.
    fn walk(&self, from: i64) -> impl Iterator<Item = &Place> {
        let first = self.tokens.partition_point(|(token, _)| *token < from);
        let (before, after) = self.tokens.split_at(first);
        let all = after.iter().chain(before);
        all.filter_map(|(_, index)| self.nodes.get(*index))
    }

    /// Takes one node per rack. Racks repeat only if there are fewer racks than copies, and only as often as that
    /// requires.
    fn network_topology<'a>(
        &'a self,
        walk: impl Iterator<Item = &'a Place>,
        copies: usize,
    ) -> Vec<&'a Place> {
        let local = || {
            let nodes = self.nodes.iter();
            nodes.filter(|place| place.data_center == self.data_center)
        };
        let racks: HashSet<&str> = local().map(|place| place.rack.as_str()).collect();
        let mut repeats_left = copies.saturating_sub(racks.len());
        let wanted = copies.min(local().count());
        let (mut met, mut replicas) = (HashSet::new(), Vec::<&Place>::new());
        for place in walk.filter(|place| place.data_center == self.data_center) {
            if replicas.len() == wanted {
                break;
            }
            if replicas.iter().any(|known| known.address == place.address) {
                continue;
            }
            if !met.insert(place.rack.as_str()) {
                if repeats_left == 0 {
                    continue;
                }
                repeats_left -= 1;
            }
            replicas.push(place);
        }
        replicas
    }
}

/// The next nodes on the ring, in any data centre.
fn simple<'a>(walk: impl Iterator<Item = &'a Place>, copies: usize) -> Vec<&'a Place> {
    let mut replicas = Vec::<&Place>::new();
    for place in walk {
        if replicas.len() == copies {
            break;
        }
        if !replicas.iter().any(|known| known.address == place.address) {
            replicas.push(place);
        }
    }
    replicas
}

/// `3`, or `3/1` where one of the three is transient; a transient replica can coordinate as well.
fn copies(text: &str) -> usize {
    let all = text.split('/').next().unwrap_or(text);
    all.trim().parse().unwrap_or(0)
}

/// The token that Murmur3Partitioner gives to a serialized partition key.
pub fn token(key: &[u8]) -> i64 {
    // The smallest token is reserved for "before everything".
    match key {
        [] => i64::MIN,
        key => match murmur3(key) {
            i64::MIN => i64::MAX,
            token => token,
        },
    }
}

const C1: u64 = 0x87c3_7b91_1142_53d5;
const C2: u64 = 0x4cf5_ad43_2745_937f;

/// The first half of MurmurHash3_x64_128 as Cassandra computes it: the bytes after the last whole block are signed.
fn murmur3(key: &[u8]) -> i64 {
    let (mut h1, mut h2) = (0_u64, 0_u64);
    let (blocks, tail) = key.as_chunks::<16>();
    for block in blocks {
        let block = u128::from_le_bytes(*block);
        h1 ^= mixed_1(block as u64);
        h1 = h1.rotate_left(27).wrapping_add(h2);
        h1 = h1.wrapping_mul(5).wrapping_add(0x52dc_e729);
        h2 ^= mixed_2((block >> 64) as u64);
        h2 = h2.rotate_left(31).wrapping_add(h1);
        h2 = h2.wrapping_mul(5).wrapping_add(0x3849_5ab5);
    }
    let (low, high) = tail.split_at(tail.len().min(8));
    h2 ^= mixed_2(signed(high));
    h1 ^= mixed_1(signed(low));
    let length = key.len() as u64;
    h1 ^= length;
    h2 ^= length;
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    h1 = finished(h1);
    h2 = finished(h2);
    h1.wrapping_add(h2).cast_signed()
}

fn mixed_1(k1: u64) -> u64 {
    k1.wrapping_mul(C1).rotate_left(31).wrapping_mul(C2)
}

fn mixed_2(k2: u64) -> u64 {
    k2.wrapping_mul(C2).rotate_left(33).wrapping_mul(C1)
}

/// At most eight bytes of a tail; each is sign-extended before it is shifted, as Java does with bytes.
fn signed(bytes: &[u8]) -> u64 {
    let extended = bytes
        .iter()
        .map(|byte| i64::from(byte.cast_signed()).cast_unsigned());
    extended
        .zip(0_u32..)
        .fold(0, |all, (byte, at)| all ^ byte << (8 * at))
}

fn finished(mut hash: u64) -> u64 {
    hash = (hash ^ hash >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ hash >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ hash >> 33
}

#[cfg(test)]
mod tests;
