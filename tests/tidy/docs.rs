//! Facts that README.md, docs/ and CONTRIBUTING.md state, held against the code and the tree. A document that falls behind fails here.

mod markdown;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use clap::CommandFactory;
use narrows::cli::Cli;
use narrows::config::Config;
use narrows::rewrite::Reason;

use super::{files_below, root, rust_files};
use markdown::{anchors, cells, code_lines, code_spans, lines_without_code, links, only_code};

const README_LINES_MAX: usize = 150;

/// A name that no setting resembles: the mistake then lists all names that there are.
const NO_SUCH_NAME: &str = "qqqqq";

/// Settings without which their section makes no sense.
const REQUIRED: [(&str, &str); 2] = [("redis", "address"), ("table", "name")];

/// Columns of split tables, which have the prefix of our metrics.
const COLUMNS: [&str; 2] = ["narrows_generation", "narrows_bucket"];

/// Metrics that unit tests make up.
const TEST_METRICS: &str = "narrows_test_";

fn read(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Every document that people read, with its text.
fn documents() -> Vec<(PathBuf, String)> {
    let mut paths: Vec<PathBuf> = [
        "README.md",
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "cql/README.md",
    ]
    .map(PathBuf::from)
    .to_vec();
    paths.extend(files_below(&root().join("docs"), ".md"));
    let tests = root().join("tests");
    for entry in fs::read_dir(&tests).expect("tests") {
        let readme = entry.expect("an entry").path().join("README.md");
        paths.extend(readme.exists().then_some(readme));
    }
    paths
        .into_iter()
        .map(|path| (root().join(&path), read(&path)))
        .collect()
}

#[test]
fn readme_is_short() {
    let lines = read("README.md").lines().count();
    assert!(
        lines <= README_LINES_MAX,
        "README.md has {lines} lines, more than {README_LINES_MAX}: move something to docs/"
    );
}

#[test]
fn links_lead_somewhere() {
    let (mut broken, mut found) = (Vec::new(), 0);
    for (path, text) in documents() {
        for line in lines_without_code(&text) {
            for target in links(line) {
                found += 1;
                if let Err(why) = follow(&path, target) {
                    broken.push(format!("{}: {target}: {why}", path.display()));
                }
            }
        }
    }
    assert!(
        broken.is_empty(),
        "broken links:\n  {}",
        broken.join("\n  ")
    );
    assert!(
        found > 50,
        "found only {found} links, is the rule for finding them still right?"
    );
}

fn follow(from: &Path, target: &str) -> Result<(), String> {
    let (file, anchor) = match target.split_once('#') {
        Some((file, anchor)) => (file, Some(anchor)),
        None => (target, None),
    };
    let path = match file {
        "" => from.to_path_buf(),
        file => from.parent().expect("a folder").join(file),
    };
    if !path.exists() {
        return Err("no such file".to_owned());
    }
    let Some(anchor) = anchor else { return Ok(()) };
    let text = fs::read_to_string(&path).map_err(|error| error.to_string())?;
    match anchors(&text).contains(anchor) {
        true => Ok(()),
        false => Err("no such heading".to_owned()),
    }
}

/// By section and key; the default as TOML, or `None` where there is none.
type Settings = BTreeMap<(String, String), Option<String>>;

/// The name in `[name]` or `[[name]]`.
fn section_name(text: &str) -> Option<&str> {
    let inner = text.strip_prefix('[')?.strip_suffix(']')?;
    let inner = match inner.strip_prefix('[') {
        Some(inner) => inner.strip_suffix(']')?,
        None => inner,
    };
    let is_name = !inner.is_empty() && inner.chars().all(|c| c.is_ascii_lowercase());
    is_name.then_some(inner)
}

fn documented_settings() -> Settings {
    let text = read("docs/configuration.md");
    let mut section = None;
    let mut settings = Settings::new();
    for line in text.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            section = section_name(heading);
        }
        let (Some(section), Some(cells)) = (section, cells(line)) else {
            continue;
        };
        let Some(key) = only_code(cells[0]) else {
            continue;
        };
        let default = only_code(cells[1]).map(str::to_owned);
        assert!(
            default.is_some() || cells[1] == "unset",
            "docs/configuration.md: the default of {section}.{key} is neither a value in backticks nor unset"
        );
        let place = (section.to_owned(), key.to_owned());
        let repeated = settings.insert(place, default).is_some();
        assert!(!repeated, "docs/configuration.md has {section}.{key} twice");
    }
    settings
}

/// The settings of the commented file: those with one `#` more than their section have no default.
fn example_settings() -> Settings {
    let text = read("docker/narrows.toml");
    let (mut section, mut section_depth) = ("", 0);
    let mut settings = Settings::new();
    for line in text.lines() {
        let depth = line.matches("# ").count().min(2);
        let bare = line.trim_start_matches("# ");
        if let Some(name) = section_name(bare) {
            (section, section_depth) = (name, depth);
        }
        let Some((key, value)) = bare.split_once(" = ") else {
            continue;
        };
        if !key.chars().all(|c| c.is_ascii_lowercase() || c == '_') {
            continue;
        }
        let has_default = depth == section_depth && !REQUIRED.contains(&(section, key));
        let place = (section.to_owned(), key.to_owned());
        settings.insert(place, has_default.then(|| value.to_owned()));
    }
    settings
}

