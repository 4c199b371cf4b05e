//! What falls short, is refused or is not ready, at any call, is neither lost nor sent twice.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::fd::OwnedFd;

use proptest::prelude::*;
use rustix::fs::{MemfdFlags, OFlags};
use rustix::io::Errno;

use super::*;
use fullbore_sys::calls::fault::{Call, inject};

fn data(len: usize) -> Vec<u8> {
    (0..len as u32)
        .map(|i| (i.wrapping_mul(0x9E37_79B1) >> 24) as u8)
        .collect()
}

fn file_of(data: &[u8]) -> File {
    let mut file = File::from(rustix::fs::memfd_create("fanout", MemfdFlags::CLOEXEC).unwrap());
    file.write_all(data).unwrap();
    file.rewind().unwrap();
    file
}

fn contents(mut file: File) -> Vec<u8> {
    let mut got = Vec::new();
    file.rewind().unwrap();
    file.read_to_end(&mut got).unwrap();
    got
}

/// A pipe, and a thread that reads it to its end.
fn collector() -> (OwnedFd, std::thread::JoinHandle<Vec<u8>>) {
    let (read_end, write_end) = calls::pipe().unwrap();
    let reader = std::thread::spawn(move || {
        let mut got = Vec::new();
        File::from(read_end).read_to_end(&mut got).unwrap();
        got
    });
    (write_end, reader)
}

#[test]
fn no_private_pipe_means_reading_and_writing() {
    let data = data(300_001);
    let (one, other) = (file_of(b""), file_of(b""));
    let from = file_of(&data);
    let _refused = inject(|call, len| match call {
        Call::Pipe => Err(Errno::MFILE),
        _ => Ok(len),
    });
    let mut fanout = Fanout::new(from.as_fd(), [one.as_fd(), other.as_fd()]);
    assert_eq!(fanout.route(0), Route::ReadWrite);
    let reason = Reason::Refused {
        call: "pipe",
        errno: Errno::MFILE.raw_os_error(),
    };
    assert_eq!(fanout.fallbacks(0), [(Route::Relay, reason)]);
    while fanout.step(usize::MAX).unwrap().bytes > 0 {}
    drop(fanout);
    assert!(contents(one) == data && contents(other) == data);
}

#[test]
fn tee_that_takes_a_part_sends_nothing_twice() {
    let data = data(200_000);
    let (one, first) = collector();
    let (other, second) = collector();
    let from = file_of(&data);
    let _short = inject(|call, len| match call {
        Call::Tee => Ok(len.min(5000)),
        _ => Ok(len),
    });
    let done = fanout(&from, &[one.as_fd(), other.as_fd()]).unwrap();
    assert_eq!(done.bytes, data.len() as u64);
    drop((one, other));
    assert!(first.join().unwrap() == data && second.join().unwrap() == data);
}

#[test]
fn splice_that_takes_a_part_never_fills_the_private_pipe_twice() {
    let data = data(3_000_000);
    let (one, first) = collector();
    let other = file_of(b"");
    let from = file_of(&data);
    let mut calls = 0;
    let _short = inject(move |call, len| {
        calls += 1;
        match call {
            Call::Splice if calls % 3 > 0 => Ok(len.min(9_001)),
            _ => Ok(len),
        }
    });
    let done = fanout(&from, &[one.as_fd(), other.as_fd()]).unwrap();
    assert_eq!(done.bytes, data.len() as u64);
    drop(one);
    assert!(first.join().unwrap() == data && contents(other) == data);
}

#[test]
fn error_after_bytes_have_moved_is_final_for_that_output_only() {
    let data = data(500_000);
    let (bad, good) = (file_of(b""), file_of(b""));
    let from = file_of(&data);
    let mut splices = 0;
    let _full = inject(move |call, len| {
        splices += usize::from(call == Call::Splice);
        match call {
            // Input, output, output, input: the fifth is the second one into the first output.
            Call::Splice if splices == 5 => Err(Errno::NOSPC),
            // A disk stays full, however it is written to.
            Call::Write if splices >= 5 => Err(Errno::NOSPC),
            _ => Ok(len),
        }
    });
    let done = fanout(&from, &[bad.as_fd(), good.as_fd()]).unwrap();
    assert_eq!(done.failed.len(), 1, "{done:?}");
    let failed = &done.failed[0];
    assert_eq!(failed.output, 0);
    assert_eq!(failed.error.kind(), io::ErrorKind::StorageFull);
    let part = contents(bad);
    assert!(
        !part.is_empty() && data.starts_with(&part),
        "{}",
        part.len()
    );
    assert!(contents(good) == data);
}

#[test]
fn input_error_is_told_from_output_errors() {
    let directory = File::open("/").unwrap();
    let target = file_of(b"");
    let error = fanout(&directory, &[target.as_fd()]).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::IsADirectory);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn every_output_gets_every_byte_whatever_call_fails(
        len in 0..900_000_usize,
        most in 1..400_000_usize,
        plan in proptest::collection::vec((0..5_u8, 1..100_000_usize), 1..40),
        refused_after in 0..200_usize,
    ) {
        let data = data(len);
        let source = file_of(&data);
        let (pipe, piped) = collector();
        let (file, appended) = (file_of(b""), file_of(b""));
        rustix::fs::fcntl_setfl(&appended, OFlags::APPEND).unwrap();
        let mut calls = 0;
        let faults = inject(move |call, len| {
            let (what, short) = plan[calls % plan.len()];
            calls += usize::from(call != Call::Poll);
            match (call, what) {
                (Call::Splice | Call::Tee | Call::Write | Call::Read, 1) => Ok(len.min(short)),
                (Call::Splice | Call::Tee, 2) if calls > refused_after => Err(Errno::INVAL),
                (Call::Splice | Call::Tee, 3) if calls % 3 > 0 => Err(Errno::AGAIN),
                (Call::Poll | Call::Pipe, _) => Ok(len),
                (_, 4) if calls % 3 > 0 => Err(Errno::INTR),
                _ => Ok(len),
            }
        });
        let mut sum = 0;
        let outputs = [pipe.as_fd(), file.as_fd(), appended.as_fd()];
        let mut fanout = Fanout::new(source.as_fd(), outputs);
        loop {
            let step = fanout.step(most).unwrap();
            prop_assert!(step.failed.is_empty(), "{:?}", step.failed);
            prop_assert!(step.bytes <= most);
            if step.bytes == 0 {
                break;
            }
            sum += step.bytes;
        }
        drop(fanout);
        drop((faults, pipe));
        prop_assert_eq!(sum, len);
        prop_assert!(piped.join().unwrap() == data);
        prop_assert!(contents(file) == data);
        prop_assert!(contents(appended) == data);
    }
}
