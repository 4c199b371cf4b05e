//! Whatever is refused, the probe says so and does not fail in any other way.

use rustix::io::Errno;

use super::*;
use crate::calls::fault::{Call, inject};

#[test]
fn every_refused_call_is_a_refusal_with_the_reason_of_the_system() {
    type Trial = fn() -> Result<()>;
    let trials: [(Trial, &[Call]); 2] = [
        (
            || try_fresh().map(drop),
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

#[test]
fn what_only_ran_out_is_tried_again_and_what_is_known_is_not() {
    let known = Known::new();
    let ran_out = || Err(Error::system("no pipe", Errno::MFILE, ""));
    let refused = refusal(&known, ran_out).map(|e| e.to_string());
    assert!(refused.is_some_and(|e| e.starts_with("no pipe: ")));
    assert!(refusal(&known, || Ok(())).is_none());
    assert!(refusal(&known, ran_out).is_none(), "it is known to work");
    let known = Known::new();
    let forbidden = || Err(Error::system("no pipe", Errno::PERM, ""));
    assert!(refusal(&known, forbidden).is_some());
    assert!(refusal(&known, || Ok(())).is_some(), "it is known not to");
}
