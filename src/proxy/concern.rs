//! The tables that a statement touches, and whether the proxy knows enough about them to forward a write. Pure.

use std::sync::Arc;

use super::listed::Listed;
use crate::known::freshness::{Age, Parts};
use crate::known::{Known, Owner, Watched};
use crate::statement::Touches;
use crate::statement::touches::{Change, Name};

/// What the proxy must refresh before it may forward a write.
pub(super) enum Stale {
    /// The list of watched tables; or else which split tables these keyspaces have.
    Catalog(Vec<String>),
    /// These shards of these tables; or else which split tables their keyspaces have.
    Tables(Vec<(Arc<Watched>, Parts)>),
    /// The partition key of a table that has splits, or whose partitions close for writes (`accept_limit`); or else which
    /// split tables these keyspaces have. Without keyspaces: whether a table with the name of a split table is one.
    Schema(Vec<String>),
}

/// The tables of a statement. Unqualified names get their keyspace if it is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Concern {
    Nothing,
    Reads {
        keyspace: String,
        table: String,
    },
    /// A name without a keyspace may be in any keyspace: a USE in flight decides, or upstream refuses the statement.
    Writes(Vec<Name>),
    Changes(Change, Name),
    /// Changes no row.
    Configures(Name),
    DropsKeyspace(String),
    WritesAnything,
    /// Writes anything; of the tables that it names, only those with names of split tables are listed.
    WritesMany(Vec<Name>),
}

impl Concern {
    pub(super) fn new(touches: Touches, keyspace: Option<&str>) -> Self {
        let full = |name: Name| Name {
            keyspace: name.keyspace.or_else(|| keyspace.map(str::to_owned)),
            ..name
        };
        match touches {
            Touches::Nothing => Self::Nothing,
            Touches::Reads(name) => match full(name) {
                Name {
                    keyspace: Some(keyspace),
                    table,
                } => Self::Reads { keyspace, table },
                _ => Self::Nothing,
            },
            Touches::Writes(names) => {
                let names: Vec<Name> = names.into_iter().map(full).collect();
                match names.iter().all(is_systems_own) {
                    true => Self::Nothing,
                    false => Self::Writes(names),
                }
            }
            Touches::Changes(how, name) => Self::Changes(how, full(name)),
            Touches::Configures(name) => Self::Configures(full(name)),
            Touches::DropsKeyspace(keyspace) => Self::DropsKeyspace(keyspace),
            Touches::WritesAnything => Self::WritesAnything,
            Touches::WritesMany(names) => Self::WritesMany(names.into_iter().map(full).collect()),
        }
    }

    /// The tables of a text, in case upstream runs it in a keyspace other than the connection's. `None`: the keyspace
    /// makes no difference.
    pub(super) fn anywhere(touched: &Touches, named: Option<&str>) -> Option<Arc<Self>> {
        let depends = named.is_none() && touched.has_short_names();
        depends.then(|| Arc::new(Self::new(touched.clone(), None)))
    }

    pub(super) fn is_write(&self) -> bool {
        !matches!(
            self,
            Self::Nothing | Self::Reads { .. } | Self::Configures(_)
        )
    }

    /// Adds the tables of another statement of the same batch.
    pub(super) fn join(&mut self, other: &Self) {
        match (&mut *self, other) {
            (_, Self::Nothing) => {}
            (Self::Nothing, other) => *self = other.clone(),
            (Self::Writes(names), Self::Writes(more)) => {
                // Most batches stay in one table.
                let is_news = |name: &&Name| names.last() != Some(name);
                let news: Vec<Name> = more.iter().filter(is_news).cloned().collect();
                names.extend(news);
            }
            (_, _) => *self = Self::WritesAnything,
        }
    }

    /// The watched tables that the statement writes, as far as the proxy knows.
    pub(super) fn written(&self, known: &Known) -> Vec<Arc<Watched>> {
        match self {
            Self::Nothing | Self::Reads { .. } | Self::Configures(_) => Vec::new(),
            Self::Writes(names) => match names.as_slice() {
                [name] => named(name, known),
                names => names.iter().flat_map(|name| named(name, known)).collect(),
            },
            Self::Changes(_, name) => named(name, known),
            Self::DropsKeyspace(keyspace) => {
                let mut tables = known.tables();
                tables.retain(|watched| watched.name().keyspace == *keyspace);
                tables
            }
            Self::WritesAnything | Self::WritesMany(_) => known.tables(),
        }
    }

