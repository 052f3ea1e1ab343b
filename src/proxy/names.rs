//! The keyspace of the unqualified names in a request.

use super::concern::Concern;
use super::pending::Pending;
use super::wire::Wire;
use crate::statement::Touches;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Names {
    InSystem,
    Elsewhere,
    /// An earlier USE has no reply yet.
    Unsettled,
}

impl Wire {
    /// `named`: the keyspace that the request itself names, if any.
    pub(super) fn names(&self, named: Option<&str>) -> Names {
        let is_use = |pending: &Pending| matches!(pending, Pending::Use);
        let has_use = || self.short_names.use_waits() || self.pending.borrow().values().any(is_use);
        if named.is_none() && has_use() {
            return Names::Unsettled;
        }
        match named.or(self.keyspace.borrow().as_deref()) {
            Some("system") => Names::InSystem,
            _ => Names::Elsewhere,
        }
    }

    /// `None`: no keyspace is set, or an earlier USE has no reply yet.
    pub(super) fn keyspace_of_names(&self, named: Option<&str>) -> Option<String> {
        match self.names(named) {
            Names::Unsettled => None,
            Names::InSystem | Names::Elsewhere => {
                let named = named.map(str::to_owned);
                named.or_else(|| self.keyspace.borrow().clone())
            }
        }
    }

    /// The tables of a text, with the keyspace that the request or the connection names.
    pub(super) fn concern(&self, touched: Touches, named: Option<&str>) -> Concern {
        match self.names(named) {
            Names::Unsettled => Concern::new(touched, None),
            Names::InSystem | Names::Elsewhere => {
                let keyspace = self.keyspace.borrow();
                Concern::new(touched, named.or(keyspace.as_deref()))
            }
        }
    }
}
