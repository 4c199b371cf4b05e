//! Descriptor to descriptor: [`copy`] takes the way that copies least, and says which it was.

mod held;
#[cfg(test)]
mod tests;

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use rustix::fs::FileType;

use fullbore_sys::calls::{self, End, SpliceFlags};
use fullbore_sys::capacity;
use fullbore_sys::private::Private;
use fullbore_sys::wait::{Wait, Waiter, events};
use fullbore_sys::{Reason, Route};
use held::Held;

/// One side of what is moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// Where bytes come from.
    Input,
    /// Where they go.
    Output,
}

/// What [`copy`] has done.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Copied {
    /// Bytes that arrived.
    pub bytes: u64,
    /// The route that was taken last.
    pub route: Route,
    /// The routes that would have been better, in the order in which they were left, and why each was.
    pub fallbacks: Vec<(Route, Reason)>,
}

/// A call that moved less than this from pipe to pipe came early: see [`Pump::splice`].
const BATCH: usize = 512 << 10;
/// Bytes of the buffer of [`Route::ReadWrite`]: more than any packet has where `net.core.wmem_max` is as Linux sets it.
const BUFFER: usize = 256 << 10;
/// Calls in a row that would block, after each of which both sides became ready. One that another process empties or fills
/// may do so a few times; reading and writing is right in any case.
const IN_VAIN_AT_MOST: u32 = 100;

/// Moves everything from one descriptor to the other until end of file.
///
/// Pipes are made larger where that is allowed. Waiting is sleeping: whoever stands between a writer and a reader and
/// spins takes a CPU that one of them may need. Neither descriptor's flags are changed; `WouldBlock` of a non-blocking one
/// is waited out.
///
/// A pipe whose writer has made it one of packets (`O_DIRECT`, see `pipe(2)`) passes packets on to another pipe: slots keep
/// that mark, which a read end does not show. Whoever reads less than a packet there loses the rest of it, as from the first
/// pipe.
///
/// What comes from a file is moved by reference: until it is read at the other end, a change of the file changes it there,
/// too. [`copy_by_value`] does without that.
///
/// # Errors
/// What the system calls report. Bytes that were moved before have arrived. A call that is refused and has moved nothing is
/// no error: the next route is tried.
///
/// # Examples
/// ```
/// let file = std::fs::File::open("/proc/self/status")?;
/// let (mut reader, writer) = std::io::pipe()?;
/// let copied = fullbore::copy(&file, &writer)?;
/// drop(writer);
/// let text = std::io::read_to_string(&mut reader)?;
/// assert_eq!(text.len() as u64, copied.bytes);
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn copy(from: impl AsFd, to: impl AsFd) -> io::Result<Copied> {
    Pump::new(from.as_fd(), to.as_fd()).run()
}

/// Moves everything from one descriptor to the other, as [`copy`] does, but never by reference: after `Ok`, nothing that
/// happens to the input changes a byte of what was delivered, however late it is read.
///
/// Bytes are read and written, which costs a copy and a page more for each; between two files the kernel copies them
/// (`copy_file_range(2)`), or has both share them until one is written.
///
/// # Errors
/// As [`copy`].
///
/// # Examples
/// ```
/// use std::io::{Seek, Write};
/// let path = std::env::temp_dir().join(format!("by-value-{}", std::process::id()));
/// let mut file = std::fs::File::options().create_new(true).read(true).write(true).open(&path)?;
/// std::fs::remove_file(&path)?;
/// file.write_all(b"before")?;
/// file.rewind()?;
/// let (mut reader, writer) = std::io::pipe()?;
/// fullbore::copy_by_value(&file, &writer)?;
/// drop(writer);
/// file.rewind()?;
/// file.write_all(b"behind")?;
/// assert_eq!(std::io::read_to_string(&mut reader)?, "before");
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn copy_by_value(from: impl AsFd, to: impl AsFd) -> io::Result<Copied> {
    Pump::by_value(from.as_fd(), to.as_fd()).run()
}

