//! What is wrong with a configuration, one line per mistake, written for the person who has to correct it.

use std::fmt;

/// One mistake: where it is, what was found there, and what should be there instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// `section.key`, or the name of a section, a variable or a file.
    pub setting: String,
    /// The value as written; `None` if there is none, or if it is secret.
    pub value: Option<String>,
    pub problem: String,
}

impl Mistake {
    pub(super) fn new(setting: impl Into<String>, problem: impl Into<String>) -> Self {
        Self {
            setting: setting.into(),
            value: None,
            problem: problem.into(),
        }
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Some(value) => write!(out, "{} = {value}: {}", self.setting, self.problem),
            None => write!(out, "{}: {}", self.setting, self.problem),
        }
    }
}

/// All mistakes in one configuration; never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistakes(pub(super) Vec<Mistake>);

impl Mistakes {
    pub fn iter(&self) -> impl Iterator<Item = &Mistake> {
        self.0.iter()
    }
}

impl From<Mistake> for Mistakes {
    fn from(mistake: Mistake) -> Self {
        Self(vec![mistake])
    }
}

impl fmt::Display for Mistakes {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, mistake) in self.0.iter().enumerate() {
            if index > 0 {
                out.write_str("\n")?;
            }
            write!(out, "{mistake}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Mistakes {}
