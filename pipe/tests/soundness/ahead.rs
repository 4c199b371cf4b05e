//! Bytes that wait in the writer while the pipe is full: how many, for how long, and whose they are.

use std::io::{self, Write};
use std::os::fd::OwnedFd;

use fullbore_sys::calls;
use fullbore_sys::writer::{Unbuffered, Way};

use crate::feed::set_nonblocking;
use crate::processes::{finish, fork};
use crate::readers::Own;
use crate::sequence::Sequence;
use crate::{is_to_be_had, writer};

const MIB: usize = 1 << 20;
const AHEAD: usize = 3 * MIB;

/// The ways by which bytes can wait, as far as they can be taken here; says so of the others.
fn lending(test: &str) -> impl Iterator<Item = Way> {
    let ways = [Way::Cow, Way::Fresh, Way::Fat].into_iter();
    ways.filter(move |&way| is_to_be_had(test, Some(way)))
}

/// A writer into a pipe that does not block, in which up to [`AHEAD`] bytes wait.
fn waiting(way: Way) -> (OwnedFd, Unbuffered<OwnedFd>) {
    let (read_end, write_end) = calls::pipe().expect("a pipe");
    set_nonblocking(&write_end);
    (read_end, writer(write_end, Some(way)).with_ahead(AHEAD))
}

/// Writes the sequence from the `at`th byte on until nothing more is taken, and returns up to where.
fn fill(
    writer: &mut Unbuffered<OwnedFd>,
    sequence: Sequence,
    mut at: usize,
    in_place: bool,
) -> usize {
    loop {
        let taken = if in_place {
            let block = writer.block(300_000);
            let len = block.len();
            block.copy_from_slice(sequence.at(at, len));
            let result = writer.commit(len);
            at += len - writer.uncommitted();
            result
        } else {
            let result = writer.write(sequence.at(at, MIB));
            at += *result.as_ref().unwrap_or(&0);
            result.map(drop)
        };
        match taken {
            Ok(()) => {}
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return at,
            Err(e) => panic!("{e}"),
        }
    }
}

/// Reads all there is and compares it with the sequence from the `at`th byte on; returns how many bytes it was.
fn read_all(pipe: &OwnedFd, sequence: Sequence, mut at: usize) -> usize {
    let start = at;
    let mut own = Own::new();
    while own.take(pipe, MIB).is_some_and(|n| n > 0) {
        let shown = own.show(usize::MAX, &mut |bytes| {
            sequence.compare(at, bytes)?;
            at += bytes.len();
            Ok(())
        });
        assert_eq!(shown, Ok(()));
    }
    at - start
}

fn in_pipe(pipe: &OwnedFd) -> usize {
    usize::try_from(calls::bytes_in_pipe(pipe).expect("a pipe")).expect("few")
}

/// What is not in the pipe once nothing more is taken waits, and all that was taken comes, in order, by flush.
#[test]
fn as_many_bytes_wait_as_may_and_flush_sends_them() {
    for way in lending("as_many_bytes_wait") {
        for in_place in [false, true] {
            let (read_end, mut writer) = waiting(way);
            let sequence = Sequence::new(1);
            let (mut taken, mut got) = (0, 0);
            for _ in 0..5 {
                taken = fill(&mut writer, sequence, taken, in_place);
                let waits = taken - got - in_pipe(&read_end);
                assert_eq!(waits, AHEAD, "{way}");
                assert_eq!(writer.bytes_by(way), taken as u64);
                got += read_all(&read_end, sequence, got);
            }
            while let Err(e) = writer.flush() {
                assert_eq!(e.kind(), io::ErrorKind::WouldBlock);
                got += read_all(&read_end, sequence, got);
            }
            got += read_all(&read_end, sequence, got);
            assert_eq!(got, taken, "{way}");
            assert_eq!(writer.path().way, way);
        }
    }
}

/// Nobody waits for what there is room for.
#[test]
fn what_there_is_room_for_is_in_the_pipe_when_the_call_returns() {
    for way in lending("what_there_is_room_for") {
        let (read_end, mut writer) = waiting(way);
        let sequence = Sequence::new(2);
        let mut at = 0;
        for len in [100, 20_000, 100, 300_000, 17, 40_000] {
            let taken = writer.write(sequence.at(at, len)).expect("room");
            assert_eq!((taken, in_pipe(&read_end)), (len, len), "{way}");
            at += read_all(&read_end, sequence, at);
        }
    }
}

#[test]
fn into_inner_and_drop_send_what_waits() {
    for way in lending("into_inner_and_drop") {
        for drops in [false, true] {
            let (read_end, mut writer) = waiting(way);
            let sequence = Sequence::new(3);
            let taken = fill(&mut writer, sequence, 0, false);
            let mut got = 0;
            let write_end = loop {
                got += read_all(&read_end, sequence, got);
                if drops && taken - got < 64 << 10 {
                    drop(writer);
                    break None;
                }
                match writer.into_inner() {
                    Ok(fd) => break Some(fd),
                    Err((e, again)) => {
                        assert_eq!(e.kind(), io::ErrorKind::WouldBlock, "{e}");
                        writer = again;
                    }
                }
            };
            got += read_all(&read_end, sequence, got);
            assert_eq!(got, taken, "{way}");
            drop(write_end);
        }
    }
}

/// As after a fork of stdio, but without the second copy.
#[test]
fn what_waits_at_a_fork_is_sent_once_by_the_parent() {
    alone!();
    for way in lending("what_waits_at_a_fork") {
        for writes in [false, true] {
            let (read_end, mut writer) = waiting(way);
            let sequence = Sequence::new(4);
            let taken = fill(&mut writer, sequence, 0, false);
            let child = fork(|| {
                writer.flush().expect("nothing waits");
                if writes {
                    // What it writes itself is its own, and the pipe is full.
                    let mut taken = 0;
                    while let Ok(n) = writer.write(&[1; 100_000]) {
                        taken += n;
                    }
                    assert!(taken >= AHEAD, "{taken}");
                }
            });
            finish(child);
            let mut got = read_all(&read_end, sequence, 0);
            while writer.flush().is_err() {
                got += read_all(&read_end, sequence, got);
            }
            got += read_all(&read_end, sequence, got);
            assert_eq!(got, taken, "{way}");
        }
    }
}

/// Without leave to buffer nothing waits after the call, however much it wrote.
#[test]
fn write_all_of_several_mib_returns_when_all_is_in_the_pipe() {
    let ways = [None, Some(Way::Cow), Some(Way::Fresh), Some(Way::Fat)];
    for way in ways {
        let (read_end, write_end) = calls::pipe().expect("a pipe");
        let sequence = Sequence::new(5);
        let total = 20 * MIB;
        let reader = std::thread::spawn(move || {
            let (mut at, mut buffer) = (0, vec![0; 300_000]);
            let a_while = Some(std::time::Duration::from_secs(20));
            let readable = fullbore_sys::wait::events(calls::End::Read);
            while at < total && calls::poll(&read_end, readable, a_while).expect("poll") {
                let n = calls::read(&read_end, &mut buffer).expect("a pipe");
                sequence.check(at, &buffer[..n]);
                at += n;
            }
            at
        });
        let bytes: Vec<u8> = (0..20)
            .flat_map(|i| sequence.at(i * MIB, MIB))
            .copied()
            .collect();
        let mut writer = writer(write_end, way);
        writer.write_all(&bytes).expect("a reader");
        std::mem::forget(writer); // neither flush nor drop
        assert_eq!(reader.join().expect("no panic"), total, "{way:?}");
    }
}
