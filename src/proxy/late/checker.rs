//! Checks the writes of one session against splits.

use std::cell::Cell;
use std::rc::Rc;

use crate::known::service::WideRow;
use crate::proxy::listed::Listed;
use crate::proxy::rights::record::Rights;
use crate::proxy::wire::Wire;

pub(in crate::proxy) struct WriteChecker {
    pub(super) wire: Rc<Wire>,
    pub(super) rights: Rc<Rights>,
    pub(super) wide_row: WideRow,
    /// Writes that wait until splits of their partitions are retired.
    pub(super) writing: Rc<Cell<usize>>,
    /// Which split tables the session's node has.
    pub(in crate::proxy) listed: Rc<Listed>,
}

impl WriteChecker {
    pub(in crate::proxy) fn new(wire: Rc<Wire>, rights: Rc<Rights>, wide_row: WideRow) -> Rc<Self> {
        Rc::new(Self {
            wire,
            rights,
            wide_row,
            writing: Rc::default(),
            listed: Rc::default(),
        })
    }
}