fn load(name: &str, toml: &str) -> Result<Config, String> {
    let folder = root().join("target/tmp/tidy");
    fs::create_dir_all(&folder).expect("target/ is writable");
    let path = folder.join(name);
    fs::write(&path, toml).expect("target/ is writable");
    Config::load(Some(&path), std::iter::empty()).map_err(|mistakes| mistakes.to_string())
}

/// The names that the configuration's own mistake lists behind `known names are`.
fn listed(mistakes: &str, place: &str) -> Vec<String> {
    let start = format!("{place}: unknown ");
    let line = mistakes.lines().find(|line| line.starts_with(&start));
    let line = line.unwrap_or_else(|| panic!("no mistake at {place} in: {mistakes}"));
    let (_, names) = line
        .split_once("known names are ")
        .expect("a list of names");
    names.split(", ").map(str::to_owned).collect()
}

/// Every setting there is, as the code says when it is given a wrong one.
fn known_settings() -> BTreeSet<(String, String)> {
    let mistakes = load("sections.toml", &format!("[{NO_SUCH_NAME}]\n")).expect_err("wrong");
    let mut known = BTreeSet::new();
    for section in listed(&mistakes, &format!("[{NO_SUCH_NAME}]")) {
        let (header, place) = match section.as_str() {
            "table" => ("[[table]]".to_owned(), "table[1]".to_owned()),
            name => (format!("[{name}]"), name.to_owned()),
        };
        let toml = format!("{header}\n{NO_SUCH_NAME} = 1\n");
        let mistakes = load(&format!("{section}.toml"), &toml).expect_err("wrong");
        for key in listed(&mistakes, &format!("{place}.{NO_SUCH_NAME}")) {
            known.insert((section.clone(), key));
        }
    }
    known
}

#[test]
fn every_setting_is_documented_with_its_default() {
    let documented = documented_settings();
    let names: BTreeSet<_> = documented.keys().cloned().collect();
    let known = known_settings();
    let missing: Vec<_> = known.difference(&names).collect();
    assert!(
        missing.is_empty(),
        "docs/configuration.md lacks {missing:?}"
    );
    let invented: Vec<_> = names.difference(&known).collect();
    assert!(
        invented.is_empty(),
        "docs/configuration.md has settings that do not exist: {invented:?}"
    );
    for (place, default) in example_settings() {
        assert_eq!(
            documented.get(&place),
            Some(&default),
            "{place:?} differs: docs/configuration.md on the left, docker/narrows.toml on the right"
        );
    }
    assert_eq!(
        load("minimal.toml", &as_toml(&Settings::new())),
        load("defaults.toml", &as_toml(&documented)),
        "a default of docs/configuration.md is not that of the code"
    );
}

/// A configuration with these settings, and with every section that is there only if it is written.
fn as_toml(settings: &Settings) -> String {
    let mut sections: BTreeMap<&str, String> = BTreeMap::new();
    sections.insert("redis", "[redis]\naddress = \"127.0.0.1:6379\"\n".into());
    sections.insert("table", "[[table]]\nname = \"plant.reading\"\n".into());
    for ((section, key), default) in settings {
        let Some(default) = default else { continue };
        let text = sections.entry(section).or_insert(format!("[{section}]\n"));
        text.push_str(&format!("{key} = {default}\n"));
    }
    sections.into_values().collect()
}

#[test]
fn every_metric_is_documented() {
    let text = read("docs/metrics.md");
    let first_cells = text
        .lines()
        .filter_map(|line| only_code(cells(line)?[0]).map(str::to_owned));
    let documented: BTreeSet<String> = first_cells
        .filter(|name| name.starts_with("narrows_"))
        .collect();
    let known = known_metrics();
    assert!(
        known.len() > 40,
        "found only {} metrics, is the rule for finding them still right?",
        known.len()
    );
    let missing: Vec<_> = known.difference(&documented).collect();
    assert!(missing.is_empty(), "docs/metrics.md lacks {missing:?}");
    let invented: Vec<_> = documented.difference(&known).collect();
    assert!(
        invented.is_empty(),
        "docs/metrics.md has metrics that do not exist: {invented:?}"
    );
    // Other documents may only speak of metrics that exist, with `*` for several.
    for (path, text) in documents() {
        for span in text.lines().flat_map(code_spans) {
            let name = span.split(['{', '*']).next().unwrap_or_default();
            let exists = match span.contains('*') {
                true => known.iter().any(|metric| metric.starts_with(name)),
                false => known.contains(name),
            };
            assert!(
                !is_metric(name) || exists,
                "{} names {span}, which does not exist",
                path.display()
            );
        }
    }
}

