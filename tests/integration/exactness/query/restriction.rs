//! Behind WHERE: the partition key, clustering columns in every way that there is, and filters.

use super::Writing;
use crate::exactness::schema::Column;
use crate::exactness::types::{Datum, Type, bracketed, counted, tuple_bytes};
use crate::support::request::Value;

const SLICES: [&str; 4] = ["<", "<=", ">", ">="];

pub(super) struct Restrictions {
    /// With WHERE in front, if there are any.
    pub(super) text: String,
    pub(super) filtering: bool,
}

impl Writing<'_, '_> {
    pub(super) fn restrictions(&mut self, is_distinct: bool) -> Restrictions {
        let (mut all, mut filtering) = self.partition_key();
        // DISTINCT knows nothing but whole partitions.
        if !is_distinct || self.random.one_in(5) {
            all.extend(self.clustering(&mut filtering));
        }
        if !is_distinct && self.random.one_in(8) {
            let filters: Vec<String> = (0..1 + self.random.below(2))
                .filter_map(|_| self.filter())
                .collect();
            filtering |= !filters.is_empty() && self.random.below(15) > 0;
            all.extend(filters);
        }
        filtering |= self.random.one_in(30);
        let text = match all.len() {
            0 => String::new(),
            _ => format!(" WHERE {}", all.join(" AND ")),
        };
        Restrictions { text, filtering }
    }

    /// Mostly all of it by `=`.
    fn partition_key(&mut self) -> (Vec<String>, bool) {
        let columns = &self.schema().partition;
        let key = &self.partition.key;
        match self.random.below(50) {
            0 => return (Vec::new(), self.random.below(4) > 0),
            1 => return (self.token_range(), self.random.one_in(2)),
            _ => {}
        }
        let several = self
            .random
            .one_in(9)
            .then(|| self.random.below(columns.len()));
        let left_out = self
            .random
            .one_in(60)
            .then(|| self.random.below(columns.len()));
        let mut all = Vec::new();
        for (index, column) in columns.iter().enumerate() {
            if left_out == Some(index) {
                continue;
            }
            let name = self.name(column);
            if several == Some(index) || several.is_some() && self.random.one_in(4) {
                all.push(self.one_of(&name, column, &key[index]));
            } else {
                let value = match self.random.below(60) {
                    0 => column.of.random(self.random),
                    _ => key[index].clone(),
                };
                let value = self.put(&value);
                all.push(format!("{name} = {value}"));
            }
        }
        (all, left_out.is_some() && self.random.below(5) > 0)
    }

    fn token_range(&mut self) -> Vec<String> {
        let token = self.token();
        let bound = self.random.next() as i64;
        let bound = self.put(&Datum::new(bound.to_be_bytes(), bound.to_string()));
        vec![format!("{token} {} {bound}", self.random.pick(&SLICES))]
    }

    /// `IN` with this value and some others, one of them perhaps twice.
    fn one_of(&mut self, name: &str, column: &Column, value: &Datum) -> String {
        let mut list: Vec<Datum> = (0..self.random.below(4))
            .map(|_| self.any_value(column))
            .collect();
        if self.random.below(12) > 0 {
            let at = self.random.below(list.len() + 1);
            list.insert(at, value.clone());
        }
        let list = self.list(&list);
        format!("{name} IN {list}")
    }

    /// `?`, or a list of values.
    fn list(&mut self, list: &[Datum]) -> String {
        let markers = self.style != super::Style::Literals;
        if markers && self.random.one_in(2) {
            let bytes = counted(list.iter().map(|item| &item.bytes));
            return self.marker(Value::Bytes(bytes));
        }
        let list: Vec<String> = list.iter().map(|item| self.put(item)).collect();
        format!("({})", list.join(", "))
    }

    /// One that rows have, mostly.
    fn any_value(&mut self, column: &Column) -> Datum {
        match (self.random.below(24), column.of.empty()) {
            (0..=3, _) => column.of.random(self.random),
            (4, Some(empty)) => empty,
            _ => self.random.pick(&column.pool).clone(),
        }
    }

    /// The values of a row of the partition, some of them replaced.
    fn near_a_row(&mut self) -> Vec<Datum> {
        let columns = &self.schema().clustering;
        let row = self.random.pick(&self.partition.rows).clustering.clone();
        let columns = columns.iter().zip(row);
        columns
            .map(|(column, value)| match self.random.below(6) {
                0 => self.any_value(column),
                _ => value,
            })
            .collect()
    }

    fn clustering(&mut self, filtering: &mut bool) -> Vec<String> {
        let width = self.schema().clustering.len();
        let depth = self.random.below(width);
        match self.random.below(20) {
            0..=5 => Vec::new(),
            // A whole key, or a prefix of one.
            6 | 7 => {
                let depth = if self.random.one_in(2) { width } else { depth };
                self.prefix(depth)
            }
            8..=11 => {
                let mut all = self.prefix(depth);
                all.extend(self.slice(depth));
                all
            }
            12..=14 => {
                let from = if self.random.one_in(3) { depth } else { 0 };
                let mut all = self.prefix(from);
                all.extend(self.tuple_slice(from));
                all
            }
            15 | 16 => {
                let mut all = self.prefix(depth);
                all.push(self.clustering_in(depth));
                // Behind an IN more may follow.
                if depth + 1 < width && self.random.one_in(2) {
                    all.extend(self.slice(depth + 1));
                }
                all
            }
            17 => {
                let from = self.random.below(width);
                vec![self.tuple_in(from)]
            }
            18 => {
                let values = self.near_a_row();
                vec![self.tuple("=", 0, &values)]
            }
            // A column without those before it: only with ALLOW FILTERING.
            _ => {
                *filtering |= self.random.below(3) > 0;
                self.slice(width - 1)
            }
        }
    }

