//! The data path: files to the output, one after the other, by the library's pump. It tells what it has done through
//! counters, and never waits for the display.

mod by_hand;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Instant;

use fullbore::Route;
use fullbore::moving::Inspect;
use fullbore::moving::{Pump, Side};
use fullbore_lab::sys::start;
use fullbore_sys::size::Size;

use super::counters::Counters;
use super::input;
use super::limit::Bucket;
use super::voice::{Complaint, Fault};
use crate::tools::fallbacks::refused;

/// How the data is to be moved.
#[derive(Clone, Debug)]
pub struct TransferPlan {
    /// What ends a line, where lines are counted.
    pub separator: Option<u8>,
    /// Whether the display shows the data itself.
    pub shows_data: bool,
    /// Bytes of a buffer to read into and write from; none where splice may be used.
    pub buffer: Option<usize>,
    /// Stop after so many bytes or lines.
    pub stop_at: Option<u64>,
    pub skip_errors: u8,
    pub error_skip_block: u64,
    pub sync: bool,
}

/// Why there is a buffer.
const WHY_TEE: &str = "lines or data are shown: they are read from a copy of the slots made by tee";
const WHY_BUFFER: &str = "-B, -C or -T asks for it";
/// Bytes per step at most; a step ends when the output takes no more.
const PIECE: u64 = 1 << 30;
/// File to file there is no such end: so that the display gets to know something.
const FILE_PIECE: u64 = 64 << 20;

pub struct Transfer<'a> {
    pub plan: &'a TransferPlan,
    pub output: BorrowedFd<'a>,
    pub counters: &'a Counters,
    pub faults: &'a Arc<AtomicU8>,
    pub complain: &'a dyn Fn(Complaint),
    bucket: Bucket,
    began: Instant,
    /// Bytes or lines that may be moved yet.
    left: u64,
    paths: Vec<String>,
    write_failed: bool,
}

/// What became of all files.
pub struct Ended {
    /// What is to be said of the paths they took.
    pub paths: Vec<String>,
    /// The output failed, otherwise than by its reader going away.
    pub write_failed: bool,
}

/// How it ended, and on which side it failed.
type Moved = Result<(), (Side, io::Error)>;

/// Whether there is any use in another file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    Next,
    Stop,
}

impl<'a> Transfer<'a> {
    pub fn new(
        plan: &'a TransferPlan,
        output: BorrowedFd<'a>,
        counters: &'a Counters,
        faults: &'a Arc<AtomicU8>,
        complain: &'a dyn Fn(Complaint),
    ) -> Self {
        Self {
            plan,
            output,
            counters,
            faults,
            complain,
            bucket: Bucket::default(),
            began: Instant::now(),
            left: plan.stop_at.unwrap_or(u64::MAX),
            paths: Vec::new(),
            write_failed: false,
        }
    }

    /// Moves all files.
    pub fn run(mut self, files: &[OsString]) -> Ended {
        let mut rest = files.iter();
        while self.left > 0
            && let Some(name) = rest.next()
        {
            match self.file(name) {
                Then::Next => {}
                Then::Stop => {
                    self.name_missing(rest);
                    break;
                }
            }
        }
        Ended {
            paths: self.paths,
            write_failed: self.write_failed,
        }
    }

