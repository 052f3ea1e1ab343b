//! The tables that a write names, whether anybody watches them or not: one that began to be watched while the write was
//! under way may have splits by the time of its reply.

use std::sync::Arc;

use super::touched::{Keys, Touched};
use crate::proxy::watching::Concern;
use crate::wide_row::known::{Known, ListVersion};

pub(in crate::proxy) struct Named {
    pub(super) concern: Arc<Concern>,
    /// The list of watched tables that it was held against.
    list: ListVersion,
}

impl Named {
    /// `list`: as it was before the tables were looked up in it.
    pub(in crate::proxy) fn new(concern: Arc<Concern>, list: ListVersion) -> Self {
        Self { concern, list }
    }

    /// Adds the tables that are watched since. What the write did to them nobody looked at when it was forwarded.
    pub(super) fn add_newcomers(&mut self, known: &Known, touched: &mut Touched) {
        let list = known.list();
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
    use crate::statement::touches;
    use crate::wide_row::known::Watched;
    use crate::wide_row::names::TableName;
    use crate::wide_row::testing;
    use crate::wide_row::watched::WatchedTable;

    fn watched(table: &str) -> Arc<Watched> {
        testing::watched(WatchedTable::new(TableName::new("plant", table)))
    }

    #[tokio::test]
    async fn a_table_that_is_watched_since_is_touched_nobody_knows_where() {
        let known = testing::known();
        let concern = Concern::new(touches("INSERT INTO plant.reading (k) VALUES (1)"), None);
        let mut named = Named::new(Arc::new(concern), known.list());
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
