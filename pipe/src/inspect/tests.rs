//! What is refused or falls short loses nothing, and what is shown is what arrives.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::fd::{AsFd, OwnedFd};

use proptest::prelude::*;
use rustix::fs::{MemfdFlags, OFlags};
use rustix::io::Errno;

use super::*;
use fullbore_sys::calls::fault::{Call, inject};

fn file_of(data: &[u8]) -> File {
    let file = rustix::fs::memfd_create("inspect", MemfdFlags::CLOEXEC).unwrap();
    let mut file = File::from(file);
    file.write_all(data).unwrap();
    file.rewind().unwrap();
    file
}

fn data(len: usize) -> Vec<u8> {
    (0..len as u32)
        .map(|i| (i.wrapping_mul(0x9E37_79B1) >> 24) as u8)
        .collect()
}

/// Moves a file through, `most` bytes at a time, into a thread that collects.
fn through(from: &File, most: usize) -> (Vec<u8>, Vec<u8>, Vec<(Route, Reason)>) {
    let (read_end, write_end) = calls::pipe().unwrap();
    let reader = std::thread::spawn(move || {
        let mut got = Vec::new();
        File::from(read_end).read_to_end(&mut got).unwrap();
        got
    });
    let (seen, fallbacks) = inspect_into(from, &write_end, most);
    drop(write_end);
    (reader.join().unwrap(), seen, fallbacks)
}

fn inspect_into(from: &File, to: &OwnedFd, most: usize) -> (Vec<u8>, Vec<(Route, Reason)>) {
    let mut inspect = Inspect::new(from.as_fd(), to.as_fd());
    let mut seen = Vec::new();
    while !inspect.fill(usize::MAX).unwrap().is_empty() {
        seen.extend(inspect.deliver(most).unwrap());
    }
    (seen, inspect.fallbacks().to_vec())
}

#[test]
fn what_is_shown_is_what_arrives() {
    let data = data(3_000_001);
    let (got, seen, fallbacks) = through(&file_of(&data), usize::MAX);
    assert!(got == data && seen == data);
    assert_eq!(fallbacks, []);
}

#[test]
fn no_private_pipe_means_reading_and_writing() {
    let data = data(700_001);
    let (read_end, write_end) = calls::pipe().unwrap();
    drop(read_end);
    drop(write_end);
    let target = file_of(b"");
    let _refused = inject(|call, len| match call {
        Call::Pipe => Err(Errno::MFILE),
        _ => Ok(len),
    });
    let (seen, fallbacks) =
        inspect_into(&file_of(&data), &target.try_clone().unwrap().into(), 5000);
    assert!(seen == data);
    let reason = Reason::Refused {
        call: "pipe",
        errno: Errno::MFILE.raw_os_error(),
    };
    assert_eq!(fallbacks, [(Route::Relay, reason)]);
    let mut got = Vec::new();
    let mut target = target;
    target.rewind().unwrap();
    target.read_to_end(&mut got).unwrap();
    assert!(got == data);
}

#[test]
fn target_that_takes_no_splice_gets_everything_by_hand() {
    let data = data(700_001);
    let target = file_of(b"");
    rustix::fs::fcntl_setfl(&target, OFlags::APPEND).unwrap();
    let (seen, fallbacks) =
        inspect_into(&file_of(&data), &target.try_clone().unwrap().into(), 70_000);
    assert!(seen == data && fallbacks.len() == 1);
    let mut got = Vec::new();
    let mut target = target;
    target.rewind().unwrap();
    target.read_to_end(&mut got).unwrap();
    assert!(got == data);
}

#[test]
fn input_takes_no_more_than_was_asked_for() {
    let mut file = file_of(&data(100_000));
    let (_read_end, write_end) = calls::pipe().unwrap();
    let mut inspect = Inspect::new(file.as_fd(), write_end.as_fd());
    assert_eq!(inspect.fill(10).unwrap().len(), 10);
    assert_eq!(inspect.deliver(4).unwrap().len(), 4);
    assert_eq!(inspect.fill(99).unwrap().len(), 6);
    drop(inspect);
    assert_eq!(file.stream_position().unwrap(), 10);
}

#[test]
fn errors_are_told_apart_by_side() {
    let file = file_of(&data(10));
    let (read_end, write_end) = calls::pipe().unwrap();
    drop(read_end);
    let mut inspect = Inspect::new(file.as_fd(), write_end.as_fd());
    inspect.fill(10).unwrap();
    assert_eq!(
        inspect.deliver(10).unwrap_err().kind(),
        io::ErrorKind::BrokenPipe
    );
    assert_eq!(inspect.blame(), Side::Output);
    let directory = File::open("/").unwrap();
    let mut inspect = Inspect::new(directory.as_fd(), write_end.as_fd());
    assert!(inspect.fill(10).is_err());
    assert_eq!(inspect.blame(), Side::Input);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Splice and tee are refused, short, or not ready, at any call; every third one is let through, so that it ends.
    #[test]
    fn nothing_is_lost_whatever_call_fails(
        len in 0..1_200_000_usize,
        most in 1..300_000_usize,
        plan in proptest::collection::vec((0..4_u8, 1..100_000_usize), 1..40),
    ) {
        let data = data(len);
        let source = file_of(&data);
        let mut calls = 0;
        let _plan = inject(move |call, len| {
            let &(what, short) = &plan[calls % plan.len()];
            match (call, what) {
                (Call::Splice | Call::Tee | Call::Write | Call::Read, 1) => {
                    calls += 1;
                    Ok(len.min(short))
                }
                (Call::Splice | Call::Tee, 2) if calls > 20 => {
                    calls += 1;
                    Err(Errno::INVAL)
                }
                (Call::Splice | Call::Tee, 3) if calls % 3 > 0 => {
                    calls += 1;
                    Err(Errno::AGAIN)
                }
                (Call::Poll, _) => Ok(len),
                _ => {
                    calls += 1;
                    Ok(len)
                }
            }
        });
        let (got, seen, _) = through(&source, most);
        prop_assert!(got == data);
        prop_assert!(seen == data);
    }
}
