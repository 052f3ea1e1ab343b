//! Clients that begin and never go on: they cost little, and it is given back.

use std::io::Write;
use std::net::TcpStream;

use super::beside_a_healthy_client;
use crate::support::{Codec, Proxy, RawClient, eventually, scale, single_cluster};

const CLIENTS: usize = 2000;
/// Per client, with the kernel's buffers not counted: a task, a socket, and what was sent.
const KIB_PER_CLIENT_MAX: u64 = 16;

#[test]
fn half_open_clients_cost_little_and_leave_nothing_behind() {
    let cluster = single_cluster();
    let proxy = Proxy::start(&cluster);
    let crowd = || -> Vec<TcpStream> {
        let start = |_| {
            let mut client = TcpStream::connect(proxy.address()).expect("the proxy listens");
            client.write_all(&[4, 0, 0, 1, 1]).expect("it reads");
            client
        };
        (0..CLIENTS / 2).map(start).collect()
    };
    let connected = |count: usize| {
        eventually("all clients are counted", || {
            (proxy.metric("narrows_proxy_connections") == count as u64).then_some(())
        });
    };
    // The first crowd makes the process as large as it needs to be.
    drop(crowd());
    connected(0);
    let before = proxy.memory_kib();
    beside_a_healthy_client(&proxy, || {
        for _ in 0..2 * scale() {
            let crowd = crowd();
            connected(crowd.len() + 1);
            let grown = proxy.memory_kib().saturating_sub(before);
            let most = crowd.len() as u64 * KIB_PER_CLIENT_MAX;
            assert!(grown < most, "{grown} KiB for {} clients", crowd.len());
            drop(crowd);
            connected(1);
        }
    });
    let grown = proxy.memory_kib().saturating_sub(before);
    assert!(grown < 4096, "{grown} KiB are left behind");
}

#[test]
fn refused_clients_leave_nothing_behind() {
    let cluster = single_cluster();
    let proxy = Proxy::start(&cluster);
    let crowd = |count: usize| {
        for number in 0..count {
            let client = RawClient::connect(proxy.address(), Codec::V5_LZ4);
            super::assert_refused(client, &[number as u8; 600], "noise for segments");
        }
    };
    crowd(100);
    let before = proxy.memory_kib();
    crowd(300 * scale());
    let grown = proxy.memory_kib().saturating_sub(before);
    assert!(grown < 4096, "{grown} KiB are left behind");
}
