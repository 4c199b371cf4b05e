//! `fanout` on real descriptors: slow outputs, outputs that go away, and every kind of them.

#![allow(clippy::unwrap_used)]

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use fullbore::Route;
use fullbore::fanout;
use fullbore::moving::Fanout;
use fullbore_sys::writer::Unbuffered;
use fullbore_sys::writer::Way;
use proptest::prelude::*;
use rustix::fs::{MemfdFlags, OFlags};

fn bytes(len: usize) -> Vec<u8> {
    (0..len)
        .map(|i| ((i as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8)
        .collect()
}

fn file() -> File {
    File::from(rustix::fs::memfd_create("fullbore-test", MemfdFlags::CLOEXEC).unwrap())
}

/// An input with fat slots, with small ones, or a file.
fn source(kind: u8, data: &[u8]) -> OwnedFd {
    if kind == 0 {
        let mut file = file();
        file.write_all(data).unwrap();
        file.rewind().unwrap();
        return file.into();
    }
    let (reader, mut writer) = io::pipe().unwrap();
    let data = data.to_vec();
    // The reader ends before the data where every output has failed.
    if kind == 1 {
        thread::spawn(move || drop(writer.write_all(&data)));
    } else {
        thread::spawn(move || drop(Unbuffered::new(writer).with_way(Way::Fat).write_all(&data)));
    }
    reader.into()
}

/// An output, and what has arrived there once it was closed.
struct Output {
    fd: OwnedFd,
    arrived: Box<dyn FnOnce() -> Vec<u8>>,
    may_fail: bool,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Pipe,
    NonBlockingPipe,
    /// Sleeps so many ms after each piece.
    SlowPipe(u64),
    /// Goes away after so many bytes.
    Leaves(usize),
    Socket,
    File,
    Appended,
    Full,
}

fn kinds() -> impl Strategy<Value = Kind> {
    prop_oneof![
        Just(Kind::Pipe),
        Just(Kind::NonBlockingPipe),
        (0..3_u64).prop_map(Kind::SlowPipe),
        (0..1_500_000_usize).prop_map(Kind::Leaves),
        Just(Kind::Socket),
        Just(Kind::File),
        Just(Kind::Appended),
        Just(Kind::Full),
    ]
}

fn collect(mut from: impl Read + Send + 'static, sleep: u64, most: usize) -> JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut got = Vec::new();
        let mut buffer = vec![0; 100_001];
        while got.len() < most {
            let len = buffer.len().min(most - got.len());
            match from.read(&mut buffer[..len]).unwrap() {
                0 => break,
                n => got.extend(&buffer[..n]),
            }
            thread::sleep(Duration::from_millis(sleep));
        }
        got
    })
}

