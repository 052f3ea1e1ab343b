//! Reads the file and the variables, and collects every mistake instead of stopping at the first.
//!
//! A setting is known because `sections` asks for it, so the list of known names cannot fall behind the code. A setting
//! that nothing asks for is unknown and gets a suggestion. Values of secret settings never appear in a mistake.
//! Each `[[table]]` is a section of its own, named by its position: `table[1]` is the first. Variables cannot set it.

use std::collections::BTreeMap;
use std::path::Path;

use toml::{Table, Value};

use super::mistakes::{Mistake, Mistakes};

const VARIABLE_PREFIX: &str = "NARROWS__";

/// Settings whose value is never shown.
const SECRET_KEYS: [&str; 1] = ["password"];

/// One value as written, and the variable that it came from; `None` if it came from the file.
pub(super) struct Setting {
    value: Value,
    variable: Option<String>,
}

/// The settings that were found, the names that were asked for, and the mistakes.
#[derive(Default)]
pub(super) struct Reader {
    found: BTreeMap<String, BTreeMap<String, Setting>>,
    /// Sections written as `[[name]]` or as a list that were not asked for yet.
    lists: BTreeMap<String, Vec<Value>>,
    known: BTreeMap<String, Vec<&'static str>>,
    /// Names of sections that are written as `[[name]]`, any number of times.
    known_lists: Vec<&'static str>,
    mistakes: Vec<Mistake>,
}

impl Reader {
    /// A file that cannot be read, or is not TOML, is the only mistake that is reported alone: it has no usable
    /// settings.
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
        match value {
            Value::Table(settings) => {
                let from_file = |value| Setting {
                    value,
                    variable: None,
                };
                let settings = settings.into_iter();
                let found = self.found.entry(section).or_default();
                found.extend(settings.map(|(key, value)| (key, from_file(value))));
            }
            Value::Array(items) => drop(self.lists.insert(section, items)),
            _ => {
                let problem = "is outside of any section; put it below its [section] header";
                self.mistakes.push(Mistake::new(section, problem));
            }
        }
    }

    /// Variables override the file.
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

    pub(super) fn section(&mut self, name: impl Into<String>) -> Section<'_> {
        let name = name.into();
        self.known.entry(name.clone()).or_default();
        Section { reader: self, name }
    }

    /// The names of the sections written as `[[name]]`, in the order of the file.
    pub(super) fn entries(&mut self, name: &'static str) -> Vec<String> {
        self.known_lists.push(name);
        let items = self.lists.remove(name).unwrap_or_default();
        let mut entries = Vec::with_capacity(items.len());
        for (index, item) in items.into_iter().enumerate() {
            let entry = format!("{name}[{}]", index + 1);
            if item.is_table() {
                self.read_section(entry.clone(), item);
                entries.push(entry);
            } else {
                let problem = format!("expected settings below a [[{name}]] header");
                self.mistakes.push(Mistake::new(entry, problem));
            }
        }
        entries
    }

    pub(super) fn has_section(&self, name: &str) -> bool {
        self.found.contains_key(name)
    }

    #[cfg(test)]
    pub(super) fn known_keys(&self) -> impl Iterator<Item = &'static str> {
        self.known.values().flatten().copied()
    }

    /// Reports settings that nothing asked for; fails if there was any mistake.
    pub(super) fn finish(mut self) -> Result<(), Mistakes> {
        for (name, _) in std::mem::take(&mut self.lists) {
            let mistake = self.unknown_list(&name);
            self.mistakes.push(mistake);
        }
        for (section, settings) in std::mem::take(&mut self.found) {
            if self.known_lists.contains(&section.as_str()) {
                self.mistakes.extend(not_a_list(&section, &settings));
                continue;
            }
            match self.known.get(section.as_str()) {
                Some(keys) => {
                    let unknown = settings
                        .iter()
                        .filter(|(key, _)| !keys.contains(&key.as_str()));
                    self.mistakes.extend(
                        unknown.map(|(key, setting)| unknown_key(&section, key, setting, keys)),
                    );
                }
                None => {
                    let mistakes = self.unknown_section(&section, &settings);
                    self.mistakes.extend(mistakes);
                }
            }
        }
        if self.mistakes.is_empty() {
            Ok(())
        } else {
            Err(Mistakes(self.mistakes))
        }
    }
}

