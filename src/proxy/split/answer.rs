//! Answers a request: looks its partitions up, proves that the client may read them, and reads them meanwhile.
//!
//! The answer counts only if three things are true: the buckets answered; a read that was sent after the request
//! arrived found the partition COMPLETED at that generation; and Cassandra let the client read the original.

use std::rc::Rc;

use super::fallback::{Fallback, Instead, Reply};
use super::page;
use super::read::{SplitRead, Wanted};
use super::reader::SplitReader;
use super::reading::{self, Reading, Source};
use crate::filter::Target;
use crate::known::Watched;
use crate::known::lookup::LookupAnswer;
use crate::protocol::Envelope;
use crate::protocol::header::Version;
use crate::proxy::rights::proof::{self, Right};
use crate::proxy::rights::record::Deed;
use crate::rewrite::Reason;
use crate::rewrite::bind::Key;
use crate::rewrite::native::{NativeState, UNLIMITED};
use crate::rewrite::state::{PagingState, StateError};

impl SplitReader {
    pub(super) async fn answer(
        self: &Rc<Self>,
        request: &Envelope,
        read: &SplitRead,
    ) -> Result<Reply, Instead> {
        let resumed = match &read.state {
            Some(state) => Some(resumed(state, read.asked.fingerprint).map_err(Instead::Refuse)?),
            None => None,
        };
        let instead = |fallback: Fallback| self.instead(fallback, request, resumed);
        let Some(wanted) = &read.wanted else {
            return Err(instead(Fallback::NotSplit));
        };
        let Wanted {
            readable,
            watched,
            values,
            keys,
            limits,
        } = wanted;
        if keys.len() > 1 && self.wire.version.get() == Version::V3 {
            return Err(instead(Fallback::Form(Reason::ManyKeys)));
        }
        let mut reading = Reading {
            reader: self,
            asked: &read.asked,
            readable,
            bound: &values.bound(),
            keys,
            limits: *limits,
            resumed: resumed.cloned(),
            bytes_max: read.cut.map(|cut| cut.bytes_max),
            deadline: reading::deadline(readable),
        };
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

    /// How the original takes over: from the beginning, or from the position of the scan.
    fn instead(
        &self,
        fallback: Fallback,
        request: &Envelope,
        resumed: Option<&PagingState>,
    ) -> Instead {
        let Some(state) = resumed else {
            return Instead::Original(fallback);
        };
        match self.continued(request, state) {
            Some(request) => Instead::GoOn(fallback, request),
            None => Instead::Refuse(NOT_CONTINUED),
        }
    }

    /// The request with which the original continues a scan for which there is no room here. `None`: it cannot.
    pub(in crate::proxy) fn go_on(
        &self,
        request: &Envelope,
        state: &PagingState,
    ) -> Option<Envelope> {
        let metrics = &self.wire.proxy.metrics.split;
        metrics.count(Fallback::Room);
        let request = self.continued(request, state)?;
        metrics.went_on.increment(1);
        Some(request)
    }

    /// The same request with a paging state of Cassandra's own.
    fn continued(&self, request: &Envelope, state: &PagingState) -> Option<Envelope> {
        let left = |limit: Option<u32>| {
            limit.map_or(UNLIMITED, |limit| i32::try_from(limit).unwrap_or(UNLIMITED))
        };
        let native = NativeState {
            key: state.key.clone().map_or(Vec::new(), |(_, key)| key),
            mark: state.mark.clone(),
            remaining: left(state.limit_left),
            remaining_in_partition: left(state.partition_limit_left),
        };
        let version = self.wire.version.get();
        let native = native.encode(version, usize::from(state.clustering_columns))?;
        let page_size = page::parameters(version, request)?.page_size;
        page::with_page(version, request, page_size, Some(&native))
    }

    async fn one_key(
        self: &Rc<Self>,
        watched: &Watched,
        key: &Key,
        reading: &Reading<'_>,
    ) -> Result<Reply, Instead> {
        let lookup = &self.wide_row.lookup;
        let find = async {
            match lookup.find(watched, &key.key).await {
                LookupAnswer::Split(layout) => Ok(layout),
                LookupAnswer::NotSplit => Err(Instead::from(Fallback::NotSplit)),
                LookupAnswer::Doubt(_) => Err(Instead::from(Fallback::Doubt)),
            }
        };
        let right = self.prove(reading);
        // A partition that was split a moment ago most likely still is, so its buckets are read during the look-up.
        let Some(remembered) = lookup.remembered(watched, &key.key).await else {
            let (layout, ()) = tokio::try_join!(find, right)?;
            return reading.read(&[Source::Split(layout)]).await;
        };
        let sources = [Source::Split(remembered.clone())];
        let (layout, (), early) = tokio::try_join!(find, right, async {
            // A failure of this early read does not matter if the layout turns out to have changed.
            Ok(reading.read(&sources).await)
        })?;
        if layout.generation == remembered.generation {
            return early;
        }
        reading.read(&[Source::Split(layout)]).await
    }

    async fn prove(self: &Rc<Self>, reading: &Reading<'_>) -> Result<(), Instead> {
        let schema = &reading.readable.schema;
        match proof::prove(&self.wire, &self.rights, Deed::Read, schema).await {
            Right::Proven => Ok(()),
            Right::Denied | Right::Unknown => Err(Fallback::Right.into()),
        }
    }

    /// Reads each key on its own, as Cassandra does for `IN`: split ones from their buckets, the others from the
    /// original.
    async fn several_keys(
        self: &Rc<Self>,
        watched: &Watched,
        reading: &Reading<'_>,
    ) -> Result<Reply, Instead> {
        let lookup = &self.wide_row.lookup;
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
}

const OTHER_REQUEST: &str =
    "Invalid value for the paging state: it belongs to another statement or to other values";
const DAMAGED: &str =
    "Invalid value for the paging state: it is damaged, or from another version of Narrows";
pub(in crate::proxy) const NOT_CONTINUED: &str = "Invalid value for the paging state: this protocol version cannot continue the scan; start it again";

/// The position from which a request with this fingerprint continues its scan. `Err`: why it cannot.
pub(super) fn resumed(
    state: &Result<PagingState, StateError>,
    fingerprint: u64,
) -> Result<&PagingState, &'static str> {
    match state {
        Ok(state) if state.fingerprint == fingerprint => Ok(state),
        Ok(_) => Err(OTHER_REQUEST),
        Err(_) => Err(DAMAGED),
    }
}
