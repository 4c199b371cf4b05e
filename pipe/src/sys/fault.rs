//! The point at which tests make system calls fail or fall short. Outside tests it does nothing and costs nothing.

use rustix::io::Errno;

/// A system call that can be made to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Call {
    Write,
    Read,
    Splice,
    Vmsplice,
    Send,
    Tee,
    Poll,
    Pipe,
    Socketpair,
    Mmap,
    MadviseDontneed,
    MadviseWipeonfork,
    MadviseCollapse,
    Getrusage,
    Clone,
    Wait,
}

/// What a test lets the pool of `cow` leave out, to show what it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum LeaveOut {
    /// The turn, which makes pages copy-on-write: what makes it sound.
    Turn,
    /// The look whether a page is ours alone: what makes it fast.
    Look,
}

/// Whether a test leaves this out.
#[cfg(not(test))]
#[inline(always)]
pub(crate) const fn leaves_out(_what: LeaveOut) -> bool {
    false
}

/// How many of `len` bytes the call may move, or how it fails before it has moved any.
#[cfg(not(test))]
#[inline(always)]
pub(crate) const fn allow(_call: Call, len: usize) -> Result<usize, Errno> {
    Ok(len)
}

#[cfg(test)]
pub(crate) use injected::{allow, inject, leave_out, leaves_out};

#[cfg(test)]
mod injected {
    use std::cell::RefCell;

    use super::{Call, Errno, LeaveOut};

    type Plan = Box<dyn FnMut(Call, usize) -> Result<usize, Errno>>;

    thread_local! {
        static PLAN: RefCell<Option<Plan>> = const { RefCell::new(None) };
        static LEFT_OUT: RefCell<&'static [LeaveOut]> = const { RefCell::new(&[]) };
    }

    pub(crate) fn allow(call: Call, len: usize) -> Result<usize, Errno> {
        PLAN.with_borrow_mut(|plan| plan.as_mut().map_or(Ok(len), |plan| plan(call, len)))
    }

    pub(crate) fn leaves_out(what: LeaveOut) -> bool {
        LEFT_OUT.with_borrow(|left_out| left_out.contains(&what))
    }

    /// Leaves these out, on this thread, until a test ends or says otherwise.
    pub(crate) fn leave_out(what: &'static [LeaveOut]) {
        LEFT_OUT.set(what);
    }

    /// Takes the plan away when the test ends, also by a panic.
    #[must_use]
    pub(crate) struct Injected(());

    /// Lets `plan` decide about each call that this thread makes from now on.
    pub(crate) fn inject(
        plan: impl FnMut(Call, usize) -> Result<usize, Errno> + 'static,
    ) -> Injected {
        PLAN.set(Some(Box::new(plan)));
        Injected(())
    }

    impl Drop for Injected {
        fn drop(&mut self) {
            PLAN.set(None);
        }
    }
}
