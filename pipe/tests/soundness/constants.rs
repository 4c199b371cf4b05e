//! A constant of any length never breaks, whatever the reader and the output do.

use std::io::{self, Read, Seek};
use std::os::fd::{AsFd, OwnedFd};
use std::thread::{self, JoinHandle};

use fullbore::{Constant, Reason, Route};
use fullbore_sys::wait::Wait;
use fullbore_sys::{calls, capacity};

use crate::feed::set_nonblocking;
use crate::processes::{finish, fork};
use crate::readers::{self, Kind};
use crate::sequence::{Rng, Sequence};
use crate::skip;
use crate::watch::for_each_seed;

const LENGTHS: [usize; 17] = [
    1,
    2,
    3,
    6,
    7,
    1000,
    4095,
    4096,
    4097,
    32_767,
    32_768,
    32_769,
    100_003,
    (1 << 20) + 1,
    5 << 20,
    8 << 20,
    9 << 20,
];

/// A pattern of this length; pieces of the sequence are at most 2 MiB long.
fn pattern(len: usize) -> Vec<u8> {
    let piece = |at| Sequence::new(len as u64).at(at, (len - at).min(1 << 20));
    (0..len).step_by(1 << 20).flat_map(piece).copied().collect()
}

/// Says where the bytes stop to be the pattern again and again.
#[derive(Debug)]
struct Periods {
    repeated: Vec<u8>,
    period: usize,
    at: usize,
}

impl Periods {
    fn of(pattern: &[u8]) -> Self {
        Self {
            // At least one piece of any length up to 1 MiB, from any phase.
            repeated: pattern.repeat((1 << 20) / pattern.len() + 2),
            period: pattern.len(),
            at: 0,
        }
    }

    fn compare(&mut self, bytes: &[u8]) -> Result<(), String> {
        for piece in bytes.chunks(1 << 20) {
            let phase = self.at % self.period;
            if *piece != self.repeated[phase..phase + piece.len()] {
                return Err(format!("the pattern breaks behind byte {}", self.at));
            }
            self.at += piece.len();
        }
        Ok(())
    }
}

/// A thread that holds what this reader sees against the pattern; it returns how many bytes came.
fn read(kind: Kind, pipe: OwnedFd, pattern: &[u8], seed: u64) -> JoinHandle<Result<usize, String>> {
    let mut periods = Periods::of(pattern);
    thread::spawn(move || {
        let compare = &mut |bytes: &[u8]| periods.compare(bytes);
        readers::read(kind, &pipe, Rng(seed), compare).map(|()| periods.at)
    })
}

/// Several periods, and more than a master pipe holds for short ones.
fn total(len: usize) -> usize {
    (3 * len).clamp(9 << 20, 20 << 20) + len / 3 + 1
}

/// Lets `write` fill a pipe of this capacity, and holds what this reader sees against the pattern.
fn check(
    kind: Kind,
    pattern: &[u8],
    capacity: usize,
    seed: u64,
    write: impl FnOnce(OwnedFd) -> usize,
) {
    let (read_end, write_end) = calls::pipe().expect("a pipe");
    let _ = capacity::set(&write_end, capacity);
    let reader = read(kind, read_end, pattern, seed);
    let written = write(write_end);
    assert_eq!(reader.join().expect("no panic"), Ok(written));
}

/// Writes `total` bytes in several calls, the next of which goes on where the last has left off.
fn in_parts(constant: &mut Constant, pipe: impl AsFd, total: usize, rng: &mut Rng) -> usize {
    let mut left = total;
    while left > 0 {
        let len = match rng.below(3) {
            0 => rng.between(1, 10_000),
            1 => rng.between(1, 3 << 20),
            _ => left,
        };
        let len = len.min(left);
        constant.write_all(&pipe, len as u64).expect("a reader");
        left -= len;
    }
    total
}

#[test]
fn pattern_of_any_length_never_breaks() {
    for kind in Kind::ALL {
        for len in LENGTHS {
            let pattern = pattern(len);
            let total = match kind {
                Kind::ByteByByte => 40_000,
                _ => total(len),
            };
            for_each_seed(&format!("constant of {len}, {kind:?}"), 0..2, |seed| {
                let mut rng = Rng(seed);
                let capacity = 4096 << rng.below(9);
                let wait = rng.pick(&Wait::ALL);
                check(kind, &pattern, capacity, seed, |pipe| {
                    if rng.once_in(3) {
                        set_nonblocking(&pipe);
                    }
                    let mut constant = Constant::new(&pattern).wait(wait);
                    let written = in_parts(&mut constant, &pipe, total, &mut rng);
                    let fits = len <= 8 << 20;
                    let expected = if fits { Route::Tee } else { Route::Write };
                    if constant.route() != Some(expected) {
                        skip("pattern_of_any_length as a tee", format!("{constant:?}"));
                    }
                    written
                });
            });
        }
    }
}

