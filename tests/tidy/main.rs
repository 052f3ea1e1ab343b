//! Facts about the source tree that reviews would otherwise have to repeat.

mod docs;
mod licences;
mod rooms;
mod source;
mod walks;

use std::fs;
use std::path::{Path, PathBuf};

/// Beyond this a file wants to be two; tests in files of their own do not count.
const FILE_LINES_MAX: usize = 500;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn files_below(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder of the source tree") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(files_below(&path, ending));
        } else if path.to_string_lossy().ends_with(ending) {
            found.push(path);
        }
    }
    found
}

fn rust_files() -> Vec<(PathBuf, String)> {
    let folders = ["src", "tests", "benches"];
    let files = folders
        .iter()
        .flat_map(|folder| files_below(&root().join(folder), ".rs"));
    files
        .map(|path| (path.clone(), fs::read_to_string(path).expect("UTF-8")))
        .collect()
}

#[test]
fn every_file_says_what_it_is() {
    let silent: Vec<_> = rust_files()
        .into_iter()
        .filter(|(_, text)| !text.starts_with("//!"))
        .map(|f| f.0)
        .collect();
    assert!(silent.is_empty(), "files without a //! comment: {silent:?}");
}

#[test]
fn files_stay_small() {
    let large: Vec<_> = rust_files()
        .into_iter()
        .filter(|(path, _)| !path.ends_with("tests.rs"))
        .map(|(path, text)| {
            (
                path,
                text.split("#[cfg(test)]")
                    .next()
                    .unwrap_or_default()
                    .lines()
                    .count(),
            )
        })
        .filter(|(_, lines)| *lines > FILE_LINES_MAX)
        .collect();
    assert!(
        large.is_empty(),
        "files over {FILE_LINES_MAX} lines: {large:?}"
    );
}

#[test]
fn nothing_is_left_to_do_without_an_issue() {
    let markers = [
        concat!("TO", "DO"),
        concat!("FIX", "ME"),
        concat!("X", "XX"),
    ];
    for (path, text) in rust_files() {
        for marker in markers {
            assert!(
                !text.contains(marker),
                "{} has a bare {marker}",
                path.display()
            );
        }
    }
}