/// Moves bytes from one descriptor to another, step by step.
///
/// The descriptors may be borrowed, or the pump's own: then it can be kept in a struct or moved into a thread, and closes
/// them when it is dropped.
///
/// # Examples
/// ```
/// use std::os::fd::OwnedFd;
/// use fullbore::moving::Pump;
///
/// let file = std::fs::File::open("/proc/self/status")?;
/// let (reader, writer) = std::io::pipe()?;
/// let mut pump = Pump::new(OwnedFd::from(file), OwnedFd::from(writer));
/// let moving = std::thread::spawn(move || {
///     let mut moved = 0;
///     loop {
///         match pump.step(usize::MAX)? {
///             0 => return Ok::<_, std::io::Error>(moved), // and the pipe's end is closed
///             n => moved += n,
///         }
///     }
/// });
/// let text = std::io::read_to_string(reader)?;
/// assert_eq!(text.len(), moving.join().expect("no panic")?);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Pump<F, T> {
    from: F,
    to: T,
    state: State,
    fallbacks: Vec<(Route, Reason)>,
    waits_from: Waiter,
    waits_to: Waiter,
    blame: Side,
    /// An empty pipe, to look at the input with.
    glass: Option<Private>,
}

#[derive(Debug)]
enum State {
    Splice,
    Relay(Private),
    /// `true` once it has moved something: then zero is the end of the file, and not a file without a size.
    CopyFileRange(bool),
    Copy(Held),
}

impl<F: AsFd, T: AsFd> Pump<F, T> {
    /// A pump between two descriptors; chooses the route by what they are.
    #[must_use]
    pub fn new(from: F, to: T) -> Self {
        let kinds = grown(from.as_fd(), to.as_fd());
        let has_pipe = kinds.0 == FileType::Fifo || kinds.1 == FileType::Fifo;
        let mut fallbacks = Vec::new();
        let state = match kinds {
            (FileType::RegularFile, FileType::RegularFile) => State::CopyFileRange(false),
            (FileType::Fifo, FileType::Fifo) => State::Splice,
            // Splice takes as much of a packet as the private pipe has room for, and the rest is gone.
            (FileType::Socket, _) if calls::is_of_packets(&from) => {
                fallbacks.push((Route::Relay, Reason::Packets));
                State::Copy(Held::new(BUFFER))
            }
            // Also where one side is a pipe: whole slots move through its mutex in a moment, so that whoever is at its other
            // end need not wait while pages are looked up in a file, or copied into one.
            _ => match Private::large() {
                Ok(private) => State::Relay(private),
                Err(e) => {
                    fallbacks.push((Route::Relay, e.into()));
                    if has_pipe {
                        State::Splice
                    } else {
                        State::Copy(Held::new(BUFFER))
                    }
                }
            },
        };
        Self {
            fallbacks,
            ..Self::with_state(from, to, state)
        }
    }

    /// A pump that never moves bytes by reference: see [`copy_by_value`].
    #[must_use]
    pub fn by_value(from: F, to: T) -> Self {
        let state = match grown(from.as_fd(), to.as_fd()) {
            (FileType::RegularFile, FileType::RegularFile) => State::CopyFileRange(false),
            _ => State::Copy(Held::new(BUFFER)),
        };
        Self::with_state(from, to, state)
    }

    /// A pump that reads and writes, through a buffer of so many bytes (at least one).
    ///
    /// Where there is no memory for the buffer the process is aborted, as with any `Vec`; whoever takes the size from
    /// someone else tries [`Vec::try_reserve_exact`] first.
    #[must_use]
    pub fn copying(from: F, to: T, buffer: usize) -> Self {
        Self::with_state(from, to, State::Copy(Held::new(buffer.max(1))))
    }

    fn with_state(from: F, to: T, state: State) -> Self {
        Self {
            from,
            to,
            state,
            fallbacks: Vec::new(),
            waits_from: Waiter::new(Wait::Block, End::Read),
            waits_to: Waiter::new(Wait::Block, End::Write),
            blame: Side::Input,
            glass: None,
        }
    }

    /// Moves everything until end of file.
    fn run(mut self) -> io::Result<Copied> {
        let mut bytes = 0;
        loop {
            match self.step(usize::MAX)? {
                0 => break,
                n => bytes += n as u64,
            }
        }
        Ok(Copied {
            bytes,
            route: self.route(),
            fallbacks: self.fallbacks,
        })
    }

    /// The route that is taken now.
    #[must_use]
    pub fn route(&self) -> Route {
        match self.state {
            State::Splice => Route::Splice,
            State::Relay(_) => Route::Relay,
            State::CopyFileRange(_) => Route::CopyFileRange,
            State::Copy(_) => Route::ReadWrite,
        }
    }

