//! Descriptors that others share: non-blocking, or made so meanwhile; and left as they are.

use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use crate::support::kinds::{MIB, seeded};
use crate::support::{fullbore, pipe, start};
use crate::{ALL_WAYS, Stop};

/// An input of the tool and our other end of it, an output and our other end of that.
struct Ends {
    input: OwnedFd,
    ours: Box<dyn Write + Send>,
    output: OwnedFd,
    out: Box<dyn Read + Send>,
}

impl Ends {
    fn pipes() -> Self {
        let ((input, ours), (out, output)) = (pipe(), pipe());
        Self {
            input: input.into(),
            ours: Box::new(ours),
            output: output.into(),
            out: Box::new(out),
        }
    }

    fn sockets() -> Self {
        let pair = || UnixStream::pair().expect("sockets");
        let ((input, ours), (out, output)) = (pair(), pair());
        Self {
            input: input.into(),
            ours: Box::new(ours),
            output: output.into(),
            out: Box::new(out),
        }
    }
}

/// Writes in pieces and with pauses, so that the tool finds the input empty now and then.
fn feed_slowly(mut to: Box<dyn Write + Send>, data: &'static [u8]) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        for piece in data.chunks(400_001) {
            thread::sleep(Duration::from_millis(2));
            to.write_all(piece).expect("a reader");
        }
    })
}

/// Reads in pieces and with pauses, so that the tool finds the output full now and then.
fn read_slowly(mut from: Box<dyn Read + Send>, data: &[u8]) {
    let mut got = vec![0; 300_000];
    let mut at = 0;
    loop {
        thread::sleep(Duration::from_millis(1));
        match from.read(&mut got).expect("data") {
            0 => break,
            n => {
                assert!(Some(&got[..n]) == data.get(at..at + n), "behind {at}");
                at += n;
            }
        }
    }
    assert_eq!(at, data.len());
}

fn is_nonblocking(fd: impl AsFd) -> bool {
    fcntl_getfl(fd).expect("flags").contains(OFlags::NONBLOCK)
}

#[test]
fn non_blocking_descriptors_are_waited_for_and_left_as_they_are() {
    let data = &seeded()[..2 * MIB + 1];
    for line in ALL_WAYS {
        for ends in [Ends::pipes(), Ends::sockets()] {
            let shared = [&ends.input, &ends.output].map(|fd| fd.try_clone().expect("a copy"));
            for fd in &shared {
                fcntl_setfl(fd, OFlags::NONBLOCK).expect("flags");
            }
            let [input, output] = shared;
            let run = start(fullbore(line), ends.input, ends.output);
            let feeding = feed_slowly(ends.ours, data);
            let reading = thread::spawn(move || read_slowly(ends.out, data));
            feeding.join().expect("a feeder");
            run.finish().quiet_success();
            assert!(is_nonblocking(&input) && is_nonblocking(&output), "{line}");
            drop(output);
            reading.join().expect("all of it");
        }
    }
}

#[test]
fn blocking_descriptors_never_become_non_blocking() {
    let data = &seeded()[..MIB];
    for line in ALL_WAYS {
        for ends in [Ends::pipes(), Ends::sockets()] {
            let shared = [&ends.input, &ends.output].map(|fd| fd.try_clone().expect("a copy"));
            let run = start(fullbore(line), ends.input, ends.output);
            let stop = Stop::default();
            thread::scope(|scope| {
                let _stop = stop.at_the_end();
                scope.spawn(|| {
                    while !stop.is_told() {
                        assert!(!shared.iter().any(is_nonblocking), "{line}");
                        thread::yield_now();
                    }
                });
                let reading = scope.spawn(|| {
                    let mut out = ends.out;
                    let mut got = vec![0; data.len()];
                    out.read_exact(&mut got).expect("all of it");
                    assert!(got == data, "{line}");
                });
                feed_slowly(ends.ours, data).join().expect("a feeder");
                reading.join().expect("a reader");
                run.finish().quiet_success();
            });
        }
    }
}

/// A tool that sleeps in a call that blocks, and wakes to one that does not; and the other way round.
#[test]
fn descriptors_may_change_their_mind() {
    let data = &seeded()[..3 * MIB];
    for line in ALL_WAYS {
        for ends in [Ends::pipes(), Ends::sockets()] {
            let shared = [&ends.input, &ends.output].map(|fd| fd.try_clone().expect("a copy"));
            let run = start(fullbore(line), ends.input, ends.output);
            let stop = Stop::default();
            thread::scope(|scope| {
                let _stop = stop.at_the_end();
                scope.spawn(|| {
                    let mut turn = 0_u32;
                    while !stop.is_told() {
                        for (i, fd) in shared.iter().enumerate() {
                            let nonblocking = turn.is_multiple_of(2 + i as u32);
                            let flags = if nonblocking {
                                OFlags::NONBLOCK
                            } else {
                                OFlags::empty()
                            };
                            fcntl_setfl(fd, flags).expect("flags");
                        }
                        turn += 1;
                        thread::sleep(Duration::from_micros(200));
                    }
                });
                let reading = scope.spawn(|| {
                    let mut out = ends.out;
                    let mut got = vec![0; data.len()];
                    for piece in got.chunks_mut(300_000) {
                        out.read_exact(piece).expect("all of it");
                        thread::sleep(Duration::from_millis(1));
                    }
                    assert!(got == data, "{line}");
                });
                feed_slowly(ends.ours, data).join().expect("a feeder");
                reading.join().expect("a reader");
                run.finish().quiet_success();
            });
        }
    }
}
