//! A relay, that is a proxy without a `[[table]]`, looks for a control keyspace that others made, and follows it: a write
//! that it forwarded unchecked would be missing from answers of the others.
//!
//! It looks before its first client is accepted, and goes on looking. It never creates the keyspace. A session checks its
//! requests from its beginning or not at all, so sessions from before end once their requests are answered.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::cli::exit;
use crate::config::Config;
use crate::known::service::{Role, WideRow};
use crate::process::Background;
use crate::proxy::Proxy;
use crate::proxy::threads::Threads;
use crate::upstream::control::{Control, Health};
use crate::wide_row::open::try_out;

/// How long clients wait for the first look, if a node neither answers nor fails.
const LOOK_PATIENCE: Duration = Duration::from_secs(20);
/// How long they wait for the first trial. After that the keyspace is followed as one that does not answer.
const FIRST_PATIENCE: Duration = Duration::from_secs(10);
/// Pause between trials of a control keyspace that cannot be used, in case somebody is just creating it.
const TRY_AGAIN: Duration = Duration::from_secs(5);
/// A control keyspace is gone if its table is, and nothing could be read from it for so long. One node alone may be wrong
/// about the schema.
const GONE_AFTER: Duration = Duration::from_secs(10);

const UNUSABLE: &str = "a control keyspace exists, but this proxy cannot use it; it forwards writes unchecked, so reads of \
    split partitions through other proxies may miss them; give its role SELECT and MODIFY on the keyspace \
    (docs/security.md), or set control.enabled = false if nobody writes watched tables through it";

/// What the process must run or stop.
pub(crate) enum Change {
    Begun(Background),
    Ended,
}

pub(crate) struct Finding {
    pub(crate) config: Config,
    pub(crate) control: Arc<Control>,
    pub(crate) proxy: Arc<Proxy>,
    pub(crate) threads: Arc<Threads>,
    pub(crate) changes: mpsc::Sender<Change>,
    /// Becomes true when clients may be accepted.
    pub(crate) accepting: watch::Sender<bool>,
    /// Becomes true when nothing has to be loaded, or all of it was.
    pub(crate) loaded: watch::Sender<bool>,
}

/// A control keyspace that is followed.
struct Followed {
    wide_row: WideRow,
    loaded: watch::Receiver<bool>,
}

impl Finding {
    /// Runs for ever.
    pub(crate) async fn run(mut self) {
        // An operator who wants it created says so.
        self.config.control.apply_schema = false;
        let mut found = self.control.found.subscribe();
        let (mut followed, mut told) = (None, String::new());
        if self.first_look(&mut found).await && self.is_usable_at_first(&mut told).await {
            followed = self.begin().await;
        }
        if let Some(followed) = &followed {
            // As with control.enabled = true: until everything is loaded, writes wait.
            self.enter(followed);
        } else {
            self.loaded.send_replace(true);
        }
        self.accepting.send_replace(true);
        loop {
            let followed = match followed.take() {
                Some(followed) => followed,
                None => self.until_followed(&mut found, &mut told).await,
            };
            self.until_gone(&mut found, followed).await;
            self.leave().await;
        }
    }

    /// Whether there is a control keyspace. While that cannot be found out, clients are accepted as in any relay.
    async fn first_look(&self, found: &mut watch::Receiver<Option<bool>>) -> bool {
        let mut health = self.control.health.subscribe();
        let deadline = Instant::now() + LOOK_PATIENCE;
        loop {
            if let Some(found) = *found.borrow_and_update() {
                return found;
            }
            match &*health.borrow_and_update() {
                Health::Starting | Health::Connected => {}
                Health::Lost(_) => {
                    self.accepting.send_replace(true);
                }
                Health::Blind(_) => {
                    self.accepting.send_replace(true);
                    self.loaded.send_replace(true);
                }
            }
            tokio::select! {
                _ = found.changed() => {}
                _ = health.changed() => {}
                () = sleep_until(deadline), if !*self.accepting.borrow() => {
                    self.accepting.send_replace(true);
                }
            }
        }
    }

