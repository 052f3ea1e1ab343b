//! The mistakes that are planted: each a change to what an exact copier writes, and what verify must say of it.

use narrows::pipeline::verify::DifferenceKind::{self, *};

use crate::pipeline::copies::{Copy, What, Write, map_of, set_of};

/// A row of each kind, in the middle of its bucket.
const PLAIN: usize = 20;
const UNMARKED: usize = 21;
const SHORT: usize = 22;
const MARKED: usize = 33;
const OUTLIVED: usize = 34;
const BARE: usize = 25;
const BARE_SHORT: usize = 36;
const ENDING: usize = 47;
const CELLS: usize = 48;
const EMPTY: usize = 49;

pub(super) struct Mistake {
    pub(super) name: &'static str,
    pub(super) make: fn(&mut Copy),
    /// What is found, and in which bucket and row.
    pub(super) found: (DifferenceKind, usize, usize),
}

const fn mistake(
    name: &'static str,
    found: (DifferenceKind, usize, usize),
    make: fn(&mut Copy),
) -> Mistake {
    Mistake { name, make, found }
}

impl Copy {
    fn drop_row(&mut self, row: usize) {
        self.writes.retain(|write| write.row != row);
    }

    fn drop(&mut self, row: usize, column: &str) {
        let before = self.writes.len();
        self.writes
            .retain(|write| write.row != row || !write.is_of(column));
        assert!(self.writes.len() < before, "there was nothing to drop");
    }

    /// The first write of a column, or of the marker.
    fn at(&mut self, row: usize, column: &str) -> &mut Write {
        let found = self
            .writes
            .iter_mut()
            .find(|write| write.row == row && write.is_of(column));
        found.expect("a write")
    }

    fn each(&mut self, row: usize, change: impl Fn(&mut Write)) {
        let writes = self.writes.iter_mut();
        writes.filter(|write| write.row == row).for_each(change);
    }

    /// Another write to a row, otherwise like its first one.
    fn add(&mut self, row: usize, what: What, (time, ttl): (i64, i32)) {
        let like = self.writes.iter().find(|write| write.row == row);
        let like = like.expect("a row").clone();
        let time = like.time + time;
        self.writes.push(Write {
            what,
            time,
            ttl,
            ..like
        });
    }

    /// All writes of a row once more, in another bucket.
    fn double(&mut self, row: usize, bucket: usize) {
        let writes = self.writes.iter().filter(|write| write.row == row);
        let again: Vec<Write> = writes
            .map(|write| Write {
                bucket,
                ..write.clone()
            })
            .collect();
        self.writes.extend(again);
    }
}

fn cell(column: &'static str, value: &[u8]) -> What {
    What::Cell(column, value.to_vec())
}

pub(super) const ROWS_AND_PLACES: &[Mistake] = &[
    mistake("the first row is missing", (MissingRow, 0, 0), |copy| {
        copy.drop_row(0);
    }),
    mistake("the last row is missing", (MissingRow, 3, 59), |copy| {
        copy.drop_row(59);
    }),
    mistake(
        "the first row of a bucket is missing",
        (MissingRow, 2, 30),
        |copy| {
            copy.drop_row(30);
        },
    ),
    mistake(
        "the last row of a bucket is missing",
        (MissingRow, 1, 29),
        |copy| {
            copy.drop_row(29);
        },
    ),
    mistake(
        "a row of its key alone is missing",
        (MissingRow, 1, BARE),
        |copy| {
            copy.drop_row(BARE);
        },
    ),
    mistake("a bucket is empty", (MissingRow, 2, 30), |copy| {
        copy.writes.retain(|write| write.bucket != 2);
    }),
    mistake("there is nothing at all", (MissingRow, 0, 0), |copy| {
        copy.writes.clear();
    }),
    mistake(
        "a row is in the next bucket, too",
        (Boundary, 2, 29),
        |copy| {
            copy.double(29, 2);
        },
    ),
    mistake(
        "a row is in the bucket before, too",
        (Boundary, 0, 15),
        |copy| {
            copy.double(15, 0);
        },
    ),
    mistake("a row is in a far bucket, too", (Boundary, 3, 3), |copy| {
        copy.double(3, 3);
    }),
    mistake(
        "a row is in the next bucket instead",
        (MissingRow, 1, 29),
        |copy| {
            copy.each(29, |write| write.bucket = 2);
        },
    ),
    mistake(
        "a row is of another generation",
        (MissingRow, 1, PLAIN),
        |copy| {
            copy.each(PLAIN, |write| write.later_generation = true);
        },
    ),
    mistake(
        "a row is of another partition",
        (MissingRow, 1, PLAIN),
        |copy| {
            copy.each(PLAIN, |write| write.day += 1);
        },
    ),
    mistake("two buckets are swapped", (Boundary, 1, 30), |copy| {
        for write in &mut copy.writes {
            write.bucket = [0, 2, 1, 3][write.bucket];
        }
    }),
    mistake("a boundary is one row early", (Boundary, 0, 14), |copy| {
        copy.starts[1] = 14;
    }),
    mistake("a boundary is one row late", (MissingRow, 1, 30), |copy| {
        copy.starts[2] = 31;
    }),
    mistake(
        "there is a row that nobody wrote",
        (ExtraRow, 1, PLAIN),
        |copy| {
            let like = copy.at(PLAIN, "note").clone();
            let id = [&like.id[..], b"!"].concat();
            copy.writes.push(Write { id, ..like });
        },
    ),
    mistake("a key has lost its last byte", (ExtraRow, 1, 18), |copy| {
        copy.each(18, |write| write.id.truncate(2));
    }),
];

