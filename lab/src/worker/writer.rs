//! The writing side of a pair.

mod reuse;
mod source;

use std::io::{self, Write};
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;

use fullbore::Constant;
use fullbore_sys::calls::{self, End, SpliceFlags};
use fullbore_sys::pages::Pages;
use fullbore_sys::size::Size;
use fullbore_sys::wait::{self, Waiter};
use fullbore_sys::write::fresh::PIECE;
use fullbore_sys::write::recycle::Recycle;
use fullbore_sys::writer::Unbuffered;
use fullbore_sys::writer::{LARGE, Way as LibraryWay};
use fullbore_sys::{Error, Result, capacity};

use super::config::{Config, WriteWith};
use super::sequence;
use super::side::{Counters, Descriptor, Path, Watch, map_buffer, needed};
use super::sizes::PipeSize;
use crate::sys::{BLOCK, BLOCKS, Shared, SharedMemory};
use reuse::Reuse;
use source::Source;

/// A writer whose memory is ready.
#[derive(Debug)]
pub struct Writer<'a> {
    config: Config,
    fd: BorrowedFd<'a>,
    way: WriteMethod<'a>,
    waiter: Waiter,
    note: Option<String>,
}

#[derive(Debug)]
enum WriteMethod<'a> {
    Write(Descriptor<'a>, Source),
    Vmsplice(Recycle, SpliceFlags),
    /// New data, copied from a source into a pool that is lent and written again without asking.
    Reuse(Reuse),
    /// New data, copied from a source into the pages that are lent.
    InPlace(Box<Unbuffered<BorrowedFd<'a>>>, Source),
    /// New data, copied from a source into a socket.
    Fat(Box<Unbuffered<BorrowedFd<'a>>>, Source),
    Tee(Constant),
    SharedMemory(&'a SharedMemory, Pages),
}

impl<'a> Writer<'a> {
    /// Sets the pipe up and makes the memory ready. Only a rung without a pipe needs `shared`.
    ///
    /// # Errors
    /// Not a pipe where one is needed, a capacity or memory that is refused.
    pub fn prepare(
        config: &Config,
        fd: BorrowedFd<'a>,
        shared: Option<&'a SharedMemory>,
    ) -> Result<Self> {
        if config.write_with != WriteWith::Write && !calls::is_pipe(fd) {
            return Err(Error::new(
                format!(
                    "standard output cannot be written with {}",
                    config.write_with
                ),
                "it is not a pipe",
                "connect it with | to a reader, or use --write-with write",
            ));
        }
        let mut note = set_capacity(config, fd)?;
        let way = match config.write_with {
            WriteWith::Write => {
                let mut descriptor = Descriptor::new(fd, End::Write, config.wait);
                note = descriptor.note.take().or(note);
                WriteMethod::Write(descriptor, Source::prepare(config, &mut note)?)
            }
            WriteWith::Vmsplice => {
                WriteMethod::Vmsplice(buffers(config, &mut note)?, vmsplice_flags(config))
            }
            WriteWith::Reuse => {
                let flags = vmsplice_flags(config);
                WriteMethod::Reuse(Reuse::prepare(config, fd, flags, &mut note)?)
            }
            WriteWith::Fresh => WriteMethod::InPlace(
                library(config, fd, Some(LibraryWay::Fresh))?,
                Source::prepare(config, &mut note)?,
            ),
            WriteWith::Cow => WriteMethod::InPlace(
                library(config, fd, Some(LibraryWay::Cow))?,
                Source::prepare(config, &mut note)?,
            ),
            WriteWith::Auto => WriteMethod::InPlace(
                library(config, fd, None)?,
                Source::prepare(config, &mut note)?,
            ),
            WriteWith::Fat => WriteMethod::Fat(
                library(config, fd, Some(LibraryWay::Fat))?,
                Source::prepare(config, &mut note)?,
            ),
            WriteWith::Tee => {
                let mut constant = Constant::new(&tee_pattern(config.verify)).wait(config.wait);
                constant.prepare(fd);
                if let Some((_, reason)) = constant.fallbacks().first() {
                    let what_to_do = "use --write-with write";
                    return Err(Error::new("tee refused", reason.to_string(), what_to_do));
                }
                WriteMethod::Tee(constant)
            }
            WriteWith::SharedMemory => {
                WriteMethod::SharedMemory(needed(shared)?, map_buffer(config, &mut note)?)
            }
        };
        Ok(Self {
            config: config.clone(),
            fd,
            way,
            waiter: Waiter::new(config.wait, End::Write),
            note,
        })
    }

    /// How bytes move, and why not as asked.
    pub fn path(&mut self) -> Path {
        let (pages, asked) = (self.config.pages, self.config.write_with);
        let way = match &self.way {
            WriteMethod::Write(..) => format!("write, {pages} pages"),
            WriteMethod::Vmsplice(..) if self.config.same_buffer => {
                format!("vmsplice, halves of one buffer, {pages} pages")
            }
            WriteMethod::Vmsplice(..) => format!("vmsplice, two buffers, {pages} pages"),
            WriteMethod::Reuse(reuse) => {
                let pool = Size(reuse.pool().total_len() as u64);
                format!("vmsplice, a pool of {pool}, {pages} pages{}", self.ahead())
            }
            WriteMethod::InPlace(..) | WriteMethod::Fat(..) if self.moves_little() => {
                let large = Size(LARGE as u64);
                format!("write, as the buffer of {asked} is below {large}")
            }
            WriteMethod::InPlace(..) | WriteMethod::Fat(..) => format!("{asked}{}", self.ahead()),
            WriteMethod::Tee(constant) => path_of(constant),
            WriteMethod::SharedMemory(..) => {
                format!("ring of {BLOCKS} blocks of 128KiB in shared memory")
            }
        };
        let mut path = Path::new(way, self.fd, &self.config);
        path.note = self.note.clone();
        if let WriteMethod::InPlace(writer, _) | WriteMethod::Fat(writer, _) = &mut self.way
            && let Some((_, why)) = writer.path().fallbacks.pop()
        {
            path.note = Some(why.to_string());
        }
        path
    }

    /// How far ahead data is filled, as a part of a sentence.
    fn ahead(&self) -> String {
        match self.config.ahead {
            0 => String::new(),
            bytes => format!(", up to {} ahead", Size(bytes)),
        }
    }

    /// Whether each piece is so small that the library gives it to write(2) anyway.
    fn moves_little(&self) -> bool {
        self.way.buffer_len() < LARGE
    }

    /// How bytes have moved between two moments, and how many of them each way.
    pub fn path_between(&mut self, start: &Counters, end: &Counters) -> Path {
        let mut path = self.path();
        if self.way.library().is_some() && !self.moves_little() {
            let moved = std::array::from_fn::<_, { LibraryWay::ALL.len() }, _>(|i| {
                end.by_way[i] - start.by_way[i]
            });
            let by_name = LibraryWay::ALL
                .map(|way| way.to_string())
                .into_iter()
                .zip(moved);
            path.bytes_by = by_name.filter(|(_, bytes)| *bytes > 0).collect();
        }
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
                match self.config.write_with {
                    WriteWith::Write => "send standard output somewhere else",
                    _ => "use --write-with write, which any sandbox and any output allows",
                },
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
                return self.send_the_rest(counters);
            }
            self.way.next_buffer(self.fd, len, sent_since, |buffer| {
                if self.config.verify {
                    sequence::fill(buffer, counters.bytes);
                }
                self.config.verify
            })?;
            let mut sent = 0;
            while sent < len {
                if !watch.go_on(counters) {
                    return self.send_the_rest(counters);
                }
                self.waiter.before_call(self.fd)?;
                let n = self.counted(counters, |way, fd| way.send(fd, sent..len))?;
                sent += n.unwrap_or(0);
                counters.bytes += n.unwrap_or(0) as u64;
            }
            sent_since = len as u64;
            if let WriteMethod::Vmsplice(buffers, _) = &mut self.way {
                buffers.advance();
            }
        }
    }

    /// Sends what was taken and is not in the pipe yet. `counters.bytes` has it already.
    fn send_the_rest(&mut self, counters: &mut Counters) -> io::Result<()> {
        while let WriteMethod::Reuse(reuse) = &self.way
            && reuse.waiting() > 0
        {
            self.waiter.before_call(self.fd)?;
            self.counted(counters, WriteMethod::flush)?;
        }
        let fills_ahead = self.config.ahead > 0 || self.config.write_with == WriteWith::Auto;
        let is_flushed = !fills_ahead || self.way.library().is_none();
        while !is_flushed && self.counted(counters, WriteMethod::flush)?.is_none() {}
        Ok(())
    }

    /// Counts a call that moves bytes, and waits where it would block; then there is no result.
    fn counted<T>(
        &mut self,
        counters: &mut Counters,
        call: impl FnOnce(&mut WriteMethod<'a>, BorrowedFd<'a>) -> io::Result<T>,
    ) -> io::Result<Option<T>> {
        let result = call(&mut self.way, self.fd);
        match self.way.library() {
            Some(writer) => {
                let calls = writer.calls();
                counters.calls = calls.made;
                counters.would_block = calls.would_block;
                counters.by_way = LibraryWay::ALL.map(|way| writer.bytes_by(way));
            }
            None => counters.calls += 1,
        }
        match result {
            Ok(result) => Ok(Some(result)),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                if self.way.library().is_none() {
                    counters.would_block += 1;
                }
                if !matches!(self.way, WriteMethod::SharedMemory(..)) {
                    self.waiter.after_would_block(self.fd)?;
                }
                Ok(None)
            }
            Err(e) => Err(e),
        }
    }
}

