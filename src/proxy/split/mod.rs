//! SELECTs of watched tables, answered from splits. In the order a request meets the files: `consider` decides beside all
//! other requests whether a split might answer one, and makes it a `read`; `serve` has it answered, or sends it to the
//! original; `answer` finds out how its partitions stand and whether the client may read them; `pages` fills a page from the
//! buckets of a `reading`, `sub_read` reads one of them.
//!
//! Every doubt before the reply is sent goes to the original (`fallback`): the client was told nothing yet, so nothing is lost
//! but time. `cut` keeps pages of the original small.

mod answer;
mod consider;
mod cut;
pub(super) mod fallback;
mod page;
pub(super) mod pages;
pub(super) mod read;
pub(super) mod reader;
mod reading;
mod serve;
mod sub_read;
