//! A *turn*: all private memory of this process is made copy-on-write, by a child that leaves at once.
//!
//! `clone(2)` without `CLONE_VM` makes every page of private anonymous memory copy-on-write. When the child has gone, a write to
//! such a page is decided by its count of references (`do_wp_page`, `do_huge_pmd_wp_page`; in this form since Linux 5.18):
//! where only this process has it the page is written in place, and where anybody else holds it, a pipe or a socket however
//! far down, the kernel copies what is written to and the holder keeps its bytes. So whatever was lent before a turn began may
//! be written after it.
//!
//! One turn serves every thread and every writer of the process.
#![allow(unsafe_code)]

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFlags, eventfd};
use rustix::io::Errno;

use super::forked::wiped;
use crate::calls;
use crate::calls::fault::{Call, allow};
use crate::error::{Error, Result};
use crate::reason::Reason;

/// A child that has not left after so long never will: it is left behind, and no more turns are made by this writer.
const CHILD_AT_MOST: Duration = Duration::from_secs(2);
/// So long a child stays that nobody tells to leave: where this process is killed meanwhile, its memory and its
/// descriptors are held no longer.
const STAYS_AT_MOST: Duration = Duration::from_millis(100);

/// Turns of this process, in memory that a forked child gets empty: a lock that another thread holds at a fork is free there.
#[derive(Debug)]
pub(super) struct Turns {
    locked: &'static AtomicU64,
    begun: &'static AtomicU64,
    made: &'static AtomicU64,
}

/// When something was lent, counted in turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LentAt(u64);

impl Turns {
    fn new() -> Result<Self> {
        let [locked, begun, made] = wiped::<3>()?;
        Ok(Self {
            locked,
            begun,
            made,
        })
    }

    /// Those of this process.
    ///
    /// # Errors
    /// There can be no turns here.
    pub(super) fn of_this_process() -> Result<&'static Self> {
        static TURNS: OnceLock<Turns> = OnceLock::new();
        if let Some(turns) = TURNS.get() {
            return Ok(turns);
        }
        let turns = Self::new()?;
        Ok(TURNS.get_or_init(|| turns))
    }

    /// Says that something has been lent up to now.
    pub(super) fn lent_now(&self) -> LentAt {
        LentAt(self.begun.load(Ordering::SeqCst))
    }

    /// Makes sure that a turn has begun, and has ended, after this was lent. Returns how long that took; zero where another
    /// thread has made it.
    ///
    /// # Errors
    /// No child is available, or it does not leave. The pages must be abandoned then.
    pub(super) fn after(&self, lent: LentAt) -> Result<Duration> {
        let start = Instant::now();
        let alone = self.alone()?;
        if self.made.load(Ordering::SeqCst) > lent.0 {
            return Ok(Duration::ZERO);
        }
        alone.make(child_that_leaves_at_once)?;
        Ok(start.elapsed())
    }

    /// Keeps others from making a turn, and waits until those who make one are done.
    ///
    /// # Errors
    /// They are not done in time.
    pub(super) fn alone(&self) -> Result<Alone<'_>> {
        let start = Instant::now();
        while self.locked.swap(1, Ordering::SeqCst) != 0 {
            if start.elapsed() > CHILD_AT_MOST {
                let why = "another thread makes memory copy-on-write, and has done so for too long";
                let error = Error::because("no turn", Reason::Other(why.into()));
                return Err(error.that_may_pass());
            }
            std::thread::yield_now();
        }
        Ok(Alone(self))
    }
}

/// Nobody else makes a turn while this is there.
#[derive(Debug)]
pub(super) struct Alone<'a>(&'a Turns);

impl Alone<'_> {
    /// Makes a turn, and looks at something while the child has all that it got of this process' memory. Returns what was
    /// seen, and the child, which has been told to leave.
    ///
    /// # Errors
    /// No child is available. One that is gone before its time is no error: it can only be seen that it is not there.
    pub(super) fn turn_and_meanwhile<T>(self, look: impl FnOnce() -> T) -> Result<(T, Leaving)> {
        self.make(|| child_that_stays_for(look))
    }

    fn make<T>(&self, child: impl FnOnce() -> Result<T>) -> Result<T> {
        let this = self.0.begun.fetch_add(1, Ordering::SeqCst) + 1;
        let made = child()?;
        self.0.made.store(this, Ordering::SeqCst);
        Ok(made)
    }
}

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        self.0.locked.store(0, Ordering::SeqCst);
    }
}

const NO_CHILD: &str = "no child to make memory copy-on-write with";

fn refused(e: Errno) -> Error {
    let what_to_do =
        "raise the limit of processes (ulimit -u, pids.max); a sandbox may forbid clone";
    Error::refused(NO_CHILD, "clone", e, what_to_do)
}

/// Makes a child and waits until it has gone.
fn child_that_leaves_at_once() -> Result<()> {
    allow(Call::Clone, 0).map_err(refused)?;
    clone_and_leave(None).map_err(refused)?.wait()
}

