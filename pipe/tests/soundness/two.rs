//! Several writers on one pipe: whose byte it is, its top bit tells.

use std::io::Write;
use std::os::fd::OwnedFd;
use std::thread;

use fullbore_sys::writer::Way;
use fullbore_sys::{calls, capacity};

use crate::feed::Feed;
use crate::readers::{self, Kind};
use crate::sequence::{Rng, Sequence, Tag};
use crate::watch::for_each_seed;
use crate::{WAYS, writer};

/// `PIPE_BUF`: what is atomic in a pipe.
pub const ATOMIC: usize = 4096;

/// Reads everything, as a reader of this kind.
pub fn collect(kind: Kind, pipe: &OwnedFd, seed: u64) -> Vec<u8> {
    let mut all = Vec::new();
    let result = readers::read(kind, pipe, Rng(seed), &mut |bytes| {
        all.extend_from_slice(bytes);
        Ok(())
    });
    assert_eq!(result, Ok(()));
    all
}

/// What arrived from each of two writers, with where in the pipe each byte of the second was.
pub fn sort(all: &[u8]) -> (Vec<u8>, Vec<u8>, Vec<usize>) {
    let (mut zero, mut one, mut places) = (Vec::new(), Vec::new(), Vec::new());
    for (at, &byte) in all.iter().enumerate() {
        if byte < 0x80 {
            zero.push(byte);
        } else {
            one.push(byte);
            places.push(at);
        }
    }
    (zero, one, places)
}

/// Writes records of up to `PIPE_BUF` bytes; returns the length of each.
pub fn records(pipe: OwnedFd, way: Option<Way>, seed: u64, total: usize) -> Vec<usize> {
    let (mut writer, mut rng) = (writer(pipe, way), Rng(!seed));
    let (mut sent, mut lens) = (0, Vec::new());
    while sent < total {
        let len = rng.between(1, ATOMIC);
        let record = Sequence::tagged(seed, Tag::One).at(sent, len);
        let n = if rng.once_in(2) {
            writer.write(record)
        } else {
            writer.block(len).copy_from_slice(record);
            writer.commit(len).map(|()| len)
        };
        assert_eq!(n.expect("a reader"), len);
        sent += len;
        lens.push(len);
    }
    lens
}

/// Panics unless the records lie in one piece each.
#[track_caller]
pub fn check_whole(lens: &[usize], places: &[usize]) {
    let mut first = 0;
    for len in lens {
        let last = first + len - 1;
        assert_eq!(places[last] - places[first], len - 1, "a record was torn");
        first += len;
    }
}

/// The second writer sends large pieces or small records, the first anything.
fn two_writers(kind: Kind, seed: u64, records_only: bool) {
    let mut rng = Rng(seed);
    let (first, second) = (rng.pick(&WAYS), rng.pick(&WAYS));
    let (read_end, write_end) = calls::pipe().expect("a pipe");
    let _ = capacity::set(&write_end, 4096 << rng.below(9));
    let other_end = write_end.try_clone().expect("a descriptor");
    let total = 600_000;
    let feed = |seed, tag, pipe, way| {
        let mut feed = Feed::new(seed);
        feed.sequence = Sequence::tagged(seed, tag);
        feed.send(&mut writer(pipe, way), total).expect("a reader");
        feed.sent
    };
    thread::scope(|scope| {
        let one = scope.spawn(move || feed(seed, Tag::Zero, write_end, first));
        let two = scope.spawn(move || {
            if records_only {
                let lens = records(other_end, second, seed, total);
                (lens.iter().sum(), lens)
            } else {
                (feed(seed, Tag::One, other_end, second), Vec::new())
            }
        });
        let (zero, one_got, places) = sort(&collect(kind, &read_end, seed));
        let sent = one.join().expect("no panic");
        let (sent_two, lens) = two.join().expect("no panic");
        assert_eq!((zero.len(), one_got.len()), (sent, sent_two));
        Sequence::tagged(seed, Tag::Zero).check(0, &zero);
        Sequence::tagged(seed, Tag::One).check(0, &one_got);
        check_whole(&lens, &places);
    });
}

#[test]
fn bytes_of_each_of_two_writers_arrive_in_order() {
    for kind in [Kind::Copies, Kind::Onwards, Kind::Tees, Kind::Resizes] {
        for_each_seed(&format!("two_writers {kind:?}"), 0..20, |seed| {
            two_writers(kind, seed, false);
        });
    }
}

#[test]
fn records_up_to_pipe_buf_stay_whole_beside_large_writes() {
    for kind in [Kind::Copies, Kind::Onwards, Kind::Resizes] {
        for_each_seed(&format!("records {kind:?}"), 0..20, |seed| {
            two_writers(kind, seed, true);
        });
    }
}

/// Four threads, each with records of one byte value; a torn one would end early.
#[test]
fn writes_up_to_pipe_buf_from_several_threads_never_interleave() {
    for_each_seed("atomic", 0..12, |seed| {
        let (read_end, write_end) = calls::pipe().expect("a pipe");
        let way = Rng(seed).pick(&WAYS);
        let total = 400;
        let record = |thread: u8, len: usize| {
            let [low, high] = (len as u16).to_le_bytes();
            let mut record = vec![thread; len];
            record[..3].copy_from_slice(&[thread, low, high]);
            record
        };
        thread::scope(|scope| {
            for thread in 0..4 {
                let pipe = write_end.try_clone().expect("a descriptor");
                scope.spawn(move || {
                    let (mut writer, mut rng) = (writer(pipe, way), Rng(seed + u64::from(thread)));
                    for _ in 0..total {
                        let len = rng.between(3, ATOMIC);
                        let record = record(thread, len);
                        assert_eq!(writer.write(&record).expect("a reader"), len);
                    }
                });
            }
            drop(write_end);
            let all = collect(Kind::Copies, &read_end, seed);
            let (mut rest, mut seen) = (&all[..], 0);
            while let [thread, low, high, ..] = *rest {
                let len = usize::from(u16::from_le_bytes([low, high]));
                assert!((3..=ATOMIC).contains(&len) && len <= rest.len(), "torn");
                let (whole, behind) = rest.split_at(len);
                assert!(whole == record(thread, len), "record {seen} was torn");
                (rest, seen) = (behind, seen + 1);
            }
            assert_eq!((rest.len(), seen), (0, 4 * total));
        });
    });
}
