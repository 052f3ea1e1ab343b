//! Answers a request: looks its partitions up, proves that the client may read them, and reads them meanwhile.
//!
//! The answer counts only if three things are true: the buckets answered; a read that was sent after the request
//! arrived found the partition COMPLETED at that generation; and Cassandra let the client read the original.

use std::rc::Rc;

use super::fallback::{Fallback, Instead, Reply};
use super::page;
use super::read::{Asked, SplitRead, Wanted};
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
        let (resumed, is_same) = match &read.state {
            Some(state) => {
                let resumed = resumed(state, &read.asked).map_err(Instead::Refuse)?;
                (Some(resumed.state), resumed.is_same)
            }
            None => (None, true),
        };
        let instead = |fallback: Fallback| self.instead(fallback, request, resumed);
        if !is_same {
            return Err(instead(Fallback::PagingState));
        }
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
            patience: reading::patience(readable, &read.asked, *limits),
        };
        reading.restart_if_unpaged();
        let from_splits = reading.patience.wait_for_all(async {
            match keys.as_slice() {
                [key] => self.one_key(watched, key, &reading).await,
                _ => self.several_keys(watched, &reading).await,
            }
        });
        let result = tokio::select! {
            biased;
            () = read.hurried() => Err(Fallback::Use.into()),
            result = from_splits => result.unwrap_or(Err(Fallback::Timeout.into())),
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
        let sources = [Source::Split(remembered)];
        let (layout, (), early) = tokio::try_join!(find, right, async {
            // A failure of this early read does not matter if the layout turns out to have changed.
            Ok(reading.read(&sources).await)
        })?;
        let found = Source::Split(layout);
        if sources[0].is_same(&found) {
            return early;
        }
        reading.read(&[found]).await
    }

    async fn prove(self: &Rc<Self>, reading: &Reading<'_>) -> Result<(), Instead> {
        let schema = &reading.readable.schema;
        match proof::prove(&self.wire, &self.rights, Deed::Read, schema).await {
            Right::Proven => Ok(()),
            Right::Denied | Right::Unknown => Err(Fallback::Right.into()),
        }
    }

    /// Reads split keys from their buckets and the others from the original, in the order of the keys.
    async fn several_keys(
        self: &Rc<Self>,
        watched: &Watched,
        reading: &Reading<'_>,
    ) -> Result<Reply, Instead> {
        let find = async |key: &Key| match might_be_split(watched, key) {
            true => self.wide_row.lookup.find(watched, &key.key).await,
            false => LookupAnswer::NotSplit,
        };
        let standings = futures::future::join_all(reading.keys.iter().map(find));
        let guess = self.guess(watched, reading.keys).await;
        // As with one key, what is remembered is most likely still true.
        let early = async {
            match &guess {
                Some(sources) => Some(reading.read(sources).await),
                None => None,
            }
        };
        let (standings, (), early) =
            tokio::try_join!(async { Ok(standings.await) }, self.prove(reading), async {
                Ok(early.await)
            },)?;
        let source = |standing: LookupAnswer| match standing {
            LookupAnswer::Split(layout) => Source::Split(layout),
            LookupAnswer::NotSplit | LookupAnswer::Doubt(_) => Source::Original,
        };
        let sources: Vec<Source> = standings.into_iter().map(source).collect();
        if !has_split(&sources) && reading.resumed.is_none() {
            return Err(Fallback::NotSplit.into());
        }
        if let (Some(guess), Some(early)) = (guess, early)
            && guess.iter().zip(&sources).all(|(a, b)| a.is_same(b))
        {
            return early;
        }
        reading.read(&sources).await
    }

    /// The sources as of the last look-ups. `None`: not all are remembered, or no key is split.
    async fn guess(&self, watched: &Watched, keys: &[Key]) -> Option<Vec<Source>> {
        let mut sources = Vec::with_capacity(keys.len());
        for key in keys {
            sources.push(match might_be_split(watched, key) {
                true => {
                    let layout = self.wide_row.lookup.remembered(watched, &key.key).await;
                    Source::Split(layout?)
                }
                false => Source::Original,
            });
        }
        has_split(&sources).then_some(sources)
    }
}

fn might_be_split(watched: &Watched, key: &Key) -> bool {
    watched.might_be_split(&Target::key(key.key.bytes()))
}

fn has_split(sources: &[Source]) -> bool {
    let mut sources = sources.iter();
    sources.any(|source| matches!(source, Source::Split(_)))
}

const OTHER_REQUEST: &str =
    "Invalid value for the paging state: it belongs to another statement or to other values";
const OTHER_TABLE: &str = "Invalid value for the paging state: it belongs to another table";
const DAMAGED: &str = "Invalid value for the paging state: it is damaged";
const NEWER: &str = "Invalid value for the paging state: a later version of Narrows wrote it; upgrade this proxy, or start the scan again";
pub(in crate::proxy) const NOT_CONTINUED: &str = "Invalid value for the paging state: this protocol version cannot continue the scan; start it again";

/// The position from which a request continues its scan.
pub(super) struct Resumed<'a> {
    pub(super) state: &'a PagingState,
    /// The split can continue it. Cassandra uses a position whatever the rest of the request says, so with another
    /// statement or other values the original continues.
    is_same: bool,
}

/// `Err`: why the request cannot continue a scan.
pub(super) fn resumed<'a>(
    state: &'a Result<PagingState, StateError>,
    asked: &Asked,
) -> Result<Resumed<'a>, &'static str> {
    let state = match state {
        Ok(state) => state,
        Err(StateError::Damaged) => return Err(DAMAGED),
        Err(StateError::Newer(_)) => return Err(NEWER),
    };
    let is_same = state.fingerprint == asked.fingerprint;
    match state.table {
        // Format 1 does not tell another statement from another table.
        None if !is_same => Err(OTHER_REQUEST),
        Some(table) if table != asked.table => Err(OTHER_TABLE),
        _ => Ok(Resumed {
            state,
            is_same: is_same && !state.is_extended,
        }),
    }
}
