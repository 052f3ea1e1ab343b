//! The real binary, started for one test and ended with it.
//!
//! Every WARN or ERROR that it logs must have been announced by the test, unless it only says that the machine is very busy.
//! Anything else on its stderr is a panic.

use std::env;
use std::fs::{self, File};
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};

use super::{Cluster, eventually, metrics};

/// What a proxy or a worker says when Cassandra was slow, and goes on from by itself. Whoever gives no reason besides, as
/// in [`SLOW`], is not meant.
const BUSY: [&str; 8] = [
    "cannot be followed; writes and reads go on",
    "could not be written down, trying again",
    "could not be compared with the control keyspace",
    "the work on a split stopped, and will be retried",
    "a split was not compared again, and will be retried later",
    "the control keyspace cannot be used yet",
    "the split pipeline cannot use the control keyspace yet",
    "timeouts cannot be read yet",
];
/// That a request to Cassandra was not answered in time, or refused because a node was too slow.
const SLOW: [&str; 4] = [
    "does not answer",
    "it is not known whether a change",
    "in time",
    "answered 0x1",
];

static STARTED: AtomicU16 = AtomicU16::new(1);

pub(crate) struct Proxy {
    process: Child,
    client: SocketAddr,
    admin: SocketAddr,
    log: PathBuf,
    expected: Vec<&'static str>,
}

/// What differs from a plain proxy in front of a cluster.
pub(crate) struct Builder {
    contact_points: Vec<SocketAddr>,
    settings: Vec<(String, String)>,
    toml: String,
    client: Option<SocketAddr>,
    expected: Vec<&'static str>,
    wait_for: &'static str,
    command: &'static str,
}

impl Proxy {
    pub(crate) fn start(cluster: &Cluster) -> Self {
        Self::builder(cluster.nodes()).start()
    }

    pub(crate) fn builder(contact_points: &[SocketAddr]) -> Builder {
        Builder {
            contact_points: contact_points.to_vec(),
            // Beside other tests the schema changes all the time.
            settings: vec![(
                "NARROWS__LIMITS__SCHEMA_AGREEMENT_TIMEOUT".to_owned(),
                "50s".to_owned(),
            )],
            toml: String::new(),
            client: None,
            expected: Vec::new(),
            wait_for: "/readyz",
            command: "run",
        }
    }

    /// Where clients connect (`single`).
    pub(crate) fn address(&self) -> SocketAddr {
        self.client
    }

    /// A series of `/metrics`; one that was never counted is 0.
    pub(crate) fn metric(&self, series: &str) -> u64 {
        metrics::value(self.admin, series).unwrap_or_default() as u64
    }

    /// All of `/metrics`.
    pub(crate) fn metrics(&self) -> String {
        metrics::get(self.admin, "/metrics").unwrap_or_default().1
    }

    /// The sum of all series of a name whose labels have this text among them.
    pub(crate) fn metric_sum(&self, name: &str, label: &str) -> u64 {
        let (_, body) = metrics::get(self.admin, "/metrics").unwrap_or_default();
        let values = body.lines().filter_map(|line| {
            let rest = line.strip_prefix(name)?;
            let (labels, value) = rest.rsplit_once(' ')?;
            let is_it = labels.is_empty() || labels.starts_with('{');
            let is_it = is_it && labels.contains(label);
            is_it.then(|| value.parse::<f64>().ok())?
        });
        values.sum::<f64>() as u64
    }

    pub(crate) fn status(&self, path: &str) -> Option<u16> {
        Some(metrics::get(self.admin, path)?.0)
    }

    /// Resident memory in KiB.
    pub(crate) fn memory_kib(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.id()))
            .expect("the proxy runs");
        let line = status.lines().find(|line| line.starts_with("VmRSS:"));
        let size = line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
        size.expect("a line VmRSS")
    }

    pub(crate) fn terminate(&self) {
        self.signal("TERM");
    }

    /// Sends a signal, such as `STOP`.
    pub(crate) fn signal(&self, name: &str) {
        let kill = Command::new("kill")
            .args(["-s", name, &self.process.id().to_string()])
            .status();
        assert!(kill.expect("kill is installed").success());
    }

    pub(crate) fn wait_for_exit(&mut self) -> ExitStatus {
        eventually("the proxy ends", || {
            self.process.try_wait().expect("our child")
        })
    }

    /// Ends it as a crash would, and starts another on the same address.
    pub(crate) fn restart(self, builder: Builder) -> Self {
        let client = self.client;
        drop(self);
        Builder {
            client: Some(client),
            ..builder
        }
        .start()
    }

    /// The lines logged so far.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).expect("the log is a file of ours")
    }

    fn unexpected_lines(&self) -> Vec<String> {
        let log = self.log();
        let is_trouble = |line: &&str| {
            let has_one = |texts: &[&str]| texts.iter().any(|text| line.contains(text));
            let quiet = has_one(&["\"level\":\"INFO\"", "\"level\":\"DEBUG\""]);
            let busy = has_one(&BUSY) && has_one(&SLOW);
            !quiet && !busy && !has_one(&self.expected)
        };
        log.lines().filter(is_trouble).map(str::to_owned).collect()
    }
}

