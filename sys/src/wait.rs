//! What to do while a pipe is full or empty: block, poll or spin.

use std::fmt;
use std::io;
use std::os::fd::AsFd;
use std::str::FromStr;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;

use crate::calls::{self, End, SpliceFlags};

/// How one side of a pipe waits for the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Wait {
    /// Sleep inside the call until the other side has done something.
    #[default]
    Block,
    /// `poll(2)` before every call, then a call that may block.
    Poll,
    /// Never sleep: repeat the call until it moves something. Uses a whole CPU.
    Spin,
    /// Never sleep: `poll(2)` with timeout 0 until ready, then the call. Uses a whole CPU, but leaves the pipe's mutex
    /// alone while waiting.
    PollSpin,
    /// Spin as `PollSpin` does for as long as that has been worth it lately, then sleep in `poll(2)`: see [`Waiter`].
    Adaptive,
}

impl Wait {
    /// Every strategy.
    pub const ALL: [Self; 5] = [
        Self::Block,
        Self::Poll,
        Self::Spin,
        Self::PollSpin,
        Self::Adaptive,
    ];

    /// Whether calls must return `WouldBlock` rather than sleep.
    #[must_use]
    pub fn is_nonblocking(self) -> bool {
        matches!(self, Self::Spin | Self::PollSpin | Self::Adaptive)
    }
}

/// The flag that makes one splice, vmsplice or tee wait like this. (No method of [`Wait`], which is part of the public API of the
/// library: the flags are not.)
#[must_use]
pub fn splice_flags(wait: Wait) -> SpliceFlags {
    if wait.is_nonblocking() {
        SpliceFlags::NONBLOCK
    } else {
        SpliceFlags::empty()
    }
}

impl FromStr for Wait {
    type Err = UnknownWait;

    fn from_str(text: &str) -> Result<Self, UnknownWait> {
        Self::ALL
            .into_iter()
            .find(|w| w.to_string() == text)
            .ok_or(UnknownWait)
    }
}

/// The text names no wait strategy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownWait;

impl fmt::Display for UnknownWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = Wait::ALL.map(|w| w.to_string()).join(", ");
        write!(f, "unknown wait strategy; use one of {names}")
    }
}

impl std::error::Error for UnknownWait {}

/// A call would block again and again on what is ready.
#[derive(Debug)]
struct InVain(io::Error);

impl fmt::Display for InVain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, although poll(2) says that it is available", self.0)
    }
}

impl std::error::Error for InVain {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}

/// Waits at one end of a pipe as its [`Wait`] says, and remembers what waiting has been worth.
///
/// `Adaptive` is the ski-rental rule: spinning for as long as a wake-up costs wastes at most as much again, and saves
/// the wake-up whenever the other side is quick. What a wake-up costs differs between machines by a factor of ten (5 µs
/// on one CPU, 45 µs across the CPUs of a guest), so it is measured on the way. Where spinning keeps failing, because
/// the other side is slow or needs this very CPU, it is given up and only tried again after longer and longer pauses.
#[derive(Clone, Debug)]
pub struct Waiter {
    wait: Wait,
    end: End,
    /// How long to spin at most.
    limit: Duration,
    /// Spins that failed in a row.
    failures: u32,
    /// Waits that sleep at once before spinning is tried again.
    sleeps_left: u32,
}

/// Spin limit before anything was learned, and its bounds.
const SPIN_AT_FIRST: Duration = Duration::from_micros(50);
const SPIN_AT_LEAST: Duration = Duration::from_micros(5);
const SPIN_AT_MOST: Duration = Duration::from_micros(100);
/// Failures in a row after which a wait sleeps at once.
const FAILURES_ALLOWED: u32 = 2;
/// At most so many waits sleep at once before spinning is tried again.
const SLEEPS_AT_MOST: u32 = 1024;

/// Calls in a row that may return `WouldBlock` on what is ready; and after how many of them there are pauses in between.
const IN_VAIN_AT_MOST: u32 = 100;
const PAUSES_AFTER: u32 = 10;
const PAUSE: Duration = Duration::from_millis(1);

impl Waiter {
    /// A waiter at one end of a pipe that has learned nothing yet.
    #[must_use]
    pub fn new(wait: Wait, end: End) -> Self {
        Self {
            wait,
            end,
            limit: SPIN_AT_FIRST,
            failures: 0,
            sleeps_left: 0,
        }
    }

    /// The strategy.
    #[must_use]
    pub fn wait(&self) -> Wait {
        self.wait
    }

