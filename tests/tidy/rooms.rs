//! The rooms of the house: who may import whom. ARCHITECTURE.md section 9 states what is checked here.
//!
//! The code of tests does not count: a test may use any room to set its scene.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::source::{code, functions, is_name, without_tests};
use crate::{files_below, root};

/// From `fn` to the closing brace; tables of cases in tests may be longer.
const FUNCTION_LINES_MAX: usize = 70;

/// Rooms without an import cycle between their own files and folders.
const WITHOUT_CYCLES: [&str; 2] = ["src/known", "src/wide_row"];

/// Rooms and files without a runtime, a clock, a socket or a service.
const PURE: [&str; 11] = [
    "src/protocol",
    "src/statement",
    "src/schema",
    "src/rewrite",
    "src/filter",
    "src/watched.rs",
    "src/wide_row/layout",
    "src/wide_row/layout.rs",
    "src/wide_row/names.rs",
    "src/wide_row/state",
    "src/wide_row/state.rs",
];
const IMPURE: [&str; 12] = [
    "tokio",
    "redis",
    "scylla",
    "rustix",
    "std::fs",
    "std::net::Tcp",
    "std::net::Udp",
    "std::thread",
    "Instant",
    "SystemTime",
    "UNIX_EPOCH",
    "metrics",
];
/// Rooms that none of the pure ones knows, but for their own.
const ABOVE_PURE: [&str; 10] = [
    "app", "cli", "config", "detect", "known", "pipeline", "proxy", "upstream", "wide_row",
    "worker",
];

/// What must not be found where, and why.
const ABSENT: [(&str, &[&str], &str); 9] = [
    (
        "src/proxy",
        &["pipeline", "detect"],
        "proxy and pipeline meet in wide_row and known",
    ),
    (
        "src/pipeline",
        &["proxy"],
        "proxy and pipeline meet in wide_row and known",
    ),
    (
        "src/detect",
        &["proxy", "pipeline"],
        "detection hears of sessions by sightings only, and runs without a pipeline",
    ),
    (
        "src/wide_row",
        &["known", "proxy", "detect", "pipeline"],
        "the record does not depend on what a process knows of it",
    ),
    (
        "src/known",
        &["proxy", "detect", "pipeline"],
        "knowledge is asked, and asks nobody but the record",
    ),
    (
        "src/upstream",
        &[
            "proxy", "known", "wide_row", "detect", "pipeline", "rewrite",
        ],
        "upstream knows nothing of clients",
    ),
    (
        "src/config",
        &[
            "app", "cli", "known", "wide_row", "proxy", "pipeline", "upstream",
        ],
        "settings are below all that is set by them",
    ),
    (
        "src/pipeline/verify",
        &[
            "pipeline::copy",
            "pipeline::plan",
            "pipeline::original::cells",
            "pipeline::original::scan",
        ],
        "verify shares nothing with the copier but ranges and requests",
    ),
    (
        "src/telemetry",
        &["proxy", "known", "wide_row", "pipeline", "protocol"],
        "logs and metrics are told what to show, and see no values",
    ),
];

/// Crates, and the only places that use them.
const ONLY_IN: [(&str, &[&str]); 4] = [
    // config has a module of this name.
    ("redis::", &["src/known/shared_cache", "src/config"]),
    ("scylla::", &["src/wide_row"]),
    // There is no compressor: plain frames are always legal.
    ("block::compress(", &[]),
    ("raw::Encoder", &[]),
];

#[test]
fn no_import_cycle_between_rooms() {
    let imports = imports_within("src");
    assert!(imports.len() > 10, "found only {imports:?}");
    assert_eq!(cycle(&imports), None, "these modules import one another");
}

#[test]
fn no_import_cycle_between_the_files_of_proxy() {
    let imports = imports_between_files("src/proxy");
    assert!(imports.len() > 30, "found only {imports:?}");
    assert_eq!(cycle(&imports), None, "these files import one another");
}

/// The same for the files and folders of one room.
#[test]
fn no_import_cycle_within_these_rooms() {
    for folder in WITHOUT_CYCLES {
        let imports = imports_within(folder);
        assert!(imports.len() > 2, "found only {imports:?}");
        let found = cycle(&imports);
        assert_eq!(found, None, "modules of {folder} import one another");
    }
}

#[test]
fn pure_rooms_import_no_runtime() {
    for source in PURE.into_iter().flat_map(product) {
        for impure in IMPURE {
            let found = mentions(&source.code, impure);
            assert!(!found, "{} mentions {impure}", source.path);
        }
        let own = source.module[0].as_str();
        for room in ABOVE_PURE.into_iter().filter(|room| *room != own) {
            let found = source.imports(room);
            assert!(!found, "{} imports {room}", source.path);
        }
    }
}

