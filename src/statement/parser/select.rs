//! SELECT, clause by clause.

use std::ops::Range;

use super::Parser;
use crate::statement::select::{OrderBy, Select, Selection};

/// The part between SELECT and FROM.
struct Head {
    json: bool,
    distinct: bool,
    selection: Selection,
    span: Range<usize>,
}

impl Parser<'_> {
    pub(in crate::statement) fn select(mut self) -> Option<Select> {
        self.expect_word("select")?;
        let head = self.head()?;
        let table_start = self.start();
        let table = self.table()?;
        let table_span = self.span_from(table_start);
        let relations = match self.word("where") {
            true => self.relations()?,
            false => Vec::new(),
        };
        let group_by = self.words(&["group", "by"]);
        if group_by {
            self.list(Self::selector)?;
        }
        let (order_by, order_by_span) = self.order_by()?;
        let per_partition_limit = match self.words(&["per", "partition", "limit"]) {
            true => Some(self.integer_or_marker()?),
            false => None,
        };
        let limit = match self.word("limit") {
            true => Some(self.integer_or_marker()?),
            false => None,
        };
        let allow_filtering = self.words(&["allow", "filtering"]);
        self.end()?;
        Some(Select {
            json: head.json,
            distinct: head.distinct,
            selection: head.selection,
            selection_span: head.span,
            table,
            table_span,
            relations,
            group_by,
            order_by,
            order_by_span,
            per_partition_limit,
            limit,
            allow_filtering,
            markers: self.markers,
        })
    }

    /// JSON and DISTINCT may also name columns. They are keywords if the rest can be parsed that way.
    fn head(&mut self) -> Option<Head> {
        for json in [true, false] {
            for distinct in [true, false] {
                let head = self.attempt(|parser| parser.head_with(json, distinct));
                if head.is_some() {
                    return head;
                }
            }
        }
        None
    }

    fn head_with(&mut self, json: bool, distinct: bool) -> Option<Head> {
        for (keyword, wanted) in [("json", json), ("distinct", distinct)] {
            if wanted {
                self.expect_word(keyword)?;
            } else if self.is_word(keyword) && self.is_doubtful_name() {
                return None;
            }
        }
        let start = self.start();
        let selection = self.selection()?;
        let span = self.span_from(start);
        self.expect_word("from")?;
        Some(Head {
            json,
            distinct,
            selection,
            span,
        })
    }

    /// After JSON or DISTINCT, Cassandra reads `*` as all columns, never as a product, and AS as an alias only before
    /// some words.
    fn is_doubtful_name(&self) -> bool {
        self.is_symbol_at(1, "*") || self.is_word_at(1, "as")
    }

    fn order_by(&mut self) -> Option<(Vec<OrderBy>, Option<Range<usize>>)> {
        let start = self.start();
        if !self.words(&["order", "by"]) {
            return Some((Vec::new(), None));
        }
        let columns = self.list(Self::ordering)?;
        let span = self.span_from(start);
        Some((columns, Some(span)))
    }

    fn ordering(&mut self) -> Option<OrderBy> {
        let column = self.column()?;
        let descending = self.word("desc");
        if !descending {
            self.word("asc");
        }
        Some(OrderBy { column, descending })
    }
}
