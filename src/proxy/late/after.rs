//! The reply to a write waits until what the write touched is out of service; that to a schema change also for the nodes.

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
                let reply = in_flight.finish(&known, reply).await;
                match changes_schema && agreement::is_schema_change(reply.header, &reply.body) {
                    true => agreement::wait(wire, reply).await,
                    false => reply,
                }
            });
    }
}
