//! Prepared statements of watched tables: what a client prepares, the proxy does not prepare once more.

use super::world::World;
use super::{Ask, CODECS};
use crate::support::eventually;
use crate::support::request::Value;

const PREPARED_UPSTREAM: &str = "narrows_proxy_prepared_upstream_total";

#[test]
fn a_statement_is_not_prepared_twice() {
    let mut world = World::start(&[(1, 10), (4, 10)]);
    world.split(1);
    let mut attempt = 0;
    // After a change of the schema, which another test may have made, statements are prepared again.
    eventually("nothing is prepared twice", || {
        attempt += 1;
        let before = world.proxy.metric(PREPARED_UPSTREAM);
        for codec in CODECS {
            // Of its own, so that nobody has prepared it.
            let text = format!("SELECT v AS v{attempt} FROM {{}} WHERE k = ?");
            for key in [1, 4, 1] {
                let ask = Ask::new(codec, world.text(&text))
                    .with(&[Value::int(key)])
                    .prepared(true);
                let reply = ask.once(&mut world.through);
                assert!(reply.error().is_none(), "{ask:?}: {:?}", reply.error());
            }
        }
        (world.proxy.metric(PREPARED_UPSTREAM) == before).then_some(())
    });
}