    /// If its replicas do not answer, splits may be in service all the same: then it is followed, and writes wait.
    async fn is_usable_at_first(&self, told: &mut String) -> bool {
        let Ok(Err(error)) = timeout(FIRST_PATIENCE, try_out(&self.config)).await else {
            return true;
        };
        let error = anyhow::Error::from(error);
        let is_outage = exit::code(&error) == exit::UPSTREAM_UNAVAILABLE;
        if !is_outage {
            tracing::warn!(%error, "{UNUSABLE}");
            *told = error.to_string();
        }
        is_outage
    }

    /// Returns once a control keyspace has appeared, or can be used, and is followed. `told` is the trouble that the log
    /// has told last.
    async fn until_followed(
        &self,
        found: &mut watch::Receiver<Option<bool>>,
        told: &mut String,
    ) -> Followed {
        let mut last = String::new();
        loop {
            if found.wait_for(|found| *found == Some(true)).await.is_err() {
                // The sender is in `self`.
                std::future::pending::<()>().await;
            }
            match try_out(&self.config).await {
                Ok(()) => {
                    if let Some(mut followed) = self.begin().await {
                        // Before that new sessions would hold up writes that old ones forward.
                        drop(followed.loaded.wait_for(|loaded| *loaded).await);
                        self.enter(&followed);
                        return followed;
                    }
                }
                Err(error) => {
                    let error = error.to_string();
                    // A keyspace that is being created is incomplete for a moment.
                    if error == last && error != *told {
                        tracing::warn!(error, "{UNUSABLE}");
                        told.clone_from(&error);
                    }
                    last = error;
                }
            }
            sleep(TRY_AGAIN).await;
        }
    }

    async fn begin(&self) -> Option<Followed> {
        let background = match Background::start(&self.config, Role::Proxy, &self.control) {
            Ok(background) => background,
            Err(error) => {
                tracing::error!(%error, "a control keyspace was found, but following it cannot begin");
                return None;
            }
        };
        let followed = Followed {
            wide_row: background.service.wide_row.clone(),
            loaded: background.service.loaded.clone(),
        };
        // Without a receiver the process is stopping.
        self.changes.send(Change::Begun(background)).await.ok()?;
        Some(followed)
    }

    /// From now on sessions check their requests.
    fn enter(&self, followed: &Followed) {
        self.proxy.follow(Some(followed.wide_row.clone()));
        self.threads.renew();
        tracing::info!(
            keyspace = self.config.control.keyspace,
            "a control keyspace was found; writes are checked against what is split, in new connections"
        );
    }

    /// Returns when somebody has dropped the control keyspace: nothing can be answered from a split then.
    async fn until_gone(&self, found: &mut watch::Receiver<Option<bool>>, followed: Followed) {
        let Followed {
            wide_row,
            mut loaded,
        } = followed;
        loop {
            tokio::select! {
                Ok(_) = loaded.wait_for(|loaded| *loaded), if !*self.loaded.borrow() => {
                    self.loaded.send_replace(true);
                }
                _ = found.changed() => {
                    let is_missing = *found.borrow_and_update() == Some(false);
                    let age = wide_row.known.catalog.since_refresh();
                    if is_missing && age.is_none_or(|age| age > GONE_AFTER) {
                        return;
                    }
                }
            }
        }
    }

    async fn leave(&self) {
        self.proxy.follow(None);
        self.threads.renew();
        self.loaded.send_replace(true);
        tracing::warn!(
            keyspace = self.config.control.keyspace,
            "the control keyspace is gone; this proxy is a relay again, in new connections"
        );
        // Sessions from before end first: what they wait for is answered by the thread that stops.
        sleep(self.proxy.drain_timeout()).await;
        // Without a receiver the process is stopping.
        let _ = self.changes.send(Change::Ended).await;
    }
}
