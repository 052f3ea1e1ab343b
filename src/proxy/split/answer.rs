//! Finds out how the partitions of a request stand and whether the client may read them, beside reading them.
//!
//! A split read counts only if three things hold: the buckets answered, the key was seen COMPLETED at that generation by a
//! read that was sent after the request arrived, and Cassandra let the client read the original.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::asked::{self, Asked};
use super::fallback::Fallback;
use super::pages::Reading;
use super::{Instead, Reply, SplitRead};
use crate::filter::Target;
use crate::known::Watched;
use crate::known::lookup::{Lookup, LookupAnswer};
use crate::protocol::Envelope;
use crate::protocol::header::Version;
use crate::proxy::session::Session;
use crate::rewrite::Reason;
use crate::rewrite::bind::{Bound, Key};
use crate::rewrite::native::{NativeState, UNLIMITED};
use crate::rewrite::readable::{Answer, Readable};
use crate::rewrite::state::State;
use crate::wide_row::layout::Layout;

/// Most drivers give up after ten seconds or more.
const ROWS_PATIENCE: Duration = Duration::from_secs(5);
/// Whoever seeks or counts among very many rows has set a longer timeout.
const SCAN_PATIENCE: Duration = Duration::from_secs(30);

/// Where the rows of one key are read.
#[derive(Debug, Clone)]
pub(super) enum Source {
    Split(Arc<Layout>),
    /// On the client's own connection.
    Original,
}

impl Session {
    pub(super) async fn answer(
        self: &Rc<Self>,
        request: &Envelope,
        read: &SplitRead,
    ) -> Result<Reply, Instead> {
        let asked = Asked::read(self.version.get(), request);
        let asked = asked.ok_or(Fallback::Form(Reason::NotUnderstood))?;
        let resumed = resumed(&asked, read)?;
        let instead = |fallback: Fallback| self.instead(fallback, request, resumed.as_ref());
        let Some((readable, watched)) = &read.readable else {
            return Err(instead(Fallback::NotSplit));
        };
        let form = |reason: Reason| instead(Fallback::Form(reason));
        let markers = &readable.select.markers;
        let bound = Bound::new(markers, &asked.parameters.values).map_err(form)?;
        let keys = readable.keys(&bound).map_err(form)?;
        let limits = readable.limits(&bound).map_err(form)?;
        let mut reading = Reading {
            session: self,
            asked: &asked,
            readable,
            bound: &bound,
            keys: &keys,
            limits,
            resumed: resumed.clone(),
            bytes_max: read.cut.map(|cut| cut.bytes_max),
            fingerprint: asked.fingerprint(&read.text, &read.table),
            deadline: Instant::now() + patience(readable),
        };
        if keys.len() > 1 && self.version.get() == Version::V3 {
            return Err(instead(Fallback::Form(Reason::ManyKeys)));
        }
        // As Cassandra does: where the limit fits into a page, it reads from the beginning whatever the state says.
        reading.restart_if_unpaged();
        let result = match keys.as_slice() {
            [key] => self.one_key(watched, key, &reading).await,
            _ => self.several_keys(watched, &reading).await,
        };
        result.map_err(|instead_of| match instead_of {
            Instead::Original(fallback) => instead(fallback),
            other => other,
        })
    }

    /// What the original does in place of a split: begin, or go on where the scan stands.
    fn instead(&self, fallback: Fallback, request: &Envelope, resumed: Option<&State>) -> Instead {
        let Some(state) = resumed else {
            return Instead::Original(fallback);
        };
        let left = |limit: Option<u32>| {
            limit.map_or(UNLIMITED, |limit| i32::try_from(limit).unwrap_or(UNLIMITED))
        };
        let native = NativeState {
            key: state.key.clone().map_or(Vec::new(), |(_, key)| key),
            mark: state.mark.clone(),
            remaining: left(state.limit_left),
            remaining_in_partition: left(state.partition_limit_left),
        };
        let version = self.version.get();
        let native = native.encode(version, usize::from(state.clustering_columns));
        let request = native.and_then(|native| {
            let page_size = Asked::read(version, request)?.parameters.page_size;
            asked::with_page(version, request, page_size, Some(&native))
        });
        match request {
            Some(request) => Instead::GoOn(fallback, request),
            None => Instead::Refuse(NOT_CONTINUED),
        }
    }