/// Makes a child, looks at something, and then tells the child to leave.
fn child_that_stays_for<T>(look: impl FnOnce() -> T) -> Result<(T, Leaving)> {
    let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
    let what_to_do = "close some descriptors";
    let told = eventfd(0, flags).map_err(|e| Error::refused(NO_CHILD, "eventfd", e, what_to_do))?;
    allow(Call::Clone, 0).map_err(refused)?;
    let child = clone_and_leave(Some(&told)).map_err(refused)?;
    let seen = look();
    let _ = calls::write(&told, &1u64.to_ne_bytes()); // else it leaves later
    Ok((seen, child))
}

/// A child that is about to leave. Until it has gone, memory that is written to is copied. Waited for when dropped.
#[derive(Debug)]
pub(crate) struct Leaving {
    child: libc::pid_t,
    leaves: OwnedFd,
    waited: bool,
}

impl Leaving {
    /// Waits until it has gone.
    ///
    /// # Errors
    /// It does not leave, or somebody else has waited for it.
    pub(crate) fn wait(mut self) -> Result<()> {
        self.until_it_has_gone()
    }

    fn until_it_has_gone(&mut self) -> Result<()> {
        self.waited = true;
        let lost = "the child that makes memory copy-on-write is lost";
        // Asleep, since the child may need this very CPU.
        if !calls::poll(&self.leaves, PollFlags::IN, Some(CHILD_AT_MOST)).unwrap_or(true) {
            let why = "the child that makes memory copy-on-write has not left after 2 seconds";
            return Err(Error::because(lost, Reason::Other(why.into())));
        }
        loop {
            match wait_for(self.child) {
                Ok(()) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(e) => {
                    let what_to_do = "let nobody else wait for it";
                    return Err(Error::refused(lost, "waitid", e, what_to_do));
                }
            }
        }
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        if !self.waited {
            let _ = self.until_it_has_gone(); // nobody wants to know
        }
    }
}

/// Makes a child that does nothing but leave, which can be waited for (`CLONE_PIDFD`, Linux 5.2). With `told` it stays until that
/// is readable, [`STAYS_AT_MOST`] long.
///
/// It has this program's signal handlers, and is in its process group: were a Ctrl-C of the terminal to come, it would run the
/// handler. So all signals are blocked while it is made. It shares the table of descriptors and the working directory, so that
/// nothing is kept open by it and less is copied; it cannot be traced; and it sends no SIGCHLD.
fn clone_and_leave(told: Option<&OwnedFd>) -> std::result::Result<Leaving, Errno> {
    let mut told = told.map(|told| libc::pollfd {
        fd: told.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    });
    let stays = libc::timespec {
        tv_sec: 0,
        tv_nsec: STAYS_AT_MOST.subsec_nanos().into(),
    };
    // SAFETY: all zeroes is a valid signal set on Linux.
    let mut all: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: as above.
    let mut before: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: writes to `all` only.
    unsafe { libc::sigfillset(&mut all) };
    // SAFETY: reads `all` and writes `before`.
    let blocked = unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before) };
    if blocked != 0 {
        return Err(Errno::from_raw_os_error(blocked));
    }
    let flags = libc::CLONE_FILES | libc::CLONE_FS | libc::CLONE_UNTRACED | libc::CLONE_PIDFD;
    let (flags, none) = (libc::c_long::from(flags), 0 as libc::c_long);
    let mut leaves: libc::c_int = -1;
    let at = &raw mut leaves;
    // SAFETY: like fork(2), since it has no CLONE_VM: the child goes on with a copy of this stack, and below does nothing but
    // wait and leave by system calls, which take no lock and run nothing of the program. The kernel writes one number to
    // `leaves`.
    let child = unsafe { libc::syscall(libc::SYS_clone, flags, none, at, none, none) };
    if child == 0 {
        if let Some(told) = &mut told {
            let (told, stays) = (std::ptr::from_mut(told), &raw const stays);
            // SAFETY: one `pollfd` and a time, both on the child's own copy of this stack.
            unsafe { libc::syscall(libc::SYS_ppoll, told, 1 as libc::c_long, stays, none, none) };
        }
        // SAFETY: takes no pointers and does not return.
        unsafe { libc::syscall(libc::SYS_exit_group, none) };
    }
    let errno = std::io::Error::last_os_error();
    // SAFETY: reads `before`.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut()) };
    if child < 0 {
        return Err(Errno::from_io_error(&errno).unwrap_or(Errno::INVAL));
    }
    let child = libc::pid_t::try_from(child).map_err(|_| Errno::INVAL)?;
    // SAFETY: the kernel has just made this descriptor for us.
    let leaves = unsafe { OwnedFd::from_raw_fd(leaves) };
    Ok(Leaving {
        child,
        leaves,
        waited: false,
    })
}