#[test]
fn stated_absences_hold() {
    for (folder, absent, why) in ABSENT {
        for source in product(folder) {
            for room in absent {
                let found = source.imports(room);
                assert!(!found, "{} imports {room}: {why}", source.path);
            }
        }
    }
}

#[test]
fn crates_stay_where_they_belong() {
    for source in product("src") {
        for (used, places) in ONLY_IN {
            let allowed = places.iter().any(|place| source.path.starts_with(place));
            let found = mentions(&source.code, used);
            assert!(allowed || !found, "{} uses {used}", source.path);
        }
    }
}

#[test]
fn functions_stay_short() {
    let sources = product("src");
    let functions = sources.iter().flat_map(|source| {
        let found = functions(&source.code).into_iter();
        found.map(|found| (&source.path, found))
    });
    let long: Vec<_> = functions
        .filter(|(_, (_, lines))| *lines > FUNCTION_LINES_MAX)
        .collect();
    assert!(
        long.is_empty(),
        "functions over {FUNCTION_LINES_MAX} lines: {long:?}"
    );
}

/// One file, without the code of tests.
struct Source {
    /// From the root of the project.
    path: String,
    /// `["proxy", "late", "serve"]`; empty for `lib.rs`.
    module: Vec<String>,
    code: String,
}

impl Source {
    fn read(path: &Path) -> Self {
        let text = fs::read_to_string(path).expect("a source file");
        let path = path.strip_prefix(root()).expect("below the root");
        let path = path.to_str().expect("UTF-8").to_owned();
        let module = path.trim_start_matches("src/").trim_end_matches(".rs");
        let module = module.trim_end_matches("/mod").split('/');
        let module = module.filter(|part| *part != "lib" && *part != "main");
        Self {
            module: module.map(str::to_owned).collect(),
            code: without_tests(&code(&text)),
            path,
        }
    }

    /// Some path of it is this one or goes on from it.
    fn imports(&self, path: &str) -> bool {
        let path: Vec<_> = path.split("::").collect();
        let begins =
            |import: &Vec<String>| import.iter().zip(&path).all(|(one, other)| one == other);
        let mut imports = self.paths().into_iter();
        imports.any(|import| import.len() >= path.len() && begins(&import))
    }

    /// Every path in it that begins with `crate` or `super`, from the crate on.
    fn paths(&self) -> Vec<Vec<String>> {
        let mut paths = Vec::new();
        for (at, _) in self.code.match_indices("crate::") {
            if begins_path(&self.code, at) {
                expand(&self.code[at + "crate::".len()..], Vec::new(), &mut paths);
            }
        }
        for (at, _) in self.code.match_indices("super::") {
            if !begins_path(&self.code, at) {
                continue;
            }
            let (mut rest, mut base) = (&self.code[at..], self.module.clone());
            while let Some(above) = rest.strip_prefix("super::") {
                rest = above;
                base.pop();
            }
            expand(rest, base, &mut paths);
        }
        paths
    }
}

/// No longer path ends here.
fn begins_path(code: &str, at: usize) -> bool {
    let before = at.checked_sub(1).map(|before| code.as_bytes()[before]);
    before.is_none_or(|byte| !is_name(byte) && byte != b':' && byte != b'$')
}

/// Adds the paths that begin here, one for each member of a pair of braces. Returns what follows them.
fn expand<'a>(rest: &'a str, base: Vec<String>, paths: &mut Vec<Vec<String>>) -> &'a str {
    let rest = rest.trim_start();
    if let Some(mut members) = rest.strip_prefix('{') {
        loop {
            members = expand(members, base.clone(), paths).trim_start();
            match members.strip_prefix(',') {
                Some(more) => members = more,
                None => return members.strip_prefix('}').unwrap_or(members),
            }
        }
    }
    let end = rest.bytes().position(|byte| !is_name(byte));
    let (name, rest) = rest.split_at(end.unwrap_or(rest.len()));
    let mut path = base;
    path.push(name.to_owned());
    match rest.strip_prefix("::") {
        Some(rest) => expand(rest, path, paths),
        None => {
            paths.push(path);
            // `x as y`
            &rest[rest.find([',', '}', ';', '\n']).unwrap_or(rest.len())..]
        }
    }
}