pub(super) const CELLS_AND_TIMES: &[Mistake] = &[
    mistake("a cell is missing", (MissingCell, 1, PLAIN), |copy| {
        copy.drop(PLAIN, "level");
    }),
    mistake(
        "a cell of a row without a marker is missing",
        (MissingCell, 1, UNMARKED),
        |copy| {
            copy.drop(UNMARKED, "note");
        },
    ),
    mistake(
        "a frozen collection is missing",
        (MissingCell, 1, PLAIN),
        |copy| {
            copy.drop(PLAIN, "tags");
        },
    ),
    mistake(
        "a cell has been deleted since",
        (MissingCell, 1, PLAIN),
        |copy| {
            copy.add(PLAIN, What::Deletion("note"), (1, 0));
        },
    ),
    mistake("there is a cell too many", (ExtraCell, 1, BARE), |copy| {
        copy.add(BARE, cell("note", b"extra"), (0, 0));
    }),
    mistake("a value differs by one bit", (Value, 1, PLAIN), |copy| {
        copy.at(PLAIN, "note").value()[0] ^= 1;
    }),
    mistake("a number differs by one", (Value, 1, UNMARKED), |copy| {
        copy.at(UNMARKED, "level").value()[3] += 1;
    }),
    mistake("a value has a byte too many", (Value, 1, PLAIN), |copy| {
        copy.at(PLAIN, "note").value().push(b' ');
    }),
    mistake("a value is cut", (Value, 1, PLAIN), |copy| {
        copy.at(PLAIN, "note").value().pop();
    }),
    mistake("a value is empty", (Value, 1, PLAIN), |copy| {
        copy.at(PLAIN, "note").value().clear();
    }),
    mistake("an empty value is null", (MissingCell, 3, EMPTY), |copy| {
        copy.drop(EMPTY, "note");
    }),
    mistake("a null is empty", (ExtraCell, 3, EMPTY), |copy| {
        copy.add(EMPTY, cell("level", b""), (0, 0));
    }),
    mistake("a frozen collection differs", (Value, 1, PLAIN), |copy| {
        *copy.at(PLAIN, "tags").value() = set_of("frosen");
    }),
    mistake("a frozen collection is empty", (Value, 1, PLAIN), |copy| {
        *copy.at(PLAIN, "tags").value() = vec![0; 4];
    }),
    mistake("a value is the neighbour's", (Value, 1, UNMARKED), |copy| {
        let other = copy.at(PLAIN, "note").value().clone();
        *copy.at(UNMARKED, "note").value() = other;
    }),
    mistake("a write time is one later", (WriteTime, 1, PLAIN), |copy| {
        copy.at(PLAIN, "note").time += 1;
    }),
    mistake(
        "a write time is one earlier",
        (WriteTime, 1, UNMARKED),
        |copy| {
            copy.at(UNMARKED, "level").time -= 1;
        },
    ),
    mistake(
        "a cell is written again later",
        (WriteTime, 1, PLAIN),
        |copy| {
            copy.add(PLAIN, cell("note", b"all is well"), (1, 0));
        },
    ),
    mistake(
        "all cells of a row have one time",
        (WriteTime, 1, UNMARKED),
        |copy| {
            let time = copy.at(UNMARKED, "level").time;
            copy.at(UNMARKED, "note").time = time;
        },
    ),
    mistake("a TTL is one longer", (Expiry, 1, SHORT), |copy| {
        copy.at(SHORT, "note").ttl += 1;
    }),
    mistake("a TTL is one shorter", (Expiry, 1, SHORT), |copy| {
        copy.at(SHORT, "level").ttl -= 1;
    }),
    mistake("a TTL is added", (Expiry, 1, PLAIN), |copy| {
        copy.at(PLAIN, "level").ttl = 1_000_000;
    }),
    mistake("a TTL is lost", (Expiry, 3, ENDING), |copy| {
        copy.at(ENDING, "note").ttl = 0;
    }),
];

