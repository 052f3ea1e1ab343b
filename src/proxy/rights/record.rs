//! The rights that one connection has proven for its client, and when.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;

use crate::schema::names::TableName;

/// How long a proof is believed, counted from when the proxy asked.
const BELIEVED: Duration = Duration::from_secs(2);
/// Maximum number of proofs per connection. At this number all are dropped: they expire soon anyway.
const PROOFS_MAX: usize = 256;

/// What a client wants to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::proxy) enum Deed {
    Read,
    Write,
    Alter,
}

/// A deed on a table.
pub(super) type Subject = (Deed, String, String);

pub(in crate::proxy) struct Rights {
    /// Upstream asked for a login, so roles may have different rights.
    logged_in: Cell<bool>,
    /// All clients share the identity of the proxy's certificate.
    shared_identity: bool,
    proven: RefCell<HashMap<Subject, Instant>>,
    /// Counts logins, because a client may log in again as another role.
    login: Cell<u64>,
    /// Held by the task that asks upstream.
    pub(super) asking: Mutex<()>,
    /// Watched tables that this client has written, according to upstream's replies, or has proven that it may write.
    written: RefCell<HashSet<TableName>>,
}

impl Rights {
    pub(in crate::proxy) fn new(shared_identity: bool) -> Rc<Self> {
        Rc::new(Self {
            logged_in: Cell::new(false),
            shared_identity,
            proven: RefCell::default(),
            login: Cell::new(0),
            asking: Mutex::default(),
            written: RefCell::default(),
        })
    }

    /// Without a login there are no roles, so no client has a right that another lacks.
    pub(in crate::proxy) fn has_no_roles(&self) -> bool {
        !self.logged_in.get() && !self.shared_identity
    }

    /// `None`: there are no roles.
    pub(in crate::proxy) fn to_have(self: &Rc<Self>) -> Option<Rc<Self>> {
        (!self.has_no_roles()).then(|| self.clone())
    }

    /// Notes that upstream asks for a login.
    pub(in crate::proxy) fn note_login(&self) {
        self.logged_in.set(true);
    }

    /// Forgets all proofs: a client has just logged in, and has proven nothing yet.
    pub(in crate::proxy) fn forget(&self) {
        self.login.set(self.login.get() + 1);
        self.proven.borrow_mut().clear();
        self.written.borrow_mut().clear();
    }

    /// Notes that the client may write this table.
    pub(in crate::proxy) fn note_written(&self, table: &TableName) {
        let mut written = self.written.borrow_mut();
        if !written.contains(table) {
            written.insert(table.clone());
        }
    }

    pub(in crate::proxy) fn has_written(&self, table: &TableName) -> bool {
        self.written.borrow().contains(table)
    }

    pub(super) fn login(&self) -> u64 {
        self.login.get()
    }

    pub(super) fn believes(&self, subject: &Subject) -> bool {
        let proven = self.proven.borrow().get(subject).copied();
        proven.is_some_and(|at| at.elapsed() < BELIEVED)
    }

    pub(super) fn believe(&self, subject: Subject, at: Instant, login: u64) {
        let mut proven = self.proven.borrow_mut();
        if login != self.login.get() {
            return;
        }
        if proven.len() >= PROOFS_MAX {
            proven.clear();
        }
        proven.insert(subject, at);
    }
}
