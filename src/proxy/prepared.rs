//! The registry of prepared statements: the ids that this proxy has seen prepared, what they mean, and which upstream
//! nodes know them.
//!
//! There is one per process, since drivers prepare on one connection and execute on another. The proxy answers an
//! unknown id with UNPREPARED, and the driver prepares the statement again through the proxy. So evictions do no harm,
//! and a restart is cheap. The proxy itself prepares a known statement on a node that does not have it: to a driver the
//! proxy is one node, and some drivers cannot prepare a statement again if another of their sessions prepared it.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hasher};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use arc_swap::ArcSwapOption;

use super::concern::Concern;
use crate::protocol::Version;
use crate::rewrite::keyed::Keyed;
use crate::rewrite::pageable::Pageable;
use crate::rewrite::written::Written;
use crate::rewrite::{Readable, Reason};
use crate::schema::TableSchema;
use crate::statement::{Shape, touches};

/// Maximum size of all texts together, whatever their number.
const TEXT_BYTES_MAX: usize = 64 << 20;

pub struct Registry {
    capacity: usize,
    known: RwLock<Known>,
    nodes: Mutex<Vec<SocketAddr>>,
}

#[derive(Default)]
struct Known {
    by_id: HashMap<Box<[u8]>, Arc<Statement>>,
    /// Ids in order of arrival. Eviction takes the oldest one that was not used since eviction last considered it.
    queue: VecDeque<Box<[u8]>>,
    text_bytes: usize,
}

/// A prepared statement.
pub struct Statement {
    pub id: Box<[u8]>,
    pub shape: Shape,
    pub text: String,
    /// The keyspace of its unqualified names. `None` if there is none, or if it is uncertain because a USE on the same
    /// connection may have come in between.
    pub keyspace: Option<String>,
    /// The tables that it touches.
    pub(super) concern: Arc<Concern>,
    /// What it means for the schema that its table had when it was last executed.
    understood: ArcSwapOption<Understood>,
    pageable: OnceLock<Option<Arc<Pageable>>>,
    /// The schema of its table that `nodes` refers to.
    schema: ArcSwapOption<TableSchema>,
    /// For each protocol version, a fingerprint of the columns that its clients were told; 0: none yet. If a node now
    /// describes other columns, the table was changed, and the client must learn that.
    told: [AtomicU64; 3],
    /// One bit for each node that has the statement.
    nodes: AtomicU64,
    used: AtomicBool,
}

/// What a statement means for one schema.
struct Understood {
    schema: Arc<TableSchema>,
    readable: Result<Arc<Readable>, Reason>,
    keyed: Option<Arc<Keyed>>,
    written: Option<Arc<Written>>,
}

/// The bit of an upstream node. In clusters with more than 64 nodes, the surplus ones share the last bit, and drivers
/// may get an occasional UNPREPARED.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeBit(u64);

impl Statement {
    /// A statement as a PREPARE describes it. Its id comes with the reply.
    pub fn new(shape: Shape, text: &str, keyspace: Option<&str>) -> Self {
        Self {
            id: Box::default(),
            told: Default::default(),
            shape,
            text: text.to_owned(),
            keyspace: keyspace.map(str::to_owned),
            concern: Arc::new(Concern::Nothing),
            understood: ArcSwapOption::empty(),
            pageable: OnceLock::new(),
            schema: ArcSwapOption::empty(),
            nodes: AtomicU64::new(0),
            used: AtomicBool::new(false),
        }
    }

    /// A USE was sent before the reply to the PREPARE: the statement may be of that keyspace, even if a further USE has
    /// changed it back by the time the reply arrives.
    pub(super) fn unsettle(&mut self) {
        self.keyspace = None;
        self.concern = Arc::new(Concern::new(touches(&self.text), None));
    }

    /// How a split answers the statement, if one can. Computed once per schema.
    pub(super) fn readable(&self, schema: &Arc<TableSchema>) -> Result<Arc<Readable>, Reason> {
        self.understood(schema, |understood| understood.readable.clone())
    }

    /// The partition that the statement reads, if it is one. Computed once per schema.
    pub(super) fn keyed(&self, schema: &Arc<TableSchema>) -> Option<Arc<Keyed>> {
        self.understood(schema, |understood| understood.keyed.clone())
    }

    /// The partitions that the statement writes, if they can be computed. Computed once per schema.
    pub(super) fn written(&self, schema: &Arc<TableSchema>) -> Option<Arc<Written>> {
        self.understood(schema, |understood| understood.written.clone())
    }

    fn understood<T>(&self, schema: &Arc<TableSchema>, part: impl Fn(&Understood) -> T) -> T {
        if let Some(known) = &*self.understood.load()
            && Arc::ptr_eq(&known.schema, schema)
        {
            return part(known);
        }
        let understood = Understood {
            schema: schema.clone(),
            readable: Readable::parse(&self.text, schema).map(Arc::new),
            keyed: Keyed::parse(&self.text, schema).map(Arc::new),
            written: Written::parse(&self.text, self.keyspace.as_deref(), schema).map(Arc::new),
        };
        let found = part(&understood);
        self.understood.store(Some(Arc::new(understood)));
        found
    }