impl Reader {
    /// The names of all known sections.
    fn sections(&self) -> Vec<&str> {
        let lists = self.known_lists.iter().copied();
        let single = self.known.keys().map(String::as_str);
        // Entries of lists are known by their position, as `table[1]`, which is not how a file names them.
        single
            .filter(|name| !name.ends_with(']'))
            .chain(lists)
            .collect()
    }

    fn header(&self, section: &str) -> String {
        if self.known_lists.contains(&section) {
            format!("[[{section}]]")
        } else {
            format!("[{section}]")
        }
    }

    fn unknown_list(&self, name: &str) -> Mistake {
        let problem = if self.known.contains_key(name) {
            format!("there is only one; write [{name}]")
        } else {
            let suggestion = suggest(name, &self.sections(), |name| self.header(name));
            format!("unknown section; {suggestion}")
        };
        Mistake::new(format!("[[{name}]]"), problem)
    }

    /// Reports each variable by its own name, and the section in the file once.
    fn unknown_section(&self, section: &str, settings: &BTreeMap<String, Setting>) -> Vec<Mistake> {
        let reached = |name: &&str| !self.known_lists.contains(name);
        let for_variables: Vec<&str> = self.sections().into_iter().filter(reached).collect();
        let variables = settings
            .iter()
            .filter_map(|(key, setting)| Some((key, setting.variable.as_ref()?)));
        let mut mistakes: Vec<Mistake> = variables
            .map(|(key, variable)| {
                let offer = |section: &str| variable_name(section, key);
                let suggestion = suggest(section, &for_variables, offer);
                Mistake::new(variable, format!("is not a setting; {suggestion}"))
            })
            .collect();
        if mistakes.len() < settings.len() || settings.is_empty() {
            let suggestion = suggest(section, &self.sections(), |name| self.header(name));
            let problem = format!("unknown section; {suggestion}");
            mistakes.push(Mistake::new(format!("[{section}]"), problem));
        }
        mistakes
    }
}

/// The settings below one `[section]`.
pub(super) struct Section<'a> {
    reader: &'a mut Reader,
    name: String,
}

impl Section<'_> {
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Replaces the default in `target` if the setting is present and valid.
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

    /// The setting, if it is present and valid.
    pub(super) fn optional<T>(
        &mut self,
        key: &'static str,
        parse: impl FnOnce(&Setting) -> Result<T, String>,
    ) -> Option<T> {
        let known = self.reader.known.entry(self.name.clone());
        known.or_default().push(key);
        let setting = self.reader.found.get(&self.name)?.get(key)?;
        match parse(setting) {
            Ok(value) => Some(value),
            Err(problem) => {
                self.mistake(key, problem);
                None
            }
        }
    }

    /// Whether the setting is present, valid or not.
    pub(super) fn has(&self, key: &str) -> bool {
        self.reader
            .found
            .get(&self.name)
            .is_some_and(|settings| settings.contains_key(key))
    }

    /// Reports a mistake in this setting, with its value if it is present and not secret.
    pub(super) fn mistake(&mut self, key: &str, problem: impl Into<String>) {
        let setting = self
            .reader
            .found
            .get(&self.name)
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
                format!("is not a setting; {}", suggest(key, keys, offer)),
            )
        }
        None => {
            let problem = format!("unknown setting; {}", suggest(key, keys, str::to_owned));
            Mistake::new(format!("{section}.{key}"), problem)
        }
    }
}

/// Mistakes for `[table]` in place of `[[table]]`, and for variables, which cannot say which `[[table]]` they mean.
fn not_a_list(name: &str, settings: &BTreeMap<String, Setting>) -> Vec<Mistake> {
    let variables = settings
        .values()
        .filter_map(|setting| setting.variable.as_ref());
    let mut mistakes: Vec<Mistake> = variables
        .map(|variable| {
            let problem = format!("is not read: [[{name}]] entries come from the file only");
            Mistake::new(variable, problem)
        })
        .collect();
    if mistakes.len() < settings.len() || settings.is_empty() {
        let problem = format!("there may be several; write [[{name}]]");
        mistakes.push(Mistake::new(format!("[{name}]"), problem));
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
        _ => format!("known names are {}", known.join(", ")),
    }
}

/// With more wrong letters than this, a suggestion confuses more than it helps.
fn typos_max(wrong: &str) -> usize {
    (wrong.len() / 3).max(1)
}
