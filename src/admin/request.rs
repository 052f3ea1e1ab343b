//! Reads the head of one HTTP/1 request: only as much as four read-only routes need.

use tokio::io::{AsyncRead, AsyncReadExt};

/// The largest head accepted; our requests need a hundredth of it.
const HEAD_BYTES_MAX: usize = 8 * 1024;

/// What the client asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) method: Method,
    /// Without the query string.
    pub(super) path: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Method {
    Get,
    Head,
    /// Well-formed, but not supported.
    Other,
}

/// Why there is no request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The client left without asking for anything; there is nobody to answer.
    Gone,
    Malformed,
    TooLarge,
}

/// Reads up to the empty line that ends the head. A body, if any, is not read.
pub(super) async fn read_request(
    stream: &mut (impl AsyncRead + Unpin),
) -> Result<Request, Refusal> {
    let mut head = Vec::with_capacity(1024);
    loop {
        let already = head.len();
        let read = stream
            .take((HEAD_BYTES_MAX - already) as u64)
            .read_buf(&mut head)
            .await;
        match read {
            Ok(0) if head.is_empty() => return Err(Refusal::Gone),
            Ok(0) => return Err(Refusal::Malformed),
            Ok(_) => {}
            Err(_) => return Err(Refusal::Gone),
        }
        // The end may straddle two reads.
        let searched = already.saturating_sub(3);
        if head[searched..]
            .windows(4)
            .any(|bytes| bytes == b"\r\n\r\n")
        {
            return parse(&head).ok_or(Refusal::Malformed);
        }
        if head.len() == HEAD_BYTES_MAX {
            return Err(Refusal::TooLarge);
        }
    }
}

/// The request line of RFC 9112 §3; header fields make no difference here and are ignored.
fn parse(head: &[u8]) -> Option<Request> {
    let line = head.split(|byte| *byte == b'\r').next()?;
    let line = std::str::from_utf8(line).ok()?;
    let mut words = line.split(' ');
    let (method, target, version) = (words.next()?, words.next()?, words.next()?);
    let is_token = !method.is_empty()
        && method
            .bytes()
            .all(|byte| byte.is_ascii_alphabetic() || byte == b'-');
    if words.next().is_some() || !is_token || !matches!(version, "HTTP/1.0" | "HTTP/1.1") {
        return None;
    }
    let method = match method {
        "GET" => Method::Get,
        "HEAD" => Method::Head,
        _ => Method::Other,
    };
    let path = target
        .split('?')
        .next()
        .filter(|path| path.starts_with('/'))?;
    Some(Request {
        method,
        path: path.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path_of(head: &str) -> Option<String> {
        parse(head.as_bytes()).map(|request| request.path)
    }

    #[test]
    fn reads_the_request_line() {
        assert_eq!(
            path_of("GET /livez?verbose HTTP/1.1\r\n\r\n").as_deref(),
            Some("/livez")
        );
        let request = parse(b"PATCH / HTTP/1.0\r\n\r\n").expect("well-formed");
        assert_eq!(request.method, Method::Other);
    }

    #[test]
    fn refuses_what_is_not_http_1() {
        for line in [
            "",
            "GET",
            "GET /",
            "GET / HTTP/2.0",
            "GET  / HTTP/1.1",
            "GET x HTTP/1.1",
            "\u{1} / HTTP/1.1",
            "GET / HTTP/1.1 x",
        ] {
            assert_eq!(path_of(&format!("{line}\r\n\r\n")), None, "{line:?}");
        }
    }

    #[tokio::test]
    async fn finds_the_end_however_the_bytes_arrive() {
        let (mut near, mut far) = tokio::io::duplex(1);
        let writer = tokio::spawn(async move {
            tokio::io::AsyncWriteExt::write_all(&mut near, b"GET /x HTTP/1.1\r\nA: b\r\n\r\n").await
        });
        let request = read_request(&mut far).await.expect("complete");
        assert_eq!(
            request,
            Request {
                method: Method::Get,
                path: "/x".to_owned()
            }
        );
        writer.await.expect("no panic").expect("written");
    }

    #[tokio::test]
    async fn bounds_the_head() {
        let endless = vec![b'a'; HEAD_BYTES_MAX + 1];
        assert_eq!(
            read_request(&mut endless.as_slice()).await,
            Err(Refusal::TooLarge)
        );
        assert_eq!(
            read_request(&mut b"GET / HT".as_slice()).await,
            Err(Refusal::Malformed)
        );
        assert_eq!(read_request(&mut b"".as_slice()).await, Err(Refusal::Gone));
    }
}
