//! The load generator: plain threads, blocking sockets, one read and one write per
//! batch of responses, so that most of the machine is left to what is measured.

use std::io::{Read, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};

use crate::cql::{Connection, Execute, Scanner};
use crate::data::Workload;
use crate::process::{Cpu, Target};

const CONNECTIONS: usize = 4;
const IN_FLIGHT_PER_CONNECTION: u16 = 8;
const READ_BYTES: usize = 64 * 1024;
/// Stream ids a fixed-rate connection cycles through; four seconds' worth at 500/s.
const FIXED_RATE_STREAMS: u16 = 2048;

/// What one slice of load showed.
#[derive(Clone, Copy)]
pub(crate) struct Slice {
    pub(crate) requests_per_second: f64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    /// CPU of the target's process per request; none for the direct path.
    pub(crate) cpu_us: Option<f64>,
    /// CPU of the load generator's own threads per request.
    pub(crate) generator_cpu_us: f64,
}

/// Each connection keeps its requests in flight: an answer releases the next one.
pub(crate) fn closed_loop(target: &Target, workload: &Workload, length: Duration) -> Result<Slice> {
    measure(target, workload, |connection, execute, seed| {
        run_closed_loop(connection, &execute, workload, length, seed)
    })
}

/// `rate` requests per second in total, sent on time whether or not answers came;
/// latency counts from the moment the request was due, so a stall is not hidden.
pub(crate) fn fixed_rate(
    target: &Target,
    workload: &Workload,
    length: Duration,
    rate: u32,
) -> Result<Slice> {
    let interval = Duration::from_secs(1) * u32::try_from(CONNECTIONS)? / rate;
    measure(target, workload, |connection, execute, seed| {
        // Spread the connections over the interval rather than firing together.
        let offset = interval * u32::try_from(seed)? / u32::try_from(CONNECTIONS)?;
        run_fixed_rate(connection, &execute, workload, length, (interval, offset))
    })
}

/// Opens fresh connections (so that no round depends on how a proxy happened to
/// place an earlier one), runs one thread per connection and adds up.
fn measure(
    target: &Target,
    workload: &Workload,
    run: impl Fn(Connection, Execute, u64) -> Result<Vec<u32>> + Sync,
) -> Result<Slice> {
    let mut ready = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut connection = Connection::open(target.address)?;
        let execute = Execute::new(&connection.prepare(workload.select)?);
        ready.push((connection, execute));
    }
    let cpu_before = target.cpu()?;
    let started = Instant::now();
    let results: Vec<Result<(Vec<u32>, Cpu)>> = thread::scope(|scope| {
        let run = &run;
        let threads: Vec<_> = (0u64..)
            .zip(ready)
            .map(|(seed, (connection, execute))| {
                scope.spawn(move || Ok((run(connection, execute, seed)?, Cpu::of_this_thread()?)))
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| {
                thread
                    .join()
                    .unwrap_or_else(|_| Err(anyhow!("a load thread panicked")))
            })
            .collect()
    });
    let elapsed = started.elapsed();
    let cpu_after = target.cpu()?;

    let mut latencies = Vec::new();
    let mut generator = Duration::ZERO;
    for result in results {
        let (some, cpu) = result.with_context(|| format!("load on {} failed", target.name))?;
        latencies.extend(some);
        generator += cpu.0;
    }
    ensure!(!latencies.is_empty(), "{} answered nothing", target.name);
    latencies.sort_unstable();
    let count = latencies.len() as f64;
    let per_request = |cpu: Duration| cpu.as_secs_f64() * 1e6 / count;
    Ok(Slice {
        requests_per_second: count / elapsed.as_secs_f64(),
        p50_us: percentile(&latencies, 50),
        p99_us: percentile(&latencies, 99),
        cpu_us: cpu_before
            .zip(cpu_after)
            .map(|(before, after)| per_request(after.0.saturating_sub(before.0))),
        generator_cpu_us: per_request(generator),
    })
}

