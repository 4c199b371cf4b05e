//! Whatever is refused, the probe says so and does not fail in any other way.

use rustix::io::Errno;

use super::*;
use crate::sys::fault::{Call, inject};

#[test]
fn every_refused_call_is_a_refusal_with_the_reason_of_the_system() {
    type Trial = fn() -> Result<()>;
    let trials: [(Trial, &[Call]); 2] = [
        (
            try_fresh,
            &[Call::Pipe, Call::Mmap, Call::Vmsplice, Call::Read],
        ),
        (
            try_fat,
            &[
                Call::Pipe,
                Call::Socketpair,
                Call::Send,
                Call::Splice,
                Call::Read,
            ],
        ),
    ];
    for (trial, calls) in trials {
        for &call in calls {
            for errno in [
                Errno::PERM,
                Errno::NOSYS,
                Errno::INVAL,
                Errno::NOMEM,
                Errno::MFILE,
            ] {
                let faults = inject(move |c, len| if c == call { Err(errno) } else { Ok(len) });
                let refusal = trial().expect_err("refused").to_string();
                drop(faults);
                let text = io::Error::from(errno).to_string();
                let text = text.split(" (os").next().unwrap();
                assert!(refusal.contains(text), "{call:?} {errno:?}: {refusal}");
            }
        }
    }
}

#[test]
fn short_counts_do_not_confuse_it() {
    for most in [1, 100, 4095, 4096, 20_000] {
        let faults = inject(move |_, len: usize| Ok(len.min(most)));
        let _ = (try_fresh(), try_fat()); // either answer is right
        drop(faults);
    }
}