impl WriteMethod<'_> {
    /// Bytes that are prepared at a time.
    fn buffer_len(&self) -> usize {
        match self {
            Self::Write(_, source) | Self::Fat(_, source) => source.buffer_len(),
            Self::Vmsplice(buffers, _) => buffers.current_len(),
            Self::InPlace(..) | Self::Reuse(_) => PIECE,
            Self::Tee(_) => usize::MAX,
            Self::SharedMemory(..) => BLOCK,
        }
    }

    /// Makes the next `len` bytes ready. `fill` writes what is to be sent, or says that anything may be.
    ///
    /// `sent_since` bytes were sent after those that the next buffer held before.
    fn next_buffer(
        &mut self,
        fd: BorrowedFd<'_>,
        len: usize,
        sent_since: u64,
        mut fill: impl FnMut(&mut [u8]) -> bool,
    ) -> io::Result<()> {
        match self {
            Self::Write(_, source) | Self::Fat(_, source) => {
                fill(source.next(len));
            }
            Self::Vmsplice(buffers, _) => {
                if fill(&mut []) {
                    wait_until_left(buffers, fd, sent_since)?;
                    fill(&mut buffers.current_mut()[..len]);
                }
            }
            Self::Reuse(reuse) => {
                if fill(&mut []) {
                    wait_until_left(reuse.pool(), fd, reuse.lent_since())?;
                }
                reuse.fill(len, fill);
            }
            Self::InPlace(writer, source) => {
                let block = writer.block(len);
                if !fill(block) {
                    source.copy_into(block);
                }
            }
            Self::SharedMemory(..) | Self::Tee(_) => {}
        }
        Ok(())
    }

    #[inline]
    fn send(&mut self, fd: BorrowedFd<'_>, part: Range<usize>) -> io::Result<usize> {
        match self {
            Self::Write(descriptor, source) => descriptor.write(&source.chosen()[part]),
            Self::Vmsplice(buffers, flags) => buffers.send(fd, part, *flags),
            Self::Reuse(reuse) => reuse.send(fd),
            Self::InPlace(writer, _) => {
                let before = writer.uncommitted();
                let result = writer.commit(part.len());
                match before - writer.uncommitted() {
                    0 => result.map(|()| 0),
                    sent => Ok(sent), // an error after that is left for the next call to find
                }
            }
            Self::Fat(writer, source) => writer.write(&source.chosen()[part]),
            Self::Tee(constant) => {
                let sent = constant.write_some(fd, part.len() as u64)?;
                Ok(usize::try_from(sent).unwrap_or(usize::MAX))
            }
            Self::SharedMemory(shared, source) => put(shared, source),
        }
    }

    /// Sends what was taken and is not in the pipe yet: all of it, or of `reuse` some.
    fn flush(&mut self, fd: BorrowedFd<'_>) -> io::Result<()> {
        match self {
            Self::InPlace(writer, _) | Self::Fat(writer, _) => writer.flush(),
            Self::Reuse(reuse) => reuse.flush(fd).map(drop),
            _ => Ok(()),
        }
    }

    /// The library's writer, which counts for itself.
    fn library(&self) -> Option<&Unbuffered<BorrowedFd<'_>>> {
        match self {
            Self::InPlace(writer, _) | Self::Fat(writer, _) => Some(writer),
            _ => None,
        }
    }
}

