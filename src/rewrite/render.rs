//! Renders the statement for a bucket: the client's SELECT with the bucket in its WHERE clause. It splices spans of the
//! source text, and leaves out limits, which are counted while pages are filled.

use super::bind::{Bound, Key};
use super::readable::Readable;
use super::{Reason, bounds};
use crate::schema::CqlType;
use crate::schema::bucket::{BUCKET, GENERATION};
use crate::statement::quoted;
use crate::statement::select::{Columns, InValues, Relation, RelationKind, Selection};
use crate::statement::term::{Term, TermKind};

/// Where a sub-statement reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum From<'a> {
    /// The original, for one key of several.
    Original,
    /// The original, for so many neighbouring keys (see [`Readable::parts`]), with at most so many rows of each.
    Run(usize, Option<u32>),
    /// A split table in the original's keyspace.
    Split(&'a str),
}

/// A statement with its values. The partition key comes first; in a split table, generation and bucket follow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubStatement {
    pub text: String,
    /// The values of all markers after these.
    pub values: Vec<Vec<u8>>,
}

impl Readable {
    /// The statement is the same for all buckets and keys of one request.
    pub fn render(&self, bound: &Bound<'_>, from: From<'_>) -> Result<SubStatement, Reason> {
        bounds::check(self, bound)?;
        let table = match from {
            From::Original | From::Run(..) => &self.schema.table,
            From::Split(table) => table,
        };
        let mut out = Rendering {
            readable: self,
            bound,
            text: String::with_capacity(self.text.len() + 100),
            values: Vec::new(),
        };
        out.text.push_str("SELECT ");
        if self.select.json {
            out.text.push_str("JSON ");
        }
        out.selection();
        let keyspace = quoted(&self.schema.keyspace);
        out.text
            .push_str(&format!(" FROM {keyspace}.{} WHERE ", quoted(table)));
        out.key(from);
        for relation in &self.select.relations {
            if !self.is_of_key(relation) {
                out.text.push_str(" AND ");
                out.relation(relation)?;
            }
        }
        if let Some(span) = &self.select.order_by_span {
            out.text.push(' ');
            out.text.push_str(&self.text[span.clone()]);
        }
        // Every other limit is counted while pages are filled; this one cannot be, across the keys of one sub-read.
        if let From::Run(_, Some(rows)) = from {
            out.text.push_str(&format!(" PER PARTITION LIMIT {rows}"));
        }
        if self.select.allow_filtering {
            out.text.push_str(" ALLOW FILTERING");
        }
        Ok(SubStatement {
            text: out.text,
            values: out.values,
        })
    }
}

/// The values of the markers that select a partition: its key and, in a split table, generation and bucket.
pub fn key_values(key: &Key, bucket: Option<(i32, i32)>) -> Vec<Vec<u8>> {
    let mut values = key.components.clone();
    if let Some((generation, number)) = bucket {
        values.push(generation.to_be_bytes().to_vec());
        values.push(number.to_be_bytes().to_vec());
    }
    values
}

impl Readable {
    /// The same for neighbouring keys of the original.
    pub fn run_values(&self, keys: &[Key]) -> Vec<Vec<u8>> {
        let in_column = self.in_column();
        let first = keys.first().map_or(&[][..], |key| &key.components);
        let columns = first.iter().enumerate();
        let values = columns.flat_map(|(index, value)| match in_column == Some(index) {
            true => keys
                .iter()
                .map(|key| key.components[index].clone())
                .collect(),
            false => vec![value.clone()],
        });
        values.collect()
    }
}

struct Rendering<'a, 'b> {
    readable: &'a Readable,
    bound: &'a Bound<'b>,
    text: String,
    values: Vec<Vec<u8>>,
}

impl Rendering<'_, '_> {
    /// `*` becomes the original's columns, in its order: a split table has two more.
    fn selection(&mut self) {
        match &self.readable.select.selection {
            Selection::All => {
                let names: Vec<String> = self
                    .readable
                    .schema
                    .all_columns()
                    .map(|(column, _)| quoted(&column.name))
                    .collect();
                self.text.push_str(&names.join(", "));
            }
            Selection::Items(_) => {
                let span = self.readable.select.selection_span.clone();
                self.text.push_str(&self.readable.text[span]);
            }
        }
    }

