//! Policies as people write them in the configuration: `["fuse16"]`, `["bloom(false_positive_rate = 0.01)",
//! "prefix(1)"]`. An empty list means no filter: everything might match. Pure: takes text, and returns policies or a
//! sentence that says what to write.

use std::sync::Arc;

use thiserror::Error;

use super::bloom::{BloomPolicy, Sizing, SizingError};
use super::fuse::FusePolicy;
use super::policy::{FilterPolicy, Policies};
use super::prefix::{LeadingColumns, PrefixPolicy};

/// The policies of a table for which none are configured.
pub const DEFAULT: [&str; 1] = ["fuse16"];

/// Every form there is, for the messages below.
const FORMS: &str =
    "fuse16, bloom(bits_per_key = 10), bloom(false_positive_rate = 0.01) or prefix(1)";

/// Why a list of policies is not valid.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum SpecError {
    #[error("`{0}` is not a filter policy: write {FORMS}")]
    Unknown(String),
    #[error("`{0}` has unmatched parentheses: write {FORMS}")]
    Parentheses(String),
    #[error("`{0}`: fuse16 takes no argument, write fuse16")]
    FuseArgument(String),
    #[error(
        "`{0}` does not say how large it is: write bloom(bits_per_key = 10) or bloom(false_positive_rate = 0.01)"
    )]
    BloomArgument(String),
    #[error(
        "`{0}`: `{1}` is not known here, write for example bloom(bits_per_key = 10, prefix = 1, whole_key_filtering = false)"
    )]
    BloomSetting(String, String),
    #[error("`{0}`: write whole_key_filtering = true or whole_key_filtering = false")]
    WholeKey(String),
    #[error(
        "`{0}` would hold neither keys nor prefixes: add for example prefix = 1, or leave out whole_key_filtering"
    )]
    Nothing(String),
    #[error("`{0}`: `{1}` is not a number, write for example {2}")]
    Number(String, String, &'static str),
    #[error("`{0}`: {1}")]
    Sizing(String, SizingError),
    #[error("`{0}`: the number of leading key columns is between 1 and 255, write for example {1}")]
    PrefixColumns(String, &'static str),
    #[error(
        "`{0}` comes after another policy that is stored under the same name: write only one of them"
    )]
    Doubled(String),
}

/// All policies must agree that a key might match; they are asked in the order given. Where there are none, all do.
pub fn parse(specs: &[String]) -> Result<Policies, SpecError> {
    let mut policies: Vec<Arc<dyn FilterPolicy>> = Vec::with_capacity(specs.len());
    for spec in specs {
        let policy = parse_one(spec)?;
        // Stored parts are found by name, so two sizes of bloom could not be told apart.
        if policies.iter().any(|other| other.name() == policy.name()) {
            return Err(SpecError::Doubled(spec.clone()));
        }
        policies.push(policy);
    }
    Ok(policies.into())
}

fn parse_one(spec: &str) -> Result<Arc<dyn FilterPolicy>, SpecError> {
    let (name, argument) = split(spec)?;
    match (name, argument) {
        (FusePolicy::NAME, None) => Ok(Arc::new(FusePolicy)),
        (FusePolicy::NAME, Some(_)) => Err(SpecError::FuseArgument(spec.into())),
        (BloomPolicy::NAME, argument) => bloom(spec, argument),
        (PrefixPolicy::NAME, argument) => prefix(spec, argument),
        _ => Err(SpecError::Unknown(spec.into())),
    }
}

/// The name, and the argument in parentheses behind it.
fn split(spec: &str) -> Result<(&str, Option<&str>), SpecError> {
    let Some((name, behind)) = spec.split_once('(') else {
        return match spec.contains(')') {
            true => Err(SpecError::Parentheses(spec.into())),
            false => Ok((spec.trim(), None)),
        };
    };
    let argument = behind
        .trim_end()
        .strip_suffix(')')
        .filter(|argument| !argument.contains(['(', ')']))
        .ok_or_else(|| SpecError::Parentheses(spec.into()))?;
    Ok((name.trim(), Some(argument.trim())))
}

