//! What one process of a trial does: it gets an `Order` and descriptors, works, measures itself, and reports.
//!
//! The conversation, each message one line of JSON: order → `ready` → `go` → report; or `failed`, at any point.

use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use fullbore_sys::{Error, Result};
use serde::{Deserialize, Serialize};

use super::{conduit, files, latency, memory, stream};
use crate::failure::Failure;
use crate::latency::RoundTrips;
use crate::sys::{self, Usage};
use crate::wire;

/// What a process does, and with which descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Job {
    /// Writes messages into the descriptor until nobody reads them.
    Send,
    /// Reads messages from the descriptor.
    Receive,
    /// Sends a byte and waits for it to come back: where to write, where to read.
    Ping,
    /// Sends every byte back: where to write, where to read.
    Pong,
    /// Reads the file again and again.
    FileReread,
    /// Maps the file and reads it again and again.
    MmapReread,
    /// Copies between two buffers with memcpy.
    BcopyLibc,
    /// Copies word by word.
    BcopyHand,
    /// Reads a buffer word by word.
    MemRead,
    /// Writes a buffer word by word.
    MemWrite,
    /// From the first descriptor, a file, to the second through a private pipe, by splice.
    Splice,
    /// From the first descriptor, a file, to the second through a buffer, by read and write.
    Copy,
    /// From the file to so many pipes of its own, by splice and tee.
    Tee(usize),
    /// From the file to so many pipes of its own, by read and write.
    Spread(usize),
}

/// What a process has to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Order {
    pub job: Job,
    pub cpu: usize,
    pub time: Time,
    /// Bytes of a buffer or file.
    pub bytes: u64,
}

/// When to measure.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Time {
    /// Seconds that are not measured, at the start.
    pub warm_up_s: f64,
    /// Seconds that are; absent for a process that works until the other one has had enough.
    pub measured_s: Option<f64>,
}

/// What a process measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Bytes moved.
    pub bytes: u64,
    /// Seconds, CLOCK_MONOTONIC.
    pub seconds: f64,
    /// CPU seconds used.
    pub cpu_s: f64,
    /// Round trips, where that was the job.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub round_trips: Option<RoundTrips>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Answer {
    Ready,
    Report(Report),
    Failed(Failure),
}

/// Serves one trial, as the process that [`super::measure::measure`] starts; the socket is its standard input.
///
/// # Errors
/// The socket broke, which means that the coordinator is gone. Other failures are sent to it.
pub fn serve() -> Result<()> {
    let broken = |e: io::Error| {
        Error::system(
            "a process of a trial lost its coordinator",
            e,
            "this command is started by `fullbore bandwidth`, not by hand",
        )
    };
    // Nobody would end a process whose coordinator was killed.
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    let socket = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3);
    let socket = UnixStream::from(socket.map_err(|e| broken(e.into()))?);
    let (line, descriptors) = wire::receive(&socket).map_err(broken)?;
    let order: Order = serde_json::from_str(&line).map_err(|e| broken(e.into()))?;
    let answer = match work(&order, descriptors, &socket) {
        Ok(report) => Answer::Report(report),
        Err(e) => Answer::Failed(Failure::from(&e)),
    };
    say(&socket, &answer).map_err(broken)
}

fn say(mut socket: &UnixStream, answer: &Answer) -> io::Result<()> {
    let line = serde_json::to_string(answer)? + "\n";
    socket.write_all(line.as_bytes())
}

/// What a job calls once its memory is ready; returns when all processes of the trial are.
pub(super) type Ready<'a> = &'a mut dyn FnMut() -> Result<()>;

fn work(order: &Order, descriptors: Vec<OwnedFd>, socket: &UnixStream) -> Result<Report> {
    sys::pin_to_cpu(order.cpu)?;
    let mut ready = || {
        let given_up = |e: io::Error| Error::system("the trial was given up", e, "");
        say(socket, &Answer::Ready).map_err(given_up)?;
        match fullbore_sys::calls::read(socket, &mut [0]).map_err(given_up)? {
            1 => Ok(()),
            _ => Err(given_up(io::ErrorKind::UnexpectedEof.into())),
        }
    };
    let (time, bytes) = (order.time, order.bytes);
    match order.job {
        Job::Send => stream::send(one(descriptors)?, time, &mut ready),
        Job::Receive => stream::receive(one(descriptors)?, time, &mut ready),
        Job::Ping => latency::ping(two(descriptors)?, time, &mut ready),
        Job::Pong => latency::pong(two(descriptors)?, &mut ready),
        Job::FileReread => files::reread(one(descriptors)?, time, &mut ready),
        Job::MmapReread => files::mmap_reread(one(descriptors)?, bytes, time, &mut ready),
        Job::BcopyLibc => memory::bcopy_libc(bytes, time, &mut ready),
        Job::BcopyHand => memory::bcopy_hand(bytes, time, &mut ready),
        Job::MemRead => memory::read(bytes, time, &mut ready),
        Job::MemWrite => memory::write(bytes, time, &mut ready),
        Job::Splice => conduit::splice(two(descriptors)?, time, &mut ready),
        Job::Copy => conduit::copy(two(descriptors)?, time, &mut ready),
        Job::Tee(outputs) => conduit::tee(one(descriptors)?, outputs, time, &mut ready),
        Job::Spread(outputs) => conduit::spread(one(descriptors)?, outputs, time, &mut ready),
    }
}

