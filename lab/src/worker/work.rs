//! What one process of a trial does: it gets an `Order` and descriptors, works, measures itself, and reports.
//!
//! The conversation, each message one line of JSON: order → `ready` → `go` → report; or `failed`, at any point.

use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use fullbore_sys::{Error, Result};
use serde::{Deserialize, Serialize};

use super::conduit;
use super::failure::Failure;
use super::files;
use super::memory_loops;
use super::one_byte;
use super::stream;
use super::timing::{Report, Time};
use super::wire;
use crate::sys;

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
pub(crate) struct Order {
    pub job: Job,
    pub cpu: usize,
    pub time: Time,
    /// Bytes of a buffer or file.
    pub bytes: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Answer {
    Ready,
    Report(Report),
    Failed(Failure),
}

/// Serves one trial, as the process that [`crate::bandwidth::measuring::measure`] starts; the socket is its standard input.
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
        Job::Ping => one_byte::ping(two(descriptors)?, time, &mut ready),
        Job::Pong => one_byte::pong(two(descriptors)?, &mut ready),
        Job::FileReread => files::reread(one(descriptors)?, time, &mut ready),
        Job::MmapReread => files::mmap_reread(one(descriptors)?, bytes, time, &mut ready),
        Job::BcopyLibc => memory_loops::bcopy_libc(bytes, time, &mut ready),
        Job::BcopyHand => memory_loops::bcopy_hand(bytes, time, &mut ready),
        Job::MemRead => memory_loops::read(bytes, time, &mut ready),
        Job::MemWrite => memory_loops::write(bytes, time, &mut ready),
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