/// Waits for a child that has left, or is about to. It is one of this process, whichever thread has made it (`__WALL`).
fn wait_for(child: libc::pid_t) -> std::result::Result<(), Errno> {
    allow(Call::Wait, 0)?;
    // SAFETY: a null pointer says that the status is not wanted.
    match unsafe { libc::waitpid(child, std::ptr::null_mut(), libc::__WALL) } {
        -1 => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calls::fault::inject;

    #[test]
    fn turn_serves_all_that_was_lent_before_it_began() {
        let turns = Turns::new().unwrap();
        let (first, second) = (turns.lent_now(), turns.lent_now());
        assert!(turns.after(first).unwrap() > Duration::ZERO);
        assert_eq!(turns.after(second).unwrap(), Duration::ZERO, "made already");
        let third = turns.lent_now();
        assert!(
            turns.after(third).unwrap() > Duration::ZERO,
            "lent after it began"
        );
    }

    #[test]
    fn child_stays_until_it_is_told_to_leave_and_serves_as_a_turn() {
        let turns = Turns::new().unwrap();
        let lent = turns.lent_now();
        let (meanwhile, child) = turns.alone().unwrap().turn_and_meanwhile(children).unwrap();
        child.wait().unwrap();
        if meanwhile.is_none() {
            return crate::testing::watch::skip("child_stays", "no /proc/thread-self/children");
        }
        assert_eq!((meanwhile, children()), (Some(1), Some(0)));
        assert_eq!(turns.after(lent).unwrap(), Duration::ZERO, "made already");
        let late = || std::thread::sleep(STAYS_AT_MOST * 2);
        let start = Instant::now();
        drop(turns.alone().unwrap().turn_and_meanwhile(late).unwrap());
        assert_eq!(children(), Some(0));
        assert!(
            start.elapsed() < STAYS_AT_MOST * 10,
            "it has left by itself"
        );
    }

    /// Children of this thread that have not been waited for.
    fn children() -> Option<usize> {
        let children = std::fs::read_to_string("/proc/thread-self/children").ok()?;
        Some(children.split_whitespace().count())
    }

    #[test]
    fn child_that_is_refused_is_an_error_and_no_turn() {
        let turns = Turns::new().unwrap();
        let lent = turns.lent_now();
        for errno in [Errno::AGAIN, Errno::NOMEM, Errno::PERM, Errno::NOSYS] {
            let faults = inject(move |call, len| match call {
                Call::Clone => Err(errno),
                _ => Ok(len),
            });
            let refused = turns.after(lent);
            drop(faults);
            let refused = refused.unwrap_err();
            assert_eq!(
                refused.is_passing(),
                [Errno::AGAIN, Errno::NOMEM].contains(&errno)
            );
            assert!(refused.to_string().contains("no child"), "{refused}");
        }
        assert!(turns.after(lent).unwrap() > Duration::ZERO, "made now");
    }

    #[test]
    fn child_that_somebody_else_has_waited_for_is_an_error() {
        let turns = Turns::new().unwrap();
        let lent = turns.lent_now();
        let faults = inject(|call, len| match call {
            Call::Wait => Err(Errno::CHILD),
            _ => Ok(len),
        });
        let refused = turns.after(lent);
        drop(faults);
        assert!(refused.unwrap_err().to_string().contains("lost"));
        assert!(turns.after(lent).unwrap() > Duration::ZERO, "another child");
    }

    /// The program's handlers never run in the child, and none of its signals are lost.
    #[test]
    fn signals_that_come_during_a_turn_arrive_once_and_here() {
        static ARRIVED: AtomicU64 = AtomicU64::new(0);
        static ELSEWHERE: AtomicU64 = AtomicU64::new(0);
        static HERE: AtomicU64 = AtomicU64::new(0);
        extern "C" fn count(_: libc::c_int) {
            // SAFETY: takes no arguments.
            let here = u64::from(unsafe { libc::getpid() }.unsigned_abs());
            if HERE.load(Ordering::SeqCst) == here {
                ARRIVED.fetch_add(1, Ordering::SeqCst);
            } else {
                ELSEWHERE.fetch_add(1, Ordering::SeqCst);
            }
        }
        HERE.store(std::process::id().into(), Ordering::SeqCst);
        // SAFETY: all zeroes is a valid `sigaction`.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = count as *const () as usize;
        // SAFETY: the handler only uses atomic numbers and getpid.
        let installed = unsafe { libc::sigaction(libc::SIGUSR2, &action, std::ptr::null_mut()) };
        assert_eq!(installed, 0);
        // SAFETY: names the calling thread, which outlives the scope below.
        let this = unsafe { libc::pthread_self() };
        std::thread::scope(|scope| {
            let turning = scope.spawn(|| {
                let turns = Turns::new().unwrap();
                for _ in 0..50 {
                    turns.after(turns.lent_now()).unwrap();
                }
            });
            while !turning.is_finished() {
                // SAFETY: that thread is this one.
                unsafe { libc::pthread_kill(this, libc::SIGUSR2) };
                std::thread::sleep(Duration::from_micros(20));
            }
        });
        assert!(ARRIVED.load(Ordering::SeqCst) > 0);
        assert_eq!(ELSEWHERE.load(Ordering::SeqCst), 0);
    }
}
