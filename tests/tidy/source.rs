//! Rust source as these checks read it: comments and texts blanked out, with and without the code of tests, and the
//! functions that it has.

use std::ops::Range;

/// The same text, of the same length and with the same lines, in which comments, strings and characters are spaces: what is
/// left is code.
pub(crate) fn code(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut code = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let end = match skipped(bytes, at) {
            Some(end) => end.min(bytes.len()),
            None => {
                at += 1;
                continue;
            }
        };
        for byte in &mut code[at..end] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
        at = end;
    }
    String::from_utf8(code).expect("whole comments and strings were replaced")
}

/// Where the comment, string or character that begins here ends.
fn skipped(bytes: &[u8], at: usize) -> Option<usize> {
    let rest = &bytes[at..];
    let follows_name = at > 0 && is_name(bytes[at - 1]);
    let until = |ending: &[u8], from: usize| {
        let found = rest[from..]
            .windows(ending.len())
            .position(|part| part == ending);
        at + found.map_or(rest.len(), |found| from + found + ending.len())
    };
    match rest {
        [b'/', b'/', ..] => Some(until(b"\n", 0)),
        [b'/', b'*', ..] => Some(until(b"*/", 2)),
        [b'"', ..] => Some(at + quoted(rest, b'"')),
        [b'r', b'"' | b'#', ..] if !follows_name => raw(rest).map(|hashes| {
            let mut ending = vec![b'"'];
            ending.resize(1 + hashes, b'#');
            until(&ending, 2 + hashes)
        }),
        // A lifetime has no second quote.
        [b'\'', b'\\', ..] => Some(at + quoted(rest, b'\'')),
        [b'\'', _, b'\'', ..] => Some(at + 3),
        [b'\'', first, ..] if !first.is_ascii() => Some(until(b"'", 1)),
        _ => None,
    }
}

fn quoted(rest: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < rest.len() && rest[at] != quote {
        at += if rest[at] == b'\\' { 2 } else { 1 };
    }
    at + 1
}

/// How many `#` a raw string has; `None` for a raw name.
fn raw(rest: &[u8]) -> Option<usize> {
    let hashes = rest[1..].iter().take_while(|byte| **byte == b'#').count();
    (rest.get(1 + hashes) == Some(&b'"')).then_some(hashes)
}

pub(crate) fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// The code without its tests: nothing of what follows `#[cfg(test)]` up to the end of that item.
pub(crate) fn without_tests(code: &str) -> String {
    const TESTS: &str = "#[cfg(test)]";
    let mut left = String::new();
    let mut rest = code;
    while let Some(at) = rest.find(TESTS) {
        left.push_str(&rest[..at]);
        rest = &rest[at + TESTS.len()..];
        let end = match rest.find(['{', ';']) {
            Some(open) if rest[open..].starts_with('{') => block(rest, open).end,
            Some(end) => end + 1,
            None => rest.len(),
        };
        rest = &rest[end..];
    }
    left + rest
}

/// The braces that open here, and what is between them.
fn block(code: &str, open: usize) -> Range<usize> {
    let mut depth = 0_usize;
    for (at, byte) in code.bytes().enumerate().skip(open) {
        match byte {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            _ => continue,
        }
        if depth == 0 {
            return open..at + 1;
        }
    }
    open..code.len()
}

/// Every function with a body: its name and its lines, from `fn` to the closing brace.
pub(crate) fn functions(code: &str) -> Vec<(&str, usize)> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("fn ") {
        if at > 0 && is_name(code.as_bytes()[at - 1]) {
            continue;
        }
        let name = code[at + 3..].split(['(', '<']).next().unwrap_or_default();
        if let Some(open) = body(code, at) {
            let lines = code[at..block(code, open).end].lines().count();
            found.push((name.trim(), lines));
        }
    }
    found
}

/// Where the body of a function begins. `None`: it is a declaration, or a type such as `fn(u8)`.
fn body(code: &str, at: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (place, byte) in code.bytes().enumerate().skip(at) {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth = depth.checked_sub(1)?,
            b'{' if depth == 0 => return Some(place),
            b';' if depth == 0 => return None,
            _ => {}
        }
    }
    None
}

#[test]
fn code_has_no_comments_and_no_texts() {
    let text = "a(\"// x {\"); // }\nb('{', '\\'', r#\"}\"#); /* { */ fn c<'a>() {}";
    let code = code(text);
    assert_eq!(code.len(), text.len());
    let words: Vec<_> = code.split_whitespace().collect();
    assert_eq!(
        words,
        ["a(", ");", "b(", ",", ",", ");", "fn", "c<'a>()", "{}"]
    );
}

#[test]
fn functions_are_measured_from_their_name_to_their_end() {
    let code =
        "fn one(f: fn(u8)) {\n  if x {\n  }\n}\ntrait T { fn none(a: [u8; 2]); }\nfn two() {}";
    assert_eq!(functions(code), [("one", 4), ("two", 1)]);
}

#[test]
fn tests_are_left_out_as_items() {
    let code = "#[cfg(test)]\nmod tests;\na();\n#[cfg(test)]\nmod tests { fn b() {} }\nc();";
    assert_eq!(
        without_tests(code).split_whitespace().collect::<Vec<_>>(),
        ["a();", "c();"]
    );
}
