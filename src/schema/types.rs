//! CQL types, as `system_schema.columns` writes them. A type that cannot be read is `Other`, never an error.

/// A type, as `system_schema.columns` names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CqlType {
    Ascii,
    BigInt,
    Blob,
    Boolean,
    Counter,
    Date,
    Decimal,
    Double,
    Duration,
    Float,
    Inet,
    Int,
    SmallInt,
    Text,
    Time,
    Timestamp,
    TimeUuid,
    TinyInt,
    Uuid,
    VarInt,
    List(Box<CqlType>),
    Set(Box<CqlType>),
    Map(Box<CqlType>, Box<CqlType>),
    Tuple(Vec<CqlType>),
    Vector(Box<CqlType>, usize),
    /// A user-defined type: its name, without keyspace. Its fields are never needed.
    User(String),
    Frozen(Box<CqlType>),
    /// A server class, or a name that this version does not know.
    Other(String),
}

/// Maximum nesting: deeper than any real table, and shallow enough for every stack.
const DEPTH_MAX: usize = 32;

impl CqlType {
    /// Reads a type from the text in `system_schema.columns.type`.
    pub fn parse(text: &str) -> Self {
        let mut reader = Reader { rest: text.trim() };
        match reader.read(DEPTH_MAX) {
            Some(cql_type) if reader.rest.is_empty() => cql_type,
            _ => Self::Other(text.to_owned()),
        }
    }

    /// The type without the `frozen<…>` around it, which does not change the bytes of values.
    pub fn unfrozen(&self) -> &Self {
        match self {
            Self::Frozen(inner) => inner.unfrozen(),
            other => other,
        }
    }

    fn native(name: &str) -> Option<Self> {
        Some(match name {
            "ascii" => Self::Ascii,
            "bigint" => Self::BigInt,
            "blob" => Self::Blob,
            "boolean" => Self::Boolean,
            "counter" => Self::Counter,
            "date" => Self::Date,
            "decimal" => Self::Decimal,
            "double" => Self::Double,
            "duration" => Self::Duration,
            "float" => Self::Float,
            "inet" => Self::Inet,
            "int" => Self::Int,
            "smallint" => Self::SmallInt,
            "text" | "varchar" => Self::Text,
            "time" => Self::Time,
            "timestamp" => Self::Timestamp,
            "timeuuid" => Self::TimeUuid,
            "tinyint" => Self::TinyInt,
            "uuid" => Self::Uuid,
            "varint" => Self::VarInt,
            _ => return None,
        })
    }
}

/// The rest of a type's text.
struct Reader<'a> {
    rest: &'a str,
}

impl<'a> Reader<'a> {
    fn read(&mut self, depth: usize) -> Option<CqlType> {
        let depth = depth.checked_sub(1)?;
        self.skip_spaces();
        match self.rest.chars().next()? {
            '"' => self.quoted('"').map(CqlType::User),
            '\'' => self.quoted('\'').map(CqlType::Other),
            _ => self.named(depth),
        }
    }

    /// A native type, a user-defined type, or one with parameters.
    fn named(&mut self, depth: usize) -> Option<CqlType> {
        let name = self.word()?;
        if !self.take('<') {
            // Old tables have `empty` as the type of a column without values; it is not user-defined.
            return match name {
                "empty" => Some(CqlType::Other(name.to_owned())),
                _ => CqlType::native(name).or_else(|| Some(CqlType::User(name.to_owned()))),
            };
        }
        let inner = Box::new(self.read(depth)?);
        let whole = match name {
            "frozen" => CqlType::Frozen(inner),
            "list" => CqlType::List(inner),
            "set" => CqlType::Set(inner),
            "map" => CqlType::Map(inner, self.another(depth)?),
            "vector" => CqlType::Vector(inner, self.dimension()?),
            "tuple" => self.tuple(*inner, depth)?,
            _ => return None,
        };
        self.take('>').then_some(whole)
    }

    fn another(&mut self, depth: usize) -> Option<Box<CqlType>> {
        self.take(',')
            .then(|| self.read(depth))
            .flatten()
            .map(Box::new)
    }

    fn tuple(&mut self, first: CqlType, depth: usize) -> Option<CqlType> {
        let mut fields = vec![first];
        while self.take(',') {
            fields.push(self.read(depth)?);
        }
        Some(CqlType::Tuple(fields))
    }

    fn dimension(&mut self) -> Option<usize> {
        if !self.take(',') {
            return None;
        }
        self.skip_spaces();
        self.word()?.parse().ok()
    }

    fn word(&mut self) -> Option<&'a str> {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let end = self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at_checked(end)?;
        self.rest = rest;
        (!word.is_empty()).then_some(word)
    }

    /// The text between quotes, with doubled quotes undone.
    fn quoted(&mut self, quote: char) -> Option<String> {
        let mut name = String::new();
        let mut rest = self.rest.strip_prefix(quote)?;
        loop {
            let (part, after) = rest.split_once(quote)?;
            name.push_str(part);
            match after.strip_prefix(quote) {
                Some(more) => {
                    name.push(quote);
                    rest = more;
                }
                None => {
                    self.rest = after;
                    return Some(name);
                }
            }
        }
    }

    fn take(&mut self, sign: char) -> bool {
        self.skip_spaces();
        match self.rest.strip_prefix(sign) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn skip_spaces(&mut self) {
        self.rest = self.rest.trim_start();
    }
}

#[cfg(test)]
mod tests {
    use super::CqlType::{self, *};

    fn boxed(inner: CqlType) -> Box<CqlType> {
        Box::new(inner)
    }

    #[test]
    fn reads_types_as_cassandra_writes_them() {
        let tuple = Frozen(boxed(Tuple(vec![Int, Uuid])));
        let map = Map(boxed(Text), boxed(List(boxed(tuple))));
        for (text, expected) in [
            ("int", Int),
            ("varchar", Text),
            ("text", Text),
            ("list<int>", List(boxed(Int))),
            (
                "frozen<map<text, list<frozen<tuple<int, uuid>>>>>",
                Frozen(boxed(map)),
            ),
            ("vector<float, 3>", Vector(boxed(Float), 3)),
            ("frozen<address>", Frozen(boxed(User("address".into())))),
            ("\"My \"\"own\"\"<Type>\"", User("My \"own\"<Type>".into())),
            (
                "set<frozen<\"A\">>",
                Set(boxed(Frozen(boxed(User("A".into()))))),
            ),
            (
                "'org.apache.cassandra.db.marshal.X(a,b)'",
                Other("org.apache.cassandra.db.marshal.X(a,b)".into()),
            ),
            ("empty", Other("empty".into())),
        ] {
            assert_eq!(CqlType::parse(text), expected, "{text}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_other() {
        let deep = format!("{}int{}", "list<".repeat(100_000), ">".repeat(100_000));
        for text in [
            "",
            "list<int",
            "list<>",
            "map<int>",
            "map<int, int, int>",
            "vector<float>",
            "vector<float, x>",
            "vector<float, 99999999999999999999999>",
            "bag<int>",
            "int int",
            "int>",
            "\"open",
            "'open",
            "é",
            "list<é>",
            &deep,
        ] {
            assert_eq!(CqlType::parse(text), Other(text.to_owned()), "{text:.40}");
        }
    }
}
