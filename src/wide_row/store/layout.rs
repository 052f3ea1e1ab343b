//! Layouts in the store: one small partition per generation, written once.

use scylla::DeserializeRow;
use scylla::statement::SerialConsistency;
use scylla::statement::batch::{Batch, BatchType};

use super::cas::{Answer, Values, answered, bind, send};
use super::{SplitId, Store, StoreError, not_understood};
use crate::schema::bucket::Bucket;
use crate::wide_row::layout::{Layout, LayoutId};
use crate::wide_row::names::Generation;

impl Store {
    /// Writes a whole layout at once, on a quorum of each data centre: a reader that sees its generation COMPLETED
    /// afterwards can read it. A different layout of the same generation is refused.
    pub async fn write_layout(&self, layout: &Layout) -> Result<(), StoreError> {
        if !layout.is_sound() {
            return Err(not_understood("a layout whose buckets are inconsistent"));
        }
        let buckets = i32::try_from(layout.buckets.len()).map_err(not_understood)?;
        let checksum = layout.checksum() as i64;
        let mut batch = Batch::new(BatchType::Unlogged);
        batch.set_consistency(self.statements.commit);
        batch.set_serial_consistency(Some(SerialConsistency::Serial));
        batch.append_statement(self.statements.write_first_bucket.clone());
        for _ in 1..buckets {
            batch.append_statement(self.statements.write_bucket.clone());
        }
        let numbered = (0_i32..).zip(&layout.buckets);
        let values: Vec<Values> = numbered
            .map(|(number, bucket)| bucket_values(layout, (buckets, checksum), number, bucket))
            .collect();
        let write = || async { Answer::read(self.session.batch(&batch, &values).await?) };
        let answer = answered(write).await?;
        // The same layout was written by an attempt of ours whose reply was lost, or by another worker that planned the
        // same.
        if answer.applied || answer.bigint("checksum") == Some(checksum) {
            return Ok(());
        }
        let text = "the generation already has another layout";
        Err(StoreError::Refused(text.into()))
    }

    /// `None` if there is none. An incomplete layout is an error: something else wrote to it.
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
        let statement = self.nearby(&self.statements.read_layout);
        let result = self.session.execute_unpaged(&statement, values).await?;
        let rows = result.into_rows_result().map_err(not_understood)?;
        let mut layout = None;
        for row in rows.rows::<BucketRow>().map_err(not_understood)? {
            let row = row.map_err(not_understood)?;
            let (layout, _) = layout.get_or_insert_with(|| row.begin(id));
            layout.buckets.push(row.bucket());
        }
        let Some((layout, (buckets, checksum))) = layout else {
            return Ok(None);
        };
        let whole = buckets == i32::try_from(layout.buckets.len()).ok()
            && layout.is_sound()
            && checksum == Some(layout.checksum() as i64);
        if whole {
            Ok(Some(layout))
        } else {
            Err(not_understood("a layout that is incomplete or damaged"))
        }
    }

    /// For a generation whose buckets are gone.
    pub async fn delete_layout(&self, id: &LayoutId) -> Result<(), StoreError> {
        let values = bind![
            id.table.keyspace.clone(),
            id.table.table.clone(),
            id.key.bytes().to_vec(),
            id.generation.0
        ];
        let statement = &self.statements.delete_layout;
        self.session.execute_unpaged(statement, values).await?;
        Ok(())
    }

    /// Records that no generation before `oldest` has buckets any more.
    pub async fn set_oldest(
        &self,
        id: &SplitId,
        current: Generation,
        oldest: Generation,
    ) -> Result<(), StoreError> {
        let values = || bind![oldest.0; place id; current.0];
        let statement = &self.statements.set_oldest;
        // A split that has moved on meanwhile is cleaned up next time.
        answered(|| send(&self.session, statement, values())).await?;
        Ok(())
    }
}

fn bucket_values(
    layout: &Layout,
    (buckets, checksum): (i32, i64),
    number: i32,
    bucket: &Bucket,
) -> Values {
    let first: Vec<Vec<u8>> = bucket.first.iter().map(|value| value.to_vec()).collect();
    bind![
        layout.split_table.clone(),
        layout.strategy.clone(),
        buckets,
        checksum,
        first,
        bucket.row_count as i64,
        bucket.byte_count as i64,
        layout.table.keyspace.clone(),
        layout.table.table.clone(),
        layout.key.bytes().to_vec(),
        layout.generation.0,
        number,
    ]
}

#[derive(DeserializeRow)]
struct BucketRow {
    split_table: Option<String>,
    strategy: Option<String>,
    bucket_count: Option<i32>,
    checksum: Option<i64>,
    first_clustering: Option<Vec<Vec<u8>>>,
    row_count: Option<i64>,
    byte_count: Option<i64>,
}

impl BucketRow {
    /// A layout without buckets, with the bucket count and the checksum that it must have in the end.
    fn begin(&self, id: &LayoutId) -> (Layout, (Option<i32>, Option<i64>)) {
        let layout = Layout {
            table: id.table.clone(),
            key: id.key.clone(),
            generation: id.generation,
            split_table: self.split_table.clone().unwrap_or_default(),
            strategy: self.strategy.clone().unwrap_or_default(),
            buckets: Vec::new(),
        };
        (layout, (self.bucket_count, self.checksum))
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
