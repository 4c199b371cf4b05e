//! The point at which tests make system calls fail or fall short. Outside tests it does nothing and costs nothing.

use rustix::io::Errno;

/// A system call that can be made to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Call {
    /// `write(2)`.
    Write,
    /// `read(2)`.
    Read,
    /// `splice(2)`.
    Splice,
    /// `vmsplice(2)`.
    Vmsplice,
    /// `sendmsg(2) into a socket`.
    Send,
    /// `tee(2)`.
    Tee,
    /// `poll(2)`.
    Poll,
    /// `pipe2(2)`.
    Pipe,
    /// `fcntl(2)` with `F_SETPIPE_SZ`: what is asked for, in bytes. It is refused or not, never short.
    SetCapacity,
    /// `socketpair(2)`.
    Socketpair,
    /// `mmap(2)`.
    Mmap,
    /// madvise(2) with `MADV_DONTNEED`.
    MadviseDontneed,
    /// madvise(2) with `MADV_WIPEONFORK`.
    MadviseWipeonfork,
    /// madvise(2) with `MADV_COLLAPSE`.
    MadviseCollapse,
    /// `getrusage(2)`.
    Getrusage,
    /// `clone(2)`.
    Clone,
    /// `waitid(2)`.
    Wait,
}

/// What a test lets the pool of `cow` leave out, to show what it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LeaveOut {
    /// The turn, which makes pages copy-on-write: what makes it sound.
    Turn,
    /// The look whether a page is ours alone: what makes it fast.
    Look,
}

/// Whether a test of this crate leaves this out.
#[cfg(not(test))]
#[inline(always)]
pub const fn leaves_out(_what: LeaveOut) -> bool {
    false
}

/// How many of `len` bytes the call may move, or how it fails before it has moved any.
///
/// # Errors
/// None but in tests.
#[cfg(not(any(test, feature = "inject-faults")))]
#[inline(always)]
pub const fn allow(_call: Call, len: usize) -> Result<usize, Errno> {
    Ok(len)
}

#[cfg(test)]
pub(crate) use left_out::{leave_out, leaves_out};

#[cfg(any(test, feature = "inject-faults"))]
pub use injected::{Injected, allow, inject};

#[cfg(test)]
mod left_out {
    use std::cell::Cell;

    use super::LeaveOut;

    thread_local! {
        static LEFT_OUT: Cell<&'static [LeaveOut]> = const { Cell::new(&[]) };
    }

    pub(crate) fn leaves_out(what: LeaveOut) -> bool {
        LEFT_OUT.get().contains(&what)
    }

    /// Leaves these out, on this thread, until a test ends or says otherwise.
    pub(crate) fn leave_out(what: &'static [LeaveOut]) {
        LEFT_OUT.set(what);
    }
}

#[cfg(any(test, feature = "inject-faults"))]
mod injected {
    use std::cell::RefCell;

    use super::{Call, Errno};

    type Plan = Box<dyn FnMut(Call, usize) -> Result<usize, Errno>>;

    thread_local! {
        static PLAN: RefCell<Option<Plan>> = const { RefCell::new(None) };
    }

    /// How many of `len` bytes the call may move, or how it fails before it has moved any, as the test has planned it.
    ///
    /// # Errors
    /// Those of the plan.
    pub fn allow(call: Call, len: usize) -> Result<usize, Errno> {
        PLAN.with_borrow_mut(|plan| plan.as_mut().map_or(Ok(len), |plan| plan(call, len)))
    }

    /// Takes the plan away when the test ends, also by a panic.
    #[derive(Debug)]
    #[must_use]
    pub struct Injected(());

    /// Lets `plan` decide about each call that this thread makes from now on.
    pub fn inject(plan: impl FnMut(Call, usize) -> Result<usize, Errno> + 'static) -> Injected {
        PLAN.set(Some(Box::new(plan)));
        Injected(())
    }

    impl Drop for Injected {
        fn drop(&mut self) {
            PLAN.set(None);
        }
    }
}
