//! The reading side of a pair.

use std::io;
use std::os::fd::BorrowedFd;

use fullbore::pages::Pages;
use fullbore::read::discard::Discard;
use fullbore::sys::{self, End, SpliceFlags};
use fullbore::wait::Waiter;
use fullbore::{Error, Result};

use crate::config::{Config, ReadWith};
use crate::sequence;
use crate::side::{Counters, Descriptor, Path, Watch, map_buffer};

/// A reader whose memory is ready.
#[derive(Debug)]
pub struct Reader<'fd> {
    config: Config,
    fd: BorrowedFd<'fd>,
    way: Way<'fd>,
    waiter: Waiter,
    note: Option<String>,
}

#[derive(Debug)]
enum Way<'fd> {
    Read(Descriptor<'fd>, Pages),
    Splice(Discard, SpliceFlags),
}

impl<'fd> Reader<'fd> {
    /// Makes the memory ready.
    ///
    /// # Errors
    /// Not a pipe where one is needed, or memory that is refused.
    pub fn prepare(config: &Config, fd: BorrowedFd<'fd>) -> Result<Self> {
        if config.read_with != ReadWith::Read && !sys::is_pipe(fd) {
            return Err(Error::new(
                format!("standard input cannot be read with {}", config.read_with),
                "it is not a pipe",
                "connect it with | to a writer, or use --read-with read",
            ));
        }
        let mut note = None;
        let way = match config.read_with {
            ReadWith::Read => {
                let mut descriptor = Descriptor::new(fd, End::Read, config.wait);
                note = descriptor.note.take();
                Way::Read(descriptor, map_buffer(config)?)
            }
            ReadWith::Splice => Way::Splice(Discard::new()?, splice_flags(config)),
        };
        Ok(Self {
            config: config.clone(),
            fd,
            way,
            waiter: Waiter::new(config.wait, End::Read),
            note,
        })
    }

    /// How bytes move.
    #[must_use]
    pub fn path(&self) -> Path {
        let way = match &self.way {
            Way::Read(..) => format!("read, {} pages", self.config.pages),
            Way::Splice(..) => "splice to /dev/null".to_owned(),
        };
        let mut path = Path::new(way, self.fd, &self.config);
        path.note = self.note.clone();
        path
    }

    /// Reads until `limit` bytes, until `watch` ends it, or until end of file.
    ///
    /// # Errors
    /// A read failed, or a byte is not the one that `--verify` expects.
    pub fn run(&mut self, limit: Option<u64>, watch: &mut impl Watch) -> Result<Counters> {
        let mut counters = Counters::default();
        while watch.go_on(&counters) {
            let left = limit.map_or(u64::MAX, |l| l - counters.bytes);
            let most = self.config.buf_size.min(left);
            if most == 0 {
                break;
            }
            let taken = self.take(most as usize, &mut counters).map_err(|e| {
                Error::system(
                    format!(
                        "reading with {} failed after {} bytes",
                        self.config.read_with, counters.bytes
                    ),
                    e,
                    "",
                )
            })?;
            if taken == Some(0) {
                counters.calls -= 1; // end of file moved nothing
                break;
            }
            let taken = taken.unwrap_or(0);
            if self.config.verify {
                self.verify(taken, counters.bytes)?;
            }
            counters.bytes += taken as u64;
        }
        Ok(counters)
    }

    /// One call. `None` means that there was nothing yet.
    #[inline]
    fn take(&mut self, most: usize, counters: &mut Counters) -> io::Result<Option<usize>> {
        self.waiter.before_call(self.fd)?;
        counters.calls += 1;
        let taken = match &mut self.way {
            Way::Read(descriptor, buffer) => descriptor.read(&mut buffer[..most]),
            Way::Splice(discard, flags) => discard.discard(self.fd, most, *flags),
        };
        match taken {
            Ok(n) => Ok(Some(n)),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                counters.would_block += 1;
                self.waiter.after_would_block(self.fd)?;
                Ok(None)
            }
            Err(e) => Err(e),
        }
    }

    fn verify(&self, len: usize, offset: u64) -> Result<()> {
        let Way::Read(_, buffer) = &self.way else {
            return Ok(()); // `Config::check` refuses it
        };
        match sequence::first_difference(&buffer[..len], offset) {
            None => Ok(()),
            Some(bad) => Err(Error::new(
                "verification failed",
                format!(
                    "the byte at offset {bad} is {:#04x}, not the sequence's",
                    buffer[(bad - offset) as usize]
                ),
                "the data was changed on its way; was the writer started with --verify, too?",
            )),
        }
    }
}

fn splice_flags(config: &Config) -> SpliceFlags {
    let movable = if config.gift {
        SpliceFlags::MOVE
    } else {
        SpliceFlags::empty()
    };
    config.wait.splice_flags() | movable
}