fn known_metrics() -> BTreeSet<String> {
    let product = root().join("src");
    let mut names = BTreeSet::new();
    for (path, text) in rust_files() {
        if !path.starts_with(&product) || path.ends_with("tests.rs") {
            continue;
        }
        let found = text.split('"').filter(|part| is_metric(part));
        names.extend(found.map(str::to_owned));
    }
    names
}

fn is_metric(text: &str) -> bool {
    text.starts_with("narrows_")
        && text.chars().all(|c| c.is_ascii_lowercase() || c == '_')
        && !COLUMNS.contains(&text)
        && !text.starts_with(TEST_METRICS)
}

/// Every command that does something, with its flags apart from those that all have.
fn commands() -> BTreeMap<String, BTreeSet<String>> {
    fn walk(command: &clap::Command, path: String, found: &mut BTreeMap<String, BTreeSet<String>>) {
        if command.has_subcommands() {
            for child in command.get_subcommands() {
                walk(child, format!("{path} {}", child.get_name()), found);
            }
            return;
        }
        let mut flags = BTreeSet::new();
        for argument in command.get_arguments() {
            flags.extend(argument.get_long().map(|long| format!("--{long}")));
            flags.extend(argument.get_short().map(|short| format!("-{short}")));
        }
        for common in ["--config", "-c", "--help", "-h"] {
            assert!(flags.remove(common), "{path} does not take {common}");
        }
        found.insert(path, flags);
    }
    // `help` would list all commands once more. Only a built command has the flags that it inherits.
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    let mut found = BTreeMap::new();
    walk(&command, "narrows".to_owned(), &mut found);
    found
}

#[test]
fn every_command_and_flag_is_documented() {
    let text = read("docs/command-line.md");
    let mut documented: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut section = None;
    for line in lines_without_code(&text) {
        if line.starts_with('#') {
            let heading = line.trim_start_matches('#').trim();
            section = heading
                .starts_with("narrows ")
                .then(|| documented.entry(heading.to_owned()).or_default());
        }
        let (Some(flags), Some(cells)) = (&mut section, cells(line)) else {
            continue;
        };
        let named = code_spans(cells[0]).filter(|span| span.starts_with('-'));
        flags.extend(named.map(str::to_owned));
    }
    let known = commands();
    let names = |map: &BTreeMap<String, BTreeSet<String>>| map.keys().cloned().collect();
    let (left, right): (Vec<String>, Vec<String>) = (names(&documented), names(&known));
    assert_eq!(left, right, "commands: docs/command-line.md on the left");
    for (command, flags) in known {
        assert_eq!(
            documented[&command], flags,
            "flags of {command}: docs/command-line.md on the left"
        );
    }
}

#[test]
fn every_exit_code_is_documented() {
    let code = read("src/cli/exit.rs");
    let known: BTreeSet<String> = code
        .lines()
        .filter_map(|line| line.strip_prefix("pub const ")?.split_once(": u8 = "))
        .map(|(_, code)| code.trim_end_matches(';').to_owned())
        .collect();
    let text = read("docs/command-line.md");
    let (_, table) = text.split_once("## Exit codes").expect("a heading");
    let documented: BTreeSet<String> = table
        .lines()
        .filter_map(|line| Some(cells(line)?[0].to_owned()))
        .filter(|cell| cell.parse::<u8>().is_ok())
        .collect();
    assert_eq!(documented, known, "docs/command-line.md on the left");
}

#[test]
fn every_reason_is_documented() {
    let text = read("docs/never-split.md");
    let (_, table) = text
        .split_once("## Which SELECTs the original always answers")
        .expect("a heading");
    let documented: BTreeSet<&str> = table
        .lines()
        .filter_map(|line| only_code(cells(line)?[0]))
        .filter(|name| *name != "reason")
        .collect();
    let known: BTreeSet<&str> = Reason::ALL.into_iter().map(Reason::as_str).collect();
    assert_eq!(documented, known, "docs/never-split.md on the left");
}

#[test]
fn make_targets_exist() {
    let mut files = vec![root().join("Makefile")];
    for folder in ["tests", "benches"] {
        files.extend(files_below(&root().join(folder), ".mk"));
    }
    let rules: String = files.into_iter().map(read).collect();
    let is_word = |word: &str| word.chars().all(|c| c.is_ascii_lowercase() || c == '-');
    let targets: BTreeSet<&str> = rules
        .lines()
        .filter(|line| !line.starts_with(['\t', '#']))
        .filter_map(|line| line.split_once(':'))
        .flat_map(|(targets, _)| targets.split_whitespace())
        .filter(|target| is_word(target))
        .collect();
    let mut found = 0;
    for (path, text) in documents() {
        let spans = lines_without_code(&text).flat_map(code_spans);
        for command in spans.chain(code_lines(&text)) {
            let Some(words) = command.strip_prefix("make ") else {
                continue;
            };
            let target = words.split_whitespace().next().unwrap_or_default();
            found += 1;
            assert!(
                targets.contains(target),
                "{} says make {target}, which is no target",
                path.display()
            );
        }
    }
    assert!(
        found > 30,
        "found only {found} targets, is the rule for finding them still right?"
    );
}
