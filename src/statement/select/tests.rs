//! What is understood of SELECTs, and what is not. Every text here was tried on Cassandra; the integration tests try
//! such texts again.

use super::*;
use crate::statement::term::{Literal, TermKind};

mod drafts;
mod properties;
mod random;

fn parse(text: &str) -> Select {
    parse_select(text).unwrap_or_else(|| panic!("not understood: {text}"))
}

fn selectors(text: &str) -> Vec<Selector> {
    match parse(text).selection {
        Selection::All => panic!("{text} selects all"),
        Selection::Items(items) => items.into_iter().map(|item| item.selector).collect(),
    }
}

fn column(name: &str) -> Selector {
    Selector::Column(name.to_owned())
}

fn call(name: &str, arguments: Vec<Selector>) -> Selector {
    Selector::Call {
        keyspace: None,
        name: name.to_owned(),
        arguments,
    }
}

fn relation(relation: &str) -> RelationKind {
    let text = format!("SELECT * FROM t WHERE {relation}");
    let select = parse(&text);
    assert_eq!(select.relations.len(), 1, "{text}");
    assert_eq!(&text[select.relations[0].span.clone()], relation);
    select.relations.into_iter().next().expect("one").kind
}

/// The value of `a = …`.
fn term(term: &str) -> TermKind {
    match relation(&format!("a = {term}")) {
        RelationKind::Compare { term, .. } => term.kind,
        other => panic!("{term}: {other:?}"),
    }
}

#[test]
fn reads_every_clause() {
    let text = "SELECT a, b AS \"B\" FROM Ks.\"T\" WHERE k = ? AND (c, d) >= (1, :x) GROUP BY k \
                ORDER BY c DESC, d PER PARTITION LIMIT :\"L\" LIMIT 10 ALLOW FILTERING;";
    let select = parse(text);
    let slice = |span: &Range<usize>| &text[span.clone()];
    assert_eq!(slice(&select.selection_span), "a, b AS \"B\"");
    assert_eq!(slice(&select.table_span), "Ks.\"T\"");
    assert_eq!(select.table.keyspace.as_deref(), Some("ks"));
    assert_eq!(select.table.table, "T");
    let relations: Vec<_> = select.relations.iter().map(|r| slice(&r.span)).collect();
    assert_eq!(relations, ["k = ?", "(c, d) >= (1, :x)"]);
    assert!(select.group_by && select.allow_filtering && !select.json && !select.distinct);
    let order: Vec<_> = select
        .order_by
        .iter()
        .map(|o| (&*o.column, o.descending))
        .collect();
    assert_eq!(order, [("c", true), ("d", false)]);
    assert_eq!(
        slice(&select.order_by_span.expect("ordered")),
        "ORDER BY c DESC, d"
    );
    let limit = select.per_partition_limit.expect("limited");
    assert_eq!(
        (slice(&limit.span), limit.kind),
        (":\"L\"", TermKind::Marker(2))
    );
    let limit = select.limit.expect("limited");
    assert_eq!(limit.kind, TermKind::Literal(Literal::Integer("10".into())));
    let markers: Vec<_> = select.markers.iter().map(|m| m.name.as_deref()).collect();
    assert_eq!(markers, [None, Some("x"), Some("L")]);
}

