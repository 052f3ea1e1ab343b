//! The cluster's own timeouts, from `system_views.settings`.

use std::time::Duration;

use super::{Store, StoreError, not_understood};

const SETTING: &str = "SELECT value FROM system_views.settings WHERE name = ?";

/// How long a write that was sent in the past can still take effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClusterPatience {
    /// How long a coordinator waits for the replicas of a write.
    pub write_timeout: Duration,
    /// A write that missed a replica may reach it later by a hint of up to this age.
    pub hint_window: Duration,
}

impl Default for ClusterPatience {
    /// Cassandra's own defaults.
    fn default() -> Self {
        Self {
            write_timeout: Duration::from_secs(2),
            hint_window: Duration::from_secs(3 * 3600),
        }
    }
}

impl Store {
    /// The settings of the node that answers: all nodes should have the same.
    pub async fn read_patience(&self) -> Result<ClusterPatience, StoreError> {
        let default = ClusterPatience::default();
        let write = self.setting("write_request_timeout_in_ms").await?;
        let hints = self.setting("max_hint_window_in_ms").await?;
        Ok(ClusterPatience {
            write_timeout: write.unwrap_or(default.write_timeout),
            hint_window: hints.unwrap_or(default.hint_window),
        })
    }

    async fn setting(&self, name: &str) -> Result<Option<Duration>, StoreError> {
        let result = self.session.query_unpaged(SETTING, (name,)).await?;
        let rows = result.into_rows_result().map_err(not_understood)?;
        type Row = (Option<String>,);
        let row = rows.maybe_first_row::<Row>().map_err(not_understood)?;
        let millis = row.and_then(|(text,)| text?.parse().ok());
        Ok(millis.map(Duration::from_millis))
    }
}