/// The sources of a file, or of all files below a folder.
fn product(place: &str) -> Vec<Source> {
    let path = root().join(place);
    let files = match path.is_dir() {
        true => files_below(&path, ".rs"),
        false => vec![path],
    };
    assert!(!files.is_empty(), "{place} has no files");
    let is_test = |path: &Path| {
        path.iter().any(|part| part == "tests")
            || path.ends_with("tests.rs")
            || path.ends_with("testing.rs")
    };
    let files = files.iter().filter(|path| !is_test(path));
    files.map(|path| Source::read(path)).collect()
}

/// Which module of a folder imports which others of it. What is below `folder/x` counts for `x`; `mod.rs` does not count.
type Imports = BTreeMap<String, BTreeSet<String>>;

fn imports_within(folder: &str) -> Imports {
    let room = folder.trim_start_matches("src").split('/');
    let room: Vec<_> = room.filter(|part| !part.is_empty()).collect();
    let mut imports = Imports::new();
    for source in product(folder) {
        let Some(from) = source.module.get(room.len()) else {
            continue;
        };
        let words = imports.entry(from.clone()).or_default();
        for path in source.paths() {
            let (above, below) = path.split_at(room.len().min(path.len()));
            let to = below.first().filter(|to| *to != from && above == room);
            words.extend(to.cloned());
        }
    }
    let modules: BTreeSet<_> = imports.keys().cloned().collect();
    for words in imports.values_mut() {
        words.retain(|word| modules.contains(word));
    }
    imports
}

/// Which file of a room imports which others of it, each named by its module.
fn imports_between_files(folder: &str) -> Imports {
    let sources = product(folder);
    let files: BTreeSet<_> = sources.iter().map(|source| &source.module).collect();
    let file = |path: Vec<String>| {
        let mut prefixes = (1..=path.len()).rev().map(|length| path[..length].to_vec());
        prefixes.find(|prefix| files.contains(prefix))
    };
    let imports = |source: &Source| {
        let files = source.paths().into_iter().filter_map(file);
        let others = files.filter(|file| *file != source.module);
        let others = others.map(|file| file.join("::")).collect();
        (source.module.join("::"), others)
    };
    sources.iter().map(imports).collect()
}

/// A cycle, if there is one: the modules of it, from the first to the one that imports it.
fn cycle(imports: &Imports) -> Option<Vec<String>> {
    let mut done = BTreeSet::new();
    let mut modules = imports.keys();
    modules.find_map(|from| visit(imports, from, &mut Vec::new(), &mut done))
}

fn visit(
    imports: &Imports,
    from: &str,
    path: &mut Vec<String>,
    done: &mut BTreeSet<String>,
) -> Option<Vec<String>> {
    if let Some(begin) = path.iter().position(|module| module == from) {
        return Some(path[begin..].to_vec());
    }
    if !done.insert(from.to_owned()) {
        return None;
    }
    path.push(from.to_owned());
    let mut words = imports.get(from).into_iter().flatten();
    let found = words.find_map(|word| visit(imports, word, path, done));
    path.pop();
    found
}

/// As the beginning of a word.
fn mentions(code: &str, word: &str) -> bool {
    let mut found = code.match_indices(word);
    found.any(|(at, _)| at == 0 || !is_name(code.as_bytes()[at - 1]))
}

#[test]
fn cycles_are_found() {
    let imports = |pairs: &[(&str, &str)]| {
        let mut imports = Imports::new();
        for (from, to) in pairs {
            let words = imports.entry((*from).to_owned()).or_default();
            words.insert((*to).to_owned());
        }
        imports
    };
    assert_eq!(cycle(&imports(&[("a", "b"), ("b", "c"), ("a", "c")])), None);
    let found = cycle(&imports(&[("a", "b"), ("b", "c"), ("c", "b")]));
    assert_eq!(found, Some(vec!["b".to_owned(), "c".to_owned()]));
}

#[test]
fn paths_are_read_with_their_braces() {
    let source = Source {
        path: "src/p/q.rs".to_owned(),
        module: vec!["p".to_owned(), "q".to_owned()],
        code: "use crate::a::{self, x as y};\nuse crate::{b, c::{d::e, f}, g};\nlet h = crate::h::i();\nuse super::j;\nuse super::super::k;".to_owned(),
    };
    let paths: Vec<_> = source.paths().iter().map(|path| path.join("::")).collect();
    let read = [
        "a::self", "a::x", "b", "c::d::e", "c::f", "g", "h::i", "p::j", "k",
    ];
    assert_eq!(paths, read);
    assert!(source.imports("c::d") && !source.imports("c::x") && !source.imports("j"));
}
