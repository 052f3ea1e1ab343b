//! Why a SELECT is not answered from a split. Metrics and `narrows explain` show the reason.

/// A closed list, so that it can be a metric label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    NotUnderstood,
    Distinct,
    GroupBy,
    StaticColumns,
    PartitionKey,
    UnknownColumn,
    Restriction,
    Indexed,
    Selection,
    Aggregate,
    OrderBy,
    Limit,
    Value,
    KeyValue,
    ManyKeys,
    Serial,
    Tracing,
    Paging,
    Second,
    Uneven,
}

impl Reason {
    pub const ALL: [Self; 20] = [
        Self::NotUnderstood,
        Self::Distinct,
        Self::GroupBy,
        Self::StaticColumns,
        Self::PartitionKey,
        Self::UnknownColumn,
        Self::Restriction,
        Self::Indexed,
        Self::Selection,
        Self::Aggregate,
        Self::OrderBy,
        Self::Limit,
        Self::Value,
        Self::KeyValue,
        Self::ManyKeys,
        Self::Serial,
        Self::Tracing,
        Self::Paging,
        Self::Second,
        Self::Uneven,
    ];

    /// One word, for labels.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotUnderstood => "not_understood",
            Self::Distinct => "distinct",
            Self::GroupBy => "group_by",
            Self::StaticColumns => "static_columns",
            Self::PartitionKey => "partition_key",
            Self::UnknownColumn => "unknown_column",
            Self::Restriction => "restriction",
            Self::Indexed => "indexed",
            Self::Selection => "selection",
            Self::Aggregate => "aggregate",
            Self::OrderBy => "order_by",
            Self::Limit => "limit",
            Self::Value => "value",
            Self::KeyValue => "key_value",
            Self::ManyKeys => "many_keys",
            Self::Serial => "serial",
            Self::Tracing => "tracing",
            Self::Paging => "paging",
            Self::Second => "second",
            Self::Uneven => "uneven",
        }
    }

    /// A sentence, for people.
    pub fn explanation(self) -> &'static str {
        match self {
            Self::NotUnderstood => "the text is not a SELECT that Narrows understands in full",
            Self::Distinct => "DISTINCT selects partitions, not rows",
            Self::GroupBy => "GROUP BY over several buckets is not proven to give equal results",
            Self::StaticColumns => {
                "the table has static columns, and partitions with them are not split"
            }
            Self::PartitionKey => {
                "it does not restrict every partition key column by = or IN, once and on its own"
            }
            Self::UnknownColumn => "it names a column that the table does not have",
            Self::Restriction => {
                "it has a restriction other than =, <, <=, >, >= and IN, or filters without ALLOW FILTERING"
            }
            Self::Indexed => "it restricts a column that has an index",
            Self::Selection => {
                "it selects something that is not computed from one row alone, or that Narrows does not know"
            }
            Self::Aggregate => {
                "Narrows joins only COUNT, MIN and MAX of columns over buckets, on their own and for one partition"
            }
            Self::OrderBy => {
                "ORDER BY is not the clustering order or its reverse, or there are several partitions"
            }
            Self::Limit => "a limit is not a positive number",
            Self::Value => {
                "a value is missing, null, unset, empty or computed, and only Cassandra knows what that means"
            }
            Self::KeyValue => "the partition key cannot be computed from the statement",
            Self::ManyKeys => "it reads more partitions at once than Narrows joins",
            Self::Serial => "it reads at SERIAL or LOCAL_SERIAL, which only the original can do",
            Self::Tracing => "it asks for tracing, which would show other reads than its own",
            Self::Paging => "its page size is zero",
            Self::Second => {
                "it reads as of a second (now_in_seconds) before the copy was proven, and cells that had expired are not copied"
            }
            Self::Uneven => {
                "rows have lost some of their columns, and the columns that it selects do not tell which rows Cassandra shows"
            }
        }
    }
}