    async fn one_key(
        self: &Rc<Self>,
        watched: &Watched,
        key: &Key,
        reading: &Reading<'_>,
    ) -> Result<Reply, Instead> {
        let lookup = self.lookup()?;
        let find = async {
            match lookup.find(watched, &key.key).await {
                LookupAnswer::Split(layout) => Ok(layout),
                LookupAnswer::NotSplit => Err(Instead::from(Fallback::NotSplit)),
                LookupAnswer::Doubt(_) => Err(Instead::from(Fallback::Doubt)),
            }
        };
        let right = self.prove(reading);
        // What was split a moment ago most likely still is: the buckets are read while that is being found out.
        let Some(remembered) = lookup.remembered(watched, &key.key).await else {
            let (layout, ()) = tokio::try_join!(find, right)?;
            return reading.read(&[Source::Split(layout)]).await;
        };
        let sources = [Source::Split(remembered.clone())];
        let (layout, (), early) = tokio::try_join!(find, right, async {
            // Its failure is no news if the layout is another by now.
            Ok(reading.read(&sources).await)
        })?;
        if layout.generation == remembered.generation {
            return early;
        }
        reading.read(&[Source::Split(layout)]).await
    }

    async fn prove(self: &Rc<Self>, reading: &Reading<'_>) -> Result<(), Instead> {
        match self.may_read(&reading.readable.schema).await {
            true => Ok(()),
            false => Err(Fallback::Right.into()),
        }
    }

    /// Each key on its own, as Cassandra joins them: split ones from their buckets, the others from the original.
    async fn several_keys(
        self: &Rc<Self>,
        watched: &Watched,
        reading: &Reading<'_>,
    ) -> Result<Reply, Instead> {
        let lookup = self.lookup()?;
        let find = async |key: &Key| {
            let might = watched.might_be_split(&Target::key(key.key.bytes()));
            match might {
                true => lookup.find(watched, &key.key).await,
                false => LookupAnswer::NotSplit,
            }
        };
        let standings = futures::future::join_all(reading.keys.iter().map(find));
        let (standings, ()) = tokio::try_join!(async { Ok(standings.await) }, self.prove(reading))?;
        let source = |standing: LookupAnswer| match standing {
            LookupAnswer::Split(layout) => Source::Split(layout),
            LookupAnswer::NotSplit | LookupAnswer::Doubt(_) => Source::Original,
        };
        let sources: Vec<Source> = standings.into_iter().map(source).collect();
        let none_split = !sources
            .iter()
            .any(|source| matches!(source, Source::Split(_)));
        if none_split && reading.resumed.is_none() {
            return Err(Fallback::NotSplit.into());
        }
        reading.read(&sources).await
    }

    fn lookup(&self) -> Result<&Lookup, Instead> {
        let wide_row = self.proxy.wide_row.as_ref().ok_or(Fallback::Doubt)?;
        Ok(&wide_row.lookup)
    }
}

const OTHER_REQUEST: &str =
    "Invalid value for the paging state: it is of another statement or of other values";
const DAMAGED: &str =
    "Invalid value for the paging state: it is damaged, or of another version of Narrows";
const NOT_CONTINUED: &str = "Invalid value for the paging state: the scan cannot go on in this protocol version, begin it again";

/// The position that the request goes on from.
fn resumed(asked: &Asked<'_>, read: &SplitRead) -> Result<Option<State>, Instead> {
    match &read.state {
        None => Ok(None),
        Some(Ok(state)) if state.fingerprint == asked.fingerprint(&read.text, &read.table) => {
            Ok(Some(state.clone()))
        }
        Some(Ok(_)) => Err(Instead::Refuse(OTHER_REQUEST)),
        Some(Err(_)) => Err(Instead::Refuse(DAMAGED)),
    }
}

/// For all of it; past that the original is asked, as long as the client still waits.
fn patience(readable: &Readable) -> Duration {
    match readable.filters || readable.answer != Answer::Rows {
        true => SCAN_PATIENCE,
        false => ROWS_PATIENCE,
    }
}
