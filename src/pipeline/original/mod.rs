//! How background work reads an original. `partition` is one of its partitions; `scan` reads a whole partition,
//! `survey` a whole table. `cells` are the rows; `ranges` cuts a partition into pieces where it has too many
//! tombstones. `requests` are sent as the `throttle` allows.

pub mod cells;
pub mod partition;
pub(super) mod ranges;
pub mod requests;
pub mod scan;
pub mod survey;
pub mod throttle;
