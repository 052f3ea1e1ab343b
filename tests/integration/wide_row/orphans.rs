//! Nothing of a table stays for ever once the table, or its keyspace, is gone. The days are told, not waited for.

use narrows::pipeline::cleanup::orphans::{Removed, remove_orphans};
use narrows::wide_row::clock::unix_millis;

use super::control::SHARDS;
use super::split_tables::{HOUR, World};
use super::store::complete;
use crate::support::cluster::old_cluster;
use crate::support::{Cluster, control_cluster};

const NOTHING: Removed = Removed {
    splits: 0,
    tables: 0,
};

impl World {
    /// Removes what can go so many hours from now.
    async fn remove(&self, hours: i64) -> Removed {
        let now = unix_millis() + hours * HOUR;
        let removed = remove_orphans(self.store(), &self.table("t"), SHARDS, now).await;
        removed.expect("looked at")
    }

    /// How many rows the control keyspace has of splits, layouts and split tables.
    async fn rows(&self) -> [usize; 3] {
        let columns = [
            ("wide_row", "partition_key"),
            ("wide_row_layout", "generation"),
            ("split_table", "split_table"),
        ];
        let mut counts = [0; 3];
        for (count, (table, column)) in counts.iter_mut().zip(columns) {
            // A shard without rows still has its version.
            let text = format!(
                "SELECT count({column}) FROM {}.{table}",
                self.control.keyspace.name
            );
            let result = self.control.session.query_unpaged(text, ()).await;
            let rows = result.expect("read").into_rows_result().expect("rows");
            *count = rows.first_row::<(i64,)>().expect("a count").0 as usize;
        }
        counts
    }

    /// A split in service, its layout and its table.
    async fn split(&self) {
        assert_eq!(self.split_table().await, "wide_t_1");
        let lease = complete(self.store(), &self.id()).await;
        let released = self.store().release(&self.id(), &lease).await;
        released.expect("given back");
        let split = self.store().read_split(&self.id()).await.expect("read");
        let generation = split.expect("a split").standing.generation;
        if self.rows().await[1] == 0 {
            self.write_layout(generation, "wide_t_1").await;
        }
        let [splits, layouts, tables] = self.rows().await;
        assert!(splits == 1 && layouts > 0 && tables == 1);
    }
}

#[tokio::test]
async fn a_dropped_table_leaves_nothing_behind() {
    for cluster in [control_cluster(), old_cluster()] {
        let world = World::create(&cluster).await;
        world.split().await;
        // Whatever the time is: the table is there.
        assert_eq!(world.remove(100).await, NOTHING);
        world.run("DROP TABLE {}.t").await;
        // Nobody has noticed it yet, so that is the first thing to be done.
        assert_eq!(world.remove(0).await, NOTHING);
        let key = world.store().read_key(&world.id()).await.expect("read");
        assert!(!key.standing.expect("a split").is_in_service());
        assert_eq!(
            (world.remove(0).await, world.remove(23).await),
            (NOTHING, NOTHING)
        );
        assert!(world.exists("wide_t_1").await && world.rows().await[0] == 1);
        let both = Removed {
            splits: 1,
            tables: 1,
        };
        assert_eq!(world.remove(25).await, both);
        assert!(!world.exists("wide_t_1").await);
        // That it was dropped is known for another day: a DROP that comes late must hit nothing.
        assert_eq!(world.rows().await, [0, 0, 1]);
        assert_eq!(
            (world.remove(40).await, world.rows().await),
            (NOTHING, [0, 0, 1])
        );
        assert_eq!(
            (world.remove(50).await, world.rows().await),
            (NOTHING, [0, 0, 0])
        );
        assert_eq!(world.remove(100).await, NOTHING);
        // All begins anew with a table of that name.
        world
            .run("CREATE TABLE {}.t (k int, c int, v text, w int, PRIMARY KEY (k, c))")
            .await;
        assert_eq!(world.split_table().await, "wide_t_1");
    }
}

#[tokio::test]
async fn a_dropped_keyspace_leaves_nothing_behind() {
    let cluster: Cluster = control_cluster();
    let world = World::create(&cluster).await;
    world.split().await;
    world.run("DROP KEYSPACE {}").await;
    assert_eq!(world.remove(0).await, NOTHING);
    assert_eq!(
        (world.remove(0).await, world.remove(23).await),
        (NOTHING, NOTHING)
    );
    let split = Removed {
        splits: 1,
        tables: 0,
    };
    assert_eq!(
        (world.remove(25).await, world.rows().await),
        (split, [0, 0, 0])
    );
    // The test's own end drops it.
    world
        .run("CREATE KEYSPACE {} WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
        .await;
}

#[tokio::test]
async fn a_split_table_that_a_person_made_stays() {
    let world = World::create(&control_cluster()).await;
    world.split().await;
    world
        .run("ALTER TABLE {}.wide_t_1 WITH comment = 'ours'")
        .await;
    world.run("DROP TABLE {}.t").await;
    assert_eq!(
        (world.remove(0).await, world.remove(0).await),
        (NOTHING, NOTHING)
    );
    assert_eq!(world.remove(25).await.tables, 0);
    assert!(world.exists("wide_t_1").await);
    assert_eq!(world.rows().await, [0, 0, 0]);
}
