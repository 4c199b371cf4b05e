//! Random schedules: every way in against every kind of reader.

use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use fullbore_sys::calls::{self, SpliceFlags};
use fullbore_sys::capacity;
use fullbore_sys::pages::{PageKind, Pages, Request};
use fullbore_sys::wait::Wait;
use fullbore_sys::write::recycle::Recycle;
use fullbore_sys::writer::Way;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use crate::feed::{Feed, set_nonblocking};
use crate::readers::{self, Kind};
use crate::sequence::{Rng, Sequence};
use crate::watch::for_each_seed;
use crate::{WAYS, is_to_be_had, writer};

/// Lets `send` write what a reader of this kind reads, and compares. The error says what was wrong with the bytes.
pub fn flow(
    kind: Kind,
    seed: u64,
    send: impl FnOnce(OwnedFd) -> io::Result<usize>,
) -> Result<(), String> {
    let (read_end, write_end) = calls::pipe().expect("a pipe");
    let sequence = Sequence::new(seed);
    thread::scope(|scope| {
        let reader = scope.spawn(move || {
            let mut got = 0;
            let result = readers::read(kind, &read_end, Rng(!seed), &mut |bytes| {
                sequence.compare(got, bytes)?;
                got += bytes.len();
                Ok(())
            });
            result.map(|()| got)
        });
        let sent = send(write_end);
        let got = reader.join().expect("no panic")?;
        let sent = sent.expect("the reader has read to the end");
        if got == sent {
            Ok(())
        } else {
            Err(format!("{sent} bytes were written, {got} arrived"))
        }
    })
}

/// Drives a way at random into a pipe of any capacity, blocking or not, with any way to wait.
pub fn drive(pipe: OwnedFd, way: Option<Way>, seed: u64, total: usize) -> io::Result<usize> {
    let mut feed = Feed::new(seed);
    let total = feed.rng.between(total / 100, total);
    let _ = capacity::set(&pipe, 4096 << feed.rng.below(9));
    feed.blocking = !feed.rng.once_in(3);
    let wait = if !feed.blocking {
        set_nonblocking(&pipe);
        feed.rng.pick(&[Wait::Adaptive, Wait::Block, Wait::Spin])
    } else if feed.rng.once_in(2) {
        feed.rng.pick(&Wait::ALL)
    } else {
        Wait::Adaptive
    };
    let mut writer = feed.maybe_ahead(writer(pipe, way).with_wait(wait));
    if feed.rng.once_in(2) {
        writer = writer.keep_capacity();
    }
    feed.send(&mut writer, total)?;
    Ok(feed.sent)
}

fn every_way_against(test: &str, kind: Kind, seeds: u64, total: usize) {
    for way in WAYS {
        is_to_be_had(test, way);
        for_each_seed(&format!("{test} {way:?}"), 0..seeds, |seed| {
            let result = flow(kind, seed, |pipe| drive(pipe, way, seed, total));
            result.unwrap_or_else(|wrong| panic!("{wrong}"));
        });
    }
}

#[test]
fn reader_that_copies_gets_what_was_written() {
    every_way_against("reader_that_copies", Kind::Copies, 150, 3 << 20);
}

#[test]
fn page_stays_intact_while_a_pipe_further_down_holds_it() {
    every_way_against("reader_that_splices", Kind::Onwards, 300, 8 << 20);
}

#[test]
fn tee_of_the_data_stays_equal_to_it() {
    every_way_against("reader_that_tees", Kind::Tees, 150, 5 << 20);
}

#[test]
fn reader_may_change_the_capacity_while_data_flows() {
    every_way_against("reader_that_resizes", Kind::Resizes, 150, 3 << 20);
    every_way_against(
        "reader_that_resizes_onwards",
        Kind::ResizesOnwards,
        150,
        6 << 20,
    );
}

#[test]
fn reader_may_take_one_byte_at_a_time() {
    every_way_against("reader_of_bytes", Kind::ByteByByte, 25, 40_000);
}

/// Ends what is done beside a test when that ends, also by a panic.
#[derive(Default)]
pub struct Beside(AtomicBool);

