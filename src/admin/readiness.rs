//! Whether new clients should be sent to this proxy, shared by those who know and by `/readyz`, which tells.

use std::sync::{Arc, Mutex, PoisonError};

/// Cheap to clone; all clones show the same state.
#[derive(Clone, Debug)]
pub struct Readiness {
    /// Why not, or nothing when ready.
    reason: Arc<Mutex<Option<String>>>,
}

impl Default for Readiness {
    /// Not ready until somebody says so.
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

    /// Why the proxy is not ready; nothing when it is.
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