fn bloom(spec: &str, argument: Option<&str>) -> Result<Arc<dyn FilterPolicy>, SpecError> {
    let no_size = || SpecError::BloomArgument(spec.into());
    let (mut sizing, mut extractor, mut whole_key_filtering) = (None, None, true);
    for setting in argument.ok_or_else(no_size)?.split(',') {
        let (key, value) = setting.split_once('=').ok_or_else(no_size)?;
        let (key, value) = (key.trim(), value.trim());
        let number = |example| -> Result<f64, SpecError> {
            let parsed = value.parse();
            parsed.map_err(|_| SpecError::Number(spec.into(), value.into(), example))
        };
        let repeated = match key {
            "bits_per_key" => {
                let bits = number("bits_per_key = 10")?;
                sizing.replace(Sizing::BitsPerKey(bits)).is_some()
            }
            "false_positive_rate" => {
                let rate = number("false_positive_rate = 0.01")?;
                sizing.replace(Sizing::FalsePositiveRate(rate)).is_some()
            }
            "prefix" => {
                let columns = leading_columns(spec, Some(value), "prefix = 1")?;
                extractor.replace(columns).is_some()
            }
            "whole_key_filtering" => {
                let parsed = value.parse();
                whole_key_filtering = parsed.map_err(|_| SpecError::WholeKey(spec.into()))?;
                false
            }
            _ => return Err(SpecError::BloomSetting(spec.into(), key.into())),
        };
        if repeated {
            return Err(no_size());
        }
    }
    let policy = BloomPolicy::new(sizing.ok_or_else(no_size)?);
    let policy = policy.map_err(|error| SpecError::Sizing(spec.into(), error))?;
    match (extractor, whole_key_filtering) {
        (Some(extractor), _) => {
            let policy = policy.with_prefix_extractor(extractor, whole_key_filtering);
            Ok(Arc::new(policy))
        }
        (None, true) => Ok(Arc::new(policy)),
        (None, false) => Err(SpecError::Nothing(spec.into())),
    }
}

fn prefix(spec: &str, argument: Option<&str>) -> Result<Arc<dyn FilterPolicy>, SpecError> {
    let extractor = leading_columns(spec, argument, "prefix(1)")?;
    Ok(Arc::new(PrefixPolicy::new(extractor)))
}

