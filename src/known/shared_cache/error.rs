//! Why Redis did not answer, in words that are safe to log.
//!
//! A server's own texts may repeat arguments, which contain clients' keys. So only the kind of an error is kept.

use std::io;

use redis::{ErrorKind, RedisError, ServerErrorKind};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SharedCacheError {
    #[error("cannot connect: {0}")]
    Connect(io::ErrorKind),
    #[error("cannot connect: the tls handshake failed ({0})")]
    Tls(String),
    #[error("the login was refused")]
    Login,
    #[error("the user may not use getrange or set on narrows:v2:*")]
    NotAllowed,
    #[error("no answer in time")]
    Timeout,
    #[error("the connection was lost")]
    Lost,
    /// The key holds something other than a string. Not a failure of Redis.
    #[error("the key holds another type")]
    OtherType,
    #[error("redis refused the command ({0})")]
    Refused(&'static str),
    #[error("the answer is not redis protocol")]
    Protocol,
}

impl From<RedisError> for SharedCacheError {
    fn from(error: RedisError) -> Self {
        match error.kind() {
            ErrorKind::AuthenticationFailed => Self::Login,
            ErrorKind::Io => Self::Lost,
            ErrorKind::Parse | ErrorKind::UnexpectedReturnType => Self::Protocol,
            ErrorKind::Server(kind) => refused(kind),
            _ => match error.code() {
                Some("NOAUTH" | "WRONGPASS") => Self::Login,
                Some("WRONGTYPE") => Self::OtherType,
                Some("OOM") => Self::Refused("out of memory"),
                Some("MISCONF") => Self::Refused("cannot persist"),
                _ => Self::Refused("another reason"),
            },
        }
    }
}

fn refused(kind: ServerErrorKind) -> SharedCacheError {
    SharedCacheError::Refused(match kind {
        ServerErrorKind::NoPerm => return SharedCacheError::NotAllowed,
        ServerErrorKind::BusyLoading => "loading",
        ServerErrorKind::ReadOnly => "read-only",
        ServerErrorKind::MasterDown => "master down",
        ServerErrorKind::Moved | ServerErrorKind::Ask | ServerErrorKind::ClusterDown => {
            "a redis cluster, which is not supported"
        }
        _ => "another reason",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from_server(line: &str) -> SharedCacheError {
        let reply = redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).unwrap();
        reply.extract_error().unwrap_err().into()
    }

    #[test]
    fn server_errors_keep_their_kind_and_lose_their_text() {
        for (line, expected) in [
            ("NOAUTH Authentication required.", SharedCacheError::Login),
            ("WRONGPASS for user topsecret", SharedCacheError::Login),
            (
                "NOPERM no permissions for topsecret",
                SharedCacheError::NotAllowed,
            ),
            ("WRONGTYPE topsecret", SharedCacheError::OtherType),
            ("LOADING topsecret", SharedCacheError::Refused("loading")),
            (
                "ERR unknown command, with args beginning with: topsecret",
                SharedCacheError::Refused("another reason"),
            ),
            (
                "TOPSECRET topsecret",
                SharedCacheError::Refused("another reason"),
            ),
        ] {
            let error = from_server(line);
            assert_eq!(error, expected);
            let text = format!("{error} {error:?}").to_lowercase();
            assert!(!text.contains("topsecret"), "{text}");
        }
    }
}
