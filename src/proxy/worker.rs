//! Threads that carry sessions. Each has a runtime of its own and keeps its sessions to itself, so that relaying a
//! message never wakes another thread.

use std::cell::{Cell, OnceCell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::rc::{Rc, Weak};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::LocalSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

use super::session::{Session, Stage};
use super::{Admission, Close, Proxy, opening};
use crate::upstream::pool::Pool;

/// Accepted connections that a busy thread has not taken yet.
const ARRIVALS_MAX: usize = 1024;
const HOUSEKEEPING_EVERY: Duration = Duration::from_secs(1);
const DRAIN_POLL: Duration = Duration::from_millis(5);

/// A client connection on its way to a thread.
pub struct Arrival {
    pub(super) proxy: Arc<Proxy>,
    pub(super) stream: std::net::TcpStream,
    pub(super) peer: SocketAddr,
    pub(super) target: Target,
    pub(super) admission: Admission,
}

/// Which upstream node a listener stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    Any,
    Node(SocketAddr),
}

pub struct Workers {
    workers: Vec<Worker>,
    drain: watch::Sender<Option<Instant>>,
}

struct Worker {
    arrivals: mpsc::Sender<Arrival>,
    sessions: Arc<AtomicUsize>,
    /// Taken when the thread is waited for.
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Workers {
    pub fn start(threads: usize) -> io::Result<Self> {
        let drain = watch::Sender::new(None);
        let start = |index| Worker::start(index, drain.subscribe());
        let workers = (0..threads.max(1)).map(start).collect::<io::Result<_>>()?;
        Ok(Self { workers, drain })
    }

    /// Hands a connection to the thread with the fewest sessions.
    pub async fn hand_over(&self, arrival: Arrival) {
        let least = self
            .workers
            .iter()
            .min_by_key(|worker| worker.sessions.load(Ordering::Relaxed));
        if let Some(worker) = least {
            worker.sessions.fetch_add(1, Ordering::Relaxed);
            // A thread that is gone is draining; the connection closes with its arrival.
            drop(worker.arrivals.send(arrival).await);
        }
    }

    /// Lets every session answer what is under way until the deadline, then ends them all.
    pub fn drain(&self, deadline: Instant) {
        self.drain.send_replace(Some(deadline));
        for worker in &self.workers {
            let thread = worker
                .thread
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take();
            if thread.is_some_and(|thread| thread.join().is_err()) {
                tracing::error!("a worker thread panicked");
            }
        }
    }
}

impl Worker {
    fn start(index: usize, drain: watch::Receiver<Option<Instant>>) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (arrivals, receiver) = mpsc::channel(ARRIVALS_MAX);
        let sessions = Arc::new(AtomicUsize::new(0));
        let counted = sessions.clone();
        let work = move || LocalSet::new().block_on(&runtime, carry(receiver, counted, drain));
        let thread = std::thread::Builder::new()
            .name(format!("session-{index}"))
            .spawn(work)?;
        Ok(Self {
            arrivals,
            sessions,
            thread: Mutex::new(Some(thread)),
        })
    }
}

/// The life of a worker thread.
async fn carry(
    mut arrivals: mpsc::Receiver<Arrival>,
    counted: Arc<AtomicUsize>,
    mut drain: watch::Receiver<Option<Instant>>,
) {
    let sessions = Rc::new(Sessions::default());
    let mut housekeeping = interval(HOUSEKEEPING_EVERY);
    housekeeping.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            arrival = arrivals.recv() => match arrival {
                Some(arrival) => begin(arrival, sessions.clone(), counted.clone()),
                None => break,
            },
            _ = housekeeping.tick() => sessions.close_overdue(),
            _ = drain.changed() => break,
        }
    }
    let deadline = drain.borrow().unwrap_or_else(Instant::now);
    sessions.drain(deadline).await;
}

fn begin(arrival: Arrival, sessions: Rc<Sessions>, counted: Arc<AtomicUsize>) {
    let proxy = arrival.proxy.clone();
    tokio::task::spawn_local(async move {
        let _ended = Ended { proxy, counted };
        opening::serve(arrival, sessions).await;
    });
}

/// Runs when a session's task ends, however it does.
struct Ended {
    proxy: Arc<Proxy>,
    counted: Arc<AtomicUsize>,
}

impl Drop for Ended {
    fn drop(&mut self) {
        self.counted.fetch_sub(1, Ordering::Relaxed);
        if std::thread::panicking() {
            self.proxy.metrics.closed(Close::Panic);
            tracing::error!("a session panicked and was ended; please report this");
        }
    }
}

/// The sessions of one thread.
#[derive(Default)]
pub(super) struct Sessions {
    all: RefCell<Vec<Kept>>,
    /// Sessions that have not closed their client's connection yet; some are no longer in `all`.
    carried: Cell<usize>,
    /// Made with the first session.
    pool: OnceCell<Rc<Pool>>,
}

struct Kept {
    session: Weak<Session>,
    began: Instant,
    /// The activity last seen, and when it last changed.
    seen: Cell<(u64, Instant)>,
}

impl Sessions {
    pub(super) fn pool(&self, proxy: &Proxy) -> Rc<Pool> {
        let pool = || Rc::new(Pool::new(proxy.pool.clone()));
        self.pool.get_or_init(pool).clone()
    }

    /// Counts a session in until the returned guard is dropped.
    pub(super) fn add(self: &Rc<Self>, session: &Rc<Session>) -> Carried {
        self.carried.set(self.carried.get() + 1);
        let began = Instant::now();
        let seen = Cell::new((session.activity(), began));
        self.all.borrow_mut().push(Kept {
            session: Rc::downgrade(session),
            began,
            seen,
        });
        Carried(self.clone())
    }

    /// Ends sessions that are idle for too long, or that never finish their handshake.
    fn close_overdue(&self) {
        let now = Instant::now();
        self.all.borrow_mut().retain(|kept| {
            let Some(session) = kept.session.upgrade() else {
                return false;
            };
            let (activity, since) = kept.seen.get();
            if session.activity() != activity {
                kept.seen.set((session.activity(), now));
            } else if now - since > session.proxy.idle_timeout() {
                session.close(Close::Idle);
            }
            let patience = session.proxy.config.limits.handshake_timeout;
            if session.stage.get() != Stage::Established && now - kept.began > patience {
                session.close(Close::Handshake);
            }
            true
        });
    }

    async fn drain(&self, deadline: Instant) {
        while self.carried.get() > 0 {
            for session in self
                .all
                .borrow()
                .iter()
                .filter_map(|kept| kept.session.upgrade())
            {
                session.drain();
                if !session.has_requests_under_way() {
                    session.close(Close::Drain);
                }
            }
            if Instant::now() >= deadline {
                let sessions = self.carried.get();
                tracing::warn!(
                    sessions,
                    "limits.drain_timeout is over, sessions with requests are cut off"
                );
                return;
            }
            sleep(DRAIN_POLL).await;
        }
    }
}

/// A session that is counted until it has closed.
pub(super) struct Carried(Rc<Sessions>);

impl Drop for Carried {
    fn drop(&mut self) {
        self.0.carried.set(self.0.carried.get() - 1);
    }
}
