//! The clusters of `tests/cluster`, started when a test first needs them and left running.
//!
//! Tests share all clusters side by side, except `fault`: a test that stops or pauses nodes, or that fails when another
//! test drops a table, has that one to itself.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

static FAULT: Mutex<()> = Mutex::new(());
static STARTED: Mutex<BTreeMap<&str, Arc<OnceLock<Vec<SocketAddr>>>>> = Mutex::new(BTreeMap::new());

/// A running cluster and, for `fault`, the right to use it. Ask once per test: asking twice would wait for itself.
pub(crate) struct Cluster {
    name: &'static str,
    nodes: Vec<SocketAddr>,
    alone: Option<MutexGuard<'static, ()>>,
}

/// Three nodes of Cassandra 5.0, shared with other tests.
pub(crate) fn cluster() -> Cluster {
    named("main")
}

/// Three other nodes, with no other test there.
pub(crate) fn cluster_alone() -> Cluster {
    let alone = FAULT.lock().unwrap_or_else(PoisonError::into_inner);
    Cluster {
        name: "fault",
        // A test that failed may have left a node stopped: `up` starts it again, and waits until all nodes serve.
        nodes: up("fault"),
        alone: Some(alone),
    }
}

/// One node of Cassandra 4.1.
pub(crate) fn old_cluster() -> Cluster {
    named("old")
}

/// One node of Cassandra 5.0.
pub(crate) fn single_cluster() -> Cluster {
    named("single")
}

/// Another one, for tests of the control keyspace: with fewer tables on a node, each change of the schema is quicker.
pub(crate) fn control_cluster() -> Cluster {
    named("control")
}

/// Two data centres of one node each.
pub(crate) fn dc_cluster() -> Cluster {
    named("dc")
}

fn named(name: &'static str) -> Cluster {
    Cluster {
        name,
        nodes: start(name),
        alone: None,
    }
}

impl Cluster {
    /// The node that tests talk to directly.
    pub(crate) fn node(&self) -> SocketAddr {
        self.nodes[0]
    }

    pub(crate) fn nodes(&self) -> &[SocketAddr] {
        &self.nodes
    }

    /// What Cassandra's nodetool says on the first node.
    pub(crate) fn nodetool(&self, arguments: &[&str]) -> String {
        let node = ["nodetool", "--name", self.name, "--node", "1"];
        run(&[&node[..], arguments].concat())
    }

    /// Stops a node, counted from 1, until the returned value is dropped.
    pub(crate) fn stop_node(&self, number: usize) -> StoppedNode<'_> {
        assert!(self.alone.is_some(), "other tests need this node");
        let stopped = StoppedNode {
            cluster: self,
            number,
        };
        self.on_node("stop-node", number);
        stopped
    }

    /// A node that answers nothing, and looks alive to the others for a while.
    pub(crate) fn pause_node(&self, number: usize) -> StoppedNode<'_> {
        assert!(self.alone.is_some(), "other tests need this node");
        self.on_node("pause-node", number);
        StoppedNode {
            cluster: self,
            number,
        }
    }

    fn on_node(&self, command: &str, number: usize) {
        run(&[command, "--name", self.name, "--node", &number.to_string()]);
    }
}

/// A node that is down, or paused, and comes back on drop, also when the test fails.
pub(crate) struct StoppedNode<'a> {
    cluster: &'a Cluster,
    number: usize,
}

impl Drop for StoppedNode<'_> {
    fn drop(&mut self) {
        self.cluster.on_node("start-node", self.number);
    }
}

/// The first test that asks starts it. Tests on other clusters do not wait for that.
fn start(name: &'static str) -> Vec<SocketAddr> {
    let mut started = STARTED.lock().unwrap_or_else(PoisonError::into_inner);
    let nodes = started.entry(name).or_default().clone();
    drop(started);
    nodes.get_or_init(|| up(name)).clone()
}

fn up(name: &str) -> Vec<SocketAddr> {
    contact_points(&run(&["up", "--name", name]))
}

fn run(arguments: &[&str]) -> String {
    let output = Command::new("python3")
        .arg(super::root().join("tests/cluster/cluster.py"))
        .args(arguments)
        .output()
        .expect("python3 is installed");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?} failed:\n{said}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// The addresses in the last line, `{…, "contact_points": ["127.0.1.1:9042", …], …}`.
fn contact_points(output: &str) -> Vec<SocketAddr> {
    let line = output.lines().last().expect("a line of JSON");
    let (_, list) = line.split_once("\"contact_points\": [").expect("a list");
    let (list, _) = list.split_once(']').expect("its end");
    list.split(',')
        .map(|entry| entry.trim().trim_matches('"').parse().expect("an address"))
        .collect()
}