fn leading_columns(
    spec: &str,
    columns: Option<&str>,
    example: &'static str,
) -> Result<Arc<LeadingColumns>, SpecError> {
    let columns = columns
        .and_then(|columns| columns.parse().ok())
        .filter(|columns| *columns != 0)
        .ok_or_else(|| SpecError::PrefixColumns(spec.into(), example))?;
    Ok(Arc::new(LeadingColumns::new(columns)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn specs(specs: &[&str]) -> Vec<String> {
        specs.iter().map(|spec| (*spec).into()).collect()
    }

    #[test]
    fn every_form_is_read() {
        let cases: [(&[&str], &[&str]); 13] = [
            (&[], &[]),
            (
                &["bloom(bits_per_key = 10, prefix = 1)"],
                &["bloom:columns=1"],
            ),
            (
                &["bloom(prefix=2,whole_key_filtering=true,false_positive_rate=0.01)"],
                &["bloom:columns=2"],
            ),
            (
                &["bloom(bits_per_key = 10, prefix = 1, whole_key_filtering = false)"],
                &["bloom:columns=1,whole_key_filtering=false"],
            ),
            (&DEFAULT, &["fuse16"]),
            (&["bloom(bits_per_key = 10)"], &["bloom"]),
            (&["bloom(bits_per_key=9.6)"], &["bloom"]),
            (&["bloom(false_positive_rate = 0.01)"], &["bloom"]),
            (&["bloom(false_positive_rate = 1e-3)"], &["bloom"]),
            (&["prefix(1)"], &["prefix:columns=1"]),
            (&[" prefix ( 255 ) "], &["prefix:columns=255"]),
            (&["fuse16", "prefix(1)"], &["fuse16", "prefix:columns=1"]),
            (
                &["prefix(2)", "prefix(1)", "bloom( bits_per_key = 12 )"],
                &["prefix:columns=2", "prefix:columns=1", "bloom"],
            ),
        ];
        for (given, names) in cases {
            let policies = parse(&specs(given)).expect("a right list");
            let read: Vec<&str> = policies.iter().map(|policy| policy.name()).collect();
            assert_eq!(read, names, "{given:?}");
        }
    }

    /// The numbers reach the policy, which shows its size only in what it builds.
    #[test]
    fn a_bloom_is_as_large_as_written() {
        for (spec, bytes) in [
            ("bloom(bits_per_key = 8)", 1000),
            ("bloom(bits_per_key = 16)", 2000),
            ("bloom(false_positive_rate = 0.01)", 1199),
        ] {
            let policies = parse(&specs(&[spec])).expect("a right spec");
            let mut builder = policies[0].builder();
            for n in 0..1000u32 {
                builder.add(&super::super::HashedKey::new(&n.to_le_bytes()));
            }
            let built = builder.build().bytes();
            assert!((bytes..bytes + 400).contains(&built), "{spec}: {built}");
        }
    }

    #[test]
    fn mistakes_say_what_to_write() {
        let cases: [(&[&str], &str); 28] = [
            (&[""], "`` is not a filter policy: write fuse16"),
            (&["fuse8"], "`fuse8` is not a filter policy: write fuse16"),
            (&["Fuse16"], "`Fuse16` is not a filter policy"),
            (&["(1)"], "is not a filter policy"),
            (
                &["fuse16, prefix(1)"],
                "`fuse16, prefix(1)` is not a filter policy",
            ),
            (&["fuse16()"], "takes no argument, write fuse16"),
            (&["fuse16(16)"], "takes no argument, write fuse16"),
            (&["bloom"], "write bloom(bits_per_key = 10) or"),
            (&["bloom()"], "write bloom(bits_per_key = 10) or"),
            (&["bloom(10)"], "write bloom(bits_per_key = 10) or"),
            (
                &["bloom(bits_per_key = ten)"],
                "`ten` is not a number, write for example bits_per_key = 10",
            ),
            (
                &["bloom(false_positive_rate = 1 %)"],
                "`1 %` is not a number, write for example false_positive_rate = 0.01",
            ),
            (&["bloom(bits_per_key = )"], "`` is not a number"),
            (
                &["bloom(bits_per_key = 0)"],
                "0 bits per key are not between 1 and 64",
            ),
            (
                &["bloom(bits_per_key = -3)"],
                "-3 bits per key are not between 1 and 64",
            ),
            (
                &["bloom(bits_per_key = 65)"],
                "65 bits per key are not between 1 and 64",
            ),
            (
                &["bloom(bits_per_key = NaN)"],
                "NaN bits per key are not between 1 and 64",
            ),
            (
                &["bloom(bits_per_key = inf)"],
                "inf bits per key are not between 1 and 64",
            ),
            (
                &["bloom(false_positive_rate = 0)"],
                "false-positive rate 0 is not between",
            ),
            (
                &["bloom(false_positive_rate = 1)"],
                "false-positive rate 1 is not between",
            ),
            (
                &["prefix"],
                "between 1 and 255, write for example prefix(1)",
            ),
            (
                &["prefix(0)"],
                "between 1 and 255, write for example prefix(1)",
            ),
            (
                &["prefix(256)"],
                "between 1 and 255, write for example prefix(1)",
            ),
            (
                &["prefix(series)"],
                "between 1 and 255, write for example prefix(1)",
            ),
            (&["prefix(1"], "`prefix(1` has unmatched parentheses"),
            (&["prefix 1)"], "has unmatched parentheses"),
            (&["prefix((1))"], "has unmatched parentheses"),
            (&["prefix(1) x"], "has unmatched parentheses"),
        ];
        for (given, expected) in cases {
            let error = parse(&specs(given)).expect_err("a mistake").to_string();
            assert!(error.contains(expected), "{given:?}: {error}");
        }
    }

    #[test]
    fn mistakes_in_the_settings_of_a_bloom_say_what_to_write() {
        let cases: [(&str, &str); 7] = [
            (
                "bloom(prefix = 1)",
                "does not say how large it is: write bloom(bits_per_key = 10) or",
            ),
            (
                "bloom(bits_per_key = 10, false_positive_rate = 0.1)",
                "write bloom(bits_per_key = 10) or",
            ),
            (
                "bloom(bits_per_key = 10, prefix = 0)",
                "between 1 and 255, write for example prefix = 1",
            ),
            (
                "bloom(bits_per_key = 10, prefix = 1, whole_key_filtering = no)",
                "write whole_key_filtering = true or whole_key_filtering = false",
            ),
            (
                "bloom(bits_per_key = 10, whole_key_filtering = false)",
                "would hold neither keys nor prefixes: add for example prefix = 1",
            ),
            (
                "bloom(bits_per_key = 10, seed = 7)",
                "`seed` is not known here, write for example bloom(",
            ),
            (
                "bloom(bits = 10)",
                "`bits` is not known here, write for example bloom(",
            ),
        ];
        for (given, expected) in cases {
            let error = parse(&specs(&[given])).expect_err("a mistake").to_string();
            assert!(error.contains(expected), "{given:?}: {error}");
        }
    }

    #[test]
    fn a_policy_is_written_once() {
        for doubled in [
            ["fuse16", "fuse16"],
            ["prefix(1)", "prefix( 1 )"],
            [
                "bloom(bits_per_key = 10)",
                "bloom(false_positive_rate = 0.01)",
            ],
        ] {
            let error = parse(&specs(&doubled)).expect_err("a doubled policy");
            assert_eq!(error, SpecError::Doubled(doubled[1].into()));
            assert!(error.to_string().contains("write only one of them"));
        }
    }
}
