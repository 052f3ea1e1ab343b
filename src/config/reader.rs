//! Walks the file and the variables and collects every mistake instead of stopping at the first.
//!
//! A setting is known because `sections` asks for it, so the list of known names cannot fall behind the code; whatever
//! nobody asked for is unknown and gets a suggestion. Values of secret settings never appear in a mistake.

use std::collections::BTreeMap;
use std::path::Path;

use toml::{Table, Value};

use super::mistakes::{Mistake, Mistakes};

const VARIABLE_PREFIX: &str = "NARROWS__";

/// Settings whose value is never shown.
const SECRET_KEYS: [&str; 1] = ["password"];

/// One value as written, and the variable it came from, if not from the file.
pub(super) struct Setting {
    value: Value,
    variable: Option<String>,
}

/// Settings read and not asked for yet, names asked for, mistakes found.
#[derive(Default)]
pub(super) struct Reader {
    found: BTreeMap<String, BTreeMap<String, Setting>>,
    known: BTreeMap<&'static str, Vec<&'static str>>,
    mistakes: Vec<Mistake>,
}

impl Reader {
    /// A file that is no TOML at all is the only mistake reported alone: nothing in it can be trusted.
    pub(super) fn read_file(&mut self, path: &Path) -> Result<(), Mistakes> {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|error| {
            Mistake::new(
                &name,
                format!("cannot be read ({error}); check the path and its permissions"),
            )
        })?;
        let table = text.parse::<Table>().map_err(|error| {
            // The error's own text quotes the line, which may hold a password.
            let line = error
                .span()
                .map(|span| text[..span.start.min(text.len())].lines().count().max(1));
            let place = line.map_or(name.clone(), |line| format!("{name} line {line}"));
            Mistake::new(place, format!("is not valid TOML ({})", error.message()))
        })?;
        for (section, value) in table {
            self.read_section(section, value);
        }
        Ok(())
    }

    fn read_section(&mut self, section: String, value: Value) {
        let Value::Table(settings) = value else {
            // Kept as a section without settings, so that a misspelled array of tables gets a suggestion as well.
            let problem = "stands outside of a section; put it below its [section] header";
            match value {
                Value::Array(_) => drop(self.found.entry(section).or_default()),
                _ => self.mistakes.push(Mistake::new(section, problem)),
            }
            return;
        };
        let found = self.found.entry(section).or_default();
        for (key, value) in settings {
            found.insert(
                key,
                Setting {
                    value,
                    variable: None,
                },
            );
        }
    }

    /// Variables replace what the file says.
    pub(super) fn read_environment(&mut self, variables: impl Iterator<Item = (String, String)>) {
        for (variable, value) in variables {
            let Some(name) = variable.strip_prefix(VARIABLE_PREFIX) else {
                continue;
            };
            let name = name.to_ascii_lowercase();
            let Some((section, key)) = name.split_once("__") else {
                let problem = "is not of the form NARROWS__SECTION__KEY";
                self.mistakes.push(Mistake::new(variable, problem));
                continue;
            };
            let setting = Setting {
                value: Value::String(value),
                variable: Some(variable.clone()),
            };
            self.found
                .entry(section.to_owned())
                .or_default()
                .insert(key.to_owned(), setting);
        }
    }

    pub(super) fn section(&mut self, name: &'static str) -> Section<'_> {
        self.known.entry(name).or_default();
        Section { reader: self, name }
    }

    #[cfg(test)]
    pub(super) fn known_keys(&self) -> impl Iterator<Item = &'static str> {
        self.known.values().flatten().copied()
    }

    /// Reports what nobody asked for; fails if there was any mistake.
    pub(super) fn finish(mut self) -> Result<(), Mistakes> {
        for (section, settings) in std::mem::take(&mut self.found) {
            match self.known.get(section.as_str()) {
                Some(keys) => {
                    let unknown = settings
                        .iter()
                        .filter(|(key, _)| !keys.contains(&key.as_str()));
                    self.mistakes.extend(
                        unknown.map(|(key, setting)| unknown_key(&section, key, setting, keys)),
                    );
                }
                None => self
                    .mistakes
                    .extend(unknown_section(&section, &settings, &self.known)),
            }
        }
        if self.mistakes.is_empty() {
            Ok(())
        } else {
            Err(Mistakes(self.mistakes))
        }
    }
}

/// The settings below one `[section]`.
pub(super) struct Section<'a> {
    reader: &'a mut Reader,
    name: &'static str,
}

