//! The reading side of a pair.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;

use fullbore_sys::calls::{self, End, SpliceFlags};
use fullbore_sys::pages::Pages;
use fullbore_sys::read::discard::Discard;
use fullbore_sys::read::relay::Relay;
use fullbore_sys::wait::{self, Waiter};
use fullbore_sys::{Error, Result};

use super::config::{Config, ReadWith, WriteWith};
use super::sequence;
use super::side::{Counters, Descriptor, Path, Watch, map_buffer, needed};
use super::writer::tee_pattern;
use crate::sys::{BLOCK, Shared, SharedMemory};

/// A reader whose memory is ready.
#[derive(Debug)]
pub struct Reader<'a> {
    config: Config,
    fd: BorrowedFd<'a>,
    way: ReadMethod<'a>,
    waiter: Waiter,
    /// Calls in a row that would block: see [`Waiter::is_refused`].
    in_vain: u32,
    /// What `--verify` expects, if not the sequence.
    pattern: Option<Vec<u8>>,
    note: Option<String>,
}

#[derive(Debug)]
enum ReadMethod<'a> {
    Read(Descriptor<'a>, Pages),
    Splice(Discard, SpliceFlags),
    Relay(Relay, SpliceFlags),
    SharedMemory(&'a SharedMemory, Pages),
}

impl<'a> Reader<'a> {
    /// Makes the memory ready. Only a rung without a pipe needs `shared`.
    ///
    /// # Errors
    /// Not a pipe where one is needed, or memory that is refused.
    pub fn prepare(
        config: &Config,
        fd: BorrowedFd<'a>,
        shared: Option<&'a SharedMemory>,
    ) -> Result<Self> {
        if config.read_with != ReadWith::Read && !calls::is_pipe(fd) {
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
                ReadMethod::Read(descriptor, map_buffer(config, &mut note)?)
            }
            ReadWith::Splice => ReadMethod::Splice(Discard::new()?, splice_flags(config)),
            ReadWith::Relay => ReadMethod::Relay(Relay::new()?, splice_flags(config)),
            ReadWith::SharedMemory => {
                ReadMethod::SharedMemory(needed(shared)?, map_buffer(config, &mut note)?)
            }
        };
        Ok(Self {
            config: config.clone(),
            fd,
            way,
            waiter: Waiter::new(config.wait, End::Read),
            in_vain: 0,
            pattern: (config.write_with == WriteWith::Tee).then(|| tee_pattern(config.verify)),
            note,
        })
    }

    /// How bytes move.
    pub fn path(&self) -> Path {
        let way = match &self.way {
            ReadMethod::Read(..) => format!("read, {} pages", self.config.pages),
            ReadMethod::Splice(..) => "splice to /dev/null".to_owned(),
            ReadMethod::Relay(..) => {
                "relay: splice to a private pipe, from there to /dev/null".to_owned()
            }
            ReadMethod::SharedMemory(..) => "copied from shared memory".to_owned(),
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
            let most = match self.way {
                // Whole slots, however fat.
                ReadMethod::Relay(..) => left.min(1 << 30),
                _ => self.config.buf_size.0.min(left),
            };
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
                    match self.config.read_with {
                        ReadWith::Read => "give it another standard input",
                        _ => "use --read-with read, which any sandbox and any input allows",
                    },
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
        let Self { fd, way, .. } = self;
        let taken = self.waiter.call(|may_sleep| {
            let never = if may_sleep {
                SpliceFlags::NONBLOCK
            } else {
                SpliceFlags::empty()
            };
            match way {
                ReadMethod::Read(descriptor, buffer) if may_sleep => {
                    descriptor.read_blocking(&mut buffer[..most])
                }
                ReadMethod::Read(descriptor, buffer) => descriptor.read(&mut buffer[..most]),
                ReadMethod::Splice(discard, flags) => discard.discard(*fd, most, *flags - never),
                ReadMethod::Relay(relay, flags) => relay.discard(*fd, most, *flags - never),
                ReadMethod::SharedMemory(shared, buffer) => take_block(shared, buffer),
            }
        });
        match taken {
            Ok(n) => {
                self.in_vain = 0;
                Ok(Some(n))
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                counters.would_block += 1;
                if !matches!(self.way, ReadMethod::SharedMemory(..)) {
                    if self.waiter.is_refused(self.fd, &mut self.in_vain)? {
                        return Err(e);
                    }
                    self.waiter.after_would_block(self.fd)?;
                }
                Ok(None)
            }
            Err(e) => Err(e),
        }
    }

    fn verify(&self, len: usize, offset: u64) -> Result<()> {
        let ReadMethod::Read(_, buffer) = &self.way else {
            return Ok(()); // `Config::check` refuses it
        };
        let bytes = &buffer[..len];
        let bad = match &self.pattern {
            Some(pattern) => first_unlike(bytes, pattern, offset),
            None => sequence::first_difference(bytes, offset),
        };
        match bad {
            None => Ok(()),
            Some(bad) => Err(Error::new(
                "verification failed",
                format!(
                    "the byte at offset {bad} is {:#04x}, not the sequence's",
                    bytes[(bad - offset) as usize]
                ),
                "the data was changed on its way; were both sides given --verify and the same --write-with?",
            )),
        }
    }
}

/// Offset of the first byte that is not the repeated pattern's, if any.
fn first_unlike(bytes: &[u8], pattern: &[u8], offset: u64) -> Option<u64> {
    let mut at = 0;
    while at < bytes.len() {
        let phase = ((offset + at as u64) % pattern.len() as u64) as usize;
        let expected = &pattern[phase..];
        let piece = &bytes[at..][..expected.len().min(bytes.len() - at)];
        if let Some(i) = piece.iter().zip(expected).position(|(a, b)| a != b) {
            return Some(offset + (at + i) as u64);
        }
        at += piece.len();
    }
    None
}

/// Takes the next block out of the ring in shared memory, if there is one.
fn take_block(shared: &SharedMemory, buffer: &mut Pages) -> io::Result<usize> {
    let read = shared.number(Shared::Read);
    let index = read.load(Ordering::Relaxed);
    if shared.number(Shared::Written).load(Ordering::Acquire) == index {
        std::hint::spin_loop();
        return Err(io::ErrorKind::WouldBlock.into());
    }
    let len = buffer.len().min(BLOCK);
    let at = (index as usize * BLOCK) % (buffer.len() - len + 1);
    shared.take(index, &mut buffer[at..][..len]);
    read.store(index + 1, Ordering::Release);
    Ok(len)
}

fn splice_flags(config: &Config) -> SpliceFlags {
    let movable = if config.gift {
        SpliceFlags::MOVE
    } else {
        SpliceFlags::empty()
    };
    wait::splice_flags(config.wait) | movable
}