impl Beside {
    /// Repeats `step` until the test has ended.
    pub fn repeat(&self, step: impl Fn()) {
        while !self.0.load(Ordering::Relaxed) {
            step();
        }
    }

    /// Keep this for as long as the test goes on.
    pub fn guard(&self) -> impl Drop + '_ {
        struct Guard<'a>(&'a AtomicBool);
        impl Drop for Guard<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        Guard(&self.0)
    }
}

/// Whoever shares the description of the write end may change it at any time.
#[test]
fn others_may_make_the_pipe_nonblocking_and_back_at_any_time() {
    for way in WAYS {
        for_each_seed(&format!("others {way:?}"), 0..40, |seed| {
            let result = flow(Kind::Onwards, seed, |pipe| {
                let (shared, beside) = (pipe.try_clone()?, Beside::default());
                thread::scope(|scope| {
                    scope.spawn(|| {
                        let blocking = fcntl_getfl(&shared).expect("open");
                        beside.repeat(|| {
                            for flags in [blocking | OFlags::NONBLOCK, blocking] {
                                fcntl_setfl(&shared, flags).expect("open");
                                thread::sleep(Duration::from_micros(50));
                            }
                        });
                    });
                    let _guard = beside.guard();
                    let mut feed = Feed::new(seed);
                    feed.blocking = false;
                    let wait = feed.rng.pick(&Wait::ALL);
                    feed.send(&mut writer(pipe, way).with_wait(wait), 1 << 20)?;
                    Ok(feed.sent)
                })
            });
            assert_eq!(result, Ok(()));
        });
    }
}

/// The automatic choice tries `fat` after 32 MiB of `fresh`.
#[test]
fn change_of_the_way_loses_nothing() {
    let (mut ways, mut sent) = (Vec::new(), 0);
    let result = flow(Kind::Onwards, 1, |pipe| {
        let mut writer = writer(pipe, None);
        while sent < 100 << 20 {
            ways.push(writer.path().way);
            sent += writer.write(Sequence::new(1).at(sent, 1 << 20))?;
        }
        Ok(sent)
    });
    result.unwrap_or_else(|wrong| panic!("{wrong}"));
    if is_to_be_had("change_of_the_way", Some(Way::Fresh)) {
        assert!(
            ways.contains(&Way::Fresh) && ways.contains(&Way::Fat),
            "{ways:?}"
        );
    }
}

/// Sends through two buffers in turn, each written again when its data has left the pipe.
fn recycle(pipe: OwnedFd, seed: u64, total: usize) -> io::Result<usize> {
    let request = Request {
        len: 64 << 10,
        kind: PageKind::Small,
        lock: false,
        fill: Some(0),
    };
    let map = || Pages::map(&request);
    // SAFETY: not safe with a reader that splices, and meant to show it; all it can do is to show wrong bytes to the
    // check, which only ever copies them out of a pipe.
    let mut buffers = unsafe { Recycle::separate(map()?, map()?) };
    let mut sent = 0;
    while sent < total {
        let len = buffers.current_len();
        while !buffers.has_left(&pipe, len as u64)? {
            thread::yield_now();
            if calls::reader_is_gone(&pipe)? {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
        }
        buffers
            .current_mut()
            .copy_from_slice(Sequence::new(seed).at(sent, len));
        let mut lent = 0;
        while lent < len {
            lent += buffers.send(&pipe, lent..len, SpliceFlags::empty())?;
        }
        sent += len;
        buffers.advance();
    }
    Ok(sent)
}

/// The hazard that this crate is there to avoid. If this ever passes with the reader that splices, the tests above
/// show nothing.
#[test]
fn recycled_buffers_are_corrupted_by_a_reader_that_splices_onwards() {
    for_each_seed("recycle", 0..20, |seed| {
        let send = |pipe| recycle(pipe, seed, 4 << 20);
        assert_eq!(flow(Kind::Copies, seed, send), Ok(()));
        for kind in [Kind::Onwards, Kind::ResizesOnwards, Kind::Tees] {
            let wrong = flow(kind, seed, send).expect_err("corrupted");
            assert!(wrong.contains("differ"), "{kind:?}: {wrong}");
        }
    });
}
