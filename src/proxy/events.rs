//! Events as the client may see them. The client sees no events of split tables.
//!
//! `single` shows one node that never comes or goes, so it drops node events: after a DOWN or REMOVED_NODE, drivers
//! would drop their only node. `mirror` replaces the node's address with the mirrored one, and holds back UP and
//! NEW_NODE until the node has a listener.

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use tokio::time::timeout;

use super::topology::Presented;
use super::wire::Wire;
use crate::protocol::header::{Envelope, opcode};
use crate::protocol::response::event::{self, Event};
use crate::protocol::types::Cursor;

const EVENT_STREAM: i16 = -1;
/// A node without a listener by then is not announced. The driver finds it when it reconnects.
const LISTENER_PATIENCE: Duration = Duration::from_secs(30);

pub(super) async fn pass_on(wire: &Rc<Wire>, reply: Envelope) -> io::Result<()> {
    let Presented::Mirror { .. } = wire.presented else {
        return Ok(());
    };
    let Ok(Event::Node {
        kind,
        change,
        address,
    }) = event::read(Cursor::new(&reply.body))
    else {
        return Ok(());
    };
    let mirrored = wire.presented.address_of(address.ip());
    let body = event::encode_node(kind, change, mirrored);
    if matches!(change, "UP" | "NEW_NODE") {
        announce_when_listening(wire, mirrored, body);
        return Ok(());
    }
    wire.reply(EVENT_STREAM, (0, opcode::EVENT), body).await
}

fn announce_when_listening(wire: &Rc<Wire>, mirrored: SocketAddr, body: Vec<u8>) {
    wire.proxy.suspicion.notify_one();
    let mut listening = wire.proxy.mirrored.subscribe();
    // The session may end meanwhile, and this task must not keep it alive.
    let wire = Rc::downgrade(wire);
    tokio::task::spawn_local(async move {
        let bound = listening.wait_for(|addresses| addresses.contains(&mirrored));
        if !matches!(timeout(LISTENER_PATIENCE, bound).await, Ok(Ok(_))) {
            return;
        }
        if let Some(wire) = wire.upgrade() {
            // A client that has gone needs no event.
            drop(wire.reply(EVENT_STREAM, (0, opcode::EVENT), body).await);
        }
    });
}