    fn key(&mut self, from: From<'_>) {
        let in_column = match from {
            From::Run(2.., _) => self.readable.in_column(),
            _ => None,
        };
        let columns = self.readable.schema.partition_key.iter().enumerate();
        let restricted = columns.map(|(index, column)| {
            let name = quoted(&column.name);
            match from {
                From::Run(keys, _) if in_column == Some(index) => {
                    format!("{name} IN ({})", vec!["?"; keys].join(", "))
                }
                _ => format!("{name} = ?"),
            }
        });
        let hidden = match from {
            From::Original | From::Run(..) => &[][..],
            From::Split(_) => &[GENERATION, BUCKET],
        };
        let hidden = hidden.iter().map(|name| format!("{} = ?", quoted(name)));
        let all: Vec<String> = restricted.chain(hidden).collect();
        self.text.push_str(&all.join(" AND "));
    }

    fn relation(&mut self, relation: &Relation) -> Result<(), Reason> {
        let (columns, terms) = match &relation.kind {
            RelationKind::Compare { columns, term, .. } => (columns, std::slice::from_ref(term)),
            RelationKind::In {
                columns,
                values: InValues::List(terms),
            } => (columns, terms.as_slice()),
            RelationKind::In {
                columns,
                values: InValues::Marker(_),
            } => (columns, &[][..]),
            RelationKind::Other => return Err(Reason::Restriction),
        };
        let types = self.types(columns);
        let mut replaced = Vec::new();
        for term in terms {
            self.replace(term, &types, &mut replaced)?;
        }
        self.splice(relation, replaced)
    }

    fn types(&self, columns: &Columns) -> Vec<Option<&CqlType>> {
        let names = match columns {
            Columns::One(name) => std::slice::from_ref(name),
            Columns::Tuple(names) => names.as_slice(),
        };
        let schema = &self.readable.schema;
        let find = |name: &String| schema.column(name).map(|(column, _)| &column.cql_type);
        names.iter().map(find).collect()
    }

    /// Turns literals into bound values, so that texts that differ only in literals share one prepared statement, and
    /// no prepared statement keeps a value. Terms that cannot become values are left to the original: a call may return
    /// another value each time, or need a right that the client lacks.
    fn replace<'t>(
        &self,
        term: &'t Term,
        types: &[Option<&CqlType>],
        replaced: &mut Vec<(&'t Term, Vec<u8>)>,
    ) -> Result<(), Reason> {
        match (&term.kind, types) {
            (TermKind::Marker(_), _) => Ok(()),
            (TermKind::Tuple(terms), _) if terms.len() == types.len() => {
                for (term, cql_type) in terms.iter().zip(types) {
                    self.replace(term, std::slice::from_ref(cql_type), replaced)?;
                }
                Ok(())
            }
            (TermKind::Literal(_), [Some(cql_type)]) => {
                let bytes = self.bound.term(term, cql_type).ok_or(Reason::Value)?;
                replaced.push((term, bytes.into_owned()));
                Ok(())
            }
            _ => Err(Reason::Value),
        }
    }

    /// Appends the relation's text, with a `?` for every marker of the client and every literal that became a value.
    fn splice(
        &mut self,
        relation: &Relation,
        replaced: Vec<(&Term, Vec<u8>)>,
    ) -> Result<(), Reason> {
        let within = |span: &std::ops::Range<usize>| {
            relation.span.start <= span.start && span.end <= relation.span.end
        };
        let markers = self.readable.select.markers.iter().enumerate();
        let mut pieces = Vec::new();
        for (index, marker) in markers.filter(|(_, marker)| within(&marker.span)) {
            // Only Cassandra knows what null and unset mean here.
            let bytes = self.bound.marker(index).ok_or(Reason::Value)?;
            pieces.push((marker.span.clone(), bytes.to_vec()));
        }
        let literals = replaced.into_iter();
        pieces.extend(literals.map(|(term, bytes)| (term.span.clone(), bytes)));
        pieces.sort_by_key(|(span, _)| span.start);
        let mut at = relation.span.start;
        for (span, bytes) in pieces {
            self.text.push_str(&self.readable.text[at..span.start]);
            self.text.push('?');
            self.values.push(bytes);
            at = span.end;
        }
        self.text
            .push_str(&self.readable.text[at..relation.span.end]);
        Ok(())
    }
}