    /// Says which of the files that are not moved any more could not have been.
    fn name_missing<'b>(&self, files: impl Iterator<Item = &'b OsString>) {
        for name in files.filter(|name| *name != "-") {
            // Opening them might wait for a writer.
            if let Err(e) = rustix::fs::access(name, rustix::fs::Access::READ_OK) {
                self.cannot_read(name, e.into());
            }
        }
    }

    fn fault(&self, complaint: Complaint) {
        self.faults
            .fetch_or(complaint.fault as u8, Ordering::Relaxed);
        (self.complain)(complaint);
    }

    fn file(&mut self, name: &OsStr) -> Then {
        if name == "-" {
            if start::was_closed(0) {
                let what = "failed to stat file: (stdin)";
                let closed = rustix::io::Errno::BADF;
                self.fault(Complaint::system(
                    Fault::Access,
                    what,
                    closed,
                    "open standard input",
                ));
                return Then::Next;
            }
            return self.descriptor(rustix::stdio::stdin(), "(stdin)");
        }
        let shown = name.to_string_lossy();
        match File::open(name) {
            Ok(file) => self.descriptor(file.as_fd(), &shown),
            Err(e) => {
                self.cannot_read(name, e);
                Then::Next
            }
        }
    }

    fn cannot_read(&self, name: &OsStr, error: io::Error) {
        let what = format!("failed to read file: {}", name.to_string_lossy());
        self.fault(Complaint::system(
            Fault::Access,
            what,
            error,
            "name one that can be read",
        ));
    }

    fn descriptor(&mut self, from: BorrowedFd<'_>, name: &str) -> Then {
        match input::is_output(from, self.output) {
            Ok(false) => {}
            Ok(true) => {
                let why = name.to_owned();
                self.fault(Complaint::new(
                    Fault::Ouroboros,
                    "input file is output file",
                    why,
                    "write into another one",
                ));
                return Then::Next;
            }
            Err(e) => {
                let what = format!("failed to stat file: {name}");
                self.fault(Complaint::system(Fault::Access, what, e, "open it before"));
                return Then::Next;
            }
        }
        let _ = rustix::fs::fadvise(from, 0, None, rustix::fs::Advice::Sequential);
        let before = self.counters.bytes();
        let skips = self.plan.skip_errors > 0;
        let (mut moved, mut path) = match (self.plan.buffer, self.sees()) {
            (Some(_), true) => self.by_hand(from, name),
            (Some(_), false) if skips => self.by_hand(from, name),
            (None, true) => self.inspect(from),
            (_, false) => self.pump(from),
        };
        if let (Err((Side::Input, _)), true) = (&moved, skips) {
            // Nothing was taken that has not arrived: by hand it goes on where that stopped.
            let (rest, then) = self.by_hand(from, name);
            moved = rest;
            path = format!("{path}; then {then}");
        }
        let bytes = self.counters.bytes() - before;
        let pipes = format!(
            "{}{}",
            capacity("input", from),
            capacity("output", self.output)
        );
        self.paths
            .push(format!("path of {name}: {path}; {}{pipes}", Size(bytes)));
        match moved {
            Ok(()) => Then::Next,
            Err((Side::Output, e)) => {
                // Whoever read our output has seen enough.
                if e.kind() != ErrorKind::BrokenPipe {
                    self.write_failed = true;
                    self.fault(Complaint::system(
                        Fault::Transfer,
                        "write failed",
                        e,
                        "what was written before stays written",
                    ));
                }
                Then::Stop
            }
            Err((Side::Input, e)) => {
                let what = format!("{name}: read failed");
                self.fault(Complaint::system(
                    Fault::Transfer,
                    what,
                    e,
                    "what was read before it was moved; -E skips what cannot be read",
                ));
                Then::Next
            }
        }
    }

    /// Whether the bytes themselves must be seen.
    fn sees(&self) -> bool {
        self.plan.separator.is_some() || self.plan.shows_data
    }

    /// Waits until the rate limit allows something, and returns how many bytes (or lines) that is.
    fn allowance(&mut self) -> u64 {
        loop {
            let rate = self.counters.rate_limit.load(Ordering::Relaxed);
            if rate == 0 {
                return self.left;
            }
            match self
                .bucket
                .allowed(self.began.elapsed().as_secs_f64(), rate)
            {
                Ok(n) => return n.min(self.left),
                Err(pause) => std::thread::sleep(pause),
            }
        }
    }

    /// Bytes that may be taken from the input: all that may yet arrive, however slowly, since a packet of which less is read
    /// has lost the rest. Of lines it is not known how many bytes they have; no more than one look is taken ahead.
    fn may_take(&self) -> usize {
        let bytes = match self.plan.separator {
            Some(_) => PIECE,
            None => self.left.min(PIECE),
        };
        bytes as usize
    }

    /// So much has arrived. Lines count for the limits where lines are counted.
    fn arrived(&mut self, data: usize, lines: Option<u64>) -> io::Result<()> {
        self.counters.moved(data as u64);
        if let Some(lines) = lines {
            self.counters.counted_lines(lines);
        }
        let counted = lines.unwrap_or(data as u64);
        self.left -= counted.min(self.left);
        if self.counters.rate_limit.load(Ordering::Relaxed) > 0 {
            self.bucket.moved(counted);
        }
        if self.plan.sync {
            // Any other error is no failure: a pipe, for one, has nothing to keep.
            if let Err(e @ rustix::io::Errno::IO) = rustix::fs::fdatasync(self.output) {
                return Err(e.into());
            }
        }
        Ok(())
    }

    fn pump(&mut self, from: BorrowedFd<'_>) -> (Moved, String) {
        let mut pump = match self.plan.buffer {
            Some(len) => Pump::copying(from, self.output, len),
            None => Pump::new(from, self.output),
        };
        let moved = loop {
            let piece = if pump.route() == Route::CopyFileRange {
                FILE_PIECE
            } else {
                PIECE
            };
            let allowed = self.allowance().min(piece) as usize;
            if allowed == 0 {
                break Ok(());
            }
            // The rate holds back what is delivered: a packet of which less is read has lost the rest.
            let may_take = self.left.min(piece) as usize;
            match pump.step_within(may_take, allowed) {
                Ok(0) => break Ok(()),
                Ok(n) => {
                    self.counters.buffers(pump.held());
                    if let Err(e) = self.arrived(n, None) {
                        break Err((Side::Output, e));
                    }
                }
                Err(e) => break Err((pump.blame(), e)),
            }
        };
        (moved, self.path_of(&pump))
    }

    fn path_of(&self, pump: &Pump<impl AsFd, impl AsFd>) -> String {
        let route = pump.route();
        if let Some(refused) = refused(pump.fallbacks()) {
            return format!("{route}, since {refused}");
        }
        let why = match route {
            Route::Splice => "a pipe needs no byte to be copied",
            Route::CopyFileRange => "both sides are files",
            Route::ReadWrite => WHY_BUFFER,
            _ => "no byte need be copied by hand, and errors of both sides are kept apart",
        };
        format!("{route}, since {why}")
    }

    /// Splices, and sees a copy of the bytes.
    fn inspect(&mut self, from: BorrowedFd<'_>) -> (Moved, String) {
        let mut inspect = Inspect::new(from, self.output);
        let moved = loop {
            let allowed = self.allowance();
            if allowed == 0 {
                break Ok(());
            }
            let most = match inspect.fill(self.may_take()) {
                Ok([]) => break Ok(()),
                Ok(shown) => self.permitted(shown, allowed),
                Err(e) => break Err((inspect.blame(), e)),
            };
            match inspect.deliver(most) {
                Ok(data) => {
                    let n = data.len();
                    let lines = self.look_at(data);
                    if let Err(e) = self.arrived(n, lines) {
                        break Err((Side::Output, e));
                    }
                }
                Err(e) => break Err((inspect.blame(), e)),
            }
        };
        let why = refused(inspect.fallbacks()).unwrap_or_else(|| WHY_TEE.to_owned());
        (moved, format!("{}, since {why}", inspect.route()))
    }

    /// How many of these bytes may be moved: up to the last line that is allowed.
    fn permitted(&self, shown: &[u8], allowed: u64) -> usize {
        match self.plan.separator {
            None => shown
                .len()
                .min(usize::try_from(allowed).unwrap_or(usize::MAX)),
            Some(_) if allowed >= shown.len() as u64 => shown.len(),
            Some(separator) => memchr::memchr_iter(separator, shown)
                .nth(allowed as usize - 1)
                .map_or(shown.len(), |at| at + 1),
        }
    }

    /// Counts lines in what has arrived, and keeps what the display may show of it.
    fn look_at(&self, data: &[u8]) -> Option<u64> {
        if self.plan.shows_data {
            self.counters
                .saw(data, self.plan.separator.unwrap_or(b'\n'));
        }
        let count = |separator| memchr::memchr_iter(separator, data).count() as u64;
        self.plan.separator.map(count)
    }
}

fn capacity(side: &str, fd: BorrowedFd<'_>) -> String {
    match fullbore_sys::capacity::get(fd) {
        Ok(bytes) => format!(", {side} pipe {}", Size(bytes as u64)),
        Err(_) => String::new(),
    }
}
