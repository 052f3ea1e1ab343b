//! Layouts in the store: one small partition per generation, written once.

use scylla::DeserializeRow;
use scylla::statement::batch::{Batch, BatchType};

use super::cas::bind;
use super::{Store, StoreError, not_understood};
use crate::wide_row::layout::{Bucket, Layout, LayoutId};

impl Store {
    /// Writes all of a layout, at once and for every replica that will ever be asked: whoever sees its generation
    /// COMPLETED afterwards can read it.
    pub async fn write_layout(&self, layout: &Layout) -> Result<(), StoreError> {
        let buckets = i32::try_from(layout.buckets.len()).map_err(not_understood)?;
        let checksum = layout.checksum();
        let mut batch = Batch::new(BatchType::Unlogged);
        batch.set_consistency(self.statements.commit);
        let mut values = Vec::with_capacity(layout.buckets.len());
        for (number, bucket) in (0_i32..).zip(&layout.buckets) {
            batch.append_statement(self.statements.write_bucket.clone());
            let first: Vec<Vec<u8>> = bucket.first.iter().map(|value| value.to_vec()).collect();
            values.push(bind![
                layout.split_table.clone(),
                layout.strategy.clone(),
                buckets,
                checksum as i64,
                first,
                bucket.row_count as i64,
                bucket.byte_count as i64,
                layout.table.keyspace.clone(),
                layout.table.table.clone(),
                layout.key.bytes().to_vec(),
                layout.generation.0,
                number,
            ]);
        }
        self.session.batch(&batch, values).await?;
        Ok(())
    }

    /// `None`: there is none. A layout that is not whole is an error: something else wrote there.
    pub async fn read_layout(&self, id: &LayoutId) -> Result<Option<Layout>, StoreError> {
        let LayoutId {
            table,
            key,
            generation,
        } = id;
        let values = bind![
            table.keyspace.clone(),
            table.table.clone(),
            key.bytes().to_vec(),
            generation.0
        ];
        let result = self
            .session
            .execute_unpaged(&self.statements.read_layout, values)
            .await?;
        let rows = result.into_rows_result().map_err(not_understood)?;
        let mut layout = None;
        for row in rows.rows::<BucketRow>().map_err(not_understood)? {
            let row = row.map_err(not_understood)?;
            let (layout, _) = layout.get_or_insert_with(|| row.begin(id));
            layout.buckets.push(row.bucket());
        }
        match layout {
            None => Ok(None),
            Some((layout, checksum)) if Some(layout.checksum()) == checksum => Ok(Some(layout)),
            Some(_) => Err(not_understood("a layout that is not whole")),
        }
    }
}

#[derive(DeserializeRow)]
struct BucketRow {
    split_table: Option<String>,
    strategy: Option<String>,
    checksum: Option<i64>,
    first_clustering: Option<Vec<Vec<u8>>>,
    row_count: Option<i64>,
    byte_count: Option<i64>,
}

impl BucketRow {
    /// A layout without buckets, and the checksum that it must have in the end.
    fn begin(&self, id: &LayoutId) -> (Layout, Option<u64>) {
        let layout = Layout {
            table: id.table.clone(),
            key: id.key.clone(),
            generation: id.generation,
            split_table: self.split_table.clone().unwrap_or_default(),
            strategy: self.strategy.clone().unwrap_or_default(),
            buckets: Vec::new(),
        };
        (layout, self.checksum.map(|checksum| checksum as u64))
    }

    fn bucket(self) -> Bucket {
        let first = self.first_clustering.unwrap_or_default();
        Bucket {
            first: first.into_iter().map(Vec::into_boxed_slice).collect(),
            row_count: self.row_count.unwrap_or_default() as u64,
            byte_count: self.byte_count.unwrap_or_default() as u64,
        }
    }
}
