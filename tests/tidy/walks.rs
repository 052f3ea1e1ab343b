//! The walks of ARCHITECTURE.md, and the files that it names, held against the code.
//!
//! A walk is a paragraph `**Walk: ….**` and the numbered list below it. Each item begins with its step, a file below `src/`
//! and a function of it; further pairs in its text name functions that the step asks.

use std::collections::BTreeSet;
use std::fs;

use crate::root;
use crate::source::{code, functions, is_name, without_tests};

const WALKS: [&str; 4] = [
    "a request that is relayed",
    "a SELECT that is answered from a split",
    "a write to a split partition",
    "a split, from the sighting to COMPLETED and its audit",
];
const STEPS_MIN: usize = 5;

/// Between a file and a function, each in backticks.
const PAIR: &str = "` ▸ `";

#[test]
fn every_walk_has_its_steps() {
    let walks = walks(&architecture());
    let titles: Vec<_> = walks.iter().map(|walk| walk.title.as_str()).collect();
    assert_eq!(titles, WALKS);
    for walk in walks {
        let steps = walk.steps.len();
        assert!(steps >= STEPS_MIN, "{} has {steps} steps", walk.title);
    }
}

#[test]
fn named_functions_exist() {
    let text = one_line(&architecture());
    let pairs = pairs(&text);
    assert!(pairs.len() > 50, "found only {} functions", pairs.len());
    for Place { file, function } in pairs {
        let code = product(&file);
        let exists = functions(&code).iter().any(|(name, _)| *name == function);
        assert!(exists, "{file} has no function {function}");
    }
}

#[test]
fn named_files_exist() {
    let text = architecture();
    let spans = text
        .lines()
        .flat_map(|line| line.split('`').skip(1).step_by(2));
    let is_path =
        |span: &&str| span.ends_with(".rs") || span.ends_with(".md") || span.ends_with('/');
    let mut found = 0;
    for path in spans.filter(is_path) {
        found += 1;
        let exists = root().join("src").join(path).exists() || root().join(path).exists();
        assert!(exists, "ARCHITECTURE.md names {path}, which does not exist");
    }
    assert!(found > 100, "found only {found} paths");
}

#[test]
fn every_step_is_called_by_one_before_it() {
    for walk in walks(&architecture()) {
        for (number, to) in walk.steps.iter().enumerate().skip(1) {
            // Where a task or a decision is between two steps, the text of one names who calls the other.
            let named = walk.steps[number - 1].files().chain(to.files());
            let named = named.filter(|file| *file != to.place.file);
            let before = walk.steps[..number].iter();
            let before = before.map(|step| step.place.file.clone());
            let callers: BTreeSet<_> = named.chain(before).collect();
            let mut callers = callers.iter();
            let is_called = callers.any(|file| calls(&product(file), &to.place.function));
            assert!(is_called, "{}: no step before {to} calls it", walk.title);
        }
    }
}

#[test]
fn no_walk_enters_a_folder_twice() {
    for walk in walks(&architecture()) {
        if let Some(folder) = entered_twice(&walk.steps) {
            panic!("{} enters {folder}/ twice", walk.title);
        }
    }
}

#[test]
fn walks_visit_files_in_the_order_in_which_they_are_listed() {
    let mut compared = 0;
    for walk in walks(&architecture()) {
        let folders: BTreeSet<_> = walk.steps.iter().map(Step::folder).collect();
        for folder in folders {
            let listed = listed(folder);
            let place = |step: &Step| listed.iter().position(|name| name == step.stem());
            let steps = walk.steps.iter().filter(|step| step.folder() == folder);
            let steps: Vec<_> = steps
                .filter_map(|step| Some((place(step)?, step)))
                .collect();
            for pair in steps.windows(2) {
                let [(before, from), (after, to)] = pair else {
                    continue;
                };
                compared += usize::from(before != after);
                assert!(before <= after, "{}: {to} comes before {from}", walk.title);
            }
        }
    }
    assert!(compared > 10, "compared only {compared} pairs of files");
}

struct Walk {
    title: String,
    steps: Vec<Step>,
}

struct Step {
    place: Place,
    /// All of the item, on one line.
    text: String,
}

#[derive(Debug, PartialEq, Eq)]
struct Place {
    /// Below `src/`.
    file: String,
    function: String,
}

impl Step {
    fn read(item: &str) -> Self {
        let text = one_line(item);
        let first = pairs(&text).into_iter().next();
        let place = first.filter(|place| text.starts_with(&format!("`{}{PAIR}", place.file)));
        let place =
            place.unwrap_or_else(|| panic!("a step begins with a file and a function: {text}"));
        Self { place, text }
    }

    fn folder(&self) -> &str {
        self.place
            .file
            .rsplit_once('/')
            .map_or("", |(folder, _)| folder)
    }

    /// The name of the file's module.
    fn stem(&self) -> &str {
        let name = self.place.file.rsplit('/').next().unwrap_or_default();
        name.trim_end_matches(".rs")
    }

