//! What both sides of a pair share: counters, the end of the work, and the descriptor they call on.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use fullbore_sys::calls::{self, End};
use fullbore_sys::pages::{PageKind, Pages, Request};
use fullbore_sys::size::Size;
use fullbore_sys::wait::Wait;
use fullbore_sys::{Error, Result};
use serde::{Deserialize, Serialize};

use super::config::{Config, WriteWith};
use crate::sys::SharedMemory;

/// What one side has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Bytes moved.
    pub bytes: u64,
    /// System calls that move bytes, whether they moved any or not.
    pub calls: u64,
    /// Calls that found the pipe full or empty (`EAGAIN`).
    pub would_block: u64,
    /// Bytes that the library's writer has moved, by fresh, fat and write.
    #[serde(default)]
    pub by_way: [u64; fullbore_sys::writer::Way::ALL.len()],
}

/// Decides when a side ends, and sees its counters on the way.
pub trait Watch {
    /// Called before every call that moves bytes; false ends the work.
    fn go_on(&mut self, counters: &Counters) -> bool;
}

/// Never ends by itself.
#[derive(Clone, Copy, Debug)]
pub struct Forever;

impl Watch for Forever {
    fn go_on(&mut self, _: &Counters) -> bool {
        true
    }
}

/// How bytes moved, to be shown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Path {
    /// Write or read method.
    pub way: String,
    /// Wait strategy.
    pub wait: String,
    /// Capacity of the pipe in bytes; absent where the descriptor is not a pipe.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub capacity: Option<u64>,
    /// What was not done as asked, and why.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub note: Option<String>,
    /// Bytes that went each way in the measured part: a writer may leave the one that was asked for. Absent in older runs,
    /// and where there is only one way.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub bytes_by: BTreeMap<String, u64>,
}

impl Path {
    pub(crate) fn new(way: impl Into<String>, fd: impl AsFd, config: &Config) -> Self {
        Self {
            way: way.into(),
            wait: config.wait.to_string(),
            capacity: fullbore_sys::capacity::get(fd).ok().map(|c| c as u64),
            note: None,
            bytes_by: BTreeMap::new(),
        }
    }

    /// The bytes of several, and a note of theirs.
    pub(crate) fn of_all<'a>(paths: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut all = Self::default();
        for path in paths {
            for (way, bytes) in &path.bytes_by {
                let sum = all.bytes_by.entry(way.clone()).or_default();
                *sum = sum.saturating_add(*bytes); // a saved run may say anything
            }
            all.note = path.note.clone().or(all.note);
        }
        all
    }

    /// Which bytes did not go the way that was asked for, and why, if there are any.
    pub fn left(&self, asked: &str) -> Option<String> {
        if asked == WriteWith::Auto.to_string() {
            return None; // any of them was asked for
        }
        let sum = |bytes: u64, (_, more): (&String, &u64)| bytes.saturating_add(*more);
        let others = || self.bytes_by.iter().filter(|(way, _)| *way != asked);
        let names: Vec<_> = others().map(|(way, _)| way.as_str()).collect();
        let (bytes, all) = (others().fold(0, sum), self.bytes_by.iter().fold(0, sum));
        let why = self
            .note
            .as_deref()
            .map_or(String::new(), |note| format!(": {note}"));
        (!names.is_empty()).then(|| {
            let names = names.join(" and ");
            format!(
                "{} of {} went by {names}, not {asked}{why}",
                Size(bytes),
                Size(all)
            )
        })
    }
}

/// A descriptor for `read(2)` or `write(2)` that waits as asked, without touching flags that others share.
#[derive(Debug)]
pub(crate) struct Descriptor<'fd> {
    inherited: BorrowedFd<'fd>,
    /// The same pipe in a non-blocking description of our own.
    own: Option<OwnedFd>,
    /// No such description is available: look first, then move no more than cannot block.
    look_first: bool,
    pub(crate) note: Option<String>,
}

