//! Logs on stderr, for people or as JSON, with a level that SIGHUP can change.
//!
//! Installed once per process, before anything that may want to log.

use std::io::IsTerminal;

use tracing_subscriber::filter::ParseError;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry, fmt, reload};

use crate::config::{Log, LogFormat};

/// Changes the level of a running proxy.
#[derive(Clone)]
pub struct LogControl {
    filter: reload::Handle<EnvFilter, Registry>,
}

/// Why a level was not applied; the old one stays in force.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    #[error("log level {level:?} is not a filter ({reason}); use a level such as info or debug")]
    Filter { level: String, reason: ParseError },
    #[error("the log is gone ({0}); restart to change its level")]
    Gone(#[from] reload::Error),
}

/// Starts logging. A second call in one process is a programmer error and panics.
pub fn init(log: &Log) -> LogControl {
    let filter = parse(&log.level).expect("the configuration has checked the level");
    let (filter, handle) = reload::Layer::new(filter);
    let subscriber = tracing_subscriber::registry()
        .with(filter)
        .with(writer(log.format));
    subscriber
        .try_init()
        .expect("logs are started once per process");
    LogControl { filter: handle }
}

impl LogControl {
    /// Applies another `log.level` to all events from now on.
    pub fn set_level(&self, level: &str) -> Result<(), LogError> {
        self.filter.reload(parse(level)?)?;
        Ok(())
    }
}

/// The driver of the control keyspace logs every connection, and at finer levels every statement. So only its errors
/// are shown, unless the level names it.
fn parse(level: &str) -> Result<EnvFilter, LogError> {
    let quiet = if level.contains("scylla") {
        level.to_owned()
    } else {
        format!("{level},scylla=error,scylla_cql=error")
    };
    EnvFilter::try_new(quiet).map_err(|reason| LogError::Filter {
        level: level.to_owned(),
        reason,
    })
}

fn writer<S>(format: LogFormat) -> Box<dyn Layer<S> + Send + Sync>
where
    S: tracing::Subscriber + for<'lookup> tracing_subscriber::registry::LookupSpan<'lookup>,
{
    let layer = fmt::layer().with_writer(std::io::stderr);
    match format {
        // Colours in a file or a pipe are noise, and https://no-color.org is a wish to respect.
        LogFormat::Human => {
            let colours = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
            layer.compact().with_ansi(colours).boxed()
        }
        LogFormat::Json => layer.json().flatten_event(true).with_ansi(false).boxed(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn level_of_a_running_log_can_be_changed() {
        let control = init(&Log {
            level: "warn".to_owned(),
            format: LogFormat::Json,
        });
        assert!(!tracing::enabled!(tracing::Level::DEBUG));
        control.set_level("debug").expect("debug is a level");
        assert!(tracing::enabled!(tracing::Level::DEBUG));
        let refused = control
            .set_level("narrows=loud")
            .expect_err("loud is no level");
        assert!(
            refused.to_string().contains("\"narrows=loud\""),
            "{refused}"
        );
        control.set_level("off").expect("off is a level");
        assert!(!tracing::enabled!(tracing::Level::ERROR));
        control.set_level("trace").expect("trace is a level");
        assert!(!tracing::enabled!(target: "scylla::client", tracing::Level::WARN));
        control
            .set_level("info,scylla=debug")
            .expect("a filter by target");
        assert!(tracing::enabled!(target: "scylla::client", tracing::Level::DEBUG));
    }
}
