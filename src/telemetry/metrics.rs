//! Collects what the `metrics` macros count anywhere in the crate and renders it for Prometheus.
//!
//! Each module owns its metrics; this file only installs the recorder and adds what concerns the whole process.

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

use super::process::ProcessMetrics;

/// Every histogram whose name ends like this has the buckets below: from the time that a local relay adds to the time
/// after which a driver gives up.
const SECONDS_SUFFIX: &str = "_seconds";
const SECONDS_BUCKETS: [f64; 12] = [
    0.0001, 0.000_25, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 10.0,
];

/// Renders the metrics of this process.
#[derive(Clone)]
pub struct Metrics {
    handle: PrometheusHandle,
    process: ProcessMetrics,
}

/// Starts counting. Handles made by the macros before this count nothing; a second call in one process panics.
pub fn install() -> Metrics {
    let handle = builder()
        .install_recorder()
        .expect("metrics are installed once per process");
    Metrics::new(handle)
}

impl Metrics {
    /// Metrics that count nothing, for tests that must not touch the process.
    pub fn detached() -> Self {
        Self::new(builder().build_recorder().handle())
    }

    fn new(handle: PrometheusHandle) -> Self {
        Self {
            handle,
            process: ProcessMetrics::starting_now(),
        }
    }

    /// The text that Prometheus reads, format 0.0.4.
    pub fn render(&self) -> String {
        let mut text = self.handle.render();
        self.process.render(&mut text);
        text
    }

    /// Must be called every few seconds: samples of histograms pile up until they are folded, and a proxy that nobody
    /// scrapes must not grow.
    pub fn run_upkeep(&self) {
        self.handle.run_upkeep();
    }
}

fn builder() -> PrometheusBuilder {
    PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix(SECONDS_SUFFIX.to_owned()), &SECONDS_BUCKETS)
        .expect("the list of buckets is not empty")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renders_counters_histograms_and_the_process() {
        let recorder = builder().build_recorder();
        let rendered = Metrics::new(recorder.handle());
        metrics::with_local_recorder(&recorder, || {
            metrics::counter!("narrows_test_total").increment(3);
            metrics::histogram!("narrows_test_seconds").record(0.002);
        });
        rendered.run_upkeep();
        let text = rendered.render();
        for line in [
            "narrows_test_total 3",
            "narrows_test_seconds_bucket{le=\"0.001\"} 0",
            "narrows_test_seconds_bucket{le=\"0.0025\"} 1",
            concat!(
                "narrows_build_info{version=\"",
                env!("CARGO_PKG_VERSION"),
                "\"} 1"
            ),
            "# TYPE process_cpu_seconds_total counter",
        ] {
            assert!(
                text.lines().any(|found| found == line),
                "{line} is missing in\n{text}"
            );
        }
    }
}
