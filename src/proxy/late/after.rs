//! The reply to a write waits until what the write touched is out of service; that to a schema change also for the nodes.

use super::checker::WriteChecker;
use super::in_flight::InFlight;
use crate::protocol::Envelope;
use crate::proxy::agreement;
use crate::proxy::held::Held;
use crate::proxy::wire::Wire;

impl WriteChecker {
    pub(in crate::proxy) fn check_reply(&self, in_flight: Box<InFlight>, reply: Envelope) {
        let known = self.wide_row.known.clone();
        let changes_schema = in_flight.changes_schema();
        // There is no limit here: what is held was let in when it was a request.
        let Some(held) = Held::begin(&self.wire.held, usize::MAX) else {
            return;
        };
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
