//! Statement texts for people to read, without their constants, which may be private data. Pure.

use super::lexer::{Kind, Lexer};

const CHARACTERS_MAX: usize = 400;

/// Replaces every constant by `?`, puts one space between tokens, and cuts off a long text.
pub fn without_constants(text: &str) -> String {
    let mut out = String::new();
    for token in Lexer::new(text) {
        if out.len() > CHARACTERS_MAX {
            out.push_str(" …");
            break;
        }
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(match token.kind {
            Kind::Word | Kind::QuotedName | Kind::Symbol(_) => &text[token.span],
            Kind::String | Kind::Number | Kind::Marker | Kind::Unknown => "?",
        });
    }
    let end = out.floor_char_boundary(CHARACTERS_MAX + 8);
    out.truncate(end);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_constant_is_left() {
        let text = "INSERT INTO ks.\"T\" (a, b, c, d, e) VALUES ('secret', $$ secret $$, 0xcafe, 12.5, \
                    5b6962dd-3f90-4c93-8f61-eabfa4a803e2) -- secret";
        assert_eq!(
            without_constants(text),
            "INSERT INTO ks . \"T\" ( a , b , c , d , e ) VALUES ( ? , ? , ? , ? , ? )"
        );
        assert_eq!(
            without_constants("UPDATE t SET a = 'open"),
            "UPDATE t SET a = ?"
        );
    }

    #[test]
    fn long_texts_are_cut() {
        let text = format!("DELETE FROM t WHERE k IN ({})", "1, ".repeat(10_000));
        assert!(without_constants(&text).len() < 2 * CHARACTERS_MAX);
        let name = format!("\"{}\"", "é".repeat(10_000));
        assert!(without_constants(&name).len() < 2 * CHARACTERS_MAX);
    }
}
