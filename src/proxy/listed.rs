//! Which split tables the session's own node has. It lets writes go on while the control keyspace cannot be read.
//!
//! A worker makes a split table, and waits until all live nodes agree on it, before it guards the first partition of
//! the original. So while the node behind a session has no split table of an original, no partition of that original
//! was guarded before. Knowledge from that moment counts for `max_staleness`, like knowledge from the control keyspace.

use std::cell::RefCell;
use std::collections::HashMap;

use tokio::sync::Mutex;

use crate::known::Known;
use crate::known::clock::Moment;
use crate::protocol::response::result::{Row, Rows};
use crate::statement::touches::Name;
use crate::wide_row::split_name::{is_name, might_be_name};

/// Maximum number of keyspaces that a session remembers; a client with more of them asks again.
const KEYSPACES_MAX: usize = 64;

#[derive(Default)]
pub(super) struct Listed {
    keyspaces: RefCell<HashMap<String, Listing>>,
    /// Locked while the node is asked, so that all who wait share one answer.
    asking: Mutex<()>,
}

struct Listing {
    /// When the node was asked.
    sent: Moment,
    /// Tables with names that Narrows gives.
    split_names: Vec<String>,
}

impl Listed {
    /// Whether the table had no split table on the node, at a moment that still counts.
    pub(super) fn has_no_splits(&self, name: &Name, known: &Known) -> bool {
        let has_name = |split: &String| is_name(&name.table, split);
        let keyspace = name.keyspace.as_deref();
        keyspace.is_some_and(|keyspace| {
            self.look(keyspace, known, |listing| {
                !listing.split_names.iter().any(has_name)
            })
        })
    }

    /// The same for all tables of a keyspace.
    pub(super) fn keyspace_has_no_splits(&self, keyspace: &str, known: &Known) -> bool {
        self.look(keyspace, known, |listing| listing.split_names.is_empty())
    }

    fn look(&self, keyspace: &str, known: &Known, has_none: impl FnOnce(&Listing) -> bool) -> bool {
        let keyspaces = self.keyspaces.borrow();
        let listing = keyspaces.get(keyspace);
        listing.is_some_and(|listing| known.allows(listing.sent) && has_none(listing))
    }

    /// Asks the node for the tables of these keyspaces, unless somebody else asked since this was called.
    /// `ask` runs a SELECT on the node.
    pub(super) async fn refresh(
        &self,
        keyspaces: &[String],
        known: &Known,
        ask: impl AsyncFn(&str) -> Option<Rows>,
    ) {
        let began = known.catalog.now();
        let _asking = self.asking.lock().await;
        for keyspace in keyspaces {
            let listed = self
                .keyspaces
                .borrow()
                .get(keyspace)
                .map(|listing| listing.sent);
            if listed.is_some_and(|sent| sent.nanos() >= began.nanos()) {
                continue;
            }
            let sent = known.catalog.now();
            let rows = ask(&tables_of(keyspace)).await;
            let Some(split_names) = rows.as_ref().and_then(split_names) else {
                continue;
            };
            let mut keyspaces = self.keyspaces.borrow_mut();
            if keyspaces.len() >= KEYSPACES_MAX {
                keyspaces.clear();
            }
            keyspaces.insert(keyspace.clone(), Listing { sent, split_names });
        }
    }
}

/// Every role may read the schema.
fn tables_of(keyspace: &str) -> String {
    let keyspace = keyspace.replace('\'', "''");
    format!("SELECT table_name FROM system_schema.tables WHERE keyspace_name = '{keyspace}'")
}

/// `None`: a name cannot be read, so it might be that of a split table.
fn split_names(rows: &Rows) -> Option<Vec<String>> {
    let name = |row: &Row| String::from_utf8(row.first()?.clone()?).ok();
    let names: Option<Vec<String>> = rows.rows.iter().map(name).collect();
    let is_ours = |name: &String| might_be_name(name);
    Some(names?.into_iter().filter(is_ours).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::known::testing;
    use crate::protocol::types::{Cursor, Write};

    /// As upstream answers, with one column of text.
    fn rows(names: &[&str]) -> Rows {
        let mut body = Vec::new();
        body.put_int(0x0001);
        body.put_int(1);
        body.put_string("system_schema");
        body.put_string("tables");
        body.put_string("table_name");
        body.put_short(0x000D);
        body.put_int(names.len() as i32);
        for name in names {
            body.put_bytes(Some(name.as_bytes()));
        }
        Rows::read(&mut Cursor::new(&body)).expect("rows")
    }

    fn name(keyspace: Option<&str>, table: &str) -> Name {
        Name {
            keyspace: keyspace.map(str::to_owned),
            table: table.to_owned(),
        }
    }

    #[tokio::test]
    async fn a_table_has_no_splits_if_its_node_lists_no_split_table_of_it() {
        let (known, listed) = (testing::known(), Listed::default());
        known.set_announced();
        let reading = name(Some("plant"), "reading");
        assert!(!listed.has_no_splits(&reading, &known), "nobody has asked");
        let asked = std::cell::Cell::new(0);
        let ask = async |text: &str| {
            assert!(text.ends_with("keyspace_name = 'plant'"), "{text}");
            asked.set(asked.get() + 1);
            tokio::task::yield_now().await;
            Some(rows(&["reading", "wide_reading_1", "order"]))
        };
        let plant = ["plant".to_owned()];
        listed.refresh(&plant, &known, &ask).await;
        assert!(!listed.has_no_splits(&reading, &known));
        assert!(listed.has_no_splits(&name(Some("plant"), "order"), &known));
        assert!(!listed.keyspace_has_no_splits("plant", &known));
        assert!(!listed.has_no_splits(&name(Some("other"), "order"), &known));
        assert!(!listed.has_no_splits(&name(None, "order"), &known));
        // Those who come while the node is being asked share the next answer.
        tokio::join!(
            listed.refresh(&plant, &known, &ask),
            listed.refresh(&plant, &known, &ask),
            listed.refresh(&plant, &known, &ask)
        );
        assert_eq!(asked.get(), 3);
    }

    #[tokio::test]
    async fn a_node_that_does_not_answer_lists_nothing() {
        let (known, listed) = (testing::known(), Listed::default());
        known.set_announced();
        let plant = ["plant".to_owned()];
        listed.refresh(&plant, &known, async |_: &str| None).await;
        assert!(!listed.keyspace_has_no_splits("plant", &known));
        let empty = async |_: &str| Some(rows(&[]));
        listed.refresh(&plant, &known, empty).await;
        assert!(listed.keyspace_has_no_splits("plant", &known));
    }
}
