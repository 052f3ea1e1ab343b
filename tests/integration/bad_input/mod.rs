//! Bad input: an error frame or a clean close, never a panic, and other clients notice nothing.

mod fuzz;
mod garbage;
mod memory;
mod segments;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::client::Received;
use crate::support::{Codec, Proxy, RawClient};

/// Runs `work` while a healthy client asks and asks, and gets every answer.
fn beside_a_healthy_client(proxy: &Proxy, work: impl FnOnce()) {
    let address = proxy.address();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let healthy = scope.spawn(|| {
            let mut client = RawClient::connect(address, Codec::V5_LZ4);
            let mut answers = 0;
            while !done.load(Ordering::Relaxed) || answers == 0 {
                client.query("SELECT keyspace_name FROM system_schema.keyspaces");
                answers += 1;
            }
        });
        // Also when `work` fails: the scope waits for the client.
        let _finish = Finish(&done);
        work();
        drop(_finish);
        healthy.join().expect("the healthy client was untouched");
    });
}

struct Finish<'a>(&'a AtomicBool);

impl Drop for Finish<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Reads to the end, where only errors may come before it.
fn assert_ends_cleanly(client: &mut RawClient, what: &str) -> usize {
    let mut errors = 0;
    loop {
        match client.next() {
            Received::Frame(frame) => {
                assert!(frame.error().is_some(), "{what}: {frame:?}");
                errors += 1;
            }
            Received::Closed => return errors,
            Received::Broken => panic!("{what}: the connection was reset"),
        }
    }
}

/// A client that is told what is wrong with its bytes, and then that it is over.
fn assert_refused(mut client: RawClient, bytes: &[u8], what: &str) {
    client.asking = what.to_owned();
    client.send_raw(bytes);
    let frame = client.receive();
    let (code, _) = frame.error().unwrap_or_else(|| panic!("{what}: {frame:?}"));
    assert_eq!(code, 0x000A, "{what}");
    assert_eq!(client.next(), Received::Closed, "{what}");
}

/// Sends bytes and nothing more.
fn send_and_finish(address: SocketAddr, bytes: &[u8], what: &str) -> usize {
    let mut client = RawClient::open(address, Codec::V4);
    client.asking = what.to_owned();
    // It may be refused before all is sent.
    drop(client.try_send_raw(bytes));
    client.finish();
    assert_ends_cleanly(&mut client, what)
}
