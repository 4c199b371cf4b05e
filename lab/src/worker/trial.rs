//! One side of a trial, in a process of its own: gets its orders through a socket, reports through it.
//!
//! The conversation, each message one line of JSON: [`Order`] (with the shared memory as a descriptor) → `ready` →
//! `go` → [`SideReport`]. A side that fails answers with `failed` instead and ends.

use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use fullbore_sys::{Error, Result};
use serde::{Deserialize, Serialize};

use super::config::Config;
use super::failure::Failure;
use super::reader::Reader;
use super::side::{Counters, Path, Watch};
use super::wire;
use super::writer::Writer;
use crate::sys::{self, Shared, SharedMemory, Usage};

/// Which side a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Writes into the pipe that is its standard output; its standard input is the socket.
    Writer,
    /// Reads from the pipe that is its standard input; its standard output is the socket.
    Reader,
}

/// When the measured part of a trial ends.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Until {
    /// After so many seconds.
    Seconds(f64),
    /// After so many bytes.
    Bytes(u64),
}

/// What a side has to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Order {
    /// Which side it is.
    pub role: Role,
    /// What the pair does.
    pub config: Config,
    /// The CPU to run on.
    pub cpu: usize,
    /// Seconds that are not measured, at the start.
    pub warm_up_s: f64,
    /// End of the measured part.
    pub until: Until,
}

/// What a side did in the measured part.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SideReport {
    /// Seconds, CLOCK_MONOTONIC.
    pub seconds: f64,
    /// Bytes moved.
    pub bytes: u64,
    /// System calls that move bytes.
    pub calls: u64,
    /// Those that found the pipe full or empty.
    pub eagain: u64,
    /// CPU seconds used.
    pub cpu_s: f64,
    /// Context switches because it waited.
    pub voluntary_switches: u64,
    /// Context switches because something else ran.
    pub involuntary_switches: u64,
    /// Page faults without I/O.
    pub minor_faults: u64,
    /// Seconds it could have run and was not let to; absent where the kernel does not tell.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub run_queue_wait_s: Option<f64>,
    /// How bytes moved.
    pub path: Path,
}

/// What a side answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Answer {
    Ready,
    Report(Box<Finished>),
    Failed(Failure),
}

/// A side that has ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Finished {
    /// What it did.
    pub report: SideReport,
    /// Start and end of the measured part, in ns of `CLOCK_MONOTONIC`.
    pub measured_ns: [u64; 2],
}

/// Phases of a trial, in the shared memory. The reader turns the page, the writer follows.
const WARM_UP: u64 = 0;
const MEASURED: u64 = 1;
const OVER: u64 = 2;

/// Serves one trial, as the process that [`super::pair::run`] starts.
///
/// # Errors
/// The socket broke, which means that the coordinator is gone. Other failures are sent to it.
pub fn serve() -> Result<()> {
    let broken = |e: std::io::Error| {
        Error::system(
            "a side of a trial lost its coordinator",
            e,
            "this command is started by `fullbore ladder`, not by hand",
        )
    };
    // Nobody would end a side whose coordinator was killed: a spinning one would burn a CPU.
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    let (stdin, stdout) = (rustix::stdio::stdin(), rustix::stdio::stdout());
    let is_socket = |fd| {
        rustix::fs::fstat(fd).is_ok_and(|s| {
            rustix::fs::FileType::from_raw_mode(s.st_mode) == rustix::fs::FileType::Socket
        })
    };
    let socket = if is_socket(stdin) { stdin } else { stdout };
    let socket =
        UnixStream::from(rustix::io::fcntl_dupfd_cloexec(socket, 3).map_err(|e| broken(e.into()))?);
    let (order, shared) = receive_order(&socket).map_err(broken)?;
    let answer = match work(&order, &shared, &socket) {
        Ok(finished) => Answer::Report(Box::new(finished)),
        Err(e) => Answer::Failed(Failure::from(&e)),
    };
    say(&socket, &answer).map_err(broken)
}

fn say(mut socket: &UnixStream, answer: &Answer) -> std::io::Result<()> {
    let mut line = serde_json::to_string(answer)?;
    line.push('\n');
    socket.write_all(line.as_bytes())
}

/// Reads the order, and the descriptor that comes with it.
fn receive_order(socket: &UnixStream) -> std::io::Result<(Order, SharedMemory)> {
    let (line, mut descriptors) = wire::receive(socket)?;
    let memory = descriptors.pop().ok_or(std::io::ErrorKind::InvalidData)?;
    Ok((serde_json::from_str(&line)?, SharedMemory::open(memory)?))
}

fn wait_for_go(socket: &UnixStream) -> Result<()> {
    let mut go = [0];
    match rustix::io::read(socket, &mut go) {
        Ok(1) => Ok(()),
        Ok(_) => Err(Error::new(
            "the trial was given up",
            "the coordinator is gone",
            "",
        )),
        Err(e) => Err(Error::system("the trial was given up", e, "")),
    }
}

fn work(order: &Order, shared: &SharedMemory, socket: &UnixStream) -> Result<Finished> {
    sys::pin_to_cpu(order.cpu)?;
    let ready = || {
        let said = say(socket, &Answer::Ready);
        said.map_err(|e| Error::system("the trial was given up", e, ""))?;
        wait_for_go(socket)
    };
    let no_progress = |who: &str| {
        Error::new(
            format!("the {who} measured nothing"),
            "the other side ended before the warm-up was over",
            "look at its own message",
        )
    };
    match order.role {
        Role::Writer => {
            let mut writer = Writer::prepare(&order.config, standard(Role::Writer), Some(shared))?;
            ready()?;
            let mut watch = Following::new(shared);
            let counters = writer.run(None, &mut watch)?;
            watch.span.close(&counters);
            let report = watch
                .span
                .report(|start, end| writer.path_between(start, end));
            report.ok_or_else(|| no_progress("writer"))
        }
        Role::Reader => {
            let mut reader = Reader::prepare(&order.config, standard(Role::Reader), Some(shared))?;
            ready()?;
            let mut watch = Leading::new(shared, order);
            reader.run(None, &mut watch)?;
            let report = watch.span.report(|_, _| reader.path());
            report.ok_or_else(|| no_progress("reader"))
        }
    }
}

