//! What a run found: medians over rounds, a table for people, JSON for machines.

use std::fmt::Write;

use crate::load::Slice;

/// Every slice of one workload: for each round, one slice per target, in target order.
pub(crate) struct Rounds {
    pub(crate) workload: String,
    pub(crate) targets: Vec<String>,
    pub(crate) rounds: Vec<Vec<Slice>>,
}

impl Rounds {
    fn median(&self, target: usize, value: impl Fn(&Slice) -> f64) -> f64 {
        median(
            self.rounds
                .iter()
                .map(|round| value(&round[target]))
                .collect(),
        )
    }

    fn cpu(&self, target: usize) -> Option<f64> {
        self.rounds.first()?[target].cpu_us?;
        Some(self.median(target, |slice| slice.cpu_us.unwrap_or_default()))
    }

    /// CPU per request as a share of HAProxy's in the same round: the middle, the
    /// lowest and the highest round. Noise that lasts longer than a round cancels out.
    fn ratios(&self, target: usize) -> Option<(f64, f64, f64)> {
        let haproxy = self.targets.iter().position(|name| name == "haproxy")?;
        let ratios: Option<Vec<f64>> = self
            .rounds
            .iter()
            .map(|round| Some(round[target].cpu_us? / round[haproxy].cpu_us?))
            .collect();
        let ratios = ratios?;
        let low = ratios.iter().copied().fold(f64::INFINITY, f64::min);
        let high = ratios.iter().copied().fold(0.0, f64::max);
        Some((median(ratios), low, high))
    }

    pub(crate) fn narrows_ratio(&self) -> Option<f64> {
        let narrows = self.targets.iter().position(|name| name == "narrows")?;
        self.ratios(narrows).map(|(middle, ..)| middle)
    }

    pub(crate) fn table(&self) -> String {
        let mut out = format!(
            "\n{}\n{:<12}{:>10}{:>10}{:>10}{:>12}{:>12}{:>16}{:>14}\n",
            self.workload,
            "",
            "req/s",
            "p50 µs",
            "p99 µs",
            "CPU µs/req",
            "× HAProxy",
            "(low–high)",
            "generator µs"
        );
        for (index, name) in self.targets.iter().enumerate() {
            let ratios = self.ratios(index);
            writeln!(
                out,
                "{name:<12}{:>10.0}{:>10.0}{:>10.0}{:>12}{:>12}{:>16}{:>14.1}",
                self.median(index, |slice| slice.requests_per_second),
                self.median(index, |slice| slice.p50_us),
                self.median(index, |slice| slice.p99_us),
                self.cpu(index)
                    .map_or("–".into(), |cpu| format!("{cpu:.1}")),
                ratios.map_or("–".into(), |(middle, ..)| format!("{middle:.2}")),
                ratios.map_or(String::new(), |(_, low, high)| format!(
                    "{low:.2}–{high:.2}"
                )),
                self.median(index, |slice| slice.generator_cpu_us),
            )
            .expect("writing to a String cannot fail");
        }
        out
    }

    /// `<target>_<what>` keys; `ratio` is Narrows to HAProxy.
    pub(crate) fn json(&self) -> Json {
        let mut json = Json::default();
        for (index, name) in self.targets.iter().enumerate() {
            json.number(
                &format!("{name}_rps"),
                self.median(index, |slice| slice.requests_per_second),
            );
            json.number(
                &format!("{name}_p50_us"),
                self.median(index, |slice| slice.p50_us),
            );
            json.number(
                &format!("{name}_p99_us"),
                self.median(index, |slice| slice.p99_us),
            );
            if let Some(cpu) = self.cpu(index) {
                json.number(&format!("{name}_cpu_us"), cpu);
            }
            if let Some((middle, low, high)) = self.ratios(index).filter(|_| name != "haproxy") {
                let prefix = if name == "narrows" {
                    String::new()
                } else {
                    format!("{name}_")
                };
                json.number(&format!("{prefix}ratio"), middle);
                json.number(&format!("{prefix}ratio_low"), low);
                json.number(&format!("{prefix}ratio_high"), high);
            }
            json.number(
                &format!("{name}_generator_cpu_us"),
                self.median(index, |slice| slice.generator_cpu_us),
            );
        }
        json
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 {
        values[middle]
    } else {
        (values[middle - 1] + values[middle]) / 2.0
    }
}

/// A JSON object, written in order.
#[derive(Default)]
pub(crate) struct Json {
    fields: Vec<String>,
}

impl Json {
    pub(crate) fn number(&mut self, key: &str, value: f64) {
        self.fields.push(format!("{key:?}: {value:.3}"));
    }

    pub(crate) fn text(&mut self, key: &str, value: &str) {
        let mut escaped = String::new();
        for character in value.chars().filter(|character| !character.is_control()) {
            if matches!(character, '"' | '\\') {
                escaped.push('\\');
            }
            escaped.push(character);
        }
        self.fields.push(format!("{key:?}: \"{escaped}\""));
    }

    pub(crate) fn object(&mut self, key: &str, value: &Json) {
        self.fields.push(format!("{key:?}: {}", value.render(1)));
    }

    pub(crate) fn render(&self, depth: usize) -> String {
        let indent = "  ".repeat(depth + 1);
        let fields: Vec<String> = self
            .fields
            .iter()
            .map(|field| format!("{indent}{field}"))
            .collect();
        format!("{{\n{}\n{}}}", fields.join(",\n"), "  ".repeat(depth))
    }
}