    /// After a schema change no node has the statement any more, and clients may know outdated columns. Called before a
    /// PREPARE is sent as well: the node describes the statement by this schema or a later one.
    pub(super) fn forget_if_altered(&self, schema: &Arc<TableSchema>) {
        let same = |before: &Arc<TableSchema>| Arc::ptr_eq(before, schema);
        if !self.schema.load().as_ref().is_some_and(same) {
            self.nodes.store(0, Ordering::Relaxed);
            self.schema.store(Some(schema.clone()));
        }
    }

    /// Whether its pages may be cut short. Computed once.
    pub(super) fn pageable(&self) -> Option<Arc<Pageable>> {
        let parse = || Pageable::parse(&self.text).map(Arc::new);
        self.pageable.get_or_init(parse).clone()
    }

    fn told(&self, version: Version) -> u64 {
        self.told[version as usize].load(Ordering::Relaxed)
    }

    /// Whether clients of this version were told exactly these columns.
    pub fn was_told(&self, version: Version, columns: &[u8]) -> bool {
        self.told(version) == fingerprint(columns)
    }

    /// Takes over what is still true from an earlier preparation.
    fn take_over(&self, before: &Self, version: Version) {
        for (told, before) in self.told.iter().zip(&before.told) {
            if told.load(Ordering::Relaxed) == 0 {
                told.store(before.load(Ordering::Relaxed), Ordering::Relaxed);
            }
        }
        let same_columns = self.told(version) == before.told(version) || before.told(version) == 0;
        if same_columns && self.has_schema_of(before) {
            self.nodes
                .fetch_or(before.nodes.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    /// Whether the nodes of both were counted for the same schema.
    fn has_schema_of(&self, other: &Self) -> bool {
        match (&*self.schema.load(), &*other.schema.load()) {
            (Some(schema), Some(other)) => Arc::ptr_eq(schema, other),
            (None, None) => true,
            _ => false,
        }
    }

    pub fn is_on(&self, node: NodeBit) -> bool {
        self.nodes.load(Ordering::Relaxed) & node.0 != 0
    }

    pub fn set_on(&self, node: NodeBit) {
        self.nodes.fetch_or(node.0, Ordering::Relaxed);
    }
}

/// Never 0, which means that clients were told nothing.
fn fingerprint(columns: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(columns);
    hasher.finish() | 1
}

impl Registry {
    pub fn new(capacity: usize) -> Self {
        Self {
            capacity: capacity.max(1),
            known: RwLock::default(),
            nodes: Mutex::default(),
        }
    }

    pub fn node_bit(&self, address: SocketAddr) -> NodeBit {
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        let index = nodes
            .iter()
            .position(|node| *node == address)
            .unwrap_or_else(|| {
                nodes.push(address);
                nodes.len() - 1
            });
        NodeBit(1 << index.min(63))
    }

    pub fn get(&self, id: &[u8]) -> Option<Arc<Statement>> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let statement = known.by_id.get(id)?;
        statement.used.store(true, Ordering::Relaxed);
        Some(statement.clone())
    }

    /// Remembers a statement that a node prepared, with the columns that the client is told. Returns the number of
    /// known statements. Preparing it again replaces its meaning, but keeps its nodes unless the columns changed.
    pub fn insert(
        &self,
        (id, columns): (&[u8], &[u8]),
        version: Version,
        mut statement: Statement,
        node: NodeBit,
    ) -> usize {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        statement.id = id.into();
        statement.told[version as usize] = AtomicU64::new(fingerprint(columns));
        statement.set_on(node);
        known.text_bytes += statement.text.len();
        match known.by_id.get(id).cloned() {
            Some(before) => {
                known.text_bytes -= before.text.len();
                statement.take_over(&before, version);
            }
            None => known.queue.push_back(id.into()),
        }
        known.by_id.insert(id.into(), Arc::new(statement));
        while known.by_id.len() > self.capacity
            || known.text_bytes > TEXT_BYTES_MAX && known.by_id.len() > 1
        {
            known.evict_one();
        }
        known.by_id.len()
    }

    /// A node that went down may come back without its statements.
    pub fn forget_node(&self, node: NodeBit) {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        for statement in known.by_id.values() {
            statement.nodes.fetch_and(!node.0, Ordering::Relaxed);
        }
    }
}

impl Known {
    /// Second-chance eviction: an entry that was used meanwhile goes to the back of the queue once.
    fn evict_one(&mut self) {
        while let Some(id) = self.queue.pop_front() {
            let used = self
                .by_id
                .get(&id)
                .is_some_and(|statement| statement.used.swap(false, Ordering::Relaxed));
            if used {
                self.queue.push_back(id);
                continue;
            }
            if let Some(evicted) = self.by_id.remove(&id) {
                self.text_bytes -= evicted.text.len();
            }
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::table::ColumnRow;

    fn statement(text: &str) -> Statement {
        Statement::new(Shape::Other, text, None)
    }

    fn node(registry: &Registry, last: u8) -> NodeBit {
        registry.node_bit(SocketAddr::from(([10, 0, 0, last], 9042)))
    }

    #[test]
    fn stays_within_its_bound_and_keeps_what_is_used() {
        let registry = Registry::new(3);
        let node = node(&registry, 1);
        registry.insert((b"hot", b"c"), Version::V4, statement("a"), node);
        for id in 0..100_u8 {
            assert!(registry.get(b"hot").is_some(), "{id}");
            assert!(registry.insert((&[id], b"c"), Version::V4, statement("b"), node) <= 3);
        }
        assert!(registry.get(&[5]).is_none());
        assert!(registry.get(&[99]).is_some());
    }

    #[test]
    fn texts_have_a_bound_of_their_own() {
        let registry = Registry::new(1000);
        let node = node(&registry, 1);
        let megabytes = "x".repeat(TEXT_BYTES_MAX / 4);
        for id in 0..20_u8 {
            assert!(registry.insert((&[id], b"c"), Version::V4, statement(&megabytes), node) <= 4);
        }
    }

    #[test]
    fn knows_which_nodes_have_a_statement() {
        let registry = Registry::new(3);
        let (one, two) = (node(&registry, 1), node(&registry, 2));
        assert_ne!(one, two);
        registry.insert((b"id", b"c"), Version::V4, statement("a"), one);
        let found = || registry.get(b"id").expect("inserted");
        assert!(found().is_on(one) && !found().is_on(two));
        registry.insert((b"id", b"c"), Version::V4, statement("a"), two);
        assert!(found().is_on(one) && found().is_on(two));
        registry.forget_node(one);
        assert!(!found().is_on(one) && found().is_on(two));
    }

    #[test]
    fn other_columns_are_news_to_every_node() {
        let registry = Registry::new(3);
        let (one, two) = (node(&registry, 1), node(&registry, 2));
        registry.insert((b"id", b"old"), Version::V4, statement("a"), one);
        registry.insert((b"id", b"v5"), Version::V5, statement("a"), one);
        let found = || registry.get(b"id").expect("inserted");
        assert!(found().was_told(Version::V4, b"old") && found().was_told(Version::V5, b"v5"));
        assert!(!found().was_told(Version::V3, b"old"));
        registry.insert((b"id", b"new"), Version::V4, statement("a"), two);
        assert!(found().was_told(Version::V4, b"new") && !found().was_told(Version::V4, b"old"));
        assert!(!found().is_on(one) && found().is_on(two));
    }

    fn schema() -> Arc<TableSchema> {
        let key = ColumnRow {
            name: "k".to_owned(),
            kind: "partition_key".to_owned(),
            position: 0,
            clustering_order: "none".to_owned(),
            cql_type: "int".to_owned(),
        };
        let schema = TableSchema::from_rows("ks", "t", vec![key], Vec::new(), Vec::new());
        Arc::new(schema.expect("a table"))
    }

    /// Otherwise each PREPARE of a client would be followed by one of our own.
    #[test]
    fn what_was_prepared_under_a_schema_stays_on_its_node_until_the_next() {
        let registry = Registry::new(3);
        let (one, two) = (node(&registry, 1), node(&registry, 2));
        let (before, after) = (schema(), schema());
        let prepare = |schema: &Arc<TableSchema>, node| {
            let statement = statement("a");
            statement.forget_if_altered(schema);
            registry.insert((b"id", b"c"), Version::V4, statement, node);
        };
        let found = || registry.get(b"id").expect("inserted");
        prepare(&before, one);
        found().forget_if_altered(&before);
        assert!(found().is_on(one));
        prepare(&before, two);
        assert!(found().is_on(one) && found().is_on(two));
        found().forget_if_altered(&after);
        assert!(!found().is_on(one) && !found().is_on(two));
        prepare(&before, one);
        prepare(&after, two);
        assert!(!found().is_on(one) && found().is_on(two));
    }

    #[test]
    fn a_use_behind_a_prepare_makes_its_keyspace_uncertain() {
        let mut write = Statement::new(Shape::Other, "INSERT INTO t (k) VALUES (1)", Some("a"));
        write.concern = Arc::new(Concern::new(touches(&write.text), Some("a")));
        let certain = write.concern.clone();
        write.unsettle();
        assert_eq!(write.keyspace, None);
        assert_ne!(write.concern, certain);
        assert!(write.concern.is_write());
    }

    #[test]
    fn more_than_64_nodes_share_the_last_bit() {
        let registry = Registry::new(3);
        let bits: Vec<_> = (0..70).map(|last| node(&registry, last)).collect();
        assert_ne!(bits[0], bits[63]);
        assert_eq!(bits[63], bits[69]);
    }
}