    fn prefix(&mut self, depth: usize) -> Vec<String> {
        let columns = &self.schema().clustering;
        let row = self.near_a_row();
        let columns: Vec<(&Column, Datum)> = columns.iter().zip(row).take(depth).collect();
        columns
            .into_iter()
            .map(|(column, value)| {
                let name = self.name(column);
                let value = self.put(&value);
                format!("{name} = {value}")
            })
            .collect()
    }

    /// One bound or two; two may contradict each other.
    fn slice(&mut self, at: usize) -> Vec<String> {
        let column = &self.schema().clustering[at];
        let bound = |writing: &mut Self, operators: &[&str]| {
            let value = writing.any_value(column);
            let name = writing.name(column);
            let value = match column.of {
                Type::Native("timeuuid") if writing.random.one_in(4) => {
                    let time = ["minTimeuuid('2026-03-01')", "maxTimeuuid('2026-04-01')"];
                    (*writing.random.pick(&time)).to_owned()
                }
                _ => writing.put(&value),
            };
            format!("{name} {} {value}", writing.random.pick(operators))
        };
        match self.random.below(10) {
            0..=4 => vec![bound(self, &SLICES)],
            5..=8 => vec![bound(self, &SLICES[2..]), bound(self, &SLICES[..2])],
            _ => vec![bound(self, &SLICES[..2]), bound(self, &SLICES)],
        }
    }

    fn tuple_slice(&mut self, from: usize) -> Vec<String> {
        let one = |writing: &mut Self, operators: &[&str]| {
            let values = writing.near_a_row();
            let operator = *writing.random.pick(operators);
            writing.tuple(operator, from, &values)
        };
        match self.random.below(3) {
            0 => vec![one(self, &SLICES[2..]), one(self, &SLICES[..2])],
            _ => vec![one(self, &SLICES)],
        }
    }

    /// `(a, b) > (1, 2)`, with as many columns as come out.
    fn tuple(&mut self, operator: &str, from: usize, values: &[Datum]) -> String {
        let columns = &self.schema().clustering;
        let from = from.min(columns.len() - 1);
        let to = from + 1 + self.random.below(columns.len() - from);
        let names: Vec<String> = columns[from..to]
            .iter()
            .map(|column| self.name(column))
            .collect();
        let as_one = self.random.one_in(3);
        let value = self.tuple_value(&values[from..to], as_one);
        format!("({}) {operator} {value}", names.join(", "))
    }

    /// A marker for each value, or as one for all of them.
    fn tuple_value(&mut self, values: &[Datum], as_one: bool) -> String {
        if self.style != super::Style::Literals && as_one {
            return self.marker(Value::Bytes(tuple_bytes(values)));
        }
        let values: Vec<String> = values.iter().map(|value| self.put(value)).collect();
        format!("({})", values.join(", "))
    }

    fn clustering_in(&mut self, at: usize) -> String {
        let column = &self.schema().clustering[at];
        let name = self.name(column);
        let value = self.any_value(column);
        self.one_of(&name, column, &value)
    }

    fn tuple_in(&mut self, width: usize) -> String {
        let columns = &self.schema().clustering[..=width];
        let names: Vec<String> = columns.iter().map(|column| self.name(column)).collect();
        let tuples: Vec<Vec<Datum>> = (0..self.random.below(4) + 1)
            .map(|_| self.near_a_row()[..=width].to_vec())
            .collect();
        let list = if self.style != super::Style::Literals && self.random.one_in(3) {
            let tuples: Vec<Vec<u8>> = tuples.iter().map(|tuple| tuple_bytes(tuple)).collect();
            self.marker(Value::Bytes(counted(tuples.iter())))
        } else {
            // The grammar allows no mixture.
            let as_one = self.random.one_in(2);
            let list = tuples.iter().map(|tuple| self.tuple_value(tuple, as_one));
            let list: Vec<String> = list.collect();
            format!("({})", list.join(", "))
        };
        format!("({}) IN {list}", names.join(", "))
    }

    /// A condition on a column outside of the key.
    fn filter(&mut self) -> Option<String> {
        if self.schema().regular.is_empty() {
            return None;
        }
        let column = self.random.pick(&self.schema().regular).clone();
        let name = self.name(&column);
        let value = column.of.random(self.random);
        let contains = matches!(column.of, Type::Cells(_) | Type::List(_) | Type::Map(..));
        if contains && self.random.below(3) > 0 {
            let key = matches!(column.of, Type::Map(..)) && self.random.one_in(2);
            let value = self.put(&Datum::new(*b"a", "'a'"));
            return Some(format!(
                "{name} CONTAINS {}{value}",
                if key { "KEY " } else { "" }
            ));
        }
        let operator = *self.random.pick(&[
            "=", "<", "<=", ">", ">=", ">", "<", "=", "=", "=", "=", "!=", "IN", "LIKE",
        ]);
        let value = match operator {
            "IN" => bracketed("(", &[value.clone(), column.of.random(self.random)], ")"),
            _ => self.put(&value),
        };
        Some(format!("{name} {operator} {value}"))
    }
}
