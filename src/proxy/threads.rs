//! The threads that run sessions. Each has a runtime of its own, and its sessions never move, so relaying a message
//! wakes no other thread.

use std::io;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::LocalSet;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::arrival::Arrival;
use super::metrics::Close;
use super::opening;
use super::sessions::Sessions;
use super::shared::Proxy;

/// Maximum number of accepted connections that wait for one busy thread.
const ARRIVALS_MAX: usize = 1024;
const HOUSEKEEPING_EVERY: Duration = Duration::from_secs(1);

pub struct Threads {
    threads: Vec<Thread>,
    ending: watch::Sender<Ending>,
}

/// What ends before the process does.
#[derive(Debug, Clone, Copy)]
enum Ending {
    Nothing,
    /// The sessions that run now, but not the thread.
    Sessions,
    /// All sessions, by the deadline, and the thread.
    Thread(Instant),
}

struct Thread {
    arrivals: mpsc::Sender<Arrival>,
    sessions: Arc<AtomicUsize>,
    /// Taken when the thread is joined.
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Threads {
    pub fn start(threads: usize) -> io::Result<Self> {
        let ending = watch::Sender::new(Ending::Nothing);
        let start = |index| Thread::start(index, ending.subscribe());
        let threads = (0..threads.max(1)).map(start).collect::<io::Result<_>>()?;
        Ok(Self { threads, ending })
    }

    /// Hands a connection to the thread with the fewest sessions.
    pub async fn hand_over(&self, arrival: Arrival) {
        let least = self
            .threads
            .iter()
            .min_by_key(|thread| thread.sessions.load(Ordering::Relaxed));
        if let Some(thread) = least {
            thread.sessions.fetch_add(1, Ordering::Relaxed);
            // If the thread is gone, the proxy is draining, and dropping the arrival closes the connection.
            drop(thread.arrivals.send(arrival).await);
        }
    }

    /// Ends the sessions that run now as soon as their requests in flight are answered, so that drivers reconnect. Does
    /// not wait for that.
    pub fn renew(&self) {
        self.ending.send_replace(Ending::Sessions);
    }

    /// Lets every session answer its requests in flight until the deadline, then ends all sessions.
    pub fn drain(&self, deadline: Instant) {
        self.ending.send_replace(Ending::Thread(deadline));
        for thread in &self.threads {
            let thread = thread
                .thread
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take();
            if thread.is_some_and(|thread| thread.join().is_err()) {
                tracing::error!("a session thread panicked");
            }
        }
    }
}

impl Thread {
    fn start(index: usize, ending: watch::Receiver<Ending>) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (arrivals, receiver) = mpsc::channel(ARRIVALS_MAX);
        let sessions = Arc::new(AtomicUsize::new(0));
        let counted = sessions.clone();
        let work = move || LocalSet::new().block_on(&runtime, carry(receiver, counted, ending));
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

/// Runs a session thread from its start to its drain.
async fn carry(
    mut arrivals: mpsc::Receiver<Arrival>,
    counted: Arc<AtomicUsize>,
    mut ending: watch::Receiver<Ending>,
) {
    let sessions = Rc::new(Sessions::default());
    let mut housekeeping = interval(HOUSEKEEPING_EVERY);
    housekeeping.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let deadline = loop {
        tokio::select! {
            arrival = arrivals.recv() => match arrival {
                Some(arrival) => begin(arrival, sessions.clone(), counted.clone()),
                None => break Instant::now(),
            },
            _ = housekeeping.tick() => sessions.close_overdue(),
            changed = ending.changed() => match *ending.borrow_and_update() {
                Ending::Thread(deadline) => break deadline,
                _ if changed.is_err() => break Instant::now(),
                Ending::Sessions => {
                    let sessions = sessions.clone();
                    tokio::task::spawn_local(async move { sessions.renew().await });
                }
                Ending::Nothing => {}
            },
        }
    };
    sessions.drain(deadline).await;
}

fn begin(arrival: Arrival, sessions: Rc<Sessions>, counted: Arc<AtomicUsize>) {
    let proxy = arrival.proxy.clone();
    tokio::task::spawn_local(async move {
        let _ended = Ended { proxy, counted };
        opening::serve(arrival, sessions).await;
    });
}

/// Its `drop` runs when a session's task ends, however it ends.
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