    /// The first table that the statement changes and that is, or may be, a split table, with its owner.
    pub(super) fn split_table(&self, known: &Known) -> Option<(&Name, Owner)> {
        let names = match self {
            Self::Writes(names) | Self::WritesMany(names) => names.as_slice(),
            Self::Changes(_, name) | Self::Configures(name) => std::slice::from_ref(name),
            // DROP KEYSPACE drops the original as well.
            Self::Nothing | Self::Reads { .. } | Self::DropsKeyspace(_) | Self::WritesAnything => {
                &[]
            }
        };
        names.iter().find_map(|name| {
            let owner = known.owner(name.keyspace.as_deref(), &name.table)?;
            Some((name, owner))
        })
    }

    /// Whether none of the tables that the statement writes has a split, by what the session's node has listed.
    pub(super) fn has_no_splits(&self, known: &Known, listed: &Listed) -> bool {
        let has_none = |name: &Name| listed.has_no_splits(name, known);
        match self {
            Self::Nothing | Self::Reads { .. } | Self::Configures(_) => true,
            Self::Writes(names) => names.iter().all(has_none),
            Self::Changes(_, name) => has_none(name),
            Self::DropsKeyspace(keyspace) => listed.keyspace_has_no_splits(keyspace, known),
            Self::WritesAnything | Self::WritesMany(_) => false,
        }
    }

    /// The keyspaces to list, so that [`Self::has_no_splits`] can answer.
    pub(super) fn keyspaces(&self) -> Vec<String> {
        let mut keyspaces: Vec<String> = match self {
            Self::Writes(names) => names
                .iter()
                .filter_map(|name| name.keyspace.clone())
                .collect(),
            Self::Changes(_, name) => name.keyspace.iter().cloned().collect(),
            Self::DropsKeyspace(keyspace) => vec![keyspace.clone()],
            _ => Vec::new(),
        };
        keyspaces.sort();
        keyspaces.dedup();
        keyspaces
    }

    /// What the proxy must refresh before it can compute what the statement touches. `None`: nothing.
    pub(super) fn stale(
        &self,
        known: &Known,
        tables: &[Arc<Watched>],
        listed: &Listed,
    ) -> Option<Stale> {
        if !self.is_write() {
            return None;
        }
        let is_listed = || self.has_no_splits(known, listed);
        if known.catalog.age() != Age::Fresh && !is_listed() {
            return Some(Stale::Catalog(self.keyspaces()));
        }
        let lacks_keys = |watched: &Arc<Watched>| {
            let may_have_splits = || !watched.has_no_splits() && !is_listed();
            !watched.is_described() && (watched.settings().closes() || may_have_splits())
        };
        let wants_keys = matches!(self, Self::Writes(_));
        (wants_keys && tables.iter().any(lacks_keys)).then(|| Stale::Schema(self.keyspaces()))
    }
}

fn named(name: &Name, known: &Known) -> Vec<Arc<Watched>> {
    match &name.keyspace {
        Some(keyspace) => known.table(keyspace, &name.table).into_iter().collect(),
        None => {
            let mut tables = known.tables();
            tables.retain(|watched| watched.name().table == name.table);
            tables
        }
    }
}

/// Cassandra's own keyspaces are never watched, and logins must work even while the proxy knows nothing else.
fn is_systems_own(name: &Name) -> bool {
    const OWN: [&str; 7] = [
        "system",
        "system_schema",
        "system_auth",
        "system_distributed",
        "system_traces",
        "system_views",
        "system_virtual_schema",
    ];
    let keyspace = name.keyspace.as_deref();
    keyspace.is_some_and(|keyspace| OWN.contains(&keyspace))
}

impl Stale {
    /// The keyspaces whose split tables would tell as much as a refresh.
    pub(super) fn keyspaces(&self) -> Vec<String> {
        match self {
            Self::Catalog(keyspaces) | Self::Schema(keyspaces) => keyspaces.clone(),
            Self::Tables(tables) => {
                let keyspaces = tables
                    .iter()
                    .map(|(table, _)| table.name().keyspace.clone());
                keyspaces.collect()
            }
        }
    }

