//! Reads the proxy's admin listener.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

/// Status and body of a GET, or nothing when nobody answers.
pub(crate) fn get(admin: SocketAddr, path: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(admin).ok()?;
    stream.set_read_timeout(Some(super::PATIENCE)).ok()?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {admin}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some((status, body.to_owned()))
}

/// The value of one series, spelled as it is exported; nothing if there is none.
pub(crate) fn value(admin: SocketAddr, series: &str) -> Option<f64> {
    let (_, body) = get(admin, "/metrics")?;
    let value = body
        .lines()
        .find_map(|line| line.strip_prefix(series)?.strip_prefix(' '))?;
    value.parse().ok()
}
