//! One split at one stage: what the stage does, and the step that ends it.

use std::cell::RefCell;
use std::time::Duration;

use tokio::time::sleep;

use super::report::{Halt, Report, Reporting};
use super::work::{Work, WorkError};
use crate::pipeline::audit::finding::{self, Demoted, Finding, Why};
use crate::pipeline::copy::{CopyError, Copying};
use crate::pipeline::fail_point;
use crate::pipeline::original::partition::Partition;
use crate::pipeline::original::scan::ScanError;
use crate::pipeline::plan::closed;
use crate::pipeline::plan::strategy::PartitionSplitStrategy;
use crate::pipeline::plan::{Closing, Draft, Open, Planned, Planning, StageError, Verdict};
use crate::pipeline::settle;
use crate::pipeline::verify::{Checked, Verification, Verified};
use crate::schema::TableSchema;
use crate::upstream::pool::PoolError;
use crate::wide_row::clock::unix_millis;
use crate::wide_row::layout::{Layout, LayoutId, Proof};
use crate::wide_row::names::Generation;
use crate::wide_row::state::{PostSplitData, PreSplitData, Progress, Step, Transition};
use crate::wide_row::store::{Lease, Leased, Outcome, Split, SplitId, StoreError};

/// Interval at which a comparison reports its progress.
const SAVE_EVERY: Duration = Duration::from_secs(1);
/// A partition that was refused or found narrow is looked at again after a day at the earliest.
const DAY: Duration = Duration::from_secs(24 * 3600);
/// The first pause after a failed attempt; it doubles with each further failure.
const BACK_OFF: Duration = Duration::from_secs(60);
const BACK_OFF_MAX: Duration = Duration::from_secs(24 * 3600);

/// One split at one stage.
pub(super) struct Stage<'a> {
    pub(super) work: &'a Work<'a>,
    pub(super) id: &'a SplitId,
    pub(super) lease: &'a Lease,
    pub(super) schema: &'a TableSchema,
    pub(super) partition: &'a Partition,
    pub(super) split: &'a Split,
}

