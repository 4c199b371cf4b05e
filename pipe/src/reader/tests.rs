#![allow(clippy::unwrap_used)]

use std::io::{PipeWriter, Seek, Write};
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

use proptest::prelude::*;
use rustix::event::PollFlags;
use rustix::fs::{MemfdFlags, OFlags};
use rustix::io::Errno;

use super::*;
use fullbore_sys::calls::fault::{Call, inject};
use fullbore_sys::capacity;

/// Bytes that do not repeat at any distance that a buffer might have.
fn bytes(len: usize) -> Vec<u8> {
    (0..len)
        .map(|i| ((i as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8)
        .collect()
}

fn pipe_of(data: &[u8]) -> (io::PipeReader, PipeWriter) {
    let (read_end, mut write_end) = io::pipe().unwrap();
    write_end.write_all(data).unwrap();
    (read_end, write_end)
}

#[test]
fn what_the_buffer_holds_comes_first_whatever_is_called() {
    let data = bytes(1000);
    let (read_end, write_end) = pipe_of(&data);
    drop(write_end);
    let mut reader = PipeReader::new(read_end);
    reader.fill_buf().unwrap();
    assert_eq!(reader.buffer(), data);
    reader.consume(10);
    let mut got = [0; 90];
    assert_eq!(reader.read(&mut got).unwrap(), 90);
    assert_eq!(got, data[10..100]);
    assert_eq!(reader.discard(300).unwrap(), 300);
    assert_eq!(reader.buffer(), &data[400..]);
    // More than is held: a read stops there.
    assert_eq!(reader.read(&mut [0; 5000]).unwrap(), 600);
    assert_eq!(reader.discard(1).unwrap(), 0);
    assert!(reader.fill_buf().unwrap().is_empty());
}

#[test]
fn only_reads_smaller_than_the_buffer_go_through_it() {
    let (read_end, _write_end) = pipe_of(&bytes(1000));
    let mut reader = PipeReader::new(&read_end);
    assert_eq!(reader.read(&mut [0; 10]).unwrap(), 10);
    assert!(reader.buffer().is_empty(), "nobody asked for a buffer");
    let mut reader = PipeReader::new(&read_end).buffered(100);
    assert_eq!(reader.read(&mut [0; 100]).unwrap(), 100);
    assert!(reader.buffer().is_empty(), "as large as the buffer");
    assert_eq!(reader.read(&mut []).unwrap(), 0);
    assert!(reader.buffer().is_empty(), "nothing was asked for");
    assert_eq!(reader.read(&mut [0; 99]).unwrap(), 99);
    assert_eq!(reader.buffer().len(), 1);
    let left = calls::bytes_in_pipe(&read_end).unwrap();
    assert_eq!(left, 1000 - 10 - 100 - 100);
}

#[test]
fn another_size_of_buffer_loses_nothing() {
    let data = bytes(1000);
    let (read_end, write_end) = pipe_of(&data);
    drop(write_end);
    let mut reader = PipeReader::new(read_end).buffered(600);
    reader.fill_buf().unwrap();
    let mut reader = reader.buffered(0);
    let mut got = Vec::new();
    reader.read_to_end(&mut got).unwrap();
    assert_eq!(got, data);
}

#[test]
fn nothing_that_reads_changes_a_capacity_that_is_to_be_kept() {
    type Reading = fn(&mut PipeReader<&io::PipeReader>) -> io::Result<()>;
    let ways: [(&str, Reading); 8] = [
        ("read", |r| r.read(&mut [0; 10]).map(drop)),
        ("read_exact", |r| r.read_exact(&mut [0; 10])),
        ("read_to_end", |r| {
            r.take(10).read_to_end(&mut Vec::new()).map(drop)
        }),
        ("fill_buf", |r| r.fill_buf().map(drop)),
        ("read_until", |r| r.read_until(1, &mut Vec::new()).map(drop)),
        ("lines", |r| r.lines().next().transpose().map(drop)),
        ("discard", |r| r.discard(10).map(drop)),
        ("discard of what is buffered", |r| {
            r.fill_buf()?;
            r.discard(10).map(drop)
        }),
    ];
    let page = rustix::param::page_size();
    for (way, reading) in ways {
        for buffer in [None, Some(100)] {
            let small = || {
                let (read_end, write_end) = io::pipe().unwrap();
                capacity::set(&read_end, page).unwrap();
                (&write_end).write_all(&b"\n\x01".repeat(50)).unwrap();
                (read_end, write_end)
            };
            fn buffered<Fd: AsFd>(reader: PipeReader<Fd>, len: Option<usize>) -> PipeReader<Fd> {
                match len {
                    Some(len) => reader.buffered(len),
                    None => reader,
                }
            }
            let size = |fd: &io::PipeReader| capacity::get(fd).unwrap();
            for is_told_first in [true, false] {
                let (read_end, _write_end) = small();
                let reader = PipeReader::new(&read_end);
                reading(&mut if is_told_first {
                    buffered(reader.keep_capacity(), buffer)
                } else {
                    buffered(reader, buffer).keep_capacity()
                })
                .unwrap();
                assert_eq!(size(&read_end), page, "{way}, {buffer:?}");
            }

            // And it is those that change it, once.
            let (read_end, _write_end) = small();
            let mut reader = buffered(PipeReader::new(&read_end), buffer);
            assert_eq!(size(&read_end), page, "by making a reader");
            let granted = capacity::largest(&small().0).unwrap().granted;
            reading(&mut reader).unwrap();
            // Others of this user may have used up what there was.
            assert!(
                size(&read_end) > page || granted == page,
                "{way}, {buffer:?}"
            );
            capacity::set(&read_end, page).unwrap();
            reading(&mut reader).unwrap();
            reading(&mut reader.keep_capacity()).unwrap();
            assert_eq!(size(&read_end), page, "{way}, {buffer:?}: changed again");
        }
    }
}

#[test]
fn non_blocking_descriptor_would_block_and_loses_nothing() {
    let (read_end, mut write_end) = io::pipe().unwrap();
    rustix::fs::fcntl_setfl(&read_end, OFlags::NONBLOCK).unwrap();
    let mut reader = PipeReader::new(read_end).buffered(64);
    let would_block = |e: io::Error| e.kind() == io::ErrorKind::WouldBlock;
    for round in 0..3 {
        assert!(would_block(reader.read(&mut [0; 8]).unwrap_err()));
        assert!(would_block(reader.read(&mut [0; 800]).unwrap_err()));
        assert!(would_block(reader.discard(8).unwrap_err()));
        assert!(would_block(reader.fill_buf().unwrap_err()));
        let mut line = Vec::new();
        write_end.write_all(b"half").unwrap();
        assert!(would_block(
            reader.read_until(b'\n', &mut line).unwrap_err()
        ));
        write_end.write_all(b" a line\nand 3456789").unwrap();
        assert_eq!(reader.read_until(b'\n', &mut line).unwrap(), 8);
        assert_eq!(line, b"half a line\n", "round {round}");
        // Less than asked for: there was no more, and that is not held against what comes later.
        assert_eq!(reader.discard(100).unwrap(), 11);
        write_end.write_all(b"more").unwrap();
        assert_eq!(reader.discard(4).unwrap(), 4);
    }
}

#[test]
fn reader_stands_for_its_descriptor() {
    fn event_loop_takes<T: AsRawFd + AsFd + Send + 'static>(fd: &T) -> i32 {
        fd.as_raw_fd()
    }
    let (read_end, mut write_end) = pipe_of(b"buffered");
    let number = read_end.as_raw_fd();
    let mut reader = PipeReader::new(OwnedFd::from(read_end));
    assert_eq!(event_loop_takes(&reader), number);
    assert!(calls::poll(&reader, PollFlags::IN, Some(Duration::ZERO)).unwrap());
    reader.fill_buf().unwrap();
    write_end.write_all(b"direct").unwrap();
    assert_eq!(reader.buffer(), b"buffered");
    let mut fd = PipeReader::new(OwnedFd::from(reader)).into_inner();
    assert_eq!(fd.as_raw_fd(), number);
    let mut got = [0; 6];
    calls::read(&mut fd, &mut got).unwrap();
    assert_eq!(&got, b"direct");
    assert_eq!(PipeReader::new(fd).into_raw_fd(), number);
    // SAFETY: it was given away by the line before, and nobody else has it.
    #[allow(unsafe_code)]
    drop(unsafe { <OwnedFd as std::os::fd::FromRawFd>::from_raw_fd(number) });
}

/// A connection tells its end once: if that were dropped with the count, the data would seem complete.
#[test]
fn error_after_some_bytes_were_dropped_is_told_by_the_next_call() {
    let data = bytes(1000);
    let mut file = file_of(&data);
    let mut calls = 0;
    let _faults = inject(move |call, len| {
        calls += usize::from(call == Call::Read);
        match (call, calls) {
            (Call::Read, 1) => Ok(400),
            (Call::Read, 2) => Err(Errno::CONNRESET),
            _ => Ok(len),
        }
    });
    let mut reader = PipeReader::new(&mut file);
    assert_eq!(reader.discard(1000).unwrap(), 400);
    let told = reader.read(&mut [0; 8]).unwrap_err();
    assert_eq!(told.kind(), io::ErrorKind::ConnectionReset);
    let mut got = Vec::new();
    reader.read_to_end(&mut got).unwrap();
    assert_eq!(got, data[400..]);
}

fn file_of(data: &[u8]) -> std::fs::File {
    let file = rustix::fs::memfd_create("reader", MemfdFlags::CLOEXEC).unwrap();
    let mut file = std::fs::File::from(file);
    file.write_all(data).unwrap();
    file.rewind().unwrap();
    file
}

#[derive(Clone, Debug)]
enum Step {
    Read(usize),
    Show { consume: usize },
    ReadUntil(u8),
    Discard(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        (1..60_000_usize).prop_map(Step::Read),
        (1..300_usize).prop_map(Step::Read),
        (1..60_000_usize).prop_map(|consume| Step::Show { consume }),
        any::<u8>().prop_map(Step::ReadUntil),
        (1..90_000_u64).prop_map(Step::Discard),
        (1..100_u64).prop_map(Step::Discard),
    ];
    proptest::collection::vec(step, 1..40)
}

#[derive(Clone, Debug)]
enum Fault {
    Short(usize),
    WouldBlock,
    Interrupted,
    Refused,
}

fn faults() -> impl Strategy<Value = Vec<Fault>> {
    let fault = prop_oneof![
        8 => (1..40_000_usize).prop_map(Fault::Short),
        4 => Just(Fault::WouldBlock),
        2 => Just(Fault::Interrupted),
        1 => Just(Fault::Refused),
    ];
    proptest::collection::vec(fault, 1..40)
}

/// What a test reads from, and who feeds it.
fn source(kind: u8, data: &[u8], piece: usize) -> (OwnedFd, Option<thread::JoinHandle<()>>) {
    fn fed(
        mut to: impl Write + Send + 'static,
        data: &[u8],
        piece: usize,
    ) -> thread::JoinHandle<()> {
        let data = data.to_vec();
        thread::spawn(move || {
            for piece in data.chunks(piece) {
                to.write_all(piece).unwrap();
            }
        })
    }
    match kind {
        0 => {
            let (read_end, write_end) = io::pipe().unwrap();
            (read_end.into(), Some(fed(write_end, data, piece)))
        }
        1 => {
            let (ours, theirs) = UnixStream::pair().unwrap();
            (ours.into(), Some(fed(theirs, data, piece)))
        }
        _ => (file_of(data).into(), None),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Against a vector and a place in it: whatever is called in whatever order, with calls that are short, interrupted,
    /// refused or would block, the bytes are those that come next.
    #[test]
    fn every_byte_comes_once_and_in_order(
        len in 0..400_000_usize,
        kind in 0..3_u8,
        piece in 500..100_000_usize,
        is_nonblocking: bool,
        buffer in proptest::option::of(1..70_000_usize),
        steps in steps(),
        faults in faults(),
    ) {
        let data = bytes(len);
        let (from, feeder) = source(kind, &data, piece);
        if is_nonblocking {
            rustix::fs::fcntl_setfl(&from, OFlags::NONBLOCK).unwrap();
        }
        let mut reader = PipeReader::new(from);
        if let Some(buffer) = buffer {
            reader = reader.buffered(buffer);
        }
        let mut calls = 0;
        let injected = inject(move |call, len| {
            if call == Call::Poll {
                return Ok(len); // and not counted: each one that waits might come before a call that would block again
            }
            calls += 1;
            // Every other call is left alone, so that the last one comes.
            let fault = (calls % 2 == 0).then(|| &faults[calls / 2 % faults.len()]);
            match (fault, call) {
                (Some(Fault::Interrupted), _) => Err(Errno::INTR),
                (Some(Fault::Short(most)), Call::Read | Call::Splice) => Ok(len.min(*most)),
                (Some(Fault::WouldBlock), Call::Read | Call::Splice) => Err(Errno::AGAIN),
                (Some(Fault::Refused), Call::Splice) => Err(Errno::PERM),
                (Some(Fault::Refused), Call::Read) => Err(Errno::IO),
                (Some(Fault::Refused), Call::Pipe) => Err(Errno::MFILE),
                _ => Ok(len),
            }
        });
        let mut at = 0;
        let mut steps = steps.iter().cycle();
        let mut into = Vec::new();
        loop {
            let (before, rest) = (at, &data[at..]);
            let mut is_end = false;
            let result = match *steps.next().unwrap() {
                Step::Read(len) => {
                    into.clear();
                    into.resize(len, 0);
                    reader.read(&mut into).map(|n| {
                        prop_assert_eq!(&into[..n], &rest[..n]);
                        at += n;
                        is_end = n == 0;
                        Ok(())
                    })
                }
                Step::Show { consume } => {
                    let shown = reader.fill_buf().map(|shown| {
                        prop_assert_eq!(shown, &rest[..shown.len()]);
                        is_end = shown.is_empty();
                        at += consume.min(shown.len());
                        Ok(())
                    });
                    reader.consume(at - before);
                    shown
                }
                Step::ReadUntil(byte) => {
                    into.clear();
                    let result = reader.read_until(byte, &mut into);
                    prop_assert_eq!(&into[..], &rest[..into.len()]);
                    at += into.len();
                    is_end = matches!(result, Ok(0));
                    let ended = into.last() == Some(&byte) || at == len;
                    result.map(|n| {
                        prop_assert!(ended && n == into.len());
                        Ok(())
                    })
                }
                Step::Discard(most) => reader.discard(most).map(|n| {
                    prop_assert!(n <= most && n <= rest.len() as u64);
                    at += n as usize;
                    is_end = n == 0;
                    Ok(())
                }),
            };
            match result {
                Ok(checked) => checked?,
                Err(e) => {
                    let was_injected = e.raw_os_error() == Some(Errno::IO.raw_os_error());
                    let blocks = e.kind() == io::ErrorKind::WouldBlock;
                    // A file never blocks, but is told to here.
                    prop_assert!(was_injected || blocks && (is_nonblocking || kind > 0), "{e}");
                    if blocks && is_nonblocking {
                        thread::yield_now();
                    }
                }
            }
            prop_assert!(!is_end || before == len, "an end at {before} of {len}");
            if is_end {
                break;
            }
        }
        drop(injected);
        prop_assert_eq!(at, len);
        prop_assert!(reader.buffer().is_empty());
        prop_assert_eq!(reader.discard(1).unwrap(), 0);
        prop_assert_eq!(reader.read(&mut [0]).unwrap(), 0);
        if let Some(feeder) = feeder {
            feeder.join().unwrap();
        }
    }
}
