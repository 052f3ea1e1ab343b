//! Names of split tables: derives one from the original's name, and recognises one. Pure; the code that creates, drops
//! and hides split tables shares this rule.

/// What every name begins with.
const PREFIX: &str = "wide_";
/// Servers that put table names into file names refuse longer ones.
const NAME_BYTES_MAX: usize = 48;

/// `wide_<original>_<number>`, shortened with a hash where it would be too long.
pub fn name(original: &str, number: u32) -> String {
    let whole = format!("wide_{original}_{number}");
    if whole.len() <= NAME_BYTES_MAX {
        return whole;
    }
    let hash = crate::filter::hash(original.as_bytes());
    let kept = NAME_BYTES_MAX - format!("wide__{:08x}_{number}", hash as u32).len();
    let kept = original.floor_char_boundary(kept);
    format!("wide_{}_{:08x}_{number}", &original[..kept], hash as u32)
}

/// `false`: no original has a split table of this name. Costs next to nothing.
pub fn might_be_name(name: &str) -> bool {
    name.starts_with(PREFIX)
}

/// Whether `name` is one that Narrows gives to a split table of this original.
pub fn is_name(original: &str, name: &str) -> bool {
    let number = name
        .strip_prefix(PREFIX)
        .and_then(|rest| rest.rsplit_once('_'))
        .and_then(|(_, text)| text.parse().ok());
    number.is_some_and(|number| number > 0 && self::name(original, number) == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_shortened_and_stay_different() {
        assert_eq!(name("reading", 3), "wide_reading_3");
        let (one, other) = ("x".repeat(48), format!("{}y", "x".repeat(47)));
        let names = [name(&one, 1), name(&other, 1), name(&one, 2)];
        assert!(names.iter().all(|name| name.len() <= NAME_BYTES_MAX));
        assert!(names[0] != names[1] && names[0] != names[2]);
    }

    #[test]
    fn names_are_told_from_those_of_others() {
        let long = "x".repeat(48);
        assert!(is_name("reading", "wide_reading_12") && is_name(&long, &name(&long, 3)));
        assert!(might_be_name("wide_reading_12") && might_be_name(&name(&long, 3)));
        for other in [
            "",
            "reading",
            "wide_",
            "wide_reading",
            "wide_reading_",
            "wide_reading_0",
            "wide_reading_01",
            "wide_reading_+1",
            "wide_reading_x",
            "wide_readings_1",
            "wide_reading_-1",
            "wide_reading_99999999999",
        ] {
            assert!(!is_name("reading", other), "{other}");
        }
    }
}