    /// The files that its text names.
    fn files(&self) -> impl Iterator<Item = String> {
        let spans = self.text.split('`').skip(1).step_by(2);
        let files = spans.filter(|span| span.ends_with(".rs"));
        files.map(str::to_owned)
    }
}

impl std::fmt::Display for Step {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{} ▸ {}", self.place.file, self.place.function)
    }
}

fn architecture() -> String {
    fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md")
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn walks(text: &str) -> Vec<Walk> {
    let starts = text.split("**Walk: ").skip(1);
    let walk = |start: &str| {
        let (title, list) = start.split_once(".**\n\n").expect("a title and a list");
        let list = list.split("\n\n").next().unwrap_or_default();
        Walk {
            title: title.to_owned(),
            steps: items(list).iter().map(|item| Step::read(item)).collect(),
        }
    };
    starts.map(walk).collect()
}

/// The items of a numbered list, without their numbers.
fn items(list: &str) -> Vec<String> {
    let mut items: Vec<String> = Vec::new();
    for line in list.lines() {
        let number = format!("{}. ", items.len() + 1);
        match (line.strip_prefix(&number), items.last_mut()) {
            (Some(begun), _) => items.push(begun.to_owned()),
            (None, Some(item)) if line.starts_with("   ") => *item += &format!("\n{line}"),
            (None, _) => panic!("not an item of a numbered list: {line}"),
        }
    }
    items
}

/// Every file with a function that a text of one line names.
fn pairs(text: &str) -> Vec<Place> {
    let place = |(at, _)| {
        let file = text[..at].rsplit('`').next().unwrap_or_default();
        let function = text[at + PAIR.len()..]
            .split('`')
            .next()
            .unwrap_or_default();
        Place {
            file: file.to_owned(),
            function: function.to_owned(),
        }
    };
    let pairs = text.match_indices(PAIR).map(place);
    // What the notation itself is explained with.
    pairs.filter(|place| place.file != "file").collect()
}

/// The code of a file below `src/`, without its tests.
fn product(file: &str) -> String {
    let path = root().join("src").join(file);
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{file}: {error}"));
    without_tests(&code(&text))
}

/// Whether the function is called by name, or passed on: its name stands there without being declared.
fn calls(code: &str, function: &str) -> bool {
    let mut found = code.match_indices(function);
    found.any(|(at, _)| {
        let before = &code[..at];
        let after = code[at + function.len()..].bytes().next();
        let is_whole = !before.bytes().next_back().is_some_and(is_name);
        is_whole && after == Some(b'(') && !before.ends_with("fn ")
    })
}

/// A folder that a walk comes back to after it has left it.
fn entered_twice(steps: &[Step]) -> Option<&str> {
    let mut folders: Vec<&str> = steps.iter().map(Step::folder).collect();
    folders.dedup();
    let mut entered = BTreeSet::new();
    folders.into_iter().find(|folder| !entered.insert(*folder))
}

/// The names in the documentation of a folder's `mod.rs`, in the order in which they come first.
fn listed(folder: &str) -> Vec<String> {
    let path = root().join("src").join(folder).join("mod.rs");
    let text = fs::read_to_string(path).unwrap_or_default();
    let documentation = text.lines().take_while(|line| line.starts_with("//!"));
    let mut names: Vec<String> = Vec::new();
    for line in documentation {
        for name in line.split('`').skip(1).step_by(2) {
            if !names.iter().any(|known| known == name) {
                names.push(name.to_owned());
            }
        }
    }
    names
}

#[test]
fn a_walk_is_read_with_its_steps_and_what_they_ask() {
    let text =
        "**Walk: one.**\n\n1. `a/b.rs` ▸ `c` asks\n   `d.rs` ▸\n   `e`.\n2. `f.rs` ▸ `g`.\n\nMore.";
    let walks = walks(text);
    assert_eq!((walks.len(), walks[0].title.as_str()), (1, "one"));
    let steps: Vec<_> = walks[0].steps.iter().map(Step::to_string).collect();
    assert_eq!(steps, ["a/b.rs ▸ c", "f.rs ▸ g"]);
    let asked = pairs(&walks[0].steps[0].text).pop();
    let [file, function] = ["d.rs", "e"].map(str::to_owned);
    assert_eq!(asked, Some(Place { file, function }));
    assert_eq!(
        (walks[0].steps[0].folder(), walks[0].steps[0].stem()),
        ("a", "b")
    );
}

#[test]
fn a_folder_that_is_entered_twice_is_found() {
    let steps = |files: [&str; 3]| files.map(|file| Step::read(&format!("`{file}` ▸ `f`")));
    assert_eq!(
        entered_twice(&steps(["a/b.rs", "a/c.rs", "a/d/e.rs"])),
        None
    );
    assert_eq!(
        entered_twice(&steps(["a/b.rs", "a/d/e.rs", "a/c.rs"])),
        Some("a")
    );
}

#[test]
fn a_declaration_is_no_call() {
    assert!(calls("self.step(x)", "step") && !calls("fn step(x)", "step"));
    assert!(!calls("self.next_step(x)", "step") && !calls("self.steps(x)", "step"));
}