impl Builder {
    /// Sets `section.key`, as the environment would.
    pub(crate) fn set(mut self, key: &str, value: &str) -> Self {
        let variable = format!("NARROWS__{}", key.replace('.', "__").to_uppercase());
        self.settings.push((variable, value.to_owned()));
        self
    }

    /// Ends at this place of the pipeline, as `kill -9` would end it.
    pub(crate) fn failing_at(mut self, place: &str) -> Self {
        let variable = "NARROWS_FAIL_POINT".to_owned();
        self.settings.push((variable, place.to_owned()));
        self
    }

    /// Its clock is so many seconds ahead of everybody's, or behind.
    pub(crate) fn with_clock_off_by(mut self, seconds: i32) -> Self {
        let library = fs::read_dir("/usr/lib")
            .expect("a directory")
            .filter_map(|entry| Some(entry.ok()?.path().join("faketime/libfaketimeMT.so.1")))
            .find(|path| path.exists())
            .expect("the package libfaketime is installed");
        let library = library.to_string_lossy().into_owned();
        let more = [
            ("LD_PRELOAD", library),
            ("FAKETIME", format!("{seconds:+}")),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
        ];
        let more = more.map(|(name, value)| (name.to_owned(), value));
        self.settings.extend(more);
        self
    }

    /// More of the configuration file, such as a `[[table]]`.
    pub(crate) fn toml(mut self, text: &str) -> Self {
        self.toml += text;
        self
    }

    /// A text that may stand in a WARN or ERROR of this test.
    pub(crate) fn expecting(mut self, text: &'static str) -> Self {
        self.expected.push(text);
        self
    }

    /// Does not wait for the proxy to be ready, only for its process.
    pub(crate) fn unready(mut self) -> Self {
        self.wait_for = "/livez";
        self
    }

    /// `narrows worker` instead of a proxy: it serves nobody, and has the same metrics.
    pub(crate) fn worker(mut self) -> Self {
        self.command = "worker";
        self
    }

    pub(crate) fn start(self) -> Proxy {
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let directory = super::root().join("target/tmp/integration");
        fs::create_dir_all(&directory).expect("target is ours to write");
        let stem = directory.join(format!("{}-{number}", std::process::id()));
        let [client, admin] = free(number);
        let client = self.client.unwrap_or(client);
        let (config, log) = (stem.with_extension("toml"), stem.with_extension("log"));
        fs::write(&config, self.config(client, admin)).expect("a config file");
        let process = Command::new(binary())
            .args([self.command, "--config"])
            .arg(&config)
            .envs(self.settings)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log).expect("a log file"))
            .spawn()
            .expect("the binary was built");
        let mut proxy = Proxy {
            process,
            client,
            admin,
            log,
            expected: self.expected,
        };
        eventually("the proxy answers", || {
            let ended = proxy.process.try_wait().expect("our child");
            assert!(ended.is_none(), "it ended: {}", proxy.log());
            (proxy.status(self.wait_for) == Some(200)).then_some(())
        });
        proxy
    }

    fn config(&self, client: SocketAddr, admin: SocketAddr) -> String {
        let contact_points: Vec<String> = self
            .contact_points
            .iter()
            .map(|address| format!("\"{address}\""))
            .collect();
        format!(
            "[client]\nlisten = \"{client}\"\n[admin]\nlisten = \"{admin}\"\n[log]\nformat = \"json\"\n\
             [upstream]\ncontact_points = [{}]\n{}",
            contact_points.join(", "),
            self.toml
        )
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let panics = self.metric("narrows_proxy_closes_total{reason=\"panic\"}");
        // It may have ended already, as the test wanted.
        drop(self.process.kill());
        drop(self.process.wait());
        let trouble = self.unexpected_lines();
        if std::thread::panicking() {
            return;
        }
        assert_eq!(panics, 0, "sessions panicked, see {}", self.log.display());
        assert!(trouble.is_empty(), "unexpected in the log: {trouble:#?}");
    }
}

/// Two free ports on a loopback address that no other proxy of this process uses, so that nobody takes them meanwhile.
fn free(number: u16) -> [SocketAddr; 2] {
    let [high, low] = number.to_be_bytes();
    let address = std::net::Ipv4Addr::new(127, 90, high + 1, low);
    // Both are held until both are known: a port that is free again might be given twice.
    let probes = [0, 1].map(|_| TcpListener::bind((address, 0)).expect("a free port"));
    probes.map(|probe| probe.local_addr().expect("bound"))
}

/// The build of this profile, unless another one is named: what is measured should be what people run.
fn binary() -> PathBuf {
    let named = env::var_os("NARROWS_BINARY").map(PathBuf::from);
    named.unwrap_or_else(|| env!("CARGO_BIN_EXE_narrows").into())
}