fn run_closed_loop(
    mut connection: Connection,
    execute: &Execute,
    workload: &Workload,
    length: Duration,
    seed: u64,
) -> Result<Vec<u32>> {
    let mut latencies = Vec::with_capacity(1 << 16);
    let mut buffer = vec![0; READ_BYTES];
    let mut scanner = Scanner::default();
    let mut keys = Keys::new(seed, workload.keys);
    let mut out = Vec::new();
    let started = Instant::now();
    let mut sent_at: [Option<Instant>; IN_FLIGHT_PER_CONNECTION as usize] =
        [Some(started); IN_FLIGHT_PER_CONNECTION as usize];
    let mut in_flight = IN_FLIGHT_PER_CONNECTION;
    for stream in 0..IN_FLIGHT_PER_CONNECTION {
        execute.append(&mut out, stream, keys.next());
    }
    while in_flight > 0 {
        if !out.is_empty() {
            connection.socket.write_all(&out)?;
            out.clear();
        }
        let got = read_some(&mut connection, &mut buffer)?;
        let now = Instant::now();
        let more = now - started < length;
        let mut stray = None;
        scanner.feed(&buffer[..got], |stream| {
            let slot = sent_at.get_mut(usize::from(stream));
            let Some(sent) = slot.and_then(|slot| std::mem::replace(slot, more.then_some(now)))
            else {
                stray = Some(stream);
                return;
            };
            latencies.push(nanos(now - sent));
            if more {
                execute.append(&mut out, stream, keys.next());
            } else {
                in_flight -= 1;
            }
        })?;
        ensure!(
            stray.is_none(),
            "an answer on stream {stray:?}, which asked nothing"
        );
    }
    Ok(latencies)
}

fn run_fixed_rate(
    mut connection: Connection,
    execute: &Execute,
    workload: &Workload,
    length: Duration,
    (interval, offset): (Duration, Duration),
) -> Result<Vec<u32>> {
    let total = usize::try_from(length.as_nanos() / interval.as_nanos())?;
    // When the request on each stream was due, in nanoseconds since the start; 0 = free.
    let due_at: Vec<AtomicU64> = (0..FIXED_RATE_STREAMS).map(|_| AtomicU64::new(0)).collect();
    let mut receiver = Connection {
        socket: connection.socket.try_clone()?,
    };
    let started = Instant::now();
    thread::scope(|scope| {
        let receiving = scope.spawn(|| receive(&mut receiver, &due_at, started, total));
        let mut keys = Keys::new(7, workload.keys);
        let mut out = Vec::new();
        for (number, stream) in (0u32..).zip((0..FIXED_RATE_STREAMS).cycle()).take(total) {
            let due = offset + interval * (number + 1);
            thread::sleep(due.saturating_sub(started.elapsed()));
            let slot = &due_at[usize::from(stream)];
            if slot.swap(due.as_nanos() as u64, Ordering::AcqRel) != 0 {
                // Ends the receiver too, which would otherwise wait for its timeout.
                connection.socket.shutdown(std::net::Shutdown::Both)?;
                return Err(anyhow!("the target cannot keep up with the fixed rate"));
            }
            execute.append(&mut out, stream, keys.next());
            connection.socket.write_all(&out)?;
            out.clear();
        }
        receiving
            .join()
            .unwrap_or_else(|_| Err(anyhow!("the receiving thread panicked")))
    })
}

fn receive(
    connection: &mut Connection,
    due_at: &[AtomicU64],
    started: Instant,
    total: usize,
) -> Result<Vec<u32>> {
    let mut latencies = Vec::with_capacity(total);
    let mut buffer = vec![0; READ_BYTES];
    let mut scanner = Scanner::default();
    while latencies.len() < total {
        let got = read_some(connection, &mut buffer)?;
        let now = started.elapsed();
        let mut stray = None;
        scanner.feed(&buffer[..got], |stream| {
            let due = due_at
                .get(usize::from(stream))
                .map_or(0, |slot| slot.swap(0, Ordering::AcqRel));
            if due == 0 {
                stray = Some(stream);
            }
            latencies.push(nanos(now.saturating_sub(Duration::from_nanos(due))));
        })?;
        ensure!(
            stray.is_none(),
            "an answer on stream {stray:?}, which asked nothing"
        );
    }
    Ok(latencies)
}

fn read_some(connection: &mut Connection, buffer: &mut [u8]) -> Result<usize> {
    let got = connection
        .socket
        .read(buffer)
        .context("no answer within the read timeout, or the connection broke")?;
    ensure!(got > 0, "the connection was closed with requests in flight");
    Ok(got)
}

/// A small xorshift generator: the keys asked for need spread, not quality.
struct Keys {
    state: u64,
    count: u32,
}

impl Keys {
    fn new(seed: u64, count: u32) -> Self {
        let state = 0x9E37_79B9_7F4A_7C15 ^ (seed + 1).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        Self { state, count }
    }

    fn next(&mut self) -> u32 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        (self.state >> 32) as u32 % self.count
    }
}

fn nanos(latency: Duration) -> u32 {
    u32::try_from(latency.as_nanos()).unwrap_or(u32::MAX)
}

fn percentile(sorted_nanos: &[u32], percent: usize) -> f64 {
    let index = (sorted_nanos.len() - 1) * percent / 100;
    f64::from(sorted_nanos[index]) / 1e3
}