fn standard(role: Role) -> BorrowedFd<'static> {
    match role {
        Role::Writer => rustix::stdio::stdout(),
        Role::Reader => rustix::stdio::stdin(),
    }
}

/// The measured part of one side: what it had done at its start and at its end.
#[derive(Debug, Default)]
struct Span {
    start: Option<Moment>,
    end: Option<Moment>,
}

#[derive(Clone, Copy, Debug)]
struct Moment {
    at: Instant,
    monotonic_ns: u64,
    usage: Usage,
    counters: Counters,
}

impl Moment {
    fn now(counters: &Counters) -> Self {
        Self {
            usage: sys::usage(),
            monotonic_ns: sys::monotonic_ns(),
            at: Instant::now(),
            counters: *counters,
        }
    }
}

impl Span {
    fn open(&mut self, counters: &Counters) {
        self.start = Some(Moment::now(counters));
    }

    fn close(&mut self, counters: &Counters) {
        if self.end.is_none() {
            self.end = Some(Moment::now(counters));
        }
    }

    fn report(&self, path: impl FnOnce(&Counters, &Counters) -> Path) -> Option<Finished> {
        let (start, end) = (self.start?, self.end?);
        let (u0, u1) = (start.usage, end.usage);
        let (c0, c1) = (start.counters, end.counters);
        let wait = |u: Usage| u.run_queue_wait;
        let report = SideReport {
            seconds: (end.at - start.at).as_secs_f64(),
            bytes: c1.bytes - c0.bytes,
            calls: c1.calls - c0.calls,
            eagain: c1.would_block - c0.would_block,
            cpu_s: (u1.cpu - u0.cpu).as_secs_f64(),
            voluntary_switches: u1.voluntary_switches - u0.voluntary_switches,
            involuntary_switches: u1.involuntary_switches - u0.involuntary_switches,
            minor_faults: u1.minor_faults - u0.minor_faults,
            run_queue_wait_s: wait(u1)
                .zip(wait(u0))
                .map(|(after, before)| after.saturating_sub(before).as_secs_f64()),
            path: path(&c0, &c1),
        };
        Some(Finished {
            report,
            measured_ns: [start.monotonic_ns, end.monotonic_ns],
        })
    }
}

/// The writer: measures while the reader does.
struct Following<'a> {
    shared: &'a SharedMemory,
    seen: u64,
    span: Span,
}

impl<'a> Following<'a> {
    fn new(shared: &'a SharedMemory) -> Self {
        Self {
            shared,
            seen: WARM_UP,
            span: Span::default(),
        }
    }
}

impl Watch for Following<'_> {
    #[inline]
    fn go_on(&mut self, counters: &Counters) -> bool {
        let phase = self.shared.number(Shared::Phase).load(Ordering::Relaxed);
        if phase != self.seen {
            self.seen = phase;
            match phase {
                MEASURED => self.span.open(counters),
                _ => self.span.close(counters),
            }
        }
        phase < OVER
    }
}

/// The reader: decides when warm-up and measured part are over.
struct Leading<'a> {
    shared: &'a SharedMemory,
    warm_up: Duration,
    until: Until,
    began: Option<Instant>,
    look_at: u64,
    span: Span,
}

impl<'a> Leading<'a> {
    fn new(shared: &'a SharedMemory, order: &Order) -> Self {
        Self {
            shared,
            warm_up: Duration::from_secs_f64(order.warm_up_s),
            until: order.until,
            began: None,
            look_at: 0,
            span: Span::default(),
        }
    }

    fn is_over(&self, counters: &Counters) -> bool {
        match (&self.span.start, self.until) {
            (Some(start), Until::Seconds(s)) => start.at.elapsed().as_secs_f64() >= s,
            (Some(start), Until::Bytes(n)) => counters.bytes - start.counters.bytes >= n,
            (None, _) => false,
        }
    }
}

/// The reader looks at the clock once per so many bytes: at 100 GiB/s every 10 µs, at 1 GiB/s every millisecond.
const BYTES_PER_LOOK: u64 = 1 << 20;

impl Watch for Leading<'_> {
    #[inline]
    fn go_on(&mut self, counters: &Counters) -> bool {
        if counters.bytes < self.look_at {
            return true;
        }
        self.look_at = counters.bytes + BYTES_PER_LOOK;
        let began = *self.began.get_or_insert_with(Instant::now);
        if self.span.start.is_none() && began.elapsed() >= self.warm_up {
            self.span.open(counters);
            self.shared
                .number(Shared::Phase)
                .store(MEASURED, Ordering::Relaxed);
        }
        if self.is_over(counters) {
            self.span.close(counters);
            self.shared
                .number(Shared::Phase)
                .store(OVER, Ordering::Relaxed);
            return false;
        }
        true
    }
}

/// Tells a side its order, and hands it the shared memory.
pub(crate) fn send_order(
    socket: &UnixStream,
    order: &Order,
    shared: &SharedMemory,
) -> std::io::Result<()> {
    let line = serde_json::to_string(order)?;
    let memory = shared.descriptor();
    wire::send(socket, &line, &[memory.as_fd()])
}