    /// What the strategy does before a call on `fd`.
    ///
    /// # Errors
    /// What `poll(2)` reports.
    #[inline]
    pub fn before_call(&self, fd: impl AsFd) -> io::Result<()> {
        match self.wait {
            Wait::Block | Wait::Spin | Wait::Adaptive => {}
            Wait::Poll => {
                calls::poll(fd, events(self.end), None)?;
            }
            Wait::PollSpin => {
                while !self.is_ready(&fd)? {
                    std::hint::spin_loop();
                }
            }
        }
        Ok(())
    }

    /// What the strategy does after a call on `fd` returned `WouldBlock`. Also right when it should not have: an
    /// inherited descriptor may be non-blocking already.
    ///
    /// # Errors
    /// What `poll(2)` reports.
    #[inline]
    pub fn after_would_block(&mut self, fd: impl AsFd) -> io::Result<()> {
        match self.wait {
            Wait::Spin | Wait::PollSpin => std::hint::spin_loop(),
            Wait::Block | Wait::Poll => {
                calls::poll(fd, events(self.end), None)?;
            }
            Wait::Adaptive => self.adapt(fd)?,
        }
        Ok(())
    }

    /// Makes a call on `fd` until it returns something other than `WouldBlock`.
    ///
    /// # Errors
    /// What the call reports, or `poll(2)`; and that the call would block although `fd` is ready, if that goes on: then it is
    /// refused. Only [`Wait::Block`] and [`Wait::Poll`] look for that.
    #[inline]
    pub fn until_ready<T>(
        &mut self,
        fd: impl AsFd,
        mut call: impl FnMut() -> io::Result<T>,
    ) -> io::Result<T> {
        let mut in_vain = 0;
        loop {
            match call() {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    if self.is_refused(&fd, &mut in_vain)? {
                        return Err(io::Error::other(InVain(e)));
                    }
                    self.after_would_block(&fd)?;
                }
                other => return other,
            }
        }
    }

    /// Whether a call is refused that has returned `WouldBlock` once more: it did so again and again while `fd` was ready. That
    /// somebody else is quicker is possible, but not as often as that. `in_vain` is 0 after a call that did something else.
    ///
    /// # Errors
    /// What `poll(2)` reports.
    pub fn is_refused(&self, fd: impl AsFd, in_vain: &mut u32) -> io::Result<bool> {
        if self.wait.is_nonblocking() {
            return Ok(false);
        }
        // The first time tells nothing yet, and is all that there is in most cases.
        *in_vain = if *in_vain == 0 || self.is_ready(fd)? {
            *in_vain + 1
        } else {
            0
        };
        if *in_vain > PAUSES_AFTER {
            std::thread::sleep(PAUSE);
        }
        Ok(*in_vain > IN_VAIN_AT_MOST)
    }

    /// Makes a call, and tells it whether it should be one that may sleep: that is cheaper than one that finds nothing, a
    /// `poll(2)` and another call, once spinning has not been worth it.
    ///
    /// # Errors
    /// What the call reports.
    #[inline]
    pub fn call<T>(&mut self, call: impl FnOnce(bool) -> io::Result<T>) -> io::Result<T> {
        if self.sleeps_left == 0 {
            return call(false);
        }
        let since = Instant::now();
        let result = call(true);
        // A shorter one has found what it wanted without sleeping.
        let slept = since.elapsed();
        if result.is_ok() && slept >= SPIN_AT_LEAST {
            self.sleeps_left -= 1;
            self.learn(slept);
        }
        result
    }

    fn is_ready(&self, fd: impl AsFd) -> io::Result<bool> {
        calls::poll(fd, events(self.end), Some(Duration::ZERO))
    }

    fn adapt(&mut self, fd: impl AsFd) -> io::Result<()> {
        if self.sleeps_left > 0 {
            self.sleeps_left -= 1;
        } else if self.spin(&fd)? {
            self.failures = 0;
            return Ok(());
        } else {
            self.failures += 1;
            if self.failures > FAILURES_ALLOWED {
                let doublings = (self.failures - FAILURES_ALLOWED).min(SLEEPS_AT_MOST.ilog2());
                self.sleeps_left = 1 << doublings;
            }
        }
        let asleep = Instant::now();
        calls::poll(fd, events(self.end), None)?;
        self.learn(asleep.elapsed());
        Ok(())
    }

    /// A sleep takes at least as long as falling asleep and being woken; the shortest one seen lately tells how long that
    /// is here. Older ones are forgotten slowly, since the machine may change.
    fn learn(&mut self, slept: Duration) {
        self.limit = slept
            .min(self.limit + self.limit / 16)
            .clamp(SPIN_AT_LEAST, SPIN_AT_MOST);
    }

    /// Looks again and again, without the pipe's mutex, until ready or until it has taken too long.
    fn spin(&self, fd: impl AsFd) -> io::Result<bool> {
        let start = Instant::now();
        while !self.is_ready(&fd)? {
            if start.elapsed() >= self.limit {
                return Ok(false);
            }
            std::hint::spin_loop();
        }
        Ok(true)
    }
}