    /// The routes that would have been better, in the order in which they were left, and why each was.
    #[must_use]
    pub fn fallbacks(&self) -> &[(Route, Reason)] {
        &self.fallbacks
    }

    /// Which side the last error was of.
    ///
    /// Where one side is a pipe, only the other can fail, except that nobody reads the output any more (`EPIPE`). Where
    /// neither is, a private pipe or a buffer lies between them. An error of `copy_file_range(2)`, which is of either
    /// side, has moved nothing and is found out by reading and writing.
    #[must_use]
    pub fn blame(&self) -> Side {
        self.blame
    }

    /// Bytes that were taken from the input and did not arrive yet; further steps deliver them first.
    #[must_use]
    pub fn held(&self) -> usize {
        match &self.state {
            State::Splice | State::CopyFileRange(_) => 0,
            State::Relay(private) => private.held(),
            State::Copy(held) => held.len(),
        }
    }

    /// Moves some bytes, at most `most`, and returns how many arrived. Zero is end of file.
    ///
    /// No more than `most` bytes are taken from the input. Those that did not arrive yet, because the output takes no
    /// more now, are [`held`](Self::held), and the next step delivers them before it takes others.
    ///
    /// # Errors
    /// What the system calls report; [`blame`](Self::blame) says of which side.
    pub fn step(&mut self, most: usize) -> io::Result<usize> {
        self.step_within(most, most)
    }

    /// [`step`](Self::step) with a limit for each side: takes at most `take` bytes from the input, and lets at most
    /// `deliver` arrive.
    ///
    /// An input of packets (a socket, or a pipe with `O_DIRECT`) loses the rest of a packet that is read in part. So
    /// whoever wants to slow down delivers less, and takes what there is.
    ///
    /// # Errors
    /// As [`step`](Self::step).
    pub fn step_within(&mut self, take: usize, deliver: usize) -> io::Result<usize> {
        // Splice leaves the rest of a packet where it was.
        let most = take.min(deliver);
        let mut in_vain = 0;
        loop {
            let moved = match &mut self.state {
                State::Splice => self.splice(most),
                State::CopyFileRange(begun) => {
                    match calls::copy_file_range(&self.from, &self.to, most) {
                        Ok(0) if !*begun => {
                            self.fall_back(Reason::NoSize);
                            continue;
                        }
                        Err(e) => {
                            // Neither offset has moved: by hand it will be seen whose error that is, if it still is one.
                            self.fall_back(Reason::of("copy_file_range", &e));
                            continue;
                        }
                        other => {
                            *begun = true;
                            other
                        }
                    }
                }
                State::Relay(_) => return self.relay(take, deliver),
                State::Copy(_) => return self.copy(take, deliver),
            };
            match moved {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    in_vain += 1;
                    if in_vain > IN_VAIN_AT_MOST {
                        self.fall_back(Reason::of("splice", &e));
                    }
                    self.wait()?;
                }
                // The call has moved nothing, so that another route loses nothing.
                Err(e) if is_refusal(&e) => self.fall_back(Reason::of("splice", &e)),
                Err(e) => {
                    let input_is_pipe = || calls::is_pipe(&self.from);
                    self.blame = if e.kind() == io::ErrorKind::BrokenPipe || input_is_pipe() {
                        Side::Output
                    } else {
                        Side::Input
                    };
                    return Err(e);
                }
                Ok(n) => return Ok(n),
            }
        }
    }

    /// Moves slots from pipe to pipe, and lets others run where that were few: a writer that waits for this very CPU fills
    /// the pipe meanwhile, and the next call moves many slots at once. Where nobody waits, nothing is lost.
    fn splice(&mut self, most: usize) -> io::Result<usize> {
        if self.ends_while_full() {
            return Ok(0);
        }
        let moved = calls::splice(&self.from, &self.to, most, SpliceFlags::empty());
        // It looks for a reader before it looks whether there is anything to read.
        if matches!(&moved, Err(e) if e.kind() == io::ErrorKind::BrokenPipe)
            && calls::is_at_end(&self.from).unwrap_or(false)
        {
            return Ok(0);
        }
        if matches!(moved, Ok(n) if n < BATCH) {
            std::thread::yield_now();
        }
        moved
    }

    /// Whether the input is at its end while the output is full. Splice would wait for room before it says so, and whoever
    /// reads the output only after we have ended would wait for ever.
    fn ends_while_full(&mut self) -> bool {
        // Where one of these calls is refused, splice says what there is to say.
        let room = calls::poll(&self.to, events(End::Write), Some(Duration::ZERO));
        if room.unwrap_or(true) || calls::bytes_in_pipe(&self.from).unwrap_or(1) > 0 {
            return false;
        }
        // Not by poll(2) if it can be helped: it would make every later write(2) into the input dearer.
        if self.glass.is_none() {
            self.glass = Private::new().ok();
        }
        match self.glass.as_ref().map(|glass| glass.sees_end(&self.from)) {
            Some(Ok(end)) => end,
            _ => calls::ends_before_room(&self.from, &self.to).unwrap_or(false),
        }
    }

    /// `EAGAIN` does not say which side would block: wait for both, one after the other.
    fn wait(&mut self) -> io::Result<()> {
        self.waits_from.after_would_block(&self.from)?;
        self.waits_to.after_would_block(&self.to)
    }

    fn fall_back(&mut self, reason: Reason) {
        self.fallbacks.push((self.route(), reason));
        self.state = State::Copy(Held::new(BUFFER));
    }

    fn relay(&mut self, take: usize, deliver: usize) -> io::Result<usize> {
        let State::Relay(private) = &mut self.state else {
            return Ok(0);
        };
        self.blame = Side::Input;
        if private.held() == 0 {
            let fill = || private.fill(&self.from, take, SpliceFlags::empty());
            match self.waits_from.until_ready(&self.from, fill) {
                Ok(0) => return Ok(0),
                Ok(_) => {}
                Err(e) if is_refusal(&e) => {
                    self.fall_back(Reason::of("splice", &e));
                    return self.copy(take, deliver);
                }
                Err(e) => return Err(e),
            }
        }
        self.blame = Side::Output;
        let pass_on = || private.deliver(&self.to, deliver, SpliceFlags::empty());
        match self.waits_to.until_ready(&self.to, pass_on) {
            Ok(0) => Err(io::ErrorKind::WriteZero.into()),
            Err(e) if is_refusal(&e) => {
                // What the private pipe holds goes on by hand; then all the rest does.
                let mut bytes = Vec::new();
                private.take_all(&mut bytes)?;
                self.fall_back(Reason::of("splice", &e));
                self.state = State::Copy(Held::of(bytes, BUFFER));
                self.copy(take, deliver)
            }
            other => other,
        }
    }

    fn copy(&mut self, take: usize, deliver: usize) -> io::Result<usize> {
        let State::Copy(held) = &mut self.state else {
            return Ok(0);
        };
        self.blame = Side::Input;
        if held.len() == 0 && held.fill(self.from.as_fd(), take, &mut self.waits_from)? == 0 {
            return Ok(0);
        }
        self.blame = Side::Output;
        held.deliver(self.to.as_fd(), deliver, &mut self.waits_to)
    }
}