/// Puts the next block into the ring in shared memory, if there is room.
fn put(shared: &SharedMemory, source: &Pages) -> io::Result<usize> {
    let written = shared.number(Shared::Written);
    let index = written.load(Ordering::Relaxed);
    if index - shared.number(Shared::Read).load(Ordering::Acquire) >= BLOCKS as u64 {
        std::hint::spin_loop();
        return Err(io::ErrorKind::WouldBlock.into());
    }
    let at = (index as usize * BLOCK) % source.len().saturating_sub(BLOCK).max(1);
    shared.put(index, &source[at..][..BLOCK]);
    written.store(index + 1, Ordering::Release);
    Ok(BLOCK)
}

/// Waits until a recycled buffer may be written: at once, unless the reader has made the pipe larger.
fn wait_until_left(buffers: &Recycle, fd: BorrowedFd<'_>, sent_since: u64) -> io::Result<()> {
    while !buffers.has_left(fd, sent_since)? {
        if calls::reader_is_gone(fd)? {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        std::thread::sleep(std::time::Duration::from_micros(100));
    }
    Ok(())
}

fn library<'a>(
    config: &Config,
    fd: BorrowedFd<'a>,
    way: Option<LibraryWay>,
) -> Result<Box<Unbuffered<BorrowedFd<'a>>>> {
    let mut writer = Unbuffered::new(fd)
        .copy_on_write()
        .with_wait(config.wait)
        .keep_capacity();
    if let Some(way) = way {
        writer = writer.with_way(way);
    }
    let bytes = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
    writer = match (way, config.ahead) {
        (None, 0) => writer.fill_ahead(),
        (Some(_), 0) => writer,
        (_, ahead) => writer.with_ahead(bytes(ahead)),
    };
    if config.pool > 0 {
        writer = writer.with_pool(bytes(config.pool));
    }
    let mut writer = Box::new(writer);
    let path = writer.path();
    if way.is_some_and(|way| path.way != way) {
        let reason = path.fallbacks.first().map(|(_, reason)| reason.to_string());
        return Err(Error::new(
            format!("{} refused", config.write_with),
            reason.unwrap_or_default(),
            "use --write-with write",
        ));
    }
    Ok(writer)
}