pub(super) const MARKERS: &[Mistake] = &[
    mistake(
        "a marker that stays is missing",
        (Marker, 2, MARKED),
        |copy| {
            copy.drop(MARKED, "marker");
        },
    ),
    mistake(
        "a marker that stays a while is missing",
        (Marker, 2, OUTLIVED),
        |copy| {
            copy.drop(OUTLIVED, "marker");
        },
    ),
    mistake(
        "there is a marker that stays",
        (Marker, 3, ENDING),
        |copy| {
            copy.add(ENDING, What::Marker, (0, 0));
        },
    ),
    mistake(
        "there is a marker a second longer",
        (Marker, 3, ENDING),
        |copy| {
            let ttl = copy.at(ENDING, "note").ttl + 1;
            copy.add(ENDING, What::Marker, (0, ttl));
        },
    ),
    mistake(
        "a marker outlives cells of its time",
        (Marker, 1, SHORT),
        |copy| {
            copy.at(SHORT, "marker").ttl += 1;
        },
    ),
    mistake(
        "a marker lives a second longer",
        (Marker, 2, OUTLIVED),
        |copy| {
            copy.at(OUTLIVED, "marker").ttl += 1;
        },
    ),
    mistake(
        "a marker lives a second less",
        (Marker, 2, OUTLIVED),
        |copy| {
            copy.at(OUTLIVED, "marker").ttl -= 1;
        },
    ),
    mistake(
        "a marker stays that should end",
        (Marker, 2, OUTLIVED),
        |copy| {
            copy.at(OUTLIVED, "marker").ttl = 0;
        },
    ),
    mistake(
        "a marker ends that should stay",
        (Marker, 2, MARKED),
        |copy| {
            copy.at(MARKED, "marker").ttl = 100_000_000;
        },
    ),
    mistake(
        "a bare row lives a second longer",
        (Marker, 2, BARE_SHORT),
        |copy| {
            copy.at(BARE_SHORT, "marker").ttl += 1;
        },
    ),
    mistake(
        "a bare row lives a second less",
        (Marker, 2, BARE_SHORT),
        |copy| {
            copy.at(BARE_SHORT, "marker").ttl -= 1;
        },
    ),
    mistake(
        "a bare row ends that should stay",
        (Marker, 1, BARE),
        |copy| {
            copy.at(BARE, "marker").ttl = 100_000_000;
        },
    ),
    mistake(
        "a bare row stays that should end",
        (Marker, 2, BARE_SHORT),
        |copy| {
            copy.at(BARE_SHORT, "marker").ttl = 0;
        },
    ),
];

pub(super) const ELEMENTS: &[Mistake] = &[
    mistake(
        "an element of a map is missing",
        (Value, 3, CELLS),
        |copy| {
            let first = copy.at(CELLS, "counts").clone();
            copy.writes.retain(|write| *write != first);
        },
    ),
    mistake("a map is missing", (MissingCell, 3, CELLS), |copy| {
        copy.drop(CELLS, "counts");
    }),
    mistake("there is an element too many", (Value, 3, CELLS), |copy| {
        copy.add(CELLS, What::Element("counts", map_of("c", 3)), (0, 0));
    }),
    mistake("an element's value differs", (Value, 3, CELLS), |copy| {
        *copy.at(CELLS, "counts").value() = map_of("a", 3);
    }),
    mistake("an element's key differs", (Value, 3, CELLS), |copy| {
        *copy.at(CELLS, "counts").value() = map_of("A", 1);
    }),
    mistake(
        "an element is a microsecond late",
        (WriteTime, 3, CELLS),
        |copy| {
            copy.at(CELLS, "counts").time += 1;
        },
    ),
    mistake(
        "two elements have swapped their times",
        (WriteTime, 3, CELLS),
        |copy| {
            let time = copy.at(CELLS, "counts").time;
            let counts = copy.writes.iter_mut();
            for write in counts.filter(|write| write.row == CELLS && write.is_of("counts")) {
                write.time = 2 * time + 1 - write.time;
            }
        },
    ),
    mistake(
        "an element lives a second longer",
        (Expiry, 3, CELLS),
        |copy| {
            copy.at(CELLS, "names").ttl += 1;
        },
    ),
    mistake(
        "an element stays that should end",
        (Expiry, 3, CELLS),
        |copy| {
            copy.at(CELLS, "names").ttl = 0;
        },
    ),
    mistake(
        "an element ends that should stay",
        (Expiry, 3, CELLS),
        |copy| {
            copy.at(CELLS, "counts").ttl = 1_000_000;
        },
    ),
    mistake(
        "an element of a set is missing",
        (Value, 3, CELLS),
        |copy| {
            let first = copy.at(CELLS, "names").clone();
            copy.writes.retain(|write| *write != first);
        },
    ),
    mistake("an element of a set differs", (Value, 3, CELLS), |copy| {
        *copy.at(CELLS, "names").value() = set_of("X");
    }),
];
