//! The time by the cluster's own clocks, which decide what has expired.

use std::sync::Arc;
use std::time::{Duration, Instant};

use scylla::client::session::Session;
use scylla::policies::load_balancing::{NodeIdentifier, SingleTargetLoadBalancingPolicy};
use scylla::statement::{Consistency, Statement};
use tokio::task::JoinSet;
use uuid::Uuid;

use super::{Store, StoreError, not_understood};
use crate::wide_row::clock::unix_millis;

const NODE_TIMEOUT: Duration = Duration::from_secs(2);
const NOW: &str = "SELECT toUnixTimestamp(now()) FROM system.local";
/// How far this machine's clock may be from a node's.
const OFF_MAX_MILLIS: i64 = 30_000;

#[derive(Debug, thiserror::Error)]
pub enum TimeError {
    #[error("no node told its time")]
    Silent,
    #[error(
        "this machine's clock is {seconds} s {way} a Cassandra node's; no split is made or compared until both agree \
         within 30 s: check NTP on both"
    )]
    Off { seconds: i64, way: &'static str },
}

/// How far a node's clock is ahead of ours, at least and at most: its answer took a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ahead {
    least: i64,
    most: i64,
}

impl Store {
    /// Seconds since 1970 by the node whose clock is behind all others: what has expired then has expired everywhere.
    pub async fn now(&self) -> Result<i32, TimeError> {
        let mut asked = JoinSet::new();
        for node in self.session.get_cluster_state().get_nodes_info() {
            if node.is_connected() {
                asked.spawn(ahead(self.session.clone(), node.host_id));
            }
        }
        let mut clocks = Vec::new();
        while let Some(answer) = asked.join_next().await {
            if let Ok(Ok(ahead)) = answer {
                clocks.push(ahead);
            }
        }
        let seconds = earliest(&clocks, unix_millis())? / 1000;
        Ok(i32::try_from(seconds).unwrap_or(i32::MAX))
    }
}

async fn ahead(session: Arc<Session>, host_id: Uuid) -> Result<Ahead, StoreError> {
    let target = SingleTargetLoadBalancingPolicy::new(NodeIdentifier::HostId(host_id), None);
    let mut statement = Statement::new(NOW);
    statement.set_load_balancing_policy(Some(target));
    statement.set_consistency(Consistency::One);
    statement.set_request_timeout(Some(NODE_TIMEOUT));
    let (asked_at, began) = (unix_millis(), Instant::now());
    let result = session.query_unpaged(statement, ()).await?;
    let took = i64::try_from(began.elapsed().as_millis()).unwrap_or(i64::MAX);
    let rows = result.into_rows_result().map_err(not_understood)?;
    let (now,) = rows.first_row::<(i64,)>().map_err(not_understood)?;
    let most = now.saturating_sub(asked_at);
    Ok(Ahead {
        least: most.saturating_sub(took),
        most,
    })
}

/// The time by the slowest clock, in milliseconds since 1970.
fn earliest(clocks: &[Ahead], now: i64) -> Result<i64, TimeError> {
    for clock in clocks {
        let (seconds, way) = match clock {
            Ahead { least, .. } if *least > OFF_MAX_MILLIS => (least / 1000, "behind"),
            Ahead { most, .. } if *most < -OFF_MAX_MILLIS => (-most / 1000, "ahead of"),
            _ => continue,
        };
        return Err(TimeError::Off { seconds, way });
    }
    let least = clocks.iter().map(|clock| clock.least).min();
    Ok(now.saturating_add(least.ok_or(TimeError::Silent)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ahead(least: i64, most: i64) -> Ahead {
        Ahead { least, most }
    }

    #[test]
    fn the_slowest_clock_counts() {
        let clocks = [ahead(-20, 5), ahead(-1500, -1400), ahead(900, 1000)];
        assert_eq!(earliest(&clocks, 10_000).expect("all near"), 8_500);
        assert!(matches!(earliest(&[], 10_000), Err(TimeError::Silent)));
    }

    #[test]
    fn a_clock_that_is_off_is_told_and_a_slow_answer_is_not() {
        let told = |clock| earliest(&[ahead(0, 0), clock], 0).map_err(|error| error.to_string());
        assert!(told(ahead(31_000, 31_500)).is_err_and(|text| text.contains("31 s behind")));
        assert!(told(ahead(-90_000, -60_000)).is_err_and(|text| text.contains("60 s ahead of")));
        assert!(told(ahead(-40_000, 0)).is_ok(), "the answer took 40 s");
    }
}