fn one(descriptors: Vec<OwnedFd>) -> Result<OwnedFd> {
    let [one] = exactly(descriptors)?;
    Ok(one)
}

fn two(descriptors: Vec<OwnedFd>) -> Result<[OwnedFd; 2]> {
    exactly(descriptors)
}

fn exactly<const N: usize>(descriptors: Vec<OwnedFd>) -> Result<[OwnedFd; N]> {
    descriptors.try_into().map_err(|got: Vec<_>| {
        Error::new(
            "the order of a trial is wrong",
            format!("{} descriptors came with it, not {N}", got.len()),
            "",
        )
    })
}

/// What a process says whose partner is gone: the partner's own message explains it.
pub(super) const NOTHING: &str = "a trial measured nothing";

/// The clock is read once per so many bytes: at 100 GiB/s every 10 µs, at 1 GiB/s every millisecond.
const BYTES_PER_LOOK: u64 = 1 << 20;

/// Repeats `step`, which returns how many bytes it moved, and measures after the warm-up. Without a time of its own it
/// goes on until the other side is gone, which is the end it reports then.
pub(super) fn timed(time: Time, mut step: impl FnMut() -> io::Result<usize>) -> Result<Report> {
    let began = Mark::now(0);
    let warm_up = Duration::from_secs_f64(time.warm_up_s);
    let measured = time.measured_s.map(Duration::from_secs_f64);
    let mut start: Option<Mark> = None;
    let (mut bytes, mut look_at) = (0, 0);
    loop {
        if bytes >= look_at {
            look_at = bytes + BYTES_PER_LOOK;
            match &start {
                None if began.at.elapsed() >= warm_up => start = Some(Mark::now(bytes)),
                Some(mark) if measured.is_some_and(|m| mark.at.elapsed() >= m) => {
                    return Ok(mark.report(bytes));
                }
                _ => {}
            }
        }
        match step() {
            Ok(0) => break,
            Ok(n) => bytes += n as u64,
            Err(e) if is_goodbye(&e) => break,
            Err(e) => return Err(Error::system("moving bytes failed", e, "")),
        }
    }
    if measured.is_some() || bytes == 0 {
        return Err(Error::new(
            NOTHING,
            "the other side ended before its time",
            "look at its own message",
        ));
    }
    // On a CPU that it shared, the own warm-up may have lasted until the other side had had enough.
    let start = start.filter(|mark| bytes - mark.bytes >= BYTES_PER_LOOK);
    Ok(start.unwrap_or(began).report(bytes))
}

/// What ends a sender whose receiver has seen enough. TCP resets a connection that is closed with data in it.
fn is_goodbye(e: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset};
    matches!(e.kind(), BrokenPipe | ConnectionReset)
}

/// The beginning of the measured part.
struct Mark {
    usage: Usage,
    bytes: u64,
    at: Instant,
}

impl Mark {
    fn now(bytes: u64) -> Self {
        Self {
            usage: sys::usage(),
            bytes,
            at: Instant::now(),
        }
    }

    fn report(&self, bytes: u64) -> Report {
        let seconds = self.at.elapsed().as_secs_f64();
        Report {
            bytes: bytes - self.bytes,
            seconds,
            cpu_s: sys::usage()
                .cpu
                .saturating_sub(self.usage.cpu)
                .as_secs_f64(),
            round_trips: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Time = Time {
        warm_up_s: 0.0,
        measured_s: Some(0.01),
    };

    #[test]
    fn the_measured_part_is_as_long_as_asked_and_counts_its_own_bytes_only() {
        let mut all = 0;
        let report = timed(
            Time {
                warm_up_s: 0.01,
                ..SHORT
            },
            || {
                all += 1 << 20;
                std::thread::sleep(Duration::from_micros(100));
                Ok(1 << 20)
            },
        )
        .unwrap();
        assert!(report.seconds >= 0.01, "{report:?}");
        assert!(report.bytes > 0 && report.bytes < all, "{report:?}");
    }

    #[test]
    fn an_end_is_a_report_only_for_those_who_wait_for_it() {
        let until_end = Time {
            measured_s: None,
            ..SHORT
        };
        let ending = || {
            let mut left = 3;
            move || {
                left -= 1;
                if left == 0 {
                    Err(io::ErrorKind::BrokenPipe.into())
                } else {
                    Ok(100)
                }
            }
        };
        assert_eq!(timed(until_end, ending()).unwrap().bytes, 200);
        let still_warming_up = Time {
            warm_up_s: 60.0,
            ..until_end
        };
        assert_eq!(timed(still_warming_up, ending()).unwrap().bytes, 200);
        let text = timed(SHORT, ending()).unwrap_err().to_string();
        assert!(text.contains("ended before its time"), "{text}");
        let refused = timed(until_end, || Err(io::ErrorKind::PermissionDenied.into()));
        assert!(refused.is_err());
    }
}
