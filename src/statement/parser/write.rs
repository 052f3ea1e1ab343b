//! INSERT, UPDATE, DELETE and BATCH, clause by clause.

use super::Parser;
use super::tokens::Kind;
use crate::statement::term::{Literal, Term, TermKind};
use crate::statement::touches::Name;
use crate::statement::write::{Batch, BatchKind, Keys, Write, WriteKind, Writes};

/// The USING clause.
#[derive(Default)]
struct Using {
    timestamp: Option<Term>,
    ttl: Option<Term>,
}

/// How a column is set. Some ways exclude each other for one column; Cassandra treats that as a syntax error.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Assignment {
    Whole,
    Field,
    Change,
}

impl Parser<'_> {
    pub(in crate::statement) fn writes(mut self) -> Option<Writes> {
        let (batch, writes) = if self.word("begin") {
            let batch = self.batch()?;
            (Some(batch), self.writes_of_batch()?)
        } else {
            (None, vec![self.write()?])
        };
        self.end()?;
        Some(Writes {
            batch,
            writes,
            markers: self.markers,
        })
    }

    fn batch(&mut self) -> Option<Batch> {
        let kind = if self.word("unlogged") {
            BatchKind::Unlogged
        } else if self.word("counter") {
            BatchKind::Counter
        } else {
            BatchKind::Logged
        };
        self.expect_word("batch")?;
        let using = self.using()?;
        Some(Batch {
            kind,
            timestamp: using.timestamp,
            ttl: using.ttl,
        })
    }

    fn writes_of_batch(&mut self) -> Option<Vec<Write>> {
        let mut writes = Vec::new();
        while !self.words(&["apply", "batch"]) {
            writes.push(self.write()?);
            self.symbol(";");
        }
        Some(writes)
    }

    fn write(&mut self) -> Option<Write> {
        if self.words(&["insert", "into"]) {
            self.insert()
        } else if self.word("update") {
            self.update()
        } else if self.word("delete") {
            self.delete()
        } else {
            None
        }
    }

    fn insert(&mut self) -> Option<Write> {
        let mut write = empty(WriteKind::Insert, self.table()?);
        if self.word("json") {
            write.json = Some(self.json()?);
            if self.word("default") && !self.word("null") {
                self.expect_word("unset")?;
            }
        } else {
            let values = self.columns_and_values()?;
            write.assigned = values.iter().map(|(column, _)| column.clone()).collect();
            write.keys = Keys::Values(values);
        }
        write.conditional = self.words(&["if", "not", "exists"]);
        let using = self.using()?;
        write.timestamp = using.timestamp;
        write.ttl = using.ttl;
        Some(write)
    }

    fn json(&mut self) -> Option<Term> {
        let start = self.start();
        let kind = if self.is_marker() {
            TermKind::Marker(self.marker()?)
        } else {
            match self.literal()? {
                text @ Literal::Text(_) => TermKind::Literal(text),
                _ => return None,
            }
        };
        let span = self.span_from(start);
        Some(Term { span, kind })
    }

    fn columns_and_values(&mut self) -> Option<Vec<(String, Term)>> {
        self.expect("(")?;
        let columns = self.list(Self::column)?;
        self.expect(")")?;
        self.expect_word("values")?;
        let values = self.tuple()?;
        let pairs = columns.len() == values.len();
        pairs.then(|| columns.into_iter().zip(values).collect())
    }

    fn using(&mut self) -> Option<Using> {
        let mut using = Using::default();
        if !self.word("using") {
            return Some(using);
        }
        loop {
            if self.word("timestamp") {
                using.timestamp = Some(self.integer_or_marker()?);
            } else {
                self.expect_word("ttl")?;
                using.ttl = Some(self.integer_or_marker()?);
            }
            if !self.word("and") {
                return Some(using);
            }
        }
    }

    fn update(&mut self) -> Option<Write> {
        let mut write = empty(WriteKind::Update, self.table()?);
        let using = self.using()?;
        write.timestamp = using.timestamp;
        write.ttl = using.ttl;
        self.expect_word("set")?;
        let assignments = self.list(Self::assignment)?;
        if !fit_together(&assignments) {
            return None;
        }
        write.assigned = assignments.into_iter().map(|(column, _)| column).collect();
        self.keys_and_conditions(write)
    }

    /// `a = 1`, `a = a + 1`, `a = [1] + a`, `a += 1`, `a[1] = 2`, `a.b = 3`.
    fn assignment(&mut self) -> Option<(String, Assignment)> {
        let column = self.column()?;
        let assignment = if self.symbol("=") {
            return self.new_value(column);
        } else if self.symbol("+=") || self.symbol("-=") {
            Assignment::Change
        } else if self.symbol("[") {
            self.term()?;
            self.expect("]")?;
            self.expect("=")?;
            Assignment::Change
        } else {
            self.expect(".")?;
            self.name()?;
            self.expect("=")?;
            Assignment::Field
        };
        self.term()?;
        Some((column, assignment))
    }

    fn new_value(&mut self, column: String) -> Option<(String, Assignment)> {
        let same = |name: Option<String>| name.is_some_and(|name| name == column);
        if self.kind() == Some(Kind::EmptyName) || self.is_plain_name_at(0) {
            if !same(self.column()) {
                return None;
            }
            // The second half of `a = a -3` is a name and a number.
            if self.kind() == Some(Kind::Integer) {
                self.take()?;
            } else if self.symbol("+") || self.symbol("-") {
                self.term()?;
            } else {
                return None;
            }
            return Some((column, Assignment::Change));
        }
        self.term()?;
        if self.symbol("+") {
            return same(self.column()).then_some((column, Assignment::Change));
        }
        Some((column, Assignment::Whole))
    }

    fn delete(&mut self) -> Option<Write> {
        let deleted = if self.is_word("from") {
            Vec::new()
        } else {
            self.list(Self::deletion)?
        };
        self.expect_word("from")?;
        let mut write = empty(WriteKind::Delete, self.table()?);
        write.deleted = deleted;
        if self.words(&["using", "timestamp"]) {
            write.timestamp = Some(self.integer_or_marker()?);
        }
        self.keys_and_conditions(write)
    }

    /// `a`, `a[1]`, `a.b`.
    fn deletion(&mut self) -> Option<String> {
        let column = self.column()?;
        if self.symbol("[") {
            self.term()?;
            self.expect("]")?;
        } else if self.symbol(".") {
            self.name()?;
        }
        Some(column)
    }

    /// WHERE and IF.
    fn keys_and_conditions(&mut self, mut write: Write) -> Option<Write> {
        self.expect_word("where")?;
        write.keys = Keys::Relations(self.relations()?);
        write.conditional = self.word("if");
        if write.conditional {
            self.conditions()?;
        }
        Some(write)
    }

    fn conditions(&mut self) -> Option<()> {
        // `exists` may also be a column.
        if self.is_word("exists") && !self.continues_condition_at(1) {
            return self.expect_word("exists");
        }
        loop {
            self.condition()?;
            if !self.word("and") {
                return Some(());
            }
        }
    }

    fn continues_condition_at(&self, ahead: usize) -> bool {
        match self.kind_at(ahead) {
            Some(Kind::Symbol(symbol)) => symbol != ";",
            _ => self.is_word_at(ahead, "in") || self.is_word_at(ahead, "contains"),
        }
    }

    fn condition(&mut self) -> Option<()> {
        self.column()?;
        let whole = !self.is_symbol("[") && !self.is_symbol(".");
        if self.symbol("[") {
            self.term()?;
            self.expect("]")?;
        } else if self.symbol(".") {
            self.name()?;
        }
        if self.word("in") {
            return self.in_values().map(drop);
        }
        if !whole || !self.word("contains") {
            self.comparison()?;
        } else {
            self.word("key");
        }
        self.term().map(drop)
    }
}

fn empty(kind: WriteKind, table: Name) -> Write {
    Write {
        kind,
        table,
        keys: Keys::Values(Vec::new()),
        json: None,
        conditional: false,
        timestamp: None,
        ttl: None,
        assigned: Vec::new(),
        deleted: Vec::new(),
    }
}

/// Whether no column is set in two ways that exclude each other.
fn fit_together(assignments: &[(String, Assignment)]) -> bool {
    let mut sorted: Vec<_> = assignments.iter().collect();
    sorted.sort_by(|one, other| one.0.cmp(&other.0));
    sorted.windows(2).all(|pair| match pair {
        [(one, how), (other, too)] if one == other => how == too && *how != Assignment::Whole,
        _ => true,
    })
}