impl Output {
    fn new(kind: Kind) -> Self {
        let (sleep, most) = match kind {
            Kind::SlowPipe(ms) => (ms, usize::MAX),
            Kind::Leaves(most) => (0, most),
            _ => (0, usize::MAX),
        };
        let (fd, arrived): (OwnedFd, Box<dyn FnOnce() -> Vec<u8>>) = match kind {
            Kind::Socket => {
                let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
                let got = collect(ours, 0, usize::MAX);
                (theirs.into(), Box::new(|| got.join().unwrap()))
            }
            Kind::File | Kind::Appended => {
                let target = file();
                if let Kind::Appended = kind {
                    rustix::fs::fcntl_setfl(&target, OFlags::APPEND).unwrap();
                }
                let mut ours = target.try_clone().unwrap();
                let arrived = move || {
                    let mut got = Vec::new();
                    ours.rewind().unwrap();
                    ours.read_to_end(&mut got).unwrap();
                    got
                };
                (target.into(), Box::new(arrived))
            }
            Kind::Full => {
                let full = File::options().write(true).open("/dev/full").unwrap();
                (full.into(), Box::new(Vec::new))
            }
            _ => {
                let (reader, writer) = io::pipe().unwrap();
                if let Kind::NonBlockingPipe = kind {
                    rustix::fs::fcntl_setfl(&writer, OFlags::NONBLOCK).unwrap();
                }
                let got = collect(reader, sleep, most);
                (writer.into(), Box::new(|| got.join().unwrap()))
            }
        };
        Self {
            fd,
            arrived,
            may_fail: matches!(kind, Kind::Leaves(_) | Kind::Full),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn outputs_that_stay_have_all_and_those_that_leave_have_a_beginning(
        from in 0..3_u8,
        len in 0..2_000_000_usize,
        kinds in proptest::collection::vec(kinds(), 1..7),
    ) {
        let data = bytes(len);
        let input = source(from, &data);
        let outputs: Vec<_> = kinds.iter().map(|&kind| Output::new(kind)).collect();
        let to: Vec<_> = outputs.iter().map(|o| o.fd.as_fd()).collect();
        let done = fanout(&input, &to).unwrap();
        if outputs.iter().any(|o| !o.may_fail) {
            prop_assert_eq!(done.bytes, len as u64);
        }
        for (i, output) in outputs.into_iter().enumerate() {
            drop(output.fd);
            let got = (output.arrived)();
            let failed = done.failed.iter().any(|f| f.output == i);
            prop_assert!(!failed || output.may_fail, "{:?}: {:?}", kinds[i], done.failed);
            if output.may_fail {
                prop_assert!(data.starts_with(&got), "{:?}", kinds[i]);
            } else {
                prop_assert!(got == data, "{:?}: {} of {len} bytes", kinds[i], got.len());
            }
        }
    }
}

#[test]
fn route_says_who_is_written_by_hand_and_why() {
    let (from, mut feed) = io::pipe().unwrap();
    feed.write_all(&bytes(60_000)).unwrap();
    let (plain, appended) = (file(), file());
    rustix::fs::fcntl_setfl(&appended, OFlags::APPEND).unwrap();
    let mut fanout = Fanout::new(from.as_fd(), [plain.as_fd(), appended.as_fd()]);
    assert_eq!(fanout.step(50_000).unwrap().bytes, 50_000);
    assert_eq!(
        (fanout.route(0), fanout.fallbacks(0)),
        (Route::Relay, &[][..])
    );
    assert_eq!(fanout.route(1), Route::ReadWrite);
    let [(Route::Relay, reason)] = fanout.fallbacks(1) else {
        panic!("{fanout:?}");
    };
    assert_eq!(reason.to_string(), "splice: Invalid argument");
    assert_eq!(fanout.live(), 2);
}

#[test]
fn without_outputs_nothing_is_taken() {
    let (from, mut feed) = io::pipe().unwrap();
    feed.write_all(b"x").unwrap();
    assert_eq!(fanout(&from, &[]).unwrap().bytes, 0);
    assert_eq!(fullbore_sys::calls::bytes_in_pipe(&from).unwrap(), 1);
}

/// A hundred outputs get private pipes as small as they come, so that their user keeps some.
#[test]
fn a_hundred_outputs_get_every_byte() {
    let data = bytes(1_000_000);
    let input = source(1, &data);
    let outputs: Vec<_> = (0..100).map(|_| Output::new(Kind::File)).collect();
    let to: Vec<_> = outputs.iter().map(|o| o.fd.as_fd()).collect();
    assert!(fanout(&input, &to).unwrap().failed.is_empty());
    for output in outputs {
        assert!((output.arrived)() == data);
    }
}

#[test]
fn step_returns_where_an_output_fails_and_the_next_one_goes_on() {
    let (gone, to_gone) = io::pipe().unwrap();
    let (mut slow, to_slow) = io::pipe().unwrap();
    drop(gone);
    let capacity = fullbore_sys::capacity::get(&slow).unwrap();
    (&to_slow).write_all(&vec![0; capacity]).unwrap();
    let data = bytes(30_000);
    let from = source(1, &data);
    let mut fanout = Fanout::new(from.as_fd(), [to_gone.as_fd(), to_slow.as_fd()]);
    // The other one has no room, and nobody makes any.
    let step = fanout.step(20_000).unwrap();
    let [failed] = &step.failed[..] else {
        panic!("{step:?}");
    };
    assert_eq!(
        (failed.output, failed.error.kind()),
        (0, io::ErrorKind::BrokenPipe)
    );
    assert_eq!(fanout.live(), 1);
    slow.read_exact(&mut vec![0; capacity]).unwrap();
    let mut sum = step.bytes;
    loop {
        let step = fanout.step(usize::MAX).unwrap();
        assert!(step.failed.is_empty(), "{step:?}");
        match step.bytes {
            0 => break,
            n => sum += n,
        }
    }
    drop(to_slow);
    let mut got = Vec::new();
    slow.read_to_end(&mut got).unwrap();
    assert_eq!((sum, got.len()), (data.len(), data.len()));
    assert!(got == data);
}

#[test]
fn a_reader_that_goes_away_is_noticed_while_there_is_no_input() {
    let (from, _idle) = io::pipe().unwrap();
    let (stays, to_stays) = io::pipe().unwrap();
    let (gone, to_gone) = io::pipe().unwrap();
    let mut fanout = Fanout::new(from.as_fd(), [to_stays.as_fd(), to_gone.as_fd()]).watching();
    drop(gone);
    let step = fanout.step(usize::MAX).unwrap();
    assert_eq!((step.bytes, step.failed.len()), (0, 1));
    assert_eq!(step.failed[0].output, 1);
    drop(stays);
    assert_eq!(fanout.step(usize::MAX).unwrap().failed[0].output, 0);
    assert_eq!(
        (fanout.live(), fanout.step(1).unwrap().failed.len()),
        (0, 0)
    );
}