#[test]
fn pattern_never_breaks_in_a_pipe_of_one_slot() {
    for len in [1, 7, 4097, 100_003] {
        let pattern = pattern(len);
        check(Kind::Copies, &pattern, 4096, 1, |pipe| {
            in_parts(&mut Constant::new(&pattern), &pipe, 1_000_003, &mut Rng(1))
        });
    }
}

#[test]
fn pattern_goes_into_a_file_by_write_and_goes_on_in_a_pipe() {
    let pattern = pattern(1000);
    let mut constant = Constant::new(&pattern);
    let mut file = tempfile::tempfile().expect("a file");
    constant.write_all(&file, 2_000_500).expect("room");
    assert_eq!(constant.fallbacks(), [(Route::Tee, Reason::NotAPipe)]);
    file.rewind().expect("a file");
    let mut all = Vec::new();
    file.read_to_end(&mut all).expect("a file");
    assert_eq!(all.len(), 2_000_500);
    assert_eq!(Periods::of(&pattern).compare(&all), Ok(()));
    let turned = [&pattern[500..], &pattern[..500]].concat();
    check(Kind::Copies, &turned, 1 << 16, 1, |pipe| {
        constant.write_all(pipe, 3_000_001).expect("a reader");
        3_000_001
    });
}

/// A file that is appended to takes write(2) and no splice.
#[test]
fn pattern_goes_on_in_a_file_that_splice_refuses() {
    let pattern = pattern(999);
    let mut constant = Constant::new(&pattern);
    let mut periods = Periods::of(&pattern);
    let (mut read_end, write_end) = io::pipe().expect("a pipe");
    constant.write_all(&write_end, 5000).expect("room");
    drop(write_end);
    let mut start = Vec::new();
    read_end.read_to_end(&mut start).expect("a pipe");
    let file = tempfile::NamedTempFile::new().expect("a file");
    let append = file
        .reopen()
        .and_then(|_| std::fs::File::options().append(true).open(file.path()));
    constant
        .write_all(append.expect("a file"), 70_000)
        .expect("room");
    assert_eq!(periods.compare(&start), Ok(()));
    assert_eq!(
        periods.compare(&std::fs::read(file.path()).expect("a file")),
        Ok(())
    );
    assert_eq!(periods.at, 75_000);
}

#[test]
fn both_sides_of_a_fork_go_on_with_the_pattern() {
    alone!();
    for len in [3, 4097, 100_003] {
        let pattern = pattern(len);
        let mut constant = Constant::new(&pattern);
        let before = 50_000; // fits into the pipe
        let (read_end, pipe) = calls::pipe().expect("a pipe");
        let (read_childs, childs) = calls::pipe().expect("a pipe");
        let both = pattern.repeat(2);
        let turned = &both[before % len..before % len + len];
        constant.write_all(&pipe, before as u64).expect("room");
        let child = fork(|| constant.write_all(&childs, 4_000_000).expect("a reader"));
        drop(childs);
        let of_child = read(Kind::Onwards, read_childs, turned, 1);
        let of_parent = read(Kind::Onwards, read_end, &pattern, 2);
        constant.write_all(&pipe, 4_000_000).expect("a reader");
        drop(pipe);
        finish(child);
        assert_eq!(of_child.join().expect("no panic"), Ok(4_000_000));
        assert_eq!(of_parent.join().expect("no panic"), Ok(4_000_000 + before));
    }
}

#[test]
fn constant_ends_quietly_when_the_reader_goes() {
    let (read_end, write_end) = calls::pipe().expect("a pipe");
    let mut constant = Constant::new(b"y\n");
    let reader = thread::spawn(move || {
        let mut some = vec![0; 1 << 20];
        for _ in 0..100 {
            assert!(calls::read(&read_end, &mut some).expect("data") > 0);
        }
    });
    constant.write_forever(&write_end).expect("quietly");
    reader.join().expect("no panic");
    let error = constant.write_all(&write_end, 1).expect_err("no reader");
    assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
}