/// How a constant's bytes move, and why not better.
pub fn path_of(constant: &Constant) -> String {
    let mut path = match (constant.route(), constant.bytes_per_tee()) {
        (None, _) => "nothing was written yet".to_owned(),
        (Some(route), Some(bytes)) => format!("{route} of {}", Size(bytes as u64)),
        (Some(route), None) => route.to_string(),
    };
    for (route, reason) in constant.fallbacks() {
        path += &format!("; not {route}: {reason}");
    }
    path
}

/// What `tee` sends: with `--verify` a pattern of its own, of a length that no power of two divides.
pub fn tee_pattern(verify: bool) -> Vec<u8> {
    if verify {
        (0..12_289u32).map(|i| (i % 251) as u8).collect()
    } else {
        vec![b'X'; 4096]
    }
}

/// Gives the pipe the exact capacity that was asked for, or fails: a rounded one would change what is measured. Of the
/// largest one it returns why it is not larger.
fn set_capacity(config: &Config, fd: BorrowedFd<'_>) -> Result<Option<String>> {
    if config.pipe_size == PipeSize::Largest {
        let largest = capacity::largest(fd)?;
        return Ok(largest.refusal.map(|e| e.to_string()));
    }
    let Some(want) = config.capacity() else {
        return Ok(None);
    };
    let size = Size(want);
    let granted = capacity::set(fd, usize::try_from(want).unwrap_or(usize::MAX))?;
    if granted as u64 != want {
        return Err(Error::new(
            format!("capacity {size} refused"),
            format!("the kernel rounds it to {}", Size(granted as u64)),
            "ask for a power of two of pages",
        ));
    }
    Ok(None)
}

fn vmsplice_flags(config: &Config) -> SpliceFlags {
    let gift = if config.gift {
        SpliceFlags::GIFT
    } else {
        SpliceFlags::empty()
    };
    wait::splice_flags(config.wait) | gift
}

fn buffers(config: &Config, note: &mut Option<String>) -> Result<Recycle> {
    let first = map_buffer(config, note)?;
    let second = if config.same_buffer {
        None
    } else {
        Some(map_buffer(config, note)?)
    };
    Ok(crate::sys::recycled_buffers(first, second))
}
