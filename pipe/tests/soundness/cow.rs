//! Memory that is written again: strangers that hold more than a pool, and many writers at once.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::thread;

use fullbore_sys::writer::{Unbuffered, Way};
use fullbore_sys::{calls, capacity};

use crate::feed::Feed;
use crate::readers::Own;
use crate::sequence::{Rng, Sequence};
use crate::watch::for_each_seed;
use crate::{is_to_be_had, skip};

const MIB: usize = 1 << 20;

/// Bytes that the long test sends: 1 GiB, or what the environment says.
fn total() -> usize {
    let asked = std::env::var("FULLBORE_TEST_MIB");
    asked.map_or(1024, |m| m.parse().expect("a number of MiB")) * MIB
}

/// Passes what it reads on into pipes of its own and keeps up to `most` of them full, the oldest of which it then compares.
/// Returns how many bytes came.
pub fn hold_and_compare(pipe: OwnedFd, sequence: Sequence, most: usize, mut rng: Rng) -> usize {
    let (mut held, mut at) = (VecDeque::new(), 0);
    let mut compare = |own: &mut Own| {
        own.show(usize::MAX, &mut |bytes| {
            sequence.compare(at, bytes)?;
            at += bytes.len();
            Ok(())
        })
    };
    loop {
        calls::poll(&pipe, fullbore_sys::wait::events(calls::End::Read), None).expect("poll");
        let mut own = Own::new();
        let mut ended = false;
        while let Some(n) = own.take(&pipe, MIB) {
            ended = n == 0;
            if ended || rng.once_in(4) {
                break;
            }
        }
        held.push_back(own);
        while held.len() > if ended { 0 } else { most } {
            let mut oldest = held.pop_front().expect("not empty");
            assert_eq!(compare(&mut oldest), Ok(()));
        }
        if ended {
            return at;
        }
    }
}

/// Whether this user may have so many pipes of 1 MiB.
pub fn may_hold(test: &str, pipes: usize) -> bool {
    let pipes: Vec<_> = (0..pipes).map(|_| calls::pipe().expect("a pipe")).collect();
    for (_, write_end) in &pipes {
        if let Err(e) = capacity::set(write_end, MIB) {
            skip(test, e);
            return false;
        }
    }
    true
}

#[test]
fn stranger_that_holds_more_than_a_pool_keeps_every_byte() {
    let test = "stranger_that_holds_more_than_a_pool";
    let pipes = 40;
    if !is_to_be_had(test, Some(Way::Cow)) || !may_hold(test, pipes) {
        return;
    }
    let sequence = Sequence::new(1);
    let (read_end, write_end) = calls::pipe().expect("a pipe");
    let reader = thread::spawn(move || hold_and_compare(read_end, sequence, pipes, Rng(1)));
    let writer = Unbuffered::new(write_end).with_way(Way::Cow);
    let mut writer = writer.with_pool(16 * MIB);
    let (mut sent, total) = (0, total());
    while sent < total {
        let block = writer.block(MIB);
        block.copy_from_slice(sequence.at(sent, MIB));
        writer.commit(MIB).expect("a reader");
        sent += MIB;
    }
    // Turns that are too dear on a busy machine may have led to copies for a while, but not for all of it.
    assert!(writer.bytes_by(Way::Cow) > 32 << 20, "{}", writer.path());
    drop(writer);
    assert_eq!(reader.join().expect("no panic"), sent);
}

/// The turns of one are those of all: pages are being filled while others make theirs.
#[test]
fn writers_in_many_threads_send_what_they_were_given() {
    let test = "writers_in_many_threads";
    if !is_to_be_had(test, Some(Way::Cow)) || !may_hold(test, 40) {
        return;
    }
    for_each_seed("8 writers", 0..3, |seed| {
        thread::scope(|scope| {
            for number in 0..8 {
                scope.spawn(move || {
                    let mut feed = Feed::new(seed * 8 + number);
                    let sequence = feed.sequence;
                    let (read_end, write_end) = calls::pipe().expect("a pipe");
                    let reader = thread::spawn(move || {
                        hold_and_compare(read_end, sequence, 4, Rng(!number))
                    });
                    let writer = Unbuffered::new(write_end).with_way(Way::Cow);
                    let mut writer = feed.maybe_ahead(writer.with_pool(4 * MIB));
                    feed.send(&mut writer, 24 * MIB).expect("a reader");
                    drop(writer);
                    assert_eq!(reader.join().expect("no panic"), feed.sent);
                });
            }
        });
    });
}
