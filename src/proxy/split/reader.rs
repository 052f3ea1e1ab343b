//! Answers the SELECTs of one session from splits.

use std::cell::Cell;
use std::rc::Rc;

use super::share::Share;
use crate::known::service::WideRow;
use crate::proxy::rights::record::Rights;
use crate::proxy::wire::Wire;
use crate::upstream::pool::Pool;

pub(in crate::proxy) struct SplitReader {
    pub(super) wire: Rc<Wire>,
    pub(super) rights: Rc<Rights>,
    pub(super) wide_row: WideRow,
    /// Our own connections, for the buckets.
    pub(super) pool: Rc<Pool>,
    /// Requests that are being answered.
    pub(super) reading: Rc<Cell<usize>>,
    /// Memory for the requests and their replies.
    pub(super) share: Rc<Share>,
}

impl SplitReader {
    pub(in crate::proxy) fn new(
        wire: Rc<Wire>,
        rights: Rc<Rights>,
        wide_row: WideRow,
        pool: Rc<Pool>,
    ) -> Rc<Self> {
        Rc::new(Self {
            share: Share::new(wire.proxy.config.limits.split_read_bytes),
            wire,
            rights,
            wide_row,
            pool,
            reading: Rc::default(),
        })
    }
}
