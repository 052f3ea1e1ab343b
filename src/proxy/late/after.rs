//! Holds the reply to a write until the splits that it touched are retired. The reply to a schema change also waits
//! until the nodes agree.

use super::checker::WriteChecker;
use super::in_flight::Replied;
use crate::proxy::agreement;
use crate::proxy::wire::Wire;

impl WriteChecker {
    pub(in crate::proxy) fn check_reply(&self, replied: Replied) {
        let Replied {
            in_flight,
            reply,
            held,
        } = replied;
        let known = self.wide_row.known.clone();
        let changes_schema = in_flight.changes_schema();
        self.wire
            .hold_reply(held, reply, async move |wire: &Wire, reply| {
                let ask = async |text: &str| wire.ask_rows(text).await;
                in_flight.list_if_stale(&known, ask).await;
                let reply = in_flight.finish(&known, reply).await;
                match changes_schema && agreement::is_schema_change(reply.header, &reply.body) {
                    true => agreement::wait(wire, reply).await,
                    false => reply,
                }
            });
    }
}