/// What `poll(2)` has to look for at this end.
#[must_use]
pub fn events(end: End) -> PollFlags {
    match end {
        End::Write => PollFlags::OUT,
        End::Read => PollFlags::IN,
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Block => "block",
            Self::Poll => "poll",
            Self::Spin => "spin",
            Self::PollSpin => "poll-spin",
            Self::Adaptive => "adaptive",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_read_back() {
        for wait in Wait::ALL {
            assert_eq!(wait.to_string().parse(), Ok(wait));
        }
        assert_eq!("sleep".parse::<Wait>(), Err(UnknownWait));
    }

    #[test]
    fn spin_limit_follows_the_shortest_sleep_within_bounds() {
        let mut waiter = Waiter::new(Wait::Adaptive, End::Read);
        waiter.learn(Duration::from_micros(12));
        assert_eq!(waiter.limit, Duration::from_micros(12));
        waiter.learn(Duration::ZERO);
        assert_eq!(waiter.limit, SPIN_AT_LEAST);
        for _ in 0..100 {
            waiter.learn(Duration::from_secs(1));
        }
        assert_eq!(waiter.limit, SPIN_AT_MOST);
    }

    #[test]
    fn calls_that_sleep_count_as_sleeps_and_short_ones_do_not() {
        let mut waiter = Waiter::new(Wait::Adaptive, End::Read);
        let may_sleep = |waiter: &mut Waiter, takes| {
            let call = |may_sleep| {
                std::thread::sleep(takes);
                Ok(may_sleep)
            };
            waiter.call(call).unwrap()
        };
        let (at_once, slow) = (Duration::ZERO, Duration::from_millis(1));
        assert!(!may_sleep(&mut waiter, at_once));
        waiter.sleeps_left = 2;
        assert!(may_sleep(&mut waiter, slow));
        assert!(may_sleep(&mut waiter, slow));
        assert!(!may_sleep(&mut waiter, slow), "spinning is tried again");
        assert!(waiter.limit > SPIN_AT_FIRST && waiter.limit <= SPIN_AT_MOST);
    }

    #[test]
    fn spinning_that_never_pays_is_given_up_and_tried_again_seldom() {
        let (r, w) = calls::pipe().unwrap();
        let mut waiter = Waiter::new(Wait::Adaptive, End::Read);
        let (ask, asked) = std::sync::mpsc::channel();
        let slow_writer = std::thread::spawn(move || {
            for () in asked {
                std::thread::sleep(Duration::from_millis(5));
                calls::write(&w, b"x").unwrap();
            }
        });
        let mut spun = 0;
        for _ in 0..20 {
            spun += u32::from(waiter.sleeps_left == 0);
            ask.send(()).unwrap();
            waiter.after_would_block(&r).unwrap();
            assert_eq!(calls::read(&r, &mut [0; 8]).unwrap(), 1);
        }
        drop(ask);
        slow_writer.join().unwrap();
        assert!(spun < 10, "{spun} of 20 waits spun");
    }

    #[test]
    fn call_that_would_block_on_what_is_ready_is_refused_in_the_end() {
        let (r, w) = calls::pipe().unwrap();
        calls::write(&w, b"x").unwrap();
        for wait in [Wait::Block, Wait::Poll] {
            let mut waiter = Waiter::new(wait, End::Read);
            let never = || Err::<(), _>(io::ErrorKind::WouldBlock.into());
            let refused = waiter.until_ready(&r, never).unwrap_err();
            assert!(refused.to_string().contains("although"), "{refused}");
            let mut calls = 0;
            let at_last = || {
                calls += 1;
                match calls {
                    50 => Ok(()),
                    _ => Err(io::ErrorKind::WouldBlock.into()),
                }
            };
            waiter.until_ready(&r, at_last).unwrap();
        }
    }

    #[test]
    fn poll_spin_returns_at_once_when_ready_and_at_hang_up() {
        let (r, w) = calls::pipe().unwrap();
        let (writes, reads) = (
            Waiter::new(Wait::PollSpin, End::Write),
            Waiter::new(Wait::PollSpin, End::Read),
        );
        writes.before_call(&w).unwrap();
        calls::write(&w, b"x").unwrap();
        reads.before_call(&r).unwrap();
        calls::read(&r, &mut [0; 8]).unwrap();
        drop(w);
        reads.before_call(&r).unwrap();
    }
}
