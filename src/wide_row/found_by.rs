//! What drew attention to a partition, as the column `found_by` spells it. Plan judges the partition by it. Pure.

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FoundBy {
    /// A scan, or a node's own list, shows that it is wide.
    Size,
    /// Upstream warned of its size.
    Warning,
    /// An aggregate or a filter took long to return little.
    Long,
    /// `narrows splits scan` measured it.
    Scan,
    Tombstones,
    /// Upstream refused to read that much.
    TooLarge,
    Timeouts,
    Failures,
    Slow,
    /// A person asked for it.
    Hand,
}

impl FoundBy {
    pub const ALL: [Self; 10] = [
        Self::Size,
        Self::Warning,
        Self::Long,
        Self::Scan,
        Self::Tombstones,
        Self::TooLarge,
        Self::Timeouts,
        Self::Failures,
        Self::Slow,
        Self::Hand,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Size => "size",
            Self::Warning => "warning",
            Self::Long => "long",
            Self::Scan => "scan",
            Self::Tombstones => "tombstones",
            Self::TooLarge => "too_large",
            Self::Timeouts => "timeouts",
            Self::Failures => "failures",
            Self::Slow => "slow",
            Self::Hand => "hand",
        }
    }

    /// `None` for a word of another version.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|found| found.as_str() == text)
    }

    /// Whether the partition was taken for wide, and is worth a split only if it is. Other reasons are bad enough for
    /// a narrow one.
    pub fn is_size(self) -> bool {
        matches!(self, Self::Size | Self::Warning | Self::Long | Self::Scan)
    }

    /// How the partition was found, for people.
    pub fn words(self) -> &'static str {
        match self {
            Self::Size | Self::Scan => "by its size",
            Self::Warning => "by Cassandra's warnings of its size",
            Self::Long => "by an aggregate or a filter that took long",
            Self::Tombstones => "by its tombstones",
            Self::TooLarge => "by reads that Cassandra refused as too large",
            Self::Timeouts => "by reads that timed out",
            Self::Failures => "by reads that failed",
            Self::Slow => "by slow reads",
            Self::Hand => "by hand",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_as_they_are_written() {
        for found_by in FoundBy::ALL {
            assert_eq!(FoundBy::parse(found_by.as_str()), Some(found_by));
        }
        assert_eq!(FoundBy::parse("of another version"), None);
    }
}
