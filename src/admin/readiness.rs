//! Whether new clients should be sent to this proxy, shared by the code that knows and by `/readyz`, which shows it.

use std::sync::{Arc, Mutex, PoisonError};

/// Cheap to clone; all clones show the same state.
#[derive(Clone, Debug)]
pub struct Readiness {
    /// Why the proxy is not ready; `None` when it is.
    reason: Arc<Mutex<Option<String>>>,
}

impl Default for Readiness {
    /// Not ready until [`Readiness::set_ready`] is called.
    fn default() -> Self {
        Self {
            reason: Arc::new(Mutex::new(Some("starting".to_owned()))),
        }
    }
}

impl Readiness {
    pub fn set_ready(&self) {
        self.set(None);
    }

    /// The reason is shown to operators as it is.
    pub fn set_not_ready(&self, reason: impl Into<String>) {
        self.set(Some(reason.into()));
    }

    /// Why the proxy is not ready, if it is not.
    pub fn reason(&self) -> Option<String> {
        self.reason
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn set(&self, reason: Option<String>) {
        *self.reason.lock().unwrap_or_else(PoisonError::into_inner) = reason;
    }
}