impl Stage<'_> {
    pub(super) async fn plan(&self) -> Result<(), WorkError> {
        let Work {
            store,
            table,
            requests,
            ..
        } = self.work;
        let obstacle = store.obstacle(&self.id.table).await?;
        if let Some(reason) = obstacle {
            return self.refuse(reason, DAY).await;
        }
        let planning = Planning {
            requests,
            schema: self.schema,
            partition: self.partition,
            settings: &table.settings,
            now: store.now().await?,
            found_by: self.split.found_by,
            closing: self.closing(),
            reads_on: false,
        };
        let draft = match planning.run(self.checkpoint(), &self.report()).await {
            Err(StageError::Scan(error @ ScanError::Tombstones)) => {
                return self.refuse(error.to_string(), DAY).await;
            }
            other => match other.map_err(stage_error)? {
                Planned::Whole(draft) => draft,
                Planned::Open(open) => return self.wait(open).await,
            },
        };
        let detected = self.split.detected_at.unwrap_or(0);
        let data = draft.data();
        match planning.judge(&draft, detected) {
            Verdict::Split => {}
            Verdict::NotWide => {
                let step = Step::FindNotWide(data);
                return self.step(step, Some(after(DAY))).await;
            }
            Verdict::Open(open) => return self.wait(open).await,
            Verdict::Disordered => {
                let reason = "its rows did not come in clustering order";
                return self.fail(reason.to_owned().into()).await;
            }
        }
        fail_point::reached("plan.layout");
        self.write_layout(&draft).await?;
        self.step(Step::Plan(data), None).await
    }

    /// Leaves the partition alone until it may be closed. One with a write time in the future is not merely open.
    async fn wait(&self, open: Open) -> Result<(), WorkError> {
        if open.is_ahead {
            let step = Step::Refuse(open.reason);
            return self.step(step, Some(open.closed_at)).await;
        }
        let now = unix_millis();
        let next = open.next_look(self.split.detected_at.unwrap_or(now), now);
        self.step(Step::Wait(open.reason), Some(next)).await
    }

    fn closing(&self) -> Closing {
        let (settings, found_by) = (&self.work.table.settings, self.split.found_by);
        let place = (self.schema, &self.partition.key);
        Closing::new(settings, place, found_by, self.work.patience.hint_window)
    }

    /// Writes the layout, once per generation. A plan that is made again after a crash keeps the first layout, whose
    /// boundaries are as good.
    async fn write_layout(&self, draft: &Draft) -> Result<(), WorkError> {
        let Work { store, .. } = self.work;
        if store.read_layout(&self.layout_id()).await?.is_some() {
            return Ok(());
        }
        let split_table = store.split_table(self.schema).await?;
        fail_point::reached("plan.split_table");
        let strategy = &draft.strategy;
        let buckets = strategy.buckets().to_vec();
        let layout = Layout::new(self.layout_id(), split_table, strategy.name(), buckets);
        Ok(store.write_layout(&layout).await?)
    }

    /// Publishes the guard by an LWT of our own, even if the split is guarded already: only such an LWT tells since
    /// when proxies can know of the guard.
    pub(super) async fn guard(&self) -> Result<(), WorkError> {
        fail_point::reached("guard.before");
        self.step(Step::Guard, None).await?;
        fail_point::reached("guard.published");
        let settle = self.work.settle.time(self.work.store).await?;
        settle::wait(settle, self.work.stop.clone()).await?;
        let layout = self.layout().await?;
        let row = layout
            .buckets
            .last()
            .map_or(&[][..], |bucket| &bucket.first);
        settle::finish_paxos(self.work.requests, self.schema, self.partition, row).await?;
        let split = self.work.store.read_split(self.id).await?;
        let split = split.ok_or(Halt::Lost)?;
        let stage = Stage {
            split: &split,
            ..*self
        };
        stage.step(Step::Copy, None).await
    }

    pub(super) async fn copy(&self) -> Result<(), WorkError> {
        fail_point::reached("copy.before");
        let layout = self.layout().await?;
        let now = self.work.store.now().await?;
        // A node that is not connected may have a clock that is behind, and show cells that others take for expired.
        let now = now.saturating_sub(closed::CLOCK_SKEW_SECONDS);
        let copying = Copying {
            requests: self.work.requests,
            schema: self.schema,
            partition: self.partition,
            layout: &layout,
            now,
            newest_micros: self
                .closing()
                .newest_allowed(self.split.changed_at.unwrap_or(0)),
            written: &|rows, bytes| self.work.metrics.copied(rows, bytes),
        };
        match copying.run(self.checkpoint(), &self.report()).await {
            Ok(()) => {}
            Err(CopyError::Impossible(why)) => return self.fail(why.to_owned().into()).await,
            Err(CopyError::Stage(StageError::Scan(
                error @ (ScanError::Tombstones | ScanError::Unexpected),
            ))) => return self.fail(error.to_string().into()).await,
            Err(CopyError::Stage(error)) => return Err(stage_error(error)),
        }
        fail_point::reached("copy.after");
        self.step(Step::Verify, None).await
    }

    pub(super) async fn verify(&self) -> Result<(), WorkError> {
        fail_point::reached("verify.before");
        let layout = self.layout().await?;
        match self.compare(&layout).await? {
            Finding::Equal(verified) => {
                fail_point::reached("verify.after");
                let again = after(self.work.patience.hint_window);
                let step = Step::Complete {
                    original: self.pre_split_data(&verified),
                    copy: post_split_data(&layout, &verified),
                };
                self.seal(layout, verified.proof).await?;
                self.step(step, Some(again)).await
            }
            Finding::Differs(why) => {
                self.work.metrics.differences.increment(1);
                self.fail(why).await
            }
            Finding::Unreadable(reason) | Finding::Unproven(reason) => {
                self.fail(reason.into()).await
            }
        }
    }

    /// The plan's facts about the original, with what the comparison found instead of what has changed since.
    fn pre_split_data(&self, verified: &Verified) -> PreSplitData {
        PreSplitData {
            row_count: i64::try_from(verified.row_count).unwrap_or(i64::MAX),
            checksum: verified.checksum.to_vec(),
            ..self.split.pre_split_data.clone().unwrap_or_default()
        }
    }

    /// Records what was found out about the buckets, and names it in the split's own row.
    async fn seal(&self, layout: Layout, proof: Proof) -> Result<(), WorkError> {
        let store = self.work.store;
        let sealed = layout.prove(proof);
        let sealed = sealed.map_err(|error| StoreError::NotUnderstood(error.into()))?;
        store.write_proof(&sealed).await?;
        match store.seal(self.id, self.lease, &sealed).await? {
            Some(Outcome::Lost) => Err(Halt::Lost.into()),
            Some(Outcome::Applied(_)) | None => Ok(()),
        }
    }

    /// Compares a split in service again, after the hint window and then at intervals, to find what a writer around the
    /// proxies or a late hint has changed.
    pub(super) async fn verify_again(&self) -> Result<(), WorkError> {
        let layout = self.layout().await?;
        let (store, generation) = (self.work.store, self.split.standing.generation);
        let finding = self.compare(&layout).await?;
        match &finding {
            Finding::Equal(verified) => {
                // An earlier version completed it without a proof, or a worker that had lost its lease wrote another.
                let sealed = store.read_key(self.id).await?.seal;
                if sealed.is_none() || sealed != layout.seal() {
                    self.seal(layout, verified.proof.clone()).await?;
                }
                self.next_audit(generation).await?;
            }
            // The copy was equal when both sides could still be read, and splits are meant for just such partitions.
            Finding::Unreadable(reason) => {
                tracing::warn!(table = %self.id.table, %reason, "a split in service cannot be compared any more");
                self.next_audit(generation).await?;
            }
            Finding::Differs(why) => {
                let why = why.behind("compared again in service");
                if finding::demote(store, self.id, generation, &why).await? == Demoted::Before {
                    return Ok(());
                }
                self.work.metrics.differences.increment(1);
            }
            Finding::Unproven(reason) => {
                let reason = format!("compared again in service, {reason}");
                tracing::error!(table = %self.id.table, %reason, "a split is taken out of service");
                store.invalidate(self.id, generation, &reason).await?;
            }
        }
        self.work.metrics.audited(&finding);
        Ok(())
    }

    async fn next_audit(&self, generation: Generation) -> Result<(), WorkError> {
        let next = self.work.audit_every.map(after);
        let proven = self
            .work
            .store
            .prove_again(self.id, self.lease, generation, next);
        match proven.await? {
            Leased::Held(()) => Ok(()),
            Leased::Lost => Err(Halt::Lost.into()),
        }
    }

    /// Compares both sides, and reports progress meanwhile.
    async fn compare(&self, layout: &Layout) -> Result<Finding, WorkError> {
        let from = self.checkpoint().and_then(Checked::read);
        let from = from.unwrap_or_default();
        let checked = RefCell::new(from.clone());
        let verification = Verification {
            requests: self.work.requests,
            schema: self.schema,
            key: &self.id.key,
            layout,
            now: self.work.store.now().await?,
            patience: Default::default(),
            from,
            progress: &|found| drop(checked.replace(found.clone())),
        };
        let report = self.report();
        let halted = async {
            loop {
                sleep(SAVE_EVERY).await;
                let found = checked.borrow().clone();
                let counted = (found.row_count, found.byte_count);
                if let Err(halt) = report.progress(counted, || found.checkpoint()).await {
                    return halt;
                }
            }
        };
        let verified = tokio::select! {
            verified = verification.run() => verified,
            halt = halted => return Err(halt.into()),
        };
        Ok(Finding::of(verified, self.schema)?)
    }

    async fn layout(&self) -> Result<Layout, WorkError> {
        let layout = self.work.store.read_layout(&self.layout_id()).await?;
        let missing = || StoreError::NotUnderstood("a split without its layout".into());
        Ok(layout.ok_or_else(missing)?)
    }

    fn layout_id(&self) -> LayoutId {
        LayoutId {
            table: self.id.table.clone(),
            key: self.id.key.clone(),
            generation: self.split.standing.generation,
        }
    }

    fn checkpoint(&self) -> Option<&[u8]> {
        self.own_progress()?.checkpoint.as_deref()
    }

    /// The progress that was saved in this very stage.
    fn own_progress(&self) -> Option<&Progress> {
        let progress = self.split.progress.as_ref();
        progress.filter(|progress| progress.state == self.split.standing.state)
    }

    fn report(&self) -> Report<'_> {
        Report::new(
            (self.work.store, self.id, self.lease),
            (self.split.standing.state, self.split.standing.generation),
            self.work.stop.clone(),
            self.own_progress().map(|progress| progress.began_at),
        )
    }

    async fn refuse(&self, reason: String, pause: Duration) -> Result<(), WorkError> {
        self.step(Step::Refuse(reason), Some(after(pause))).await
    }

    /// Fails the split because Cassandra keeps refusing a request of this stage. The reason leaves out the server's own
    /// text, which might quote values.
    pub(super) async fn fail_refused(&self, error: &PoolError) -> Result<(), WorkError> {
        let reason = format!(
            "Cassandra keeps refusing a request of the worker ({error}): its role may lack a permission on the original or \
             on the split table (docs/security.md), or the split table was dropped or altered"
        );
        self.fail(reason.into()).await
    }

    async fn fail(&self, why: Why) -> Result<(), WorkError> {
        let failures = self.split.failures.saturating_add(1);
        let doublings = u32::try_from(failures - 1).unwrap_or(0).min(16);
        let pause = (BACK_OFF * 2_u32.pow(doublings)).min(BACK_OFF_MAX);
        let Why { told: reason, kept } = why;
        tracing::warn!(table = %self.id.table, %reason, ?pause, "an attempt at a split failed");
        let reason = kept;
        let step = Step::Fail { reason, failures };
        self.step(step, Some(after(pause))).await
    }

    async fn step(&self, step: Step, not_before: Option<i64>) -> Result<(), WorkError> {
        let transition = Transition::step(self.split.standing, step);
        let mut transition = transition.map_err(|_| Halt::Lost)?;
        if let Some(time) = not_before {
            transition = transition.not_before(time);
        }
        let to = transition.to();
        match self
            .work
            .store
            .step(self.id, self.lease, &transition)
            .await?
        {
            Outcome::Applied(_) => {
                tracing::info!(table = %self.id.table, state = to.as_str(), "split");
                self.work.metrics.reached(to);
                Ok(())
            }
            Outcome::Lost => Err(Halt::Lost.into()),
        }
    }
}

fn post_split_data(layout: &Layout, verified: &Verified) -> PostSplitData {
    PostSplitData {
        split_table: layout.split_table.clone(),
        strategy: layout.strategy.clone(),
        start_event_bucket: 0,
        target_event_buckets: i32::try_from(layout.buckets.len()).unwrap_or(i32::MAX),
        row_count: i64::try_from(verified.row_count).unwrap_or(i64::MAX),
        byte_count: i64::try_from(verified.byte_count).unwrap_or(i64::MAX),
        checksum: verified.checksum.to_vec(),
    }
}

/// A day from now: when a split that was refused is looked at again.
pub(super) fn in_a_day() -> i64 {
    after(DAY)
}

fn after(pause: Duration) -> i64 {
    let pause = i64::try_from(pause.as_millis()).unwrap_or(i64::MAX);
    unix_millis().saturating_add(pause)
}

fn stage_error(error: StageError) -> WorkError {
    match error {
        StageError::Halt(halt) => halt.into(),
        StageError::Request(error) | StageError::Scan(ScanError::Request(error)) => error.into(),
        StageError::Scan(ScanError::Unexpected | ScanError::Tombstones) => WorkError::Unexpected,
    }
}
