//! SELECTs of watched tables, answered from splits. In the order a request meets the files: `consider` decides whether
//! a split might answer it and makes it a `read`; `serve` sends the answer, or the request to the original; `answer`
//! looks its partitions up, proves that the client may read them, and begins a `reading`; `pages` fills a page bucket
//! by bucket; `sub_read` reads a page of one bucket, if the copy is `even` for the request. The `reader` holds what they
//! share. Rows stay in the buffers in which they came (`row_bytes`) until the client has them, and the connection's
//! `share` bounds them.
//!
//! In any doubt the original answers (`fallback`): the client has received nothing yet, so only time is lost, and
//! `patience` says how much. `cut` keeps pages of the original small; `page` changes the page size and paging state of a
//! request.

pub(super) mod answer;
mod consider;
mod cut;
mod even;
pub(super) mod fallback;
mod page;
pub(super) mod pages;
mod patience;
pub(super) mod read;
pub(super) mod reader;
mod reading;
mod row_bytes;
mod serve;
mod share;
mod sub_read;
