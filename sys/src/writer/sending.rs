//! How bytes get into the pipe by each of the ways, and by the next best where one is refused.

use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use super::choice::Form;
use super::ways::Ways;
use super::{LARGE, Unbuffered, Way};
use crate::calls::{self, End, SpliceFlags};
use crate::capacity;
use crate::reason::Reason;
use crate::wait::{Wait, events, splice_flags};
use crate::write::Lender;
use crate::write::fat::FRAGMENT;

/// From so many bytes on a larger pipe is asked for, which takes a few µs.
const ENLARGE_FROM: u64 = 256 << 10;

impl<Fd: AsFd> Unbuffered<Fd> {
    pub(super) fn count(&mut self, way: Way, sent: usize) {
        self.moved[way as usize] += sent as u64;
    }

    /// Tells the choice how long it took. Small writes, which always take `write(2)`, say nothing about the ways.
    fn record(&mut self, form: Form, sent: usize, since: Option<Instant>) {
        if sent >= LARGE
            && let (Some(since), Some(ways)) = (since, &mut self.ways)
        {
            let settled = ways.lender(form.way).is_none_or(|l| l.is_settled());
            ways.choice.record(form, sent, since.elapsed(), settled);
        }
    }

    /// Sends, or lets wait, some of the first `len` bytes of the block, which lies in memory that is lent.
    pub(super) fn commit_lent(&mut self, way: Way, len: usize) -> io::Result<()> {
        let form = self.block.form;
        let ahead = self.ahead_of(form);
        if ahead >= len && (len >= LARGE || self.queued() > 0) {
            let len = self.room_to_wait(way, len, ahead)?;
            if self.block.way != way {
                return self.commit_heap(len); // refused, while others were sent
            }
            self.put(way, len)?;
            self.block.left -= len;
            self.offer();
            let opened = self.block.opened.take();
            self.record(form, len, opened);
            return Ok(());
        }
        self.send_queued(0)?;
        if self.block.way != way {
            return self.commit_heap(len);
        }
        let sent = if len >= LARGE {
            self.send_lent(way, len)
        } else {
            self.move_all(len, |this, moved, _| {
                let pages = lender(&mut this.ways, way)?.pages();
                let n = calls::write(open(&this.fd), &pages.free_mut()[..len - moved])?;
                pages.skip(n);
                Ok(n)
            })
        };
        match sent {
            Ok(n) => {
                self.block.left -= n;
                let opened = self.block.opened.take();
                let form = if len >= LARGE { form } else { Form::COPY };
                self.count(form.way, n);
                self.record(form, n, opened);
                Ok(())
            }
            // Nothing has moved: the bytes are still there, and go another way.
            Err(e) if is_refusal(&e) => {
                self.refuse_by(way, e)?;
                self.commit_heap(len)
            }
            Err(e) => Err(e),
        }
    }

    /// Takes what is left of the block out of the pages that are lent next.
    pub(super) fn move_block_to_heap(&mut self) -> io::Result<()> {
        let pages = lender(&mut self.ways, self.block.way)?.pages();
        let bytes = pages.free_mut()[..self.block.left].to_vec();
        self.block.in_heap = 0..bytes.len();
        self.block.heap = bytes;
        self.block.way = Way::Copy;
        Ok(())
    }

