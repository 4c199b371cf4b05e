//! The writing side of a pair.

use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;

use fullbore::pages::Pages;
use fullbore::sys::{self, End, SpliceFlags};
use fullbore::wait::Waiter;
use fullbore::write::recycle::Recycle;
use fullbore::{Error, Result, capacity};

use crate::config::{Config, WriteWith};
use crate::sequence;
use crate::side::{Counters, Descriptor, Path, Watch, map_buffer};

/// A writer whose memory is ready.
#[derive(Debug)]
pub struct Writer<'fd> {
    config: Config,
    fd: BorrowedFd<'fd>,
    way: Way<'fd>,
    waiter: Waiter,
    note: Option<String>,
}

#[derive(Debug)]
enum Way<'fd> {
    Write(Descriptor<'fd>, Pages),
    Vmsplice(Recycle, SpliceFlags),
}

impl<'fd> Writer<'fd> {
    /// Sets the pipe up and makes the memory ready.
    ///
    /// # Errors
    /// Not a pipe where one is needed, a capacity or memory that is refused.
    pub fn prepare(config: &Config, fd: BorrowedFd<'fd>) -> Result<Self> {
        if config.write_with != WriteWith::Write && !sys::is_pipe(fd) {
            return Err(Error::new(
                format!(
                    "standard output cannot be written with {}",
                    config.write_with
                ),
                "it is not a pipe",
                "connect it with | to a reader, or use --write-with write",
            ));
        }
        set_capacity(config, fd)?;
        let mut note = None;
        let way = match config.write_with {
            WriteWith::Write => {
                let mut descriptor = Descriptor::new(fd, End::Write, config.wait);
                note = descriptor.note.take();
                Way::Write(descriptor, map_buffer(config)?)
            }
            WriteWith::Vmsplice => Way::Vmsplice(buffers(config)?, vmsplice_flags(config)),
        };
        Ok(Self {
            config: config.clone(),
            fd,
            way,
            waiter: Waiter::new(config.wait, End::Write),
            note,
        })
    }

    /// How bytes move.
    #[must_use]
    pub fn path(&self) -> Path {
        let way = match &self.way {
            Way::Write(..) => "write",
            Way::Vmsplice(..) if self.config.same_buffer => "vmsplice, halves of one buffer",
            Way::Vmsplice(..) => "vmsplice, two buffers",
        };
        let mut path = Path::new(
            format!("{way}, {} pages", self.config.pages),
            self.fd,
            &self.config,
        );
        path.note = self.note.clone();
        path
    }

    /// Writes until `limit` bytes, until `watch` ends it, or until the reader goes away.
    ///
    /// # Errors
    /// A write failed for another reason than a reader that went away.
    pub fn run(&mut self, limit: Option<u64>, watch: &mut impl Watch) -> Result<Counters> {
        let mut counters = Counters::default();
        match self.write_all(limit, watch, &mut counters) {
            Err(e) if e.kind() != io::ErrorKind::BrokenPipe => Err(Error::system(
                format!(
                    "writing with {} failed after {} bytes",
                    self.config.write_with, counters.bytes
                ),
                e,
                "",
            )),
            _ => Ok(counters),
        }
    }

    fn write_all(
        &mut self,
        limit: Option<u64>,
        watch: &mut impl Watch,
        counters: &mut Counters,
    ) -> io::Result<()> {
        let mut sent_since = 0;
        loop {
            let left = limit.map_or(u64::MAX, |l| l - counters.bytes);
            let len = self
                .way
                .buffer_len()
                .min(usize::try_from(left).unwrap_or(usize::MAX));
            if len == 0 {
                return Ok(());
            }
            if self.config.verify {
                let buffer = self.way.rewritable(self.fd, sent_since)?;
                sequence::fill(&mut buffer[..len], counters.bytes);
            }
            let mut sent = 0;
            while sent < len {
                if !watch.go_on(counters) {
                    return Ok(());
                }
                self.waiter.before_call(self.fd)?;
                counters.calls += 1;
                match self.way.send(self.fd, sent..len) {
                    Ok(n) => {
                        sent += n;
                        counters.bytes += n as u64;
                    }
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                        counters.would_block += 1;
                        self.waiter.after_would_block(self.fd)?;
                    }
                    Err(e) => return Err(e),
                }
            }
            sent_since = len as u64;
            self.way.advance();
        }
    }
}

impl Way<'_> {
    fn buffer_len(&self) -> usize {
        match self {
            Self::Write(_, buffer) => buffer.len(),
            Self::Vmsplice(buffers, _) => buffers.current_len(),
        }
    }

    /// The current buffer once nobody holds what it contained, when `sent_since` bytes were sent after that.
    fn rewritable(&mut self, fd: BorrowedFd<'_>, sent_since: u64) -> io::Result<&mut [u8]> {
        match self {
            Self::Write(_, buffer) => Ok(buffer),
            Self::Vmsplice(buffers, _) => {
                // True at once, unless the reader has made the pipe larger.
                while !buffers.has_left(fd, sent_since)? {
                    if sys::reader_is_gone(fd)? {
                        return Err(io::ErrorKind::BrokenPipe.into());
                    }
                    std::thread::sleep(std::time::Duration::from_micros(100));
                }
                Ok(buffers.current_mut())
            }
        }
    }

    #[inline]
    fn send(&self, fd: BorrowedFd<'_>, part: Range<usize>) -> io::Result<usize> {
        match self {
            Self::Write(descriptor, buffer) => descriptor.write(&buffer[part]),
            Self::Vmsplice(buffers, flags) => buffers.send(fd, part, *flags),
        }
    }

    fn advance(&mut self) {
        match self {
            Self::Write(..) => {}
            Self::Vmsplice(buffers, _) => buffers.advance(),
        }
    }
}

/// Gives the pipe the capacity that was asked for, or fails: a rounded one would change what is measured.
pub(crate) fn set_capacity(config: &Config, fd: BorrowedFd<'_>) -> Result<()> {
    let Some(want) = config.capacity() else {
        return Ok(());
    };
    let size = fullbore::size::Size(want);
    let granted = capacity::set(fd, usize::try_from(want).unwrap_or(usize::MAX))?;
    if granted as u64 != want {
        return Err(Error::new(
            format!("capacity {size} refused"),
            format!(
                "the kernel rounds it to {}",
                fullbore::size::Size(granted as u64)
            ),
            "ask for a power of two of pages",
        ));
    }
    Ok(())
}

fn vmsplice_flags(config: &Config) -> SpliceFlags {
    let gift = if config.gift {
        SpliceFlags::GIFT
    } else {
        SpliceFlags::empty()
    };
    config.wait.splice_flags() | gift
}

fn buffers(config: &Config) -> Result<Recycle> {
    let first = map_buffer(config)?;
    let second = if config.same_buffer {
        None
    } else {
        Some(map_buffer(config)?)
    };
    Ok(crate::sys::recycled_buffers(first, second))
}
