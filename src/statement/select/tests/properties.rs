//! What must hold for any text: it ends, it never panics, and every span shows what it says. `SEED=` tries other texts,
//! `SCALE=` does more.

use std::env;

use super::drafts::Draft;
use super::random::Random;
use super::*;
use crate::statement::write::parse_write;

/// Every failure shows the text it is about.
fn random() -> Random {
    let seed = env::var("SEED").map_or(20_261_116, |seed| seed.parse().expect("a number"));
    Random::new(seed)
}

fn scale() -> usize {
    env::var("SCALE").map_or(1, |scale| scale.parse().expect("SCALE is a number"))
}

#[test]
fn what_is_written_is_what_is_parsed() {
    let mut random = random();
    for _ in 0..1_000 * scale() {
        let (text, select) = Draft::select(&mut random);
        assert_eq!(parse_select(&text), Some(select), "{text}");
    }
}

#[test]
fn spans_show_what_they_say() {
    let mut random = random();
    for _ in 0..1_000 * scale() {
        let (text, _) = Draft::select(&mut random);
        let select = parse(&text);
        assert_in_order(&text, &select);
        let again = rebuilt(&text, &select);
        assert_eq!(
            without_spans(&parse(&again)),
            without_spans(&select),
            "{text}\n{again}"
        );
    }
}

#[test]
fn any_text_ends() {
    let mut random = random();
    let mut understood = 0;
    for round in 0..9_000 * scale() {
        let text = match round % 3 {
            0 => bytes(&mut random),
            1 => soup(&mut random),
            _ => mutation(&mut random),
        };
        if let Some(select) = parse_select(&text) {
            understood += 1;
            assert_in_order(&text, &select);
        }
        if let Some(writes) = parse_write(&text) {
            for marker in &writes.markers {
                assert!(text[marker.span.clone()].starts_with(['?', ':']), "{text}");
            }
        }
    }
    assert!(understood > 0, "some mutations change nothing that matters");
}

fn bytes(random: &mut Random) -> String {
    let count = random.below(60);
    let bytes: Vec<u8> = (0..count).map(|_| random.next() as u8).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

const WORDS: [&str; 60] = [
    "SELECT",
    "JSON",
    "DISTINCT",
    "FROM",
    "WHERE",
    "AND",
    "IN",
    "LIMIT",
    "ORDER BY",
    "GROUP BY",
    "INSERT INTO",
    "UPDATE",
    "SET",
    "DELETE",
    "BEGIN BATCH",
    "APPLY BATCH",
    "VALUES",
    "USING",
    "TTL",
    "IF",
    "EXISTS",
    "token",
    "cast",
    "as",
    "a",
    "\"b\"",
    "\"",
    "'",
    "'x'",
    "$$",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "<",
    "=",
    ">=",
    "..",
    ".",
    ",",
    ":",
    "?",
    ":x",
    "-",
    "-1",
    "1.",
    "1e5",
    "0x",
    "0xab",
    "1h",
    "P1Y",
    "-P",
    "--",
    "/*",
    "*/",
    "expr(",
    "µ",
    "*",
];

fn soup(random: &mut Random) -> String {
    let mut text =
        String::from(random.pick(&["SELECT ", "SELECT a FROM t WHERE ", "UPDATE t SET ", ""]));
    for _ in 0..random.below(20) {
        text.push_str(random.pick(&WORDS));
        text.push_str(random.pick(&["", " ", " ", "\n"]));
    }
    text
}

/// A text with a few characters taken away, doubled or put in.
fn mutation(random: &mut Random) -> String {
    let mut characters: Vec<char> = Draft::select(random).0.chars().collect();
    for _ in 0..1 + random.below(3) {
        if characters.is_empty() {
            break;
        }
        let at = random.below(characters.len());
        match random.below(4) {
            0 => drop(characters.remove(at)),
            1 => characters.insert(at, characters[at]),
            2 => characters.truncate(at),
            _ => {
                let word: Vec<char> = random.pick(&WORDS).chars().collect();
                characters.splice(at..at, word);
            }
        }
    }
    characters.into_iter().collect()
}

/// Every span lies in the text, behind the one before.
fn assert_in_order(text: &str, select: &Select) {
    let mut at = 0;
    let mut step = |span: &Range<usize>| {
        assert!(
            at <= span.start && span.start < span.end,
            "{span:?} in {text}"
        );
        assert!(!text[span.clone()].starts_with([' ', '\n', '\t']), "{text}");
        at = span.end;
    };
    match &select.selection {
        Selection::All => step(&select.selection_span),
        Selection::Items(items) => {
            items.iter().for_each(|item| step(&item.span));
            let ends = (items[0].span.start, items[items.len() - 1].span.end);
            let span = &select.selection_span;
            assert_eq!((span.start, span.end), ends, "{text}");
        }
    }
    step(&select.table_span);
    select
        .relations
        .iter()
        .for_each(|relation| step(&relation.span));
    select.order_by_span.iter().for_each(&mut step);
    let limits = [&select.per_partition_limit, &select.limit];
    limits
        .into_iter()
        .flatten()
        .for_each(|limit| step(&limit.span));
    let mut before = 0;
    for marker in &select.markers {
        let source = &text[marker.span.clone()];
        assert!(marker.span.start >= before, "{text}");
        assert_eq!(source.starts_with(':'), marker.name.is_some(), "{text}");
        assert_eq!(source == "?", marker.name.is_none(), "{text}");
        before = marker.span.end;
    }
}

/// The same statement, put together from what the spans show.
fn rebuilt(text: &str, select: &Select) -> String {
    let show = |span: &Range<usize>| text[span.clone()].to_owned();
    let mut parts = vec!["SELECT".to_owned()];
    let mut add = |wanted: bool, part: String| parts.extend(wanted.then_some(part));
    add(select.json, "JSON".into());
    add(select.distinct, "DISTINCT".into());
    add(true, show(&select.selection_span));
    add(true, format!("FROM {}", show(&select.table_span)));
    for (number, relation) in select.relations.iter().enumerate() {
        add(true, ["WHERE", "AND"][number.min(1)].into());
        add(true, show(&relation.span));
    }
    add(select.group_by, "GROUP BY a".into());
    if let Some(span) = &select.order_by_span {
        add(true, show(span));
    }
    for (limit, words) in [
        (&select.per_partition_limit, "PER PARTITION LIMIT"),
        (&select.limit, "LIMIT"),
    ] {
        if let Some(limit) = limit {
            add(true, format!("{words} {}", show(&limit.span)));
        }
    }
    add(select.allow_filtering, "ALLOW FILTERING".into());
    parts.join(" ")
}

/// All of it but where it stands.
fn without_spans(select: &Select) -> String {
    let mut select = select.clone();
    select.order_by_span = select.order_by_span.map(|_| 0..0);
    let mut shown = String::new();
    for part in format!("{select:?}").split("span: ") {
        let numbers = part.find(|c: char| !c.is_ascii_digit() && c != '.');
        shown.push_str(&part[numbers.unwrap_or(0)..]);
    }
    shown
}