impl Section<'_> {
    /// Replaces the default in `target` if the setting is there and right.
    pub(super) fn set<T>(
        &mut self,
        key: &'static str,
        target: &mut T,
        parse: impl FnOnce(&Setting) -> Result<T, String>,
    ) {
        if let Some(value) = self.optional(key, parse) {
            *target = value;
        }
    }

    /// The setting, if it is there and right.
    pub(super) fn optional<T>(
        &mut self,
        key: &'static str,
        parse: impl FnOnce(&Setting) -> Result<T, String>,
    ) -> Option<T> {
        self.reader.known.entry(self.name).or_default().push(key);
        let setting = self.reader.found.get(self.name)?.get(key)?;
        match parse(setting) {
            Ok(value) => Some(value),
            Err(problem) => {
                self.mistake(key, problem);
                None
            }
        }
    }

    /// Whether the setting is written at all, right or wrong.
    pub(super) fn has(&self, key: &str) -> bool {
        self.reader
            .found
            .get(self.name)
            .is_some_and(|settings| settings.contains_key(key))
    }

    /// Reports a mistake at this setting, with its value if it is written and not secret.
    pub(super) fn mistake(&mut self, key: &str, problem: impl Into<String>) {
        let setting = self
            .reader
            .found
            .get(self.name)
            .and_then(|settings| settings.get(key));
        let mut problem = problem.into();
        if let Some(variable) = setting.and_then(|setting| setting.variable.as_ref()) {
            problem = format!("{problem} (set by {variable})");
        }
        let shown = setting.filter(|_| !SECRET_KEYS.contains(&key));
        self.reader.mistakes.push(Mistake {
            setting: format!("{}.{key}", self.name),
            value: shown.map(|setting| show(&setting.value)),
            problem,
        });
    }
}

/// In the file a value has the type of its setting; in a variable everything is text.
impl Setting {
    pub(super) fn text(&self) -> Option<&str> {
        self.value.as_str()
    }

    pub(super) fn integer(&self) -> Option<u64> {
        match (&self.value, &self.variable) {
            (Value::Integer(number), _) => u64::try_from(*number).ok(),
            (Value::String(text), Some(_)) => text.parse().ok(),
            _ => None,
        }
    }

    pub(super) fn boolean(&self) -> Option<bool> {
        match (&self.value, &self.variable) {
            (Value::Boolean(value), _) => Some(*value),
            (Value::String(text), Some(_)) => text.parse().ok(),
            _ => None,
        }
    }

    pub(super) fn list(&self) -> Option<Vec<&str>> {
        match (&self.value, &self.variable) {
            (Value::Array(items), _) => items.iter().map(Value::as_str).collect(),
            (Value::String(text), Some(_)) => Some(text.split(',').map(str::trim).collect()),
            _ => None,
        }
    }
}

fn show(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{text:?}"),
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Boolean(value) => value.to_string(),
        Value::Datetime(time) => time.to_string(),
        Value::Array(items) => format!(
            "[{}]",
            items.iter().map(show).collect::<Vec<_>>().join(", ")
        ),
        Value::Table(_) => "{…}".to_owned(),
    }
}

fn unknown_key(section: &str, key: &str, setting: &Setting, keys: &[&str]) -> Mistake {
    match &setting.variable {
        Some(variable) => {
            let offer = |key: &str| variable_name(section, key);
            Mistake::new(
                variable,
                format!("is no setting; {}", suggest(key, keys, offer)),
            )
        }
        None => {
            let problem = format!("unknown setting; {}", suggest(key, keys, str::to_owned));
            Mistake::new(format!("{section}.{key}"), problem)
        }
    }
}

/// Variables are reported each by its own name, the file's part once.
fn unknown_section(
    section: &str,
    settings: &BTreeMap<String, Setting>,
    known: &BTreeMap<&'static str, Vec<&'static str>>,
) -> Vec<Mistake> {
    let sections: Vec<&str> = known.keys().copied().collect();
    let variables = settings
        .iter()
        .filter_map(|(key, setting)| Some((key, setting.variable.as_ref()?)));
    let mut mistakes: Vec<Mistake> = variables
        .map(|(key, variable)| {
            let offer = |section: &str| variable_name(section, key);
            Mistake::new(
                variable,
                format!("is no setting; {}", suggest(section, &sections, offer)),
            )
        })
        .collect();
    if mistakes.len() < settings.len() || settings.is_empty() {
        let offer = |section: &str| format!("[{section}]");
        let problem = format!("unknown section; {}", suggest(section, &sections, offer));
        mistakes.push(Mistake::new(format!("[{section}]"), problem));
    }
    mistakes
}

fn variable_name(section: &str, key: &str) -> String {
    format!("{VARIABLE_PREFIX}{section}__{key}").to_ascii_uppercase()
}

fn suggest(wrong: &str, known: &[&str], offer: impl Fn(&str) -> String) -> String {
    let distance = |name: &str| strsim::damerau_levenshtein(wrong, name);
    let nearest = known.iter().min_by_key(|name| distance(name));
    match nearest {
        Some(name) if distance(name) <= typos_max(wrong) => {
            format!("did you mean {}?", offer(name))
        }
        _ => format!("known are {}", known.join(", ")),
    }
}

/// With more wrong letters than this, a suggestion confuses more than it helps.
fn typos_max(wrong: &str) -> usize {
    (wrong.len() / 3).max(1)
}
