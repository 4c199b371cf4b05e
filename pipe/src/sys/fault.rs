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
}

/// How many of `len` bytes the call may move, or how it fails before it has moved any.
#[cfg(not(test))]
#[inline(always)]
pub(crate) const fn allow(_call: Call, len: usize) -> Result<usize, Errno> {
    Ok(len)
}

#[cfg(test)]
pub(crate) use injected::{allow, inject};

#[cfg(test)]
mod injected {
    use std::cell::RefCell;

    use super::{Call, Errno};

    type Plan = Box<dyn FnMut(Call, usize) -> Result<usize, Errno>>;

    thread_local! {
        static PLAN: RefCell<Option<Plan>> = const { RefCell::new(None) };
    }

    pub(crate) fn allow(call: Call, len: usize) -> Result<usize, Errno> {
        PLAN.with_borrow_mut(|plan| plan.as_mut().map_or(Ok(len), |plan| plan(call, len)))
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
