//! `cat`, `tee` and `view` do the same work, and promise the same of it: every byte arrives, whatever both sides are, what
//! the kernel refuses, and what others do with the descriptors meanwhile. Nothing here asserts a speed.

mod support;

#[path = "movers/closed.rs"]
mod closed;
#[path = "movers/contents.rs"]
mod contents;
#[path = "movers/flags.rs"]
mod flags;
#[path = "movers/others.rs"]
mod others;
#[path = "movers/refused.rs"]
mod refused;
#[path = "movers/room.rs"]
mod room;
#[path = "movers/signals.rs"]
mod signals;

use std::sync::atomic::{AtomicBool, Ordering};

/// Tells a thread beside a test to stop when the test ends, also when it fails.
#[derive(Default)]
struct Stop(AtomicBool);

impl Stop {
    fn is_told(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    fn at_the_end(&self) -> impl Drop + '_ {
        struct Guard<'a>(&'a Stop);
        impl Drop for Guard<'_> {
            fn drop(&mut self) {
                self.0.0.store(true, Ordering::Relaxed);
            }
        }
        Guard(self)
    }
}

/// From standard input to standard output by each of them.
const MOVERS: [&str; 3] = ["cat", "tee", "view -q"];
/// And by those of their options that take another way.
const ALL_WAYS: [&str; 7] = [
    "cat",
    "cat -s",
    "tee",
    "tee /dev/null",
    "view -q",
    "view -ql",
    "view -qC",
];
