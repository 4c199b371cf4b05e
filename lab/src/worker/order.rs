//! What a process of a trial is told, and what it says. The conversation, each message one line of JSON: [`Order`] with
//! descriptors → `ready` → `go` → report; or `failed`, at any point.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use fullbore_sys::{Error, Result};
use serde::{Deserialize, Serialize};

use super::config::Config;
use super::failure::Failure;
use super::gup_trial::GupTrial;
use super::outcome::{Ready, Report};
use super::timing::Time;
use super::{conduit, files, gup_trial, memory_loops, round_trip, sides, stream, wire};
use crate::sys;

/// What a process has to do, with the descriptors that come with it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    pub job: Job,
    /// The CPU to run on; any where there is none.
    pub cpu: Option<usize>,
    pub time: Time,
}

/// The kinds of work.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Job {
    /// The writing side of a pair, until its reader has seen enough: the pipe, the shared memory.
    Writer(Config),
    /// The reading side, which ends the trial: the pipe, the shared memory.
    Reader(Config),
    /// One process of a bandwidth column, with buffers or files of so many bytes.
    Column(Work, u64),
    /// References to pages.
    Gup(GupTrial),
}

impl Job {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Writer(_) => "the writer",
            Self::Reader(_) => "the reader",
            Self::Column(..) | Self::Gup(_) => "a process",
        }
    }
}

/// What a process of a bandwidth column does, and with which descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Work {
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

/// What a process says.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Message {
    Ready,
    Report(Report),
    Failed(Failure),
}

/// Does the work of one process of a trial, as `processes` starts it; the socket is its standard input.
///
/// # Errors
/// The socket broke, which means that the coordinator is gone. Other failures are sent to it.
pub fn run() -> Result<()> {
    let broken = |e: io::Error| {
        Error::system(
            "a process of a trial lost its coordinator",
            e,
            "this command is started by those that measure, not by hand",
        )
    };
    // Nobody would end a process whose coordinator was killed: a spinning one would burn a CPU.
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    let socket = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3);
    let socket = UnixStream::from(socket.map_err(|e| broken(e.into()))?);
    let (line, descriptors) = wire::receive(&socket).map_err(broken)?;
    let order: Order = serde_json::from_str(&line).map_err(|e| broken(e.into()))?;
    let message = match work(order, descriptors, &socket) {
        Ok(report) => Message::Report(report),
        Err(e) => Message::Failed(Failure::from(&e)),
    };
    say(&socket, &message).map_err(broken)
}

fn say(socket: &UnixStream, message: &Message) -> io::Result<()> {
    wire::send(socket, &serde_json::to_string(message)?, &[])
}

fn work(order: Order, descriptors: Vec<OwnedFd>, socket: &UnixStream) -> Result<Report> {
    if let Some(cpu) = order.cpu {
        sys::pin_to_cpu(cpu)?;
    }
    let mut ready = || {
        let given_up = |e: io::Error| Error::system("the trial was given up", e, "");
        say(socket, &Message::Ready).map_err(given_up)?;
        match fullbore_sys::calls::read(socket, &mut [0]).map_err(given_up)? {
            1 => Ok(()),
            _ => Err(given_up(io::ErrorKind::UnexpectedEof.into())),
        }
    };
    let (time, ready): (_, Ready<'_>) = (order.time, &mut ready);
    let (work, bytes) = match order.job {
        Job::Writer(config) => return sides::write(&config, exactly(descriptors)?, ready),
        Job::Reader(config) => return sides::read(&config, exactly(descriptors)?, time, ready),
        Job::Gup(trial) => return gup_trial::run(trial, time, ready),
        Job::Column(work, bytes) => (work, bytes),
    };
    match work {
        Work::Send => stream::send(one(descriptors)?, time, ready),
        Work::Receive => stream::receive(one(descriptors)?, time, ready),
        Work::Ping => round_trip::ping(exactly(descriptors)?, time, ready),
        Work::Pong => round_trip::pong(exactly(descriptors)?, ready),
        Work::FileReread => files::reread(one(descriptors)?, time, ready),
        Work::MmapReread => files::mmap_reread(one(descriptors)?, bytes, time, ready),
        Work::BcopyLibc => memory_loops::bcopy_libc(bytes, time, ready),
        Work::BcopyHand => memory_loops::bcopy_hand(bytes, time, ready),
        Work::MemRead => memory_loops::read(bytes, time, ready),
        Work::MemWrite => memory_loops::write(bytes, time, ready),
        Work::Splice => conduit::splice(exactly(descriptors)?, time, ready),
        Work::Copy => conduit::copy(exactly(descriptors)?, time, ready),
        Work::Tee(outputs) => conduit::tee(one(descriptors)?, outputs, time, ready),
        Work::Spread(outputs) => conduit::spread(one(descriptors)?, outputs, time, ready),
    }
}

fn one(descriptors: Vec<OwnedFd>) -> Result<OwnedFd> {
    let [one] = exactly(descriptors)?;
    Ok(one)
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