impl<'fd> Descriptor<'fd> {
    pub(crate) fn new(inherited: BorrowedFd<'fd>, end: End, wait: Wait) -> Self {
        let mut descriptor = Self {
            inherited,
            own: None,
            look_first: false,
            note: None,
        };
        if wait.is_nonblocking() && calls::is_pipe(inherited) {
            match calls::reopen_nonblocking(inherited, end) {
                Ok(own) => descriptor.own = Some(own),
                Err(e) => {
                    descriptor.look_first = true;
                    descriptor.note = Some(format!(
                        "the pipe could not be opened again without blocking ({e}): polled before each call{}",
                        if end == End::Write {
                            ", at most PIPE_BUF each"
                        } else {
                            ""
                        }
                    ));
                }
            }
        }
        descriptor
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.own.as_ref().map_or(self.inherited, AsFd::as_fd)
    }

    fn look(&self, end: End) -> io::Result<()> {
        let ready = || {
            let now = Some(std::time::Duration::ZERO);
            calls::poll(self.inherited, fullbore_sys::wait::events(end), now)
        };
        if self.look_first && !ready()? {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(())
    }

    #[inline]
    pub(crate) fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.look(End::Write)?;
        let most = if self.look_first {
            rustix::pipe::PIPE_BUF
        } else {
            bytes.len()
        };
        calls::write(self.fd(), &bytes[..bytes.len().min(most)])
    }

    /// A read that sleeps until there is something.
    pub(crate) fn read_blocking(&self, buffer: &mut [u8]) -> io::Result<usize> {
        calls::read(self.inherited, buffer)
    }

    #[inline]
    pub(crate) fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.look(End::Read)?;
        calls::read(self.fd(), buffer)
    }
}

/// The shared memory, on a rung without a pipe.
///
/// # Errors
/// There is none.
pub(crate) fn needed(shared: Option<&SharedMemory>) -> Result<&SharedMemory> {
    shared.ok_or_else(|| Error::new("no shared memory", "this is for the ladder only", ""))
}

/// Maps one buffer as the options ask for it, and proves it if asked to. Pages that should be huge and are not are
/// noted.
pub(crate) fn map_buffer(config: &Config, note: &mut Option<String>) -> Result<Pages> {
    map_bytes(config, config.buf_size.0, note)
}

/// The same for memory of another size than a buffer's.
pub(crate) fn map_bytes(config: &Config, len: u64, note: &mut Option<String>) -> Result<Pages> {
    let pages = Pages::map(&Request {
        len: usize::try_from(len).unwrap_or(usize::MAX),
        kind: config.pages,
        lock: config.lock_memory,
        fill: (!config.dont_touch_pages).then_some(b'X'),
    })?;
    if config.pages != PageKind::Small && !config.dont_touch_pages {
        match pages.prove_huge() {
            Err(e) if config.check_huge_page => return Err(e),
            Err(e) => *note = Some(e.to_string()),
            Ok(()) => {}
        }
    }
    Ok(pages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spinning_never_changes_flags_that_others_share() {
        let (r, w) = calls::pipe().unwrap();
        let descriptor = Descriptor::new(w.as_fd(), End::Write, Wait::Spin);
        assert!(descriptor.own.is_some(), "{:?}", descriptor.note);
        let mut sent = 0;
        let end = loop {
            match descriptor.write(&[1; 10_000]) {
                Ok(n) => sent += n,
                Err(e) => break e,
            }
        };
        assert_eq!(end.kind(), io::ErrorKind::WouldBlock);
        assert_eq!(calls::bytes_in_pipe(&r).unwrap(), sent as u64);
        let flags = rustix::fs::fcntl_getfl(&w).unwrap();
        assert!(!flags.contains(rustix::fs::OFlags::NONBLOCK));
    }

    #[test]
    fn a_full_pipe_that_cannot_be_reopened_would_block_too() {
        let (r, w) = calls::pipe().unwrap();
        let mut descriptor = Descriptor::new(w.as_fd(), End::Write, Wait::Block);
        descriptor.look_first = true;
        while descriptor.write(&[1; 10_000]).is_ok() {}
        let (len, capacity) = (
            calls::bytes_in_pipe(&r).unwrap(),
            fullbore_sys::capacity::get(&w).unwrap(),
        );
        assert_eq!(len, capacity as u64);
    }
}