#[test]
fn reads_selectors() {
    let one = |selector| vec![selector];
    let composed = Selector::Composed;
    for (selected, expected) in [
        ("a", one(column("a"))),
        ("\"A b\", A", vec![column("A b"), column("a")]),
        (
            "count(*), COUNT (1)",
            vec![Selector::CountRows, Selector::CountRows],
        ),
        ("count(a)", one(call("count", vec![column("a")]))),
        ("TTL(a)", one(call("ttl", vec![column("a")]))),
        (
            "writetime(m['k'])",
            one(call(
                "writetime",
                vec![Selector::Part(Box::new(column("m")))],
            )),
        ),
        ("now()", one(call("now", vec![]))),
        (
            "token(a, b)",
            one(call("token", vec![column("a"), column("b")])),
        ),
        ("\"F\"(a)", one(call("F", vec![column("a")]))),
        (
            "CAST(a AS text)",
            one(Selector::Cast(Box::new(column("a")))),
        ),
        ("a.b", one(Selector::Part(Box::new(column("a"))))),
        ("a.b.c['d'..].e", one(Selector::Part(Box::new(column("a"))))),
        (
            "a[..1], b[1..2]",
            vec![
                Selector::Part(Box::new(column("a"))),
                Selector::Part(Box::new(column("b"))),
            ],
        ),
        (
            "a + b * c",
            one(composed(vec![
                column("a"),
                composed(vec![column("b"), column("c")]),
            ])),
        ),
        ("- a", one(composed(vec![column("a")]))),
        ("(a)", one(composed(vec![column("a")]))),
        ("(int) a", one(composed(vec![column("a")]))),
        ("(ks.t) a", one(composed(vec![column("a")]))),
        (
            "(map<int, frozen<list<text>>>) a",
            one(composed(vec![column("a")])),
        ),
        ("(a) AS b", one(composed(vec![column("a")]))),
        ("(a, b)", one(composed(vec![column("a"), column("b")]))),
        (
            "[a], {}, {b}",
            vec![
                composed(vec![column("a")]),
                composed(vec![]),
                composed(vec![column("b")]),
            ],
        ),
        ("{a:b}", one(composed(vec![column("a"), column("b")]))),
        // Behind what might be a type it is a hint, also where a reader sees a difference.
        (
            "(a) - b",
            one(composed(vec![composed(vec![column("a")]), column("b")])),
        ),
    ] {
        assert_eq!(
            selectors(&format!("SELECT {selected} FROM t")),
            expected,
            "{selected}"
        );
    }
    let [Selector::Call { keyspace, name, .. }] = &selectors("SELECT Ks.f(a) FROM t")[..] else {
        panic!("a call");
    };
    assert_eq!((keyspace.as_deref(), &**name), (Some("ks"), "f"));
    assert_eq!(parse("SELECT * FROM t").selection, Selection::All);
}

#[test]
fn an_item_has_its_alias_in_its_span() {
    let text = "SELECT f(a) AS \"X\", b FROM t";
    let Selection::Items(items) = parse(text).selection else {
        panic!("items");
    };
    let slices: Vec<_> = items.iter().map(|item| &text[item.span.clone()]).collect();
    assert_eq!(slices, ["f(a) AS \"X\"", "b"]);
    assert_eq!(items[0].alias.as_deref(), Some("X"));
}

#[test]
fn json_and_distinct_are_keywords_where_they_can_be() {
    for (text, json, distinct, first) in [
        ("SELECT JSON a FROM t", true, false, "a"),
        ("SELECT DISTINCT a FROM t", false, true, "a"),
        ("SELECT JSON DISTINCT a FROM t", true, true, "a"),
        ("SELECT json FROM t", false, false, "json"),
        ("SELECT json, b FROM t", false, false, "json"),
        ("SELECT json json FROM t", true, false, "json"),
        ("SELECT distinct FROM t", false, false, "distinct"),
        ("SELECT distinct distinct FROM t", false, true, "distinct"),
        ("SELECT json distinct FROM t", true, false, "distinct"),
        ("SELECT json as FROM t", true, false, "as"),
        ("SELECT distinct as as as FROM t", false, true, "as"),
        ("SELECT count FROM t", false, false, "count"),
        (
            "SELECT ttl, writetime, cast, key FROM t",
            false,
            false,
            "ttl",
        ),
        ("SELECT \"token\" FROM t", false, false, "token"),
    ] {
        let select = parse(text);
        assert_eq!((select.json, select.distinct), (json, distinct), "{text}");
        assert_eq!(selectors(text)[0], column(first), "{text}");
    }
    assert!(parse("SELECT json * FROM t").json);
    assert!(parse("SELECT json (a) FROM t").json);
    assert!(parse("SELECT json - a FROM t").json);
    assert!(parse("SELECT json [1] FROM t").json);
    assert!(!parse("SELECT json.a FROM t").json);
}