    /// Sends some of the first `len` bytes of the block by `write(2)`, where there is nothing to choose, and so nothing waits.
    pub(super) fn commit_plainly(&mut self, len: usize) -> io::Result<()> {
        self.before_call()?;
        self.calls.made += 1;
        let at = self.block.in_heap.start;
        let sent = match calls::write(open(&self.fd), &self.block.heap[at..at + len]) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return self.commit_heap(len),
            sent => sent?,
        };
        self.block.in_heap.start += sent;
        self.block.left -= sent;
        self.count(Way::Copy, sent);
        self.enlarge();
        Ok(())
    }

    /// Asks for a larger pipe once the stream is long enough for that, but not for more.
    fn enlarge(&mut self) {
        if !self.enlarged && self.moved[Way::Copy as usize] >= ENLARGE_FROM {
            self.enlarged = true;
            if !self.keep_capacity && self.ways.is_none() {
                let _ = capacity::largest(open(&self.fd)); // what is refused is not needed
            }
        }
    }

    /// Sends, or lets wait, some of the first `len` bytes of the block, which lies elsewhere.
    pub(super) fn commit_heap(&mut self, len: usize) -> io::Result<()> {
        let heap = std::mem::take(&mut self.block.heap);
        let at = self.block.in_heap.start;
        let opened = self.block.opened.take();
        let sent = self.write_all_ways(&heap[at..at + len], opened);
        self.block.heap = heap;
        let sent = sent?;
        self.block.in_heap.start += sent;
        self.block.left -= sent;
        Ok(())
    }

    /// Whether the descriptor is non-blocking now. Others who share its description may change that at any time, so it
    /// is asked when it matters: when the pipe is full.
    pub(super) fn is_nonblocking(&self) -> bool {
        calls::is_nonblocking(open(&self.fd))
    }

    /// vmsplice knows nothing of `O_NONBLOCK`, so the flag of the call must say it.
    fn flags(&self) -> SpliceFlags {
        let flags = splice_flags(self.waiter.wait());
        if flags.is_empty() && self.is_nonblocking() {
            return SpliceFlags::NONBLOCK;
        }
        flags
    }

    /// What the wait strategy does before a call; it must not wait where the pipe is non-blocking.
    fn before_call(&self) -> io::Result<()> {
        match self.waiter.wait() {
            Wait::Poll | Wait::PollSpin if self.is_nonblocking() => Ok(()),
            _ => self.waiter.before_call(open(&self.fd)),
        }
    }

    /// Repeats `call`, which is told how many of `len` bytes have moved and moves some of the others, until all have
    /// moved, or as many as a non-blocking pipe takes. An error after some have moved is left for the next call to find.
    pub(super) fn move_all(
        &mut self,
        len: usize,
        mut call: impl FnMut(&mut Self, usize, SpliceFlags) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let flags = self.flags();
        let mut moved = 0;
        while moved < len {
            let attempt = self.before_call().and_then(|()| call(self, moved, flags));
            self.calls.made += 1;
            let error = match attempt {
                Ok(0) => io::ErrorKind::WriteZero.into(),
                Ok(n) => {
                    moved += n;
                    continue;
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    self.calls.would_block += 1;
                    if self.is_nonblocking() {
                        e
                    } else {
                        match self.waiter.after_would_block(open(&self.fd)) {
                            Ok(()) => continue,
                            Err(e) => e,
                        }
                    }
                }
                Err(e) => e,
            };
            return if moved > 0 { Ok(moved) } else { Err(error) };
        }
        Ok(moved)
    }

    /// Lends the first `len` bytes of what was prepared.
    fn send_lent(&mut self, way: Way, len: usize) -> io::Result<usize> {
        self.move_all(len, |this, moved, flags| {
            let pages = lender(&mut this.ways, way)?.pages();
            pages.send(open(&this.fd), len - moved, flags)
        })
    }

    /// Copies into memory that is lent, at once or, where `ahead` bytes may wait, later.
    fn write_lent(&mut self, form: Form, bytes: &[u8], ahead: usize) -> io::Result<usize> {
        let mut bytes = bytes;
        if ahead > 0 && self.is_nonblocking() {
            bytes = &bytes[..self.room_to_wait(form.way, bytes.len(), ahead)?];
        }
        let lent = lender(&mut self.ways, form.way)?;
        // `Other`, so that no error of preparing looks like one of the pipe (mmap has `EAGAIN` for locked memory).
        let prepared = lent.prepare(bytes.len(), form.round);
        prepared.map_err(io::Error::other)?;
        lent.pages().free_mut()[..bytes.len()].copy_from_slice(bytes);
        if ahead == 0 {
            return self.send_lent(form.way, bytes.len());
        }
        let room = self.room_to_wait(form.way, bytes.len(), ahead)?;
        self.put(form.way, room)?;
        self.offer();
        Ok(room)
    }

    /// Lets what was prepared wait.
    fn put(&mut self, way: Way, len: usize) -> io::Result<()> {
        lender(&mut self.ways, way)?.pages().put(len);
        self.count(way, len);
        Ok(())
    }

    fn write_fat(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut written = 0;
        while written < bytes.len() {
            let result = self.write_fat_round(&bytes[written..]);
            match result {
                Ok(n) => written += n,
                Err(_) if written > 0 => break,
                Err(e) => return Err(e),
            }
        }
        Ok(written)
    }

    /// Stages what fits into the socket and delivers it. What the pipe did not take is not left in the socket.
    fn write_fat_round(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let fat = self.ways.as_mut().and_then(|w| w.fat.take());
        let mut fat = fat.ok_or(io::ErrorKind::Unsupported)?;
        let staged = fat.stage(bytes);
        let delivered = match staged {
            Ok(staged) => self.move_all(staged, |this, moved, flags| {
                fat.deliver(open(&this.fd), staged - moved, flags)
            }),
            Err(ref e) => Err(e.kind().into()),
        };
        let complete = matches!((&staged, &delivered), (Ok(s), Ok(d)) if s == d);
        match if complete { Ok(()) } else { fat.discard() } {
            Ok(()) => self.decided().fat = Some(fat),
            Err(e) => self.refuse(Way::Fat, Reason::from(&e), e.is_passing())?,
        }
        staged.and(delivered)
    }

    /// Copies into slots that wait.
    fn put_fat(&mut self, bytes: &[u8], ahead: usize) -> io::Result<usize> {
        let mut put = 0;
        while put < bytes.len() {
            // As many as are staged at a time.
            let len = (bytes.len() - put)
                .min(ahead)
                .min(calls::MOST_PIECES * FRAGMENT);
            match self.put_some_fat(&bytes[put..put + len], ahead) {
                Ok(n) => put += n,
                Err(_) if put > 0 => break,
                Err(e) => return Err(e),
            }
        }
        Ok(put)
    }

    fn put_some_fat(&mut self, bytes: &[u8], ahead: usize) -> io::Result<usize> {
        loop {
            let room = self.room_to_wait(Way::Fat, bytes.len(), ahead)?;
            let fat = self.ways.as_mut().and_then(|w| w.fat.as_mut());
            let fat = fat.ok_or(io::ErrorKind::Unsupported)?;
            match fat.put(&bytes[..room]) {
                // The pipe in which they wait is full before as many wait as may.
                Err(e) if e.kind() == io::ErrorKind::WouldBlock && !self.is_nonblocking() => {
                    let half = self.queued() / 2;
                    self.send_queued(half)?;
                }
                Ok(n) => {
                    self.count(Way::Fat, n);
                    self.offer();
                    return Ok(n);
                }
                Err(e) => return Err(e),
            }
        }
    }

    fn set_up(&mut self, way: Way) -> crate::Result<bool> {
        match &mut self.ways {
            Some(ways) => ways.set_up(way),
            None => Ok(false), // write(2)
        }
    }

    /// How many of `len` bytes are worth copying before the pipe is asked to take them; fewer than [`LARGE`] are not. A pipe
    /// that blocks takes all; one that does not is asked first, since what it has no room for would be copied for nothing.
    ///
    /// By poll(2), which makes later writes into a pipe dearer, but whoever has made it non-blocking polls it anyway.
    fn room(&mut self, len: usize) -> io::Result<usize> {
        let copies = self.ways.as_ref().is_none_or(|w| w.current() == Way::Copy);
        if len < LARGE || copies || !self.is_nonblocking() {
            return Ok(len);
        }
        let fd = open(&self.fd);
        let ready = calls::poll(fd, events(End::Write), Some(Duration::ZERO));
        if !ready.unwrap_or(true) {
            self.calls.would_block += 1;
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let (Ok(capacity), Ok(held)) = (capacity::get(fd), calls::bytes_in_pipe(fd)) else {
            return Ok(len);
        };
        // Slots that are not full leave less room than this, and fat ones more.
        let room = capacity.saturating_sub(usize::try_from(held).unwrap_or(usize::MAX));
        Ok(len.min(room))
    }

    /// Writes by the best way, and by the next best where that is refused. Blocking pipes take everything.
    /// `since` is when the work on these bytes began, if that is known.
    pub(super) fn write_all_ways(
        &mut self,
        bytes: &[u8],
        mut since: Option<Instant>,
    ) -> io::Result<usize> {
        // What is small waits only behind others.
        let is_tried = self.is_long() && (bytes.len() >= LARGE || self.queued() > 0);
        if is_tried && bytes.len() >= LARGE {
            self.decided().ask_again();
        }
        loop {
            let mut form = match is_tried {
                true => self.decided().choice.current(),
                false => Form::COPY,
            };
            match self.set_up(form.way) {
                Ok(false) => {}
                Ok(true) => since = since.map(|_| Instant::now()), // that was for all that is to come
                Err(e) => {
                    self.refuse(form.way, Reason::from(&e), e.is_passing())?;
                    continue;
                }
            }
            let mut ahead = self.ahead_of(form);
            let mut len = bytes.len();
            if form.way == Way::Copy || len > ahead || (len < LARGE && self.queued() == 0) {
                ahead = 0;
                self.send_queued(0)?;
                len = self.room(len)?;
                if len < LARGE {
                    (form, len) = (Form::COPY, bytes.len()); // write(2) copies no more than there is room for
                }
            }
            let bytes = &bytes[..len];
            let way = form.way;
            let written = match way {
                Way::Fresh | Way::Cow => self.write_lent(form, bytes, ahead),
                Way::Fat if ahead > 0 => self.put_fat(bytes, ahead),
                Way::Fat => self.write_fat(bytes),
                Way::Copy => self.move_all(len, |this, moved, _| {
                    calls::write(open(&this.fd), &bytes[moved..])
                }),
            };
            match written {
                Err(e) if way != Way::Copy && is_refusal(&e) => {
                    if self.decided().is_ready(way) {
                        self.refuse_by(way, e)?;
                    }
                }
                Ok(n) => {
                    if ahead == 0 {
                        self.count(way, n);
                        self.enlarge();
                    }
                    self.record(form, n, since);
                    return Ok(n);
                }
                Err(e) => return Err(e),
            }
        }
    }
}

/// Writes everything as std's `write_all` does, by calls that say how many bytes they have taken.
///
/// # Errors
/// What a call reports, except that it was interrupted; `WriteZero` where it takes nothing.
pub fn write_all_by(
    mut bytes: &[u8],
    mut write: impl FnMut(&[u8]) -> io::Result<usize>,
) -> io::Result<()> {
    while !bytes.is_empty() {
        match write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => bytes = &bytes[n..],
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// The descriptor of a writer, beside which its other fields can be borrowed.
pub(super) fn open<Fd>(fd: &Option<Fd>) -> &Fd {
    fd.as_ref().expect("there until into_inner")
}

/// An error that says "not this way": the next way will tell whether it is a final one.
pub fn is_refusal(e: &io::Error) -> bool {
    !matches!(
        e.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::BrokenPipe
    )
}

/// The memory of a way that lends, where it is in use.
pub(super) fn lender(ways: &mut Option<Ways>, way: Way) -> io::Result<&mut dyn Lender> {
    let lender = ways.as_mut().and_then(|w| w.lender(way));
    lender.ok_or_else(|| io::ErrorKind::Unsupported.into())
}
