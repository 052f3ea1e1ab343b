//! Values for bind markers, given as CQL literals. Each replaces its marker in the text, so that the statement parser
//! reads the result; a value that the parser does not read as one term is refused.

use crate::statement::select::{InValues, RelationKind, Select, parse_select};
use crate::statement::term::{Literal, Marker, TermKind};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum ValueError {
    #[error(
        "the statement has {markers} bind markers and {values} values; give one --value for each"
    )]
    Count { markers: usize, values: usize },
    #[error("there is no value for :{0}; add --value {0}=…")]
    Missing(String),
    #[error("--value {0} is not a CQL literal; a text needs its own quotes: --value \"'{0}'\"")]
    NotALiteral(String),
    #[error("--value {0} must be a list, because it follows IN; write --value \"(1, 2, 3)\"")]
    NotAList(String),
    #[error("the statement cannot be parsed with these values in place of its markers")]
    NotUnderstood,
}

/// The text with a value for each marker, and its parsed form.
pub(super) fn fill(
    text: &str,
    select: &Select,
    values: &[String],
) -> Result<(String, Select), ValueError> {
    let chosen = choose(&select.markers, values)?;
    let mut filled = text.to_owned();
    // From the end, so that earlier markers keep their positions.
    for (number, (marker, value)) in select.markers.iter().zip(&chosen).enumerate().rev() {
        let value = checked(value, is_list(select, number))?;
        filled.replace_range(marker.span.clone(), &value);
    }
    let select = parse_select(&filled).ok_or(ValueError::NotUnderstood)?;
    Ok((filled, select))
}

/// One value per marker: by name if the first value starts with the name of a marker, else in order.
fn choose<'v>(markers: &[Marker], values: &'v [String]) -> Result<Vec<&'v str>, ValueError> {
    let named = |value: &'v String| {
        let (name, value) = value.split_once('=')?;
        let known = markers
            .iter()
            .any(|marker| marker.name.as_deref() == Some(name));
        known.then_some((name, value))
    };
    if values.first().and_then(named).is_some() {
        let find = |marker: &Marker| {
            let name = marker.name.clone().unwrap_or_default();
            let mut pairs = values.iter().filter_map(named);
            let found = pairs.find(|(other, _)| *other == name);
            found
                .map(|(_, value)| value)
                .ok_or(ValueError::Missing(name))
        };
        return markers.iter().map(find).collect();
    }
    if values.len() != markers.len() {
        return Err(ValueError::Count {
            markers: markers.len(),
            values: values.len(),
        });
    }
    Ok(values.iter().map(String::as_str).collect())
}

/// Whether the marker stands for the whole list after IN.
fn is_list(select: &Select, number: usize) -> bool {
    select.relations.iter().any(|relation| {
        matches!(&relation.kind, RelationKind::In { values: InValues::Marker(index), .. } if *index == number)
    })
}

/// The value as it goes into the text, if it is exactly one term.
fn checked(value: &str, list: bool) -> Result<String, ValueError> {
    let value = value.trim();
    let brackets = value
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    let value = match brackets {
        Some(inner) if list => format!("({inner})"),
        _ => value.to_owned(),
    };
    if one_term(&value).is_none() {
        return Err(ValueError::NotALiteral(value));
    }
    if list && !value.starts_with('(') {
        return Err(ValueError::NotAList(value));
    }
    Ok(value)
}

/// The literal in a text, if the text is exactly one literal.
pub(in crate::cli) fn constant(value: &str) -> Option<Literal> {
    match one_term(value.trim())? {
        TermKind::Literal(literal) => Some(literal),
        _ => None,
    }
}

fn one_term(value: &str) -> Option<TermKind> {
    const BEFORE: &str = "SELECT a FROM b WHERE c = ";
    let mut select = parse_select(&format!("{BEFORE}{value}"))?;
    let whole = BEFORE.len()..BEFORE.len() + value.len();
    let only = select.relations.pop().filter(|_| {
        // A marker has no value; a second relation is more than one term.
        select.relations.is_empty() && select.markers.is_empty()
    })?;
    match only.kind {
        RelationKind::Compare { term, .. } if term.span == whole => Some(term.kind),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(text: &str, values: &[&str]) -> Result<String, ValueError> {
        let select = parse_select(text).expect("a SELECT");
        let values: Vec<String> = values.iter().map(|value| (*value).to_owned()).collect();
        fill(text, &select, &values).map(|(text, _)| text)
    }

    #[test]
    fn values_take_the_places_of_their_markers() {
        for (text, values, expected) in [
            (
                "SELECT * FROM t WHERE k = ? AND c > ? LIMIT ?",
                &["'a?b'", "-5", "10"][..],
                "SELECT * FROM t WHERE k = 'a?b' AND c > -5 LIMIT 10",
            ),
            (
                "SELECT * FROM t WHERE k = :k AND c = :c AND d = :k",
                &["c=2", "k='x=y'"],
                "SELECT * FROM t WHERE k = 'x=y' AND c = 2 AND d = 'x=y'",
            ),
            // Names are no duty.
            (
                "SELECT * FROM t WHERE k = :k",
                &["0xff"],
                "SELECT * FROM t WHERE k = 0xff",
            ),
            (
                "SELECT * FROM t WHERE k IN ? AND (a, b) IN ? AND (a, b) > ?",
                &["[1, 2]", "((1, 2), (3, 4))", "(1, 2)"],
                "SELECT * FROM t WHERE k IN (1, 2) AND (a, b) IN ((1, 2), (3, 4)) AND (a, b) > (1, 2)",
            ),
            (
                "SELECT * FROM t WHERE k = ?",
                &[" null "],
                "SELECT * FROM t WHERE k = null",
            ),
        ] {
            assert_eq!(filled(text, values).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn refuses_what_is_not_one_value() {
        let one = "SELECT * FROM t WHERE k = ?";
        for wrong in [
            "",
            "1 AND v = 2",
            "1 --",
            "1 /* */",
            "?",
            ":x",
            "'open",
            "1, 2",
            "sensor-7",
            "1;",
            "1 LIMIT 2",
        ] {
            assert_eq!(
                filled(one, &[wrong]),
                Err(ValueError::NotALiteral(wrong.to_owned())),
                "{wrong}"
            );
        }
        let count = |markers, values| Err(ValueError::Count { markers, values });
        assert_eq!(filled(one, &["1", "2"]), count(1, 2));
        assert_eq!(filled("SELECT * FROM t", &["1"]), count(0, 1));
        let two = "SELECT * FROM t WHERE k = :k AND c = :c";
        assert_eq!(
            filled(two, &["k=1"]),
            Err(ValueError::Missing("c".to_owned()))
        );
        let list = "SELECT * FROM t WHERE k IN ?";
        assert_eq!(
            filled(list, &["1"]),
            Err(ValueError::NotAList("1".to_owned()))
        );
        // A limit is a number.
        let limit = "SELECT * FROM t WHERE k = 1 LIMIT ?";
        assert_eq!(filled(limit, &["'x'"]), Err(ValueError::NotUnderstood));
    }
}