#[test]
fn reads_relations() {
    let one = |name: &str| Columns::One(name.to_owned());
    for (text, columns, operator) in [
        ("a = 1", one("a"), Operator::Equal),
        ("\"A\" < 1", one("A"), Operator::Less),
        ("a<=1", one("a"), Operator::LessOrEqual),
        ("a>-1", one("a"), Operator::Greater),
        ("( (a >= 1) )", one("a"), Operator::GreaterOrEqual),
        ("\"\" = 1", one(""), Operator::Equal),
        ("contains = 1", one("contains"), Operator::Equal),
        (
            "(a) = (1)",
            Columns::Tuple(vec!["a".into()]),
            Operator::Equal,
        ),
        (
            "(a, b) > ?",
            Columns::Tuple(vec!["a".into(), "b".into()]),
            Operator::Greater,
        ),
    ] {
        let RelationKind::Compare {
            columns: found,
            operator: by,
            ..
        } = relation(text)
        else {
            panic!("{text} compares");
        };
        assert_eq!((found, by), (columns, operator), "{text}");
    }
    for (text, length) in [
        ("a IN (1, ?)", Some(2)),
        ("a IN ()", Some(0)),
        ("a IN ?", None),
        ("(a, b) IN :x", None),
        ("(a) IN (?, ?)", Some(2)),
        ("((a, b) IN ((1, 2), (3, ?)))", Some(2)),
    ] {
        let RelationKind::In { values, .. } = relation(text) else {
            panic!("{text} is IN");
        };
        match values {
            InValues::Marker(number) => assert_eq!((length, number), (None, 0), "{text}"),
            InValues::List(terms) => assert_eq!(Some(terms.len()), length, "{text}"),
        }
    }
    for text in [
        "token(a, b) > ?",
        "a CONTAINS 1",
        "a CONTAINS KEY ?",
        "a LIKE 'x%'",
        "a IS NOT NULL",
        "a != 1",
        "(a, b) != (1, 2)",
        "m['k'] = 1",
        "expr(i, 'x')",
        "((m[1] > 2))",
    ] {
        assert_eq!(relation(text), RelationKind::Other, "{text}");
    }
}

#[test]
fn reads_literals() {
    let literal = |literal| TermKind::Literal(literal);
    let uuid = [
        0x55, 0x0e, 0x84, 0, 0xe2, 0x9b, 0x41, 0xd4, 0xa7, 0x16, 0x44, 0x66, 0x55, 0x44, 0, 0,
    ];
    for (text, expected) in [
        ("5", Literal::Integer("5".into())),
        ("-5", Literal::Integer("-5".into())),
        ("-1.5e-3", Literal::Float("-1.5e-3".into())),
        ("1.", Literal::Float("1.".into())),
        ("1e5", Literal::Float("1e5".into())),
        ("nan", Literal::Float("NaN".into())),
        ("-NaN", Literal::Float("NaN".into())),
        ("INFINITY", Literal::Float("Infinity".into())),
        ("-infinity", Literal::Float("-Infinity".into())),
        ("TRUE", Literal::Boolean(true)),
        ("false", Literal::Boolean(false)),
        ("Null", Literal::Null),
        ("'it''s'", Literal::Text("it's".into())),
        ("''''", Literal::Text("'".into())),
        ("''", Literal::Text(String::new())),
        ("$$it's$ ''$$", Literal::Text("it's$ ''".into())),
        ("0x", Literal::Blob(vec![])),
        ("0XfF00", Literal::Blob(vec![255, 0])),
        ("550E8400-e29b-41d4-a716-446655440000", Literal::Uuid(uuid)),
        ("1h30m", Literal::Duration("1h30m".into())),
        ("-1y2mo3d4us", Literal::Duration("-1y2mo3d4us".into())),
        ("P1Y2M3DT4H5M6S", Literal::Duration("P1Y2M3DT4H5M6S".into())),
        ("-PT1S", Literal::Duration("-PT1S".into())),
        ("P3W", Literal::Duration("P3W".into())),
        (
            "P0001-02-03T04:05:06",
            Literal::Duration("P0001-02-03T04:05:06".into()),
        ),
    ] {
        assert_eq!(term(text), literal(expected), "{text}");
    }
    assert_eq!(
        selectors("SELECT P1Yx, p1y FROM t"),
        [column("p1yx"), column("p1y")]
    );
}

