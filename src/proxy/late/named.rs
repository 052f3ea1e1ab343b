//! The tables that a write names, watched or not. A table that began to be watched while the write was in flight may
//! have splits when the reply arrives.

use std::rc::Rc;
use std::sync::Arc;

use super::touched::{Keys, Touched};
use crate::known::{Known, ListVersion};
use crate::protocol::response::result::Rows;
use crate::proxy::concern::Concern;
use crate::proxy::listed::Listed;

pub(super) struct Named {
    pub(super) concern: Arc<Concern>,
    /// The version of the list of watched tables in which the tables were looked up.
    list: Option<ListVersion>,
    /// The same tables without the connection's keyspace. `None`: all names are qualified.
    anywhere: Option<Arc<Concern>>,
    is_settled: bool,
    listed: Rc<Listed>,
}

impl Named {
    /// `list`: the version of the list before the tables were looked up in it.
    pub(super) fn new(concern: Arc<Concern>, list: ListVersion, listed: Rc<Listed>) -> Self {
        Self {
            concern,
            list: Some(list),
            anywhere: None,
            is_settled: true,
            listed,
        }
    }

    /// Whether none of the tables has a split, by what the session's node has listed.
    pub(super) fn has_no_splits(&self, known: &Known) -> bool {
        self.concern.has_no_splits(known, &self.listed)
    }

    /// Lists the split tables of the keyspaces that the tables are in, unless that was done already.
    pub(super) async fn list(&self, known: &Known, ask: impl AsyncFn(&str) -> Option<Rows>) {
        if !self.has_no_splits(known) {
            let keyspaces = self.concern.keyspaces();
            self.listed.refresh(&keyspaces, known, ask).await;
        }
    }

    /// `anywhere`: the same tables without the connection's keyspace.
    pub(super) fn or_anywhere(self, anywhere: Option<Arc<Concern>>) -> Self {
        Self { anywhere, ..self }
    }

    /// Whether the keyspace of the tables is certain.
    pub(super) fn is_settled(&self) -> bool {
        self.is_settled
    }

    /// A USE was sent behind the write, and upstream may run it first.
    pub(super) fn unsettle(&mut self) {
        if let Some(anywhere) = self.anywhere.take() {
            self.concern = anywhere;
            self.list = None;
            self.is_settled = false;
        }
    }

    /// Adds the tables that have begun to be watched. The write's partitions in them are not known.
    pub(super) fn add_newcomers(&mut self, known: &Known, touched: &mut Touched) {
        let list = Some(known.list());
        if list == self.list {
            return;
        }
        for watched in self.concern.written(known) {
            if !touched.has(watched.name()) {
                touched.add(&watched, watched.table_id(), Keys::Unknown);
            }
        }
        self.list = list;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::known::Watched;
    use crate::known::testing;
    use crate::schema::names::TableName;
    use crate::statement::touches;
    use crate::watched::WatchedTable;

    fn watched(table: &str) -> Arc<Watched> {
        testing::watched(WatchedTable::new(TableName::new("plant", table)))
    }

    #[tokio::test]
    async fn a_use_behind_a_write_makes_its_names_those_of_any_keyspace() {
        let known = testing::known();
        let text = "INSERT INTO reading (k) VALUES (1)";
        let [here, anywhere] = [Some("elsewhere"), None]
            .map(|keyspace| Arc::new(Concern::new(touches(text), keyspace)));
        known.set([watched("reading")]);
        let mut named = Named::new(here, known.list(), Rc::default()).or_anywhere(Some(anywhere));
        let mut touched = Touched::default();
        named.add_newcomers(&known, &mut touched);
        assert!(touched.is_empty());
        named.unsettle();
        named.add_newcomers(&known, &mut touched);
        let expected = "Touched { tables: [plant.reading: Unknown] }";
        assert_eq!(format!("{touched:?}"), expected);
    }

    #[tokio::test]
    async fn a_table_that_is_watched_since_is_touched_nobody_knows_where() {
        let known = testing::known();
        let concern = Concern::new(touches("INSERT INTO plant.reading (k) VALUES (1)"), None);
        let mut named = Named::new(Arc::new(concern), known.list(), Rc::default());
        let mut touched = Touched::default();
        known.set([watched("other")]);
        named.add_newcomers(&known, &mut touched);
        assert!(touched.is_empty());
        known.set([watched("other"), watched("reading")]);
        named.add_newcomers(&known, &mut touched);
        let expected = "Touched { tables: [plant.reading: Unknown] }";
        assert_eq!(format!("{touched:?}"), expected);
        // Once is enough, and what is known of it stays.
        known.set([watched("reading")]);
        named.add_newcomers(&known, &mut touched);
        assert_eq!(format!("{touched:?}"), expected);
    }
}
