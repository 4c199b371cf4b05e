//! What a constant does when system calls fail, fall short or are refused: the pattern never breaks.

use std::thread::JoinHandle;

use rustix::io::Errno;

use super::*;
use crate::testing::sequence::{Rng, Sequence};
use crate::testing::watch;
use fullbore_sys::calls::fault::{Call, inject};

/// Lengths of patterns around those of a page and of a fragment.
const LENGTHS: [usize; 7] = [1, 3, 4095, 4097, 32769, 100_003, (1 << 20) + 1];

/// Reads everything and panics where it is not the pattern again and again; returns how many bytes came.
fn reader(pipe: OwnedFd, pattern: &'static [u8], piece: usize) -> JoinHandle<usize> {
    std::thread::spawn(move || {
        let repeated = pattern.repeat(piece.div_ceil(pattern.len()) + 1);
        let (mut got, mut buffer) = (0, vec![0; piece]);
        loop {
            let n = calls::read(&pipe, &mut buffer).unwrap();
            if n == 0 {
                return got;
            }
            let phase = got % pattern.len();
            assert!(buffer[..n] == repeated[phase..phase + n], "near byte {got}");
            got += n;
        }
    })
}

/// Writes at least `total` bytes, going on after every error, and says how many were taken.
fn write(constant: &mut Constant, out: &OwnedFd, total: u64, rng: &mut Rng) -> u64 {
    let mut written = 0;
    while written < total {
        let most = rng.pick(&[1, 4096, 100_000, u64::MAX]);
        match constant.write_some(out.as_fd(), most) {
            Ok(n) => {
                assert!(n > 0 && n <= most, "write_some of {most} returned {n}");
                written += n;
            }
            Err(e) => assert_ne!(e.kind(), io::ErrorKind::BrokenPipe),
        }
    }
    written
}

#[test]
fn faults_at_random_points_never_break_the_pattern() {
    let _ = fullbore_sys::probe::fat_refusal(); // not to be found out while faults are injected
    const ERRORS: [Errno; 5] = [
        Errno::INTR,
        Errno::AGAIN,
        Errno::PERM,
        Errno::INVAL,
        Errno::NOMEM,
    ];
    const CALLS: [Call; 5] = [Call::Tee, Call::Splice, Call::Send, Call::Write, Call::Pipe];
    watch::for_each_seed("faults in a constant", 0..200, |seed| {
        let mut rng = Rng(seed);
        let pattern = Sequence::new(seed).at(0, rng.pick(&LENGTHS));
        let (read_end, write_end) = calls::pipe().unwrap();
        let reader = reader(read_end, pattern, rng.between(1000, 300_000));
        let mut constant = Constant::new(pattern);
        if rng.once_in(2) {
            constant.prepare(&write_end);
        }
        let only = rng.once_in(2).then(|| rng.pick(&CALLS));
        let (often, mut at_random) = (rng.pick(&[2, 5, 50]), Rng(!seed));
        let errors = rng.pick(&[&ERRORS[..], &ERRORS[..2]]);
        let faults = inject(move |call, len| match at_random.below(often) {
            0 if only.is_some_and(|only| only != call) => Ok(len),
            0 if len > 1 && at_random.once_in(2) => Ok(at_random.between(1, len)),
            0 => Err(at_random.pick(errors)),
            _ => Ok(len),
        });
        let written = write(&mut constant, &write_end, 4 << 20, &mut rng);
        drop((faults, write_end));
        assert_eq!(reader.join().unwrap() as u64, written, "{constant:?}");
    });
}

#[test]
fn what_is_refused_goes_by_write_with_the_reason() {
    let _ = fullbore_sys::probe::fat_refusal();
    let pattern = b"abcdefg";
    for errno in [
        Errno::PERM,
        Errno::NOSYS,
        Errno::INVAL,
        Errno::NOMEM,
        Errno::MFILE,
    ] {
        // Refused at once, and refused half way.
        let text = io::Error::from(errno).to_string();
        let text = text.split(" (os").next().unwrap();
        for call in [
            Call::Pipe,
            Call::Socketpair,
            Call::Send,
            Call::Splice,
            Call::Tee,
        ] {
            for half_way in [false, true] {
                let (read_end, write_end) = calls::pipe().unwrap();
                let reader = reader(read_end, pattern, 100_000);
                let mut constant = Constant::new(pattern);
                if half_way {
                    constant.prepare(&write_end);
                    if constant.route() != Some(Route::Tee) {
                        return watch::skip("what_is_refused", format_args!("{constant:?}"));
                    }
                    constant.write_all(&write_end, 1_000_000).unwrap();
                }
                let faults = inject(move |c, len| if c == call { Err(errno) } else { Ok(len) });
                constant.write_all(&write_end, 30_000_000).unwrap();
                drop((faults, write_end));
                let written = 30_000_000 + if half_way { 1_000_000 } else { 0 };
                assert_eq!(reader.join().unwrap(), written, "{constant:?}");
                if !half_way || matches!(call, Call::Tee | Call::Splice) {
                    assert_eq!(constant.route(), Some(Route::Write), "{call:?}");
                    let [(Route::Tee, reason)] = constant.fallbacks() else {
                        panic!("{call:?}: {constant:?}");
                    };
                    assert!(reason.to_string().contains(text), "{call:?}: {reason}");
                }
            }
        }
    }
}

#[test]
fn an_empty_pattern_writes_nothing_and_does_not_panic() {
    let (_read_end, write_end) = calls::pipe().unwrap();
    let mut constant = Constant::new(b"");
    constant.prepare(&write_end);
    assert_eq!(constant.write_some(write_end.as_fd(), 10).unwrap(), 0);
    constant.write_all(&write_end, 10).unwrap();
}

/// Where no large pages are available for a socket, fragments are small and so are the slots of the master.
#[test]
fn small_fragments_never_break_the_pattern() {
    let _ = fullbore_sys::probe::fat_refusal();
    for len in LENGTHS {
        let pattern = Sequence::new(1).at(0, len);
        for fragment in [100, 4095, 4096, 10_000] {
            let (read_end, write_end) = calls::pipe().unwrap();
            let reader = reader(read_end, pattern, 100_000);
            let mut constant = Constant::new(pattern);
            let faults = inject(move |call, len| match call {
                Call::Send => Ok(len.min(fragment)),
                _ => Ok(len),
            });
            constant.prepare(&write_end);
            drop(faults);
            constant.write_all(&write_end, 5_000_003).unwrap();
            drop(write_end);
            assert_eq!(
                reader.join().unwrap(),
                5_000_003,
                "{len} {fragment}: {constant:?}"
            );
        }
    }
}
