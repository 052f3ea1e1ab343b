//! The licences and sources of all dependencies, also of those that only tests need, against the list in `deny.toml`. It needs neither a
//! network nor cargo-deny, which checks more.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use super::root;

const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

#[test]
fn dependencies_have_allowed_licences_and_sources() {
    let allowed = allowed();
    let packages = packages();
    assert!(
        packages.len() > 100,
        "found only {} packages",
        packages.len()
    );
    for package in packages {
        let text = |key: &str| package[key].as_str().unwrap_or_default();
        let (name, licence, source) = (text("name"), text("license"), text("source"));
        assert!(
            is_allowed(licence, &allowed),
            "the licence of {name}, {licence:?}, is not in deny.toml"
        );
        assert!(
            source == CRATES_IO || name == env!("CARGO_PKG_NAME"),
            "{name} comes from {source:?}, not from crates.io"
        );
    }
}

fn allowed() -> BTreeSet<String> {
    let text = fs::read_to_string(root().join("deny.toml")).expect("deny.toml");
    let table: toml::Table = text.parse().expect("TOML");
    let list = table["licenses"]["allow"].as_array().expect("a list");
    let names = list.iter().filter_map(|name| name.as_str());
    names.map(str::to_owned).collect()
}

/// What this platform's build is made of, as cargo resolved it.
fn packages() -> Vec<serde_json::Value> {
    let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--locked", "--offline"])
        .args(["--filter-platform", &platform])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo metadata failed: {errors}");
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    metadata["packages"].as_array().expect("a list").clone()
}

/// An SPDX expression: `AND` binds closer than `OR`, and a slash is an old way to write `OR`.
fn is_allowed(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let spaced = expression
        .replace('(', " ( ")
        .replace(')', " ) ")
        .replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = words.as_slice();
    either(&mut rest, allowed) && rest.is_empty()
}

fn either(words: &mut &[&str], allowed: &BTreeSet<String>) -> bool {
    let mut any = both(words, allowed);
    while let ["OR", rest @ ..] = *words {
        *words = rest;
        any |= both(words, allowed);
    }
    any
}

fn both(words: &mut &[&str], allowed: &BTreeSet<String>) -> bool {
    let mut all = one(words, allowed);
    while let ["AND", rest @ ..] = *words {
        *words = rest;
        all &= one(words, allowed);
    }
    all
}

fn one(words: &mut &[&str], allowed: &BTreeSet<String>) -> bool {
    match *words {
        ["(", rest @ ..] => {
            *words = rest;
            let inner = either(words, allowed);
            if let [")", rest @ ..] = *words {
                *words = rest;
            }
            inner
        }
        [name, "WITH", exception, rest @ ..] => {
            *words = rest;
            allowed.contains(&format!("{name} WITH {exception}"))
        }
        [name, rest @ ..] => {
            *words = rest;
            allowed.contains(*name)
        }
        [] => false,
    }
}

#[test]
fn licence_expressions_are_understood() {
    let allowed = ["MIT", "ISC", "Apache-2.0"].map(str::to_owned).into();
    for (expression, expected) in [
        ("MIT", true),
        ("GPL-3.0", false),
        ("", false),
        ("MIT OR GPL-3.0", true),
        ("GPL-3.0/MIT", true),
        ("MIT AND GPL-3.0", false),
        ("ISC AND (GPL-3.0 OR MIT)", true),
        ("ISC AND (GPL-3.0 OR LGPL-3.0)", false),
        ("GPL-3.0 OR MIT AND ISC", true),
        ("Apache-2.0 WITH LLVM-exception", false),
        ("Apache-2.0 WITH LLVM-exception OR MIT", true),
    ] {
        assert_eq!(is_allowed(expression, &allowed), expected, "{expression}");
    }
}
