//! Settings that concern all proxies and workers of one control keyspace together.

use std::time::Duration;

use scylla::statement::prepared::PreparedStatement;

use super::cas::{answered, bind, send};
use super::{Store, StoreError, not_understood};

const MAX_STALENESS: &str = "max_staleness";

impl Store {
    /// Announces that a proxy is about to run with this `max_staleness`. From then on every guard waits at least that
    /// long: if this proxy does not know of a guard when it is published, then by the time of the copy it knows of it
    /// or has stopped forwarding writes. Returns the longest of all.
    pub async fn announce_max_staleness(&self, own: Duration) -> Result<Duration, StoreError> {
        // A read nearby is enough here: the value was agreed on, so a later SERIAL read returns at least this
        // one.
        let statement = self.nearby(&self.statements.fleet_nearby);
        let known = self.fleet_value(&statement, MAX_STALENESS).await?;
        let known = known.map(duration);
        if let Some(known) = known.filter(|known| *known >= own) {
            return Ok(known);
        }
        let own = i64::try_from(own.as_millis()).unwrap_or(i64::MAX);
        let first = || {
            let values = bind![MAX_STALENESS, own];
            send(&self.session, &self.statements.begin_fleet, values)
        };
        if answered(first).await?.applied {
            return Ok(duration(own));
        }
        let longer = || {
            let values = bind![own, MAX_STALENESS, own];
            send(&self.session, &self.statements.raise_fleet, values)
        };
        let answer = answered(longer).await?;
        let longest = if answer.applied {
            Some(own)
        } else {
            answer.bigint("value")
        };
        let missing = || not_understood("fleet has no value for max_staleness");
        longest.map(duration).ok_or_else(missing)
    }

    /// The longest `max_staleness` that any proxy announced before this call.
    pub async fn read_max_staleness(&self) -> Result<Option<Duration>, StoreError> {
        let value = self
            .fleet_value(&self.statements.fleet, MAX_STALENESS)
            .await?;
        Ok(value.map(duration))
    }

    /// For a setting that no LWT changes: a quorum of the own data centre has what was acknowledged.
    pub(super) async fn read_fleet_nearby(&self, name: &str) -> Result<Option<i64>, StoreError> {
        self.fleet_value(&self.statements.fleet_nearby, name).await
    }

    /// For a setting that no LWT changes.
    pub(super) async fn write_fleet(&self, name: &str, value: i64) -> Result<(), StoreError> {
        let statement = &self.statements.set_fleet;
        self.session
            .execute_unpaged(statement, (value, name))
            .await?;
        Ok(())
    }

    async fn fleet_value(
        &self,
        statement: &PreparedStatement,
        name: &str,
    ) -> Result<Option<i64>, StoreError> {
        let result = self.session.execute_unpaged(statement, (name,));
        let rows = result.await?.into_rows_result().map_err(not_understood)?;
        type Row = (Option<i64>,);
        let row = rows.maybe_first_row::<Row>().map_err(not_understood)?;
        Ok(row.and_then(|(value,)| value))
    }
}

fn duration(millis: i64) -> Duration {
    Duration::from_millis(u64::try_from(millis).unwrap_or(0))
}
