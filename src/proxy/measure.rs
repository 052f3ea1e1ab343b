//! A session without a client. Benchmarks show requests and replies to its judge, and measure what the judge costs.

use std::io;
use std::rc::Rc;
use std::sync::Arc;

use tokio::net::{TcpListener, TcpStream};

use super::decision::Taken;
use super::prepared::Statement;
use super::session::Session;
use super::shared::Proxy;
use super::topology::Presented;
use super::wire::Wire;
use crate::protocol::deframer::{Verdict, View};
use crate::protocol::header::Version;
use crate::transport::{Stream, Writer};
use crate::upstream::pool::Pool;

pub struct MeasuredSession {
    session: Rc<Session>,
    /// The other ends of the session's two connections.
    _peers: [TcpStream; 2],
}

impl MeasuredSession {
    pub async fn open(proxy: Arc<Proxy>) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let (client, client_peer) = writer(&listener).await?;
        let (upstream, upstream_peer) = writer(&listener).await?;
        let presented = Presented::Single { address };
        let pool = Rc::new(Pool::new(proxy.pool.clone()));
        let wire = Wire::new(proxy, presented, Version::V5, client, (address, upstream));
        Ok(Self {
            session: Session::new(wire, 0, pool),
            _peers: [client_peer, upstream_peer],
        })
    }

    /// Whether the request is forwarded at once, on a node that has every statement.
    pub fn forwards(&self, request: View<'_>) -> bool {
        match self.session.judge_request(request) {
            Verdict::Forward | Verdict::ForwardThen(_) => true,
            // Only the first EXECUTE of a statement gets here. A real session would now prepare it upstream.
            Verdict::Take(Taken::PrepareFirst(statements, _)) => {
                let set_on = |statement: &Arc<Statement>| statement.set_on(self.session.wire.node);
                statements.iter().for_each(set_on);
                self.forwards(request)
            }
            Verdict::Take(_)
            | Verdict::Discard(_)
            | Verdict::Collect
            | Verdict::More
            | Verdict::Head => false,
        }
    }

    /// Whether the reply passes at once.
    pub fn passes(&self, reply: View<'_>) -> bool {
        let verdict = self.session.judge_reply(reply);
        matches!(verdict, Verdict::Forward | Verdict::ForwardThen(_))
    }
}

async fn writer(listener: &TcpListener) -> io::Result<(Writer, TcpStream)> {
    let ours = TcpStream::connect(listener.local_addr()?).await?;
    let (peer, _) = listener.accept().await?;
    let (_, writer) = Stream::Tcp(ours).split();
    Ok((writer, peer))
}
