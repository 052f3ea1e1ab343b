//! Real Redis servers, each a process on an address of its own, without persistence.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};

use super::eventually;

static STARTED: AtomicU16 = AtomicU16::new(0);

pub(crate) struct Redis {
    process: Child,
    pub(crate) address: SocketAddr,
    directory: PathBuf,
}

/// A server that is not started yet: its directory is there for certificates.
pub(crate) struct Unstarted {
    pub(crate) address: SocketAddr,
    pub(crate) directory: PathBuf,
}

impl Redis {
    pub(crate) fn start() -> Self {
        let unstarted = Self::prepare();
        let port = unstarted.address.port();
        unstarted.start(&format!("port {port}"))
    }

    /// With further lines of its configuration, such as users.
    pub(crate) fn start_with(lines: &str) -> Self {
        let unstarted = Self::prepare();
        let port = unstarted.address.port();
        unstarted.start(&format!("port {port}\n{lines}"))
    }

    pub(crate) fn prepare() -> Unstarted {
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let [high, low] = number.to_be_bytes();
        let address = Ipv4Addr::new(127, 91, high + 1, low);
        let probe = TcpListener::bind((address, 0)).expect("a free port");
        let name = format!("{}-{number}", std::process::id());
        let directory = super::root().join("target/tmp/redis").join(name);
        fs::create_dir_all(&directory).expect("target is ours to write");
        Unstarted {
            address: probe.local_addr().expect("bound"),
            directory,
        }
    }

    /// Ends it as a crash would.
    pub(crate) fn kill(&mut self) {
        self.process.kill().expect("our child");
        self.process.wait().expect("our child");
    }

    /// Starts it again after [`Self::kill`], empty.
    pub(crate) fn restart(&mut self) {
        self.process = spawn(&self.directory);
    }

    /// It keeps its connections and accepts others, and says nothing.
    pub(crate) fn pause(&self) {
        self.signal("-STOP");
    }

    pub(crate) fn resume(&self) {
        self.signal("-CONT");
    }

    /// Runs a command past the code under test.
    pub(crate) fn run<T: ::redis::FromRedisValue>(&self, command: &::redis::Cmd) -> T {
        let url = format!("redis://{}/", self.address);
        let client = ::redis::Client::open(url).expect("a right address");
        let mut connection = client.get_connection().expect("redis runs");
        command.query(&mut connection).expect("redis obeys")
    }

    fn signal(&self, signal: &str) {
        let pid = self.process.id().to_string();
        let kill = Command::new("kill").args([signal, &pid]).status();
        assert!(kill.expect("kill is installed").success());
    }
}

impl Unstarted {
    /// `lines` say on which port, with or without TLS.
    pub(crate) fn start(self, lines: &str) -> Redis {
        let Self { address, directory } = self;
        let config = format!("bind {}\nsave \"\"\n{lines}\n", address.ip());
        fs::write(directory.join("redis.conf"), config).expect("a config file");
        Redis {
            process: spawn(&directory),
            address,
            directory,
        }
    }
}

fn spawn(directory: &Path) -> Child {
    let log = directory.join("redis.log");
    let mut process = Command::new("redis-server")
        .arg("redis.conf")
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(File::create(&log).expect("a log file"))
        .spawn()
        .expect("redis-server is installed, see tests/need.sh");
    eventually("redis listens", || {
        let ended = process.try_wait().expect("our child");
        assert!(ended.is_none(), "it ended, see {}", log.display());
        let said = fs::read_to_string(&log).expect("the log is ours");
        said.contains("Ready to accept connections").then_some(())
    });
    process
}

impl Drop for Redis {
    fn drop(&mut self) {
        // It may have been killed already, as the test wanted.
        drop(self.process.kill());
        drop(self.process.wait());
        if !std::thread::panicking() {
            drop(fs::remove_dir_all(&self.directory));
        }
    }
}
