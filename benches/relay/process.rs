//! The processes under measurement: started here, measured through /proc, and ended
//! by their own id when the run ends, fails or is interrupted.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::cql::Connection;

/// Everything this run started and has to end.
static CHILDREN: Mutex<Vec<Child>> = Mutex::new(Vec::new());

/// Where load is sent, and the process that carries it (none for the direct path).
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) name: String,
    pub(crate) address: SocketAddr,
    pub(crate) pid: Option<u32>,
}

impl Target {
    pub(crate) fn cpu(&self) -> Result<Option<Cpu>> {
        self.pid.map(Cpu::of_process).transpose()
    }

    /// Resident memory of the process in KiB.
    pub(crate) fn resident_kib(&self) -> Result<Option<u64>> {
        let Some(pid) = self.pid else { return Ok(None) };
        let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let number = line.and_then(|line| line.split_whitespace().next());
        Ok(Some(number.context("no VmRSS in /proc")?.parse()?))
    }
}

/// CPU time spent, user and system together.
pub(crate) struct Cpu(pub(crate) Duration);

impl Cpu {
    /// `utime` in /proc counts ticks of 10 ms; `schedstat` counts nanoseconds, per thread.
    fn of_process(pid: u32) -> Result<Self> {
        let mut sum = Duration::ZERO;
        let tasks = fs::read_dir(format!("/proc/{pid}/task"))
            .with_context(|| format!("process {pid} is gone; see its log"))?;
        for task in tasks {
            sum += read_schedstat(&task?.path().join("schedstat"))?;
        }
        Ok(Self(sum))
    }

    pub(crate) fn of_this_thread() -> Result<Self> {
        Ok(Self(read_schedstat(Path::new(
            "/proc/thread-self/schedstat",
        ))?))
    }
}

fn read_schedstat(path: &Path) -> Result<Duration> {
    let text =
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let on_cpu = text
        .split_whitespace()
        .next()
        .context("schedstat is empty")?;
    Ok(Duration::from_nanos(on_cpu.parse()?))
}

/// HAProxy as a plain TCP relay with its own defaults.
pub(crate) fn start_haproxy(upstream: SocketAddr, directory: &Path) -> Result<Target> {
    let address = free_address()?;
    let config = directory.join("haproxy.cfg");
    let text = format!(
        "global\n    maxconn 4096\n\
         defaults\n    mode tcp\n    timeout connect 5s\n    timeout client 10m\n    timeout server 10m\n\
         frontend cql\n    bind {address}\n    default_backend cassandra\n\
         backend cassandra\n    server node {upstream}\n"
    );
    fs::write(&config, text)?;
    let mut command = Command::new("haproxy");
    command.arg("-db").arg("-f").arg(&config);
    start("haproxy", command, address, directory)
}

/// Narrows with its defaults, apart from addresses and a quiet log.
pub(crate) fn start_narrows(
    binary: &Path,
    upstream: SocketAddr,
    directory: &Path,
) -> Result<Target> {
    let address = free_address()?;
    let admin = free_address()?;
    let config = directory.join("narrows.toml");
    let text = format!(
        "[client]\nlisten = \"{address}\"\n\n[upstream]\ncontact_points = [\"{upstream}\"]\n\n\
         [admin]\nlisten = \"{admin}\"\n\n[log]\nlevel = \"warn\"\n"
    );
    fs::write(&config, text)?;
    let mut command = Command::new(binary);
    command.arg("run").arg("--config").arg(&config);
    start("narrows", command, address, directory)
}

fn start(
    name: &str,
    mut command: Command,
    address: SocketAddr,
    directory: &Path,
) -> Result<Target> {
    let log_path = directory.join(format!("{name}.log"));
    let log = fs::File::create(&log_path)?;
    let child = command
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()
        .with_context(|| format!("cannot start {}", command.get_program().display()))?;
    let pid = child.id();
    CHILDREN
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(child);

    let deadline = Instant::now() + Duration::from_secs(20);
    while let Err(error) = Connection::open(address) {
        if Instant::now() > deadline || !is_running(pid) {
            bail!(
                "{name} does not serve {address} ({error:#}); see {}",
                log_path.display()
            );
        }
        thread::sleep(Duration::from_millis(100));
    }
    Ok(Target {
        name: name.to_owned(),
        address,
        pid: Some(pid),
    })
}

fn is_running(pid: u32) -> bool {
    let mut children = CHILDREN.lock().unwrap_or_else(PoisonError::into_inner);
    let child = children.iter_mut().find(|child| child.id() == pid);
    child.is_some_and(|child| matches!(child.try_wait(), Ok(None)))
}

/// A loopback port that is free now; nothing else here asks for one in between.
fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}

/// Ends the processes of this run when it goes out of scope.
pub(crate) struct EndChildren;

impl Drop for EndChildren {
    fn drop(&mut self) {
        end_children();
    }
}

fn end_children() {
    let mut children = CHILDREN.lock().unwrap_or_else(PoisonError::into_inner);
    for mut child in children.drain(..) {
        // Both fail only for a process that has already ended.
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// An interrupted run must not leave proxies behind.
pub(crate) fn end_children_on_signal() -> Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()?;
    let (mut interrupt, mut terminate) = {
        let _context = runtime.enter();
        (
            signal(SignalKind::interrupt())?,
            signal(SignalKind::terminate())?,
        )
    };
    thread::spawn(move || {
        runtime.block_on(async {
            tokio::select! { _ = interrupt.recv() => {}, _ = terminate.recv() => {} }
        });
        end_children();
        std::process::exit(130);
    });
    Ok(())
}
