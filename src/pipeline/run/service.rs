//! Runs the pipeline on a thread of its own, with connections of its own, so that it never holds up a session.

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Semaphore, watch};
use tokio::task::LocalSet;

use super::metrics::Metrics;
use super::runner::Runner;
use crate::config::Config;
use crate::detect::WideReads;
use crate::known::Known;
use crate::pipeline::original::requests::Requests;
use crate::pipeline::original::throttle::Throttle;
use crate::pipeline::settle::Settle;
use crate::upstream::pool::{Pool, PoolConfig};
use crate::wide_row::open::{open, until_done};
use crate::wide_row::store::{ClusterPatience, Store, StoreError};

/// A handle to the thread of the pipeline.
pub struct PipelineService {
    stop: watch::Sender<bool>,
    thread: JoinHandle<()>,
}

impl PipelineService {
    /// `reads` tells which partitions are read most: they are split first.
    pub fn start(
        config: &Config,
        known: Arc<Known>,
        pool: Arc<PoolConfig>,
        reads: WideReads,
    ) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = watch::channel(false);
        let run = Run {
            config: config.clone(),
            known,
            pool,
            reads,
            stop: stopped,
        };
        let thread = std::thread::Builder::new()
            .name("narrows-split".to_owned())
            .spawn(move || run.on(&runtime))?;
        Ok(Self { stop, thread })
    }

    /// Begins no more work; splits under way save their checkpoints.
    pub fn begin_to_stop(&self) {
        self.stop.send_replace(true);
    }

    /// Blocks until the pipeline has stopped.
    pub fn stop(self) {
        self.begin_to_stop();
        if self.thread.join().is_err() {
            tracing::error!("the split pipeline panicked; please report this");
        }
    }
}

struct Run {
    config: Config,
    known: Arc<Known>,
    pool: Arc<PoolConfig>,
    reads: WideReads,
    stop: watch::Receiver<bool>,
}

impl Run {
    fn on(self, runtime: &Runtime) {
        let mut stop = self.stop.clone();
        let local = LocalSet::new();
        local.block_on(runtime, async {
            let opened = tokio::select! {
                opened = self.open() => opened,
                _ = stop.wait_for(|stop| *stop) => return,
            };
            self.runner(opened).run().await;
        });
    }

    async fn open(&self) -> (Store, ClusterPatience) {
        let told = "the split pipeline cannot use the control keyspace yet";
        let store = until_done(told, async || open(&self.config).await).await;
        let told = "the cluster's timeouts cannot be read yet, so nothing is split";
        let patience = until_done(told, async || match store.read_patience().await {
            Err(StoreError::Refused(error)) => {
                let patience = ClusterPatience::default();
                tracing::warn!(%error, ?patience, "the cluster refuses to show its timeouts; using Cassandra's defaults");
                Ok(patience)
            }
            other => other,
        });
        let patience = patience.await;
        (store, patience)
    }

    fn runner(&self, (store, patience): (Store, ClusterPatience)) -> Runner {
        let settings = self.config.pipeline.clone();
        let throttle = Rc::new(Throttle::new(settings.throttle, settings.bytes_per_second));
        let pool = Rc::new(Pool::new(self.pool.clone()));
        Runner {
            store: Arc::new(store),
            known: self.known.clone(),
            requests: Rc::new(Requests::new(pool, throttle)),
            metrics: Rc::new(Metrics::register()),
            reads: self.reads.clone(),
            settle: Settle::new(&self.config, patience),
            turns: Arc::new(Semaphore::new(settings.splits_at_a_time)),
            settings,
            patience,
            poll_interval: self.config.control.poll_interval,
            worker: worker_name(),
            stop: self.stop.clone(),
        }
    }
}

/// The name of this worker in its leases, for operators who look at them.
fn worker_name() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("{}:{}", host.trim(), std::process::id())
}
