//! Between SELECT and FROM.

use super::Writing;
use crate::exactness::schema::Column;
use crate::exactness::types::{Type, capital};

const NUMBERS: [&str; 8] = [
    "bigint", "decimal", "double", "float", "int", "smallint", "tinyint", "varint",
];

impl Writing<'_, '_> {
    pub(super) fn selection(&mut self) -> String {
        match self.random.below(40) {
            0..=10 => "*".to_owned(),
            11 | 12 => "JSON *".to_owned(),
            13 => format!("JSON {}", self.selectors()),
            14 => self.distinct(),
            15..=17 => "count(*)".to_owned(),
            18..=23 => self.aggregates(),
            24 => {
                let aggregates = self.aggregates();
                format!("{}, {aggregates}", self.selectors())
            }
            _ => self.selectors(),
        }
    }

    fn distinct(&mut self) -> String {
        let columns = &self.schema().partition;
        let columns: Vec<String> = columns.iter().map(|column| self.name(column)).collect();
        format!("DISTINCT {}", columns.join(", "))
    }

    fn any_column(&mut self) -> Column {
        let schema = self.schema();
        let all: Vec<&Column> = schema.key().chain(&schema.regular).collect();
        (*self.random.pick(&all)).clone()
    }

    /// One with a write time of its own; now and then one without.
    fn any_cell(&mut self) -> Column {
        let regular = &self.schema().regular;
        if regular.is_empty() || self.random.one_in(30) {
            return self.any_column();
        }
        self.random.pick(regular).clone()
    }

    fn aggregates(&mut self) -> String {
        let one = |writing: &mut Self| {
            let column = writing.any_column();
            let name = writing.name(&column);
            let number = matches!(column.of, Type::Native(name) if NUMBERS.contains(&name));
            match writing.random.below(8) {
                0 => "COUNT(1)".to_owned(),
                1 => "count(*)".to_owned(),
                2 => format!("count({name})"),
                3 | 4 => format!("min({name})"),
                5 | 6 => format!("MAX({name})"),
                _ if !number && writing.random.below(8) > 0 => format!("count({name})"),
                _ => format!("{}({name})", writing.random.pick(&["sum", "avg"])),
            }
        };
        let list: Vec<String> = (0..1 + self.random.below(3)).map(|_| one(self)).collect();
        list.join(", ")
    }

    fn selectors(&mut self) -> String {
        let list: Vec<String> = (0..1 + self.random.below(4))
            .map(|_| {
                let selector = self.selector();
                match self.random.below(6) {
                    0 => format!("{selector} AS alias{}", self.random.below(9)),
                    1 => format!("{selector} AS \"Alias {}\"", self.random.below(9)),
                    _ => selector,
                }
            })
            .collect();
        list.join(", ")
    }

    fn selector(&mut self) -> String {
        let column = self.any_column();
        let name = self.name(&column);
        if self.random.below(2) == 0 {
            return name;
        }
        match (self.random.below(10), &column.of) {
            (0, _) => {
                let cell = self.any_cell();
                format!("WRITETIME({})", self.name(&cell))
            }
            (1, _) => {
                let cell = self.any_cell();
                format!("TTL({})", self.name(&cell))
            }
            (2, Type::Native(of)) if *of != "blob" => format!("CAST({name} AS text)"),
            (3, Type::Native(of)) => format!("{of}AsBlob({name})"),
            (4, _) => self.token(),
            (5, _) => (*self
                .random
                .pick(&["(int)5", "(text)'x'", "(bigint)7", "'x'"]))
            .to_owned(),
            (6, _) if self.schema().since_5 => {
                let cell = self.any_cell();
                format!("MAXWRITETIME({})", self.name(&cell))
            }
            (7, Type::Native("int")) => format!("blobAsInt(intAsBlob({name}))"),
            (_, Type::Native("timeuuid" | "date")) => format!("toTimestamp({name})"),
            (_, Type::Native("timestamp")) => format!("toUnixTimestamp({name})"),
            (_, Type::Native(of @ ("int" | "bigint"))) => format!(
                "CAST({name} AS {})",
                if *of == "int" { "double" } else { "varint" }
            ),
            (_, Type::Native(of)) => format!("blobAs{0}({of}AsBlob({name}))", capital(of)),
            (_, Type::Udt) => format!("{name}.a"),
            (_, Type::Map(..) | Type::Cells(_)) => format!("{name}['a']"),
            _ => name,
        }
    }

    pub(super) fn token(&mut self) -> String {
        let columns = &self.schema().partition;
        let columns: Vec<String> = columns.iter().map(|column| self.name(column)).collect();
        format!("token({})", columns.join(", "))
    }
}
