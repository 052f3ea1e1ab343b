//! Layouts in the store: one small partition per generation, written once.

use scylla::statement::SerialConsistency;
use scylla::statement::batch::{Batch, BatchType};

use super::cas::{Answer, Values, answered, bind, send};
use super::columns::row_with_later_columns;
use super::{SplitId, Store, StoreError, not_understood};
use crate::schema::bucket::Bucket;
use crate::wide_row::layout::{Layout, LayoutId, Proof};
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

    /// Writes what verify found out, before the seal names it. Without room for it in the schema, nothing is written.
    pub async fn write_proof(&self, layout: &Layout) -> Result<(), StoreError> {
        let (Some(later), Some(proof)) = (&self.statements.later, layout.proof()) else {
            return Ok(());
        };
        let mut values = bind![proof.encode()];
        values.extend(layout_key(&layout.id()));
        let statement = &later.write_proof;
        self.session.execute_unpaged(statement, values).await?;
        Ok(())
    }

    /// `None` if there is none. An incomplete layout is an error: something else wrote to it.
    pub async fn read_layout(&self, id: &LayoutId) -> Result<Option<Layout>, StoreError> {
        let statement = self.nearby(&self.statements.read_layout);
        let result = self
            .session
            .execute_unpaged(&statement, layout_key(id))
            .await?;
        let rows = result.into_rows_result().map_err(not_understood)?;
        let mut read = None;
        let mut add = |row: BucketRow| {
            let (layout, _) = read.get_or_insert_with(|| row.begin(id));
            layout.buckets.push(row.bucket());
        };
        if self.statements.later.is_some() {
            for row in rows.rows::<BucketRow>().map_err(not_understood)? {
                add(row.map_err(not_understood)?);
            }
        } else {
            for row in rows.rows::<EarlierBucketRow>().map_err(not_understood)? {
                add(row.map_err(not_understood)?.into());
            }
        }
        let Some((layout, expected)) = read else {
            return Ok(None);
        };
        let whole = expected.buckets == i32::try_from(layout.buckets.len()).ok()
            && layout.is_sound()
            && expected.checksum == Some(layout.checksum() as i64);
        if !whole {
            return Err(not_understood("a layout that is incomplete or damaged"));
        }
        let layout = layout.served().map_err(not_understood)?;
        // A proof of a later version is none to this one.
        let proof = expected.proof.as_deref().and_then(Proof::decode);
        match proof.filter(|proof| proof.fits(layout.buckets.len())) {
            Some(proof) => layout.prove(proof).map(Some).map_err(not_understood),
            None => Ok(Some(layout)),
        }
    }

    /// For a generation whose buckets are gone.
    pub async fn delete_layout(&self, id: &LayoutId) -> Result<(), StoreError> {
        let statement = &self.statements.delete_layout;
        self.session
            .execute_unpaged(statement, layout_key(id))
            .await?;
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

fn layout_key(id: &LayoutId) -> Values {
    bind![
        id.table.keyspace.clone(),
        id.table.table.clone(),
        id.key.bytes().to_vec(),
        id.generation.0
    ]
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

row_with_later_columns! {
struct BucketRow, EarlierBucketRow {
    split_table: Option<String>,
    strategy: Option<String>,
    bucket_count: Option<i32>,
    checksum: Option<i64>,
    first_clustering: Option<Vec<Vec<u8>>>,
    row_count: Option<i64>,
    byte_count: Option<i64>,
}
later {
    horizon: Option<Vec<u8>>,
    proof: Option<Vec<u8>>,
    bucket_generation: Option<i32>,
    bucket_number: Option<i32>,
}
}

/// What all rows of a layout say about it.
struct Expected {
    buckets: Option<i32>,
    checksum: Option<i64>,
    proof: Option<Vec<u8>>,
}

impl BucketRow {
    /// A layout without buckets yet.
    fn begin(&self, id: &LayoutId) -> (Layout, Expected) {
        let text = |column: &Option<String>| column.clone().unwrap_or_default();
        let (table, strategy) = (text(&self.split_table), text(&self.strategy));
        let mut layout = Layout::new(id.clone(), table, strategy, Vec::new());
        layout.horizon = self.horizon.clone().map(Vec::into_boxed_slice);
        let expected = Expected {
            buckets: self.bucket_count,
            checksum: self.checksum,
            proof: self.proof.clone(),
        };
        (layout, expected)
    }

    fn bucket(self) -> Bucket {
        let first = self.first_clustering.unwrap_or_default();
        Bucket {
            first: first.into_iter().map(Vec::into_boxed_slice).collect(),
            row_count: self.row_count.unwrap_or_default() as u64,
            byte_count: self.byte_count.unwrap_or_default() as u64,
            home: self.bucket_generation.zip(self.bucket_number),
        }
    }
}
