//! Watched tables for tests: nobody follows them, so nothing is known of their splits.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;

use super::clock::BootClock;
use super::freshness::Freshness;
use super::slot::{StoreSlot, TableShards};
use super::validate::{self, Validations};
use crate::filter::{TableFilter, spec};
use crate::known::{Known, Watched};
use crate::watched::WatchedTable;

pub(crate) fn known() -> Known {
    Known::new(freshness(1))
}

fn freshness(parts: usize) -> Freshness {
    Freshness::new(Arc::new(BootClock), Duration::from_secs(60), parts)
}

/// Within a runtime, where it would validate.
pub(crate) fn watched(settings: WatchedTable) -> Arc<Watched> {
    let reader = TableShards {
        store: Arc::new(StoreSlot::default()),
        table: settings.name.clone(),
    };
    let validations = Validations::new(
        Arc::new(reader),
        settings.shards,
        Handle::current(),
        validate::Metrics::register(&settings.name.to_string()),
    );
    let policies = spec::parse(&settings.filter).expect("a filter that is understood");
    let filter = TableFilter::new(policies, settings.shards as usize);
    let freshness = freshness(settings.shards as usize);
    let watched = Watched::new(settings, filter, freshness, validations);
    Arc::new(watched)
}