/// Makes those that are pipes larger; what is refused is not needed. Returns what both are.
fn grown(from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> (FileType, FileType) {
    let kind = |fd| {
        let kind =
            rustix::fs::fstat(fd).map_or(FileType::Unknown, |s| FileType::from_raw_mode(s.st_mode));
        if kind == FileType::Fifo {
            let _ = capacity::largest(fd);
        }
        kind
    };
    (kind(from), kind(to))
}

/// Whether it may still work by reading and writing, after a call that failed and has moved nothing. They meet the same
/// error where it is the file that fails, and say on which side that is.
///
/// Not after these: that it would have to wait, that nobody reads any more, and what a socket tells only once. A second call
/// would then find the end of the data, as if nothing were missing.
pub(crate) fn is_refusal(e: &io::Error) -> bool {
    use rustix::io::Errno;
    let told_once = [
        Errno::CONNABORTED,
        Errno::CONNREFUSED,
        Errno::CONNRESET,
        Errno::HOSTDOWN,
        Errno::HOSTUNREACH,
        Errno::NETDOWN,
        Errno::NETRESET,
        Errno::NETUNREACH,
        Errno::NOPROTOOPT,
        Errno::PROTO,
        Errno::TIMEDOUT,
    ];
    match e.raw_os_error().map(Errno::from_raw_os_error) {
        Some(errno) => ![Errno::AGAIN, Errno::PIPE].contains(&errno) && !told_once.contains(&errno),
        None => e.kind() == io::ErrorKind::Other,
    }
}