#[test]
fn reads_terms() {
    for text in [
        "- 5",
        "-?",
        "1 + 1",
        "2 - ?",
        "3*4",
        "f()",
        "ks.f(?, 1)",
        "count(1)",
        "[1, 2]",
        "[]",
        "{}",
        "{1, 2}",
        "{1: 2}",
        "{a: 1, b: ?}",
        "{:x::y}",
        "{'a':now()}",
        "(int) 5",
        "(t) (1, 2)",
        "cast(5 as text)",
        "-f(1) % 2",
    ] {
        assert_eq!(term(text), TermKind::Other, "{text}");
    }
    // AND calls nothing, so what stands before it is no type.
    let select = parse("SELECT a FROM t WHERE a = ('x') AND (b) = (1)");
    assert_eq!(select.relations.len(), 2);
    let TermKind::Tuple(terms) = term("(1, (?, 'x'), f())") else {
        panic!("a tuple");
    };
    assert_eq!(terms.len(), 3);
    assert!(
        matches!(&terms[1].kind, TermKind::Tuple(inner) if inner[0].kind == TermKind::Marker(0))
    );
    assert_eq!(term(":x"), TermKind::Marker(0));
    assert_eq!(
        parse("SELECT a FROM t WHERE a = : /* c */ Count").markers[0]
            .name
            .as_deref(),
        Some("count")
    );
}

#[test]
fn comments_and_semicolons_are_passed_over() {
    for text in [
        "/* a */SELECT/**/a--x\nFROM//y\r t;",
        "\t\r\nselect a from t ; ;",
        "SELECT a FROM t -- x\n",
    ] {
        assert_eq!(parse(text).table.table, "t");
    }
}

#[test]
fn what_cassandra_refuses_is_not_understood() {
    for text in include_str!("tests/refused.cql").lines() {
        assert_eq!(parse_select(text), None, "{text}");
    }
    for text in [
        "",
        "SELECT a FROM t -- without an end",
        "SELECT a\u{c}FROM t",
        "SELECT a FROM t WHERE a\u{a0}= 1",
        "SELECT a FROM t WHERE a = /* 1",
    ] {
        assert_eq!(parse_select(text), None, "{text}");
    }
}

#[test]
fn what_is_not_known_for_certain_is_not_understood() {
    for text in [
        // Orders by likeness, not by a column.
        "SELECT a FROM t ORDER BY v ANN OF [1.0] LIMIT 1",
        "SELECT a FROM t WHERE a = 0xabc",
        "SELECT ('org.apache.cassandra.db.marshal.Int32Type') a FROM t",
        "SELECT json AS x FROM t",
        "SELECT a FROM t LIMIT 1ALLOW FILTERING",
    ] {
        assert_eq!(parse_select(text), None, "{text}");
    }
}

#[test]
fn nesting_is_bounded() {
    for (open, close) in [
        ("(", ")"),
        ("[", "]"),
        ("{", "}"),
        ("f(", ")"),
        ("- ", ""),
        ("(int)", ""),
        ("m[f(", ")]"),
        ("cast(", " as int)"),
    ] {
        let nested = |depth: usize| {
            format!(
                "SELECT {}a{} FROM t",
                open.repeat(depth),
                close.repeat(depth)
            )
        };
        if !open.contains('[') || open == "[" {
            assert!(parse_select(&nested(10)).is_some(), "{}", nested(10));
        }
        assert_eq!(parse_select(&nested(50_000)), None, "{open}");
        let nested = format!(
            "SELECT a FROM t WHERE a = {}1{}",
            open.repeat(50_000),
            close.repeat(50_000)
        );
        assert_eq!(parse_select(&nested), None, "{open}");
    }
    let brackets = |depth: usize| {
        format!(
            "SELECT a FROM t WHERE {}a = 1{}",
            "(".repeat(depth),
            ")".repeat(depth)
        )
    };
    assert!(parse_select(&brackets(20)).is_some());
    assert_eq!(parse_select(&brackets(50_000)), None);
    // Each level could be a hint or brackets; trying both everywhere would never end.
    assert_eq!(
        parse_select(&format!("SELECT {}a FROM t", "(a)[".repeat(60))),
        None
    );
    let types = format!(
        "SELECT ({}int{}) a FROM t",
        "list<".repeat(50_000),
        ">".repeat(50_000)
    );
    assert_eq!(parse_select(&types), None);
}

#[test]
fn long_flat_texts_are_read() {
    let list = vec!["?"; 20_000].join(", ");
    let select = parse(&format!("SELECT * FROM t WHERE a IN ({list})"));
    assert_eq!(select.markers.len(), 20_000);
}