    /// The error text for a write whose refresh was not done in time.
    pub(super) fn refusal(&self, known: &Known) -> &'static str {
        let age = match self {
            Self::Catalog(_) => known.catalog.age(),
            Self::Tables(tables) => tables
                .first()
                .map_or(Age::Stale, |(table, parts)| table.freshness.age_of(parts)),
            Self::Schema(_) => Age::Unknown,
        };
        match age {
            Age::Unknown => NOT_KNOWN,
            Age::Stale | Age::Fresh => NOT_LATELY,
        }
    }
}

const NOT_KNOWN: &str = "narrows: the proxy does not know yet which partitions are split, so this write is not safe; it was not forwarded, try again";
pub(super) const NOT_LATELY: &str = "narrows: the control keyspace could not be read recently, so this write is not safe; \
    it was not forwarded, try again";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::known::testing;
    use crate::schema::names::TableName;
    use crate::statement::touches;
    use crate::watched::WatchedTable;

    #[tokio::test]
    async fn changes_of_split_tables_are_told_from_those_of_other_tables() {
        let known = testing::known();
        let name = TableName::new("plant", "t");
        let watched = testing::watched(WatchedTable::new(name.clone()));
        known.set([watched.clone()]);
        let owner = |text: &str| {
            let concern = Concern::new(touches(text), Some("plant"));
            concern.split_table(&known).map(|(_, owner)| owner)
        };
        // Nobody has looked yet.
        assert_eq!(owner("TRUNCATE wide_t_1"), Some(Owner::Unknown));
        watched.set_split_tables(["wide_t_1".to_owned()].into());
        let many: String = (0..100)
            .map(|n| format!("INSERT INTO a{n} (k) VALUES (1);"))
            .collect();
        let many = format!("BEGIN BATCH {many} DELETE FROM wide_t_1 WHERE k = 1; APPLY BATCH");
        for text in [
            many.as_str(),
            "INSERT INTO plant.wide_t_1 (k) VALUES (1)",
            "UPDATE wide_t_1 SET v = 1 WHERE k = 1",
            "DELETE FROM \"wide_t_1\" WHERE k = 1",
            "BEGIN BATCH INSERT INTO t (k) VALUES (1); DELETE FROM wide_t_1 WHERE k = 1; APPLY BATCH",
            "TRUNCATE wide_t_1",
            "ALTER TABLE wide_t_1 ADD c int",
            "ALTER TABLE wide_t_1 WITH comment = ''",
            "DROP TABLE wide_t_1",
            "CREATE INDEX ON wide_t_1 (v)",
            "CREATE MATERIALIZED VIEW v AS SELECT * FROM wide_t_1 WHERE k IS NOT NULL PRIMARY KEY (k)",
        ] {
            assert_eq!(owner(text), Some(Owner::Original(name.clone())), "{text}");
        }
        for text in [
            "SELECT * FROM wide_t_1",
            "INSERT INTO t (k) VALUES (1)",
            "INSERT INTO elsewhere.wide_t_1 (k) VALUES (1)",
            "INSERT INTO wide_t_2 (k) VALUES (1)",
            "DROP TABLE wide_tt_1",
            "DROP KEYSPACE plant",
            "CREATE TABLE wide_t_1 (k int PRIMARY KEY)",
            "CREATE INDEX ON t (v)",
        ] {
            assert_eq!(owner(text), None, "{text}");
        }
        // A USE in flight decides where this is.
        let anywhere = Concern::new(touches("TRUNCATE wide_t_1"), None);
        assert!(anywhere.split_table(&known).is_some());
        // A table that is watched itself is a client's own.
        let other = WatchedTable::new(TableName::new("plant", "wide_t_1"));
        known.set([watched.clone(), testing::watched(other)]);
        assert_eq!(anywhere.split_table(&known), None);
    }

    #[test]
    fn options_are_no_write() {
        let concern = Concern::new(touches("ALTER TABLE plant.t WITH comment = 'x'"), None);
        assert!(!concern.is_write());
        let concern = Concern::new(touches("ALTER TABLE plant.t ADD c int"), None);
        assert!(concern.is_write());
    }
}
