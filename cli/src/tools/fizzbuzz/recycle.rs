//! Buffers that are lent to the pipe again and again, in which only the digits that change are stored.
#![allow(unsafe_code)]

use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use fullbore_sys::Result;
use fullbore_sys::calls::{self, End};
use fullbore_sys::pages::{PageKind, Pages, Request};
use fullbore_sys::size::Size;
use fullbore_sys::wait::{Wait, Waiter, splice_flags};
use fullbore_sys::write::recycle::Recycle;

use super::lines::WIDEST;
use super::thousands::{PHASES, SLACK, Thousands, cycle_bytes, phase};

/// The buffers of one thread, used in turn.
#[derive(Debug)]
pub struct Ring {
    buffers: Recycle,
    /// What each buffer shows.
    shown: [Shown; 2],
    next: usize,
    waiter: Waiter,
}

/// What is in a buffer.
#[derive(Clone, Debug, Default)]
struct Shown {
    heads: Option<Range<u64>>,
    width: usize,
    /// Bytes that everybody had sent when this was in the pipe; `None` when it never was, or is known to have left.
    sent: Option<u64>,
}

/// Thousands, times so many, that a buffer holds. With two buffers in turn a number is then followed at its place by one
/// that is a multiple of 30,000 greater: its last four digits stay.
const UNIT: usize = 5 * PHASES;

/// The most thousands in a buffer: as many as a pipe of this capacity takes in one call once it is empty. A reader that
/// keeps up then never lets the writer wait, and one that does not is the one to wait for.
pub fn thousands_in_buffer(capacity: usize, width: usize) -> u64 {
    ((capacity / unit_bytes(width)).max(1) * UNIT) as u64
}

/// Bytes of a buffer, with room for numbers of any width.
pub fn buffer_bytes(capacity: usize) -> usize {
    let text = capacity.max(unit_bytes(WIDEST));
    (text + SLACK).next_multiple_of(rustix::param::page_size())
}

fn unit_bytes(width: usize) -> usize {
    UNIT / PHASES * cycle_bytes(width)
}

/// Looking whether bytes have left the pipe takes the pipe's mutex: done so long at most without sleeping.
const SPIN: Duration = Duration::from_micros(50);
const SLEEP_AT_MOST: Duration = Duration::from_millis(2);

impl Ring {
    /// Two buffers for a pipe of this capacity.
    ///
    /// # Errors
    /// No memory.
    pub fn new(capacity: usize) -> Result<Self> {
        // Each in a huge page of its own: the pipe counts references to the one while its reader drops those to the other.
        let memory = || {
            let request = |kind| Request {
                len: buffer_bytes(capacity),
                kind,
                lock: false,
                fill: Some(0),
            };
            let huge = Pages::map(&request(PageKind::Huge));
            huge.or_else(|_| Pages::map(&request(PageKind::Small)))
        };
        let (first, second) = (memory()?, memory()?);
        // SAFETY: --recycle is documented as a promise of its user that every reader copies and that nobody else
        // writes. A buffer is written in `open` only, after `has_left` said that what it held has left the pipe.
        let buffers = unsafe { Recycle::separate(first, second) };
        Ok(Self {
            buffers,
            shown: Default::default(),
            next: 0,
            waiter: Waiter::new(Wait::Adaptive, End::Write),
        })
    }

    /// The next buffer, once what it held has left the pipe. `sent` is how many bytes everybody has sent so far.
    fn open(&mut self, pipe: BorrowedFd<'_>, sent: u64) -> io::Result<&mut [u8]> {
        if let Some(then) = self.shown[self.next].sent {
            let (start, mut pause) = (Instant::now(), Duration::from_micros(100));
            while !self.buffers.has_left(pipe, sent - then)? {
                if calls::reader_is_gone(pipe)? {
                    return Err(io::ErrorKind::BrokenPipe.into());
                }
                if start.elapsed() < SPIN {
                    std::hint::spin_loop();
                } else {
                    std::thread::sleep(pause);
                    pause = (pause * 2).min(SLEEP_AT_MOST);
                }
            }
        }
        self.shown[self.next].heads = None;
        Ok(self.buffers.current_mut())
    }

    /// Puts text into the next buffer.
    pub fn put(&mut self, pipe: BorrowedFd<'_>, sent: u64, text: &[u8]) -> io::Result<()> {
        self.open(pipe, sent)?[..text.len()].copy_from_slice(text);
        Ok(())
    }

    /// Puts the lines of some heads into the next buffer, which may show what is easily changed into them.
    pub fn make(
        &mut self,
        pipe: BorrowedFd<'_>,
        sent: u64,
        heads: &Range<u64>,
        thousands: &mut Thousands,
    ) -> io::Result<usize> {
        let shown = self.shown[self.next].clone();
        let buffer = self.open(pipe, sent)?;
        let len = thousands.bytes(heads);
        match shown.heads {
            Some(old)
                if shown.width == thousands.width()
                    && old.end - old.start == heads.end - heads.start
                    && phase(old.start) == phase(heads.start) =>
            {
                thousands.update(old, heads.start, buffer);
            }
            _ => {
                thousands.fill(heads.clone(), buffer);
            }
        }
        self.shown[self.next].heads = Some(heads.clone());
        self.shown[self.next].width = thousands.width();
        Ok(len)
    }

    /// Lends the first `len` bytes of the buffer to the pipe and goes on to the next one. `sent` is how many bytes
    /// everybody has sent before.
    pub fn send(&mut self, pipe: BorrowedFd<'_>, len: usize, sent: u64) -> io::Result<()> {
        // Now, since the reader, whom we kept waiting, leaves the pipe's mutex alone; once it has something to take, to
        // look would wait for it.
        let other = (self.next + 1) % self.shown.len();
        if let Some(then) = self.shown[other].sent
            && self.buffers.has_left(pipe, sent - then)?
        {
            self.shown[other].sent = None;
        }
        let flags = splice_flags(self.waiter.wait());
        let mut at = 0;
        while at < len {
            match self.buffers.send(pipe, at..len, flags) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => at += n,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    self.waiter.after_would_block(pipe)?;
                }
                Err(e) => return Err(e),
            }
        }
        self.shown[self.next].sent = Some(sent + len as u64);
        self.buffers.advance();
        self.next = (self.next + 1) % self.shown.len();
        Ok(())
    }

    /// How bytes move, for people.
    pub fn path(&self, pipe: BorrowedFd<'_>) -> String {
        let capacity = fullbore_sys::capacity::get(pipe).map_or(0, |c| c as u64);
        let len = Size(self.buffers.current_len() as u64);
        format!(
            "recycled, {} pipe, two buffers of {len} for each thread",
            Size(capacity)
        )
    }
}
