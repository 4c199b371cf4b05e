//! What a writer does when system calls fail, fall short or are refused: what arrives is what it said was taken.

use std::os::fd::OwnedFd;

use rustix::io::Errno;

use super::*;
use crate::calls::SpliceFlags;
use crate::calls::fault::{Call, LeaveOut, inject, leave_out};
use crate::probe;
use crate::testing::feed::{Feed, reader, set_nonblocking};
use crate::testing::sequence::{Rng, Sequence};
use crate::testing::watch::{for_each_seed, skip};
use crate::{calls, capacity};

const WAYS: [Option<Way>; 5] = [
    None,
    Some(Way::Cow),
    Some(Way::Fresh),
    Some(Way::Fat),
    Some(Way::Copy),
];

/// What may go wrong with a call that moves bytes, or readies something to move them.
const ERRORS: [Errno; 7] = [
    Errno::INTR,
    Errno::AGAIN,
    Errno::PERM,
    Errno::NOSYS,
    Errno::INVAL,
    Errno::NOBUFS,
    Errno::NOMEM,
];

/// Lets calls fail or fall short at random: seldom or often, all of them or one kind, by any error or only by such as
/// mean "again".
fn at_random(mut rng: Rng) -> impl FnMut(Call, usize) -> Result<usize, Errno> {
    let often = rng.pick(&[2, 5, 20, 200]);
    let errors = rng.pick(&[&ERRORS[..], &ERRORS[..2]]);
    let calls = [
        Call::Write,
        Call::Vmsplice,
        Call::Send,
        Call::Splice,
        Call::Poll,
    ];
    let only = rng.once_in(2).then(|| rng.pick(&calls));
    move |call, len| match rng.below(often) {
        0 if only.is_some_and(|only| only != call) => Ok(len),
        0 if len > 1 && rng.once_in(2) => Ok(rng.between(1, len)),
        0 => match rng.pick(errors) {
            Errno::AGAIN if call == Call::Poll => Err(Errno::NOMEM), // poll(2) knows no EAGAIN
            errno => Err(errno),
        },
        _ => Ok(len),
    }
}

/// Facts about the kernel are found out once per process, and must not be found out while faults are injected.
fn probe_first() {
    let _ = (
        probe::cow_refusal(),
        probe::fresh_refusal(),
        probe::fat_refusal(),
    );
}

#[test]
fn faults_at_random_points_never_alter_repeat_or_lose_a_byte() {
    for way in WAYS {
        for_each_seed(&format!("faults, {way:?}"), 0..300, |seed| {
            probe_first();
            let mut feed = Feed::new(seed);
            let (read_end, write_end) = calls::pipe().unwrap();
            let capacity = 4096 << feed.rng.below(8);
            capacity::set(&write_end, capacity).unwrap();
            feed.faults = true;
            feed.blocking = !feed.rng.once_in(3);
            if !feed.blocking {
                set_nonblocking(&write_end);
            }
            let reader = reader(read_end, feed.rng.between(1000, 300_000));
            let waits = [Wait::Adaptive, Wait::Block, Wait::Spin];
            let writer = Unbuffered::new(write_end).with_wait(feed.rng.pick(&waits));
            let mut writer = feed.maybe_ahead(writer);
            writer.forced = way;
            writer.keep_capacity = feed.rng.once_in(2);
            if feed.rng.once_in(2) {
                writer.path();
            }
            let faults = inject(at_random(Rng(!seed)));
            feed.send(&mut writer, 1_500_000).unwrap();
            drop(faults);
            let path = writer.path();
            let counted: u64 = Way::ALL.map(|w| writer.bytes_by(w)).iter().sum();
            drop(writer);
            let got = reader.join().unwrap();
            assert_eq!(got.len(), feed.sent, "{path}");
            assert_eq!(counted, feed.sent as u64, "{path}");
            feed.sequence.check(0, &got);
            let refused = |way: Way| path.fallbacks.iter().any(|(r, _)| *r == way.route());
            let wanted = match way {
                None => vec![Way::Fresh, Way::Fat],
                Some(way) => vec![way],
            };
            for w in wanted {
                assert!(
                    path.way != Way::Copy || w == Way::Copy || refused(w),
                    "{path:?}"
                );
            }
        });
    }
}

/// Forces `way`, sends 10 MiB in pieces of `len`, in place or not, and returns how that went.
fn send(way: Option<Way>, len: usize, in_place: bool) -> Path {
    send_ahead(way, len, in_place, 0)
}

/// The same, with so many bytes that may wait.
fn send_ahead(way: Option<Way>, len: usize, in_place: bool, ahead: usize) -> Path {
    let (read_end, write_end) = calls::pipe().unwrap();
    let reader = reader(read_end, 1 << 20);
    let mut writer = Unbuffered::new(write_end);
    if ahead > 0 {
        writer = writer.with_ahead(ahead);
    }
    writer.forced = way;
    let sequence = Sequence::new(1);
    let mut sent = 0;
    while sent < 10 << 20 {
        sent += if in_place {
            writer.block(len).copy_from_slice(sequence.at(sent, len));
            writer.commit(len).unwrap();
            len
        } else {
            writer.write(sequence.at(sent, len)).unwrap()
        };
    }
    writer.flush().unwrap();
    let path = writer.path();
    let counted: u64 = Way::ALL.map(|w| writer.bytes_by(w)).iter().sum();
    assert_eq!(counted, sent as u64, "{path}");
    drop(writer);
    let got = reader.join().unwrap();
    assert_eq!(got.len(), sent);
    sequence.check(0, &got);
    path
}

/// The calls of a kind fail, after the first few.
fn refuse(
    calls: &'static [Call],
    after: usize,
    errno: Errno,
) -> impl FnMut(Call, usize) -> Result<usize, Errno> {
    let mut allowed = after;
    move |call, len| {
        if !calls.contains(&call) {
            return Ok(len);
        }
        if allowed == 0 {
            return Err(errno);
        }
        allowed -= 1;
        Ok(len)
    }
}

#[test]
fn what_is_refused_half_way_goes_the_next_way_with_the_reason() {
    probe_first();
    let refusals: [(&[Call], Way); 5] = [
        (&[Call::Vmsplice], Way::Fresh),
        (&[Call::MadviseDontneed, Call::Mmap], Way::Fresh),
        (&[Call::Send], Way::Fat),
        (&[Call::Splice], Way::Fat),
        (&[Call::Socketpair], Way::Fat),
    ];
    for (calls, way) in refusals {
        if send(Some(way), 1 << 20, false).way != way {
            skip(
                "what_is_refused_half_way",
                format_args!("{way} is refused here anyway"),
            );
            continue;
        }
        for errno in ERRORS {
            let says_that_the_pipe_is_full =
                errno == Errno::AGAIN && matches!(calls, [Call::Vmsplice | Call::Splice]);
            if errno == Errno::INTR || says_that_the_pipe_is_full {
                continue; // tried again for ever
            }
            for (after, in_place, ahead) in [
                (0, false, 0),
                (0, true, 0),
                (1, false, 0),
                (2, true, 0),
                (3, false, 0),
                (0, false, 3 << 20),
                (2, true, 3 << 20),
                (1, false, 3 << 20),
            ] {
                let case = format!(
                    "{calls:?} after {after}: {errno:?}, in place: {in_place}, ahead: {ahead}"
                );
                let faults = inject(refuse(calls, after, errno));
                let path = send_ahead(Some(way), 100_000, in_place, ahead);
                drop(faults);
                if calls == [Call::Socketpair] && after > 0 {
                    assert_eq!(path.way, way, "{case}: one is enough");
                    continue;
                }
                assert_eq!(path.way, Way::Copy, "{case}");
                let [(refused, reason)] = &path.fallbacks[..] else {
                    panic!("{case}: {path:?}");
                };
                // No room in an empty socket is no memory; `EAGAIN` would be about the pipe.
                let errno = match (calls, errno) {
                    ([Call::Send], Errno::AGAIN) => Errno::NOBUFS,
                    _ => errno,
                };
                let text = io::Error::from(errno).to_string();
                let text = text.split(" (os").next().unwrap();
                let reason = reason.to_string();
                assert!(
                    *refused == way.route() && reason.contains(text),
                    "{case}: {path}"
                );
            }
        }
    }
}

#[test]
fn bytes_are_counted_by_the_way_they_went() {
    probe_first();
    let (read_end, write_end) = calls::pipe().unwrap();
    let reader = reader(read_end, 1 << 20);
    let mut writer = Unbuffered::new(write_end).with_way(Way::Fat);
    if writer.path().way != Way::Fat {
        return skip("bytes_are_counted", writer.path());
    }
    let bytes = vec![1; 256 << 10];
    writer.write_all(&bytes).unwrap();
    writer.write_all(&bytes[..100]).unwrap();
    let faults = inject(refuse(&[Call::Send], 0, Errno::PERM));
    writer.write_all(&bytes).unwrap();
    drop(faults);
    writer.block(200);
    writer.commit(200).unwrap();
    let by = [Way::Fresh, Way::Fat, Way::Copy].map(|way| writer.bytes_by(way));
    assert_eq!(by, [0, 256 << 10, (256 << 10) + 300]);
    drop(writer);
    reader.join().unwrap();
}

/// Moves what is in a pipe on into another of its own, slot by slot, and keeps it there.
fn hold(pipe: &OwnedFd) -> OwnedFd {
    let (held, into) = calls::pipe().unwrap();
    let _ = capacity::largest(&into);
    let nonblocking = SpliceFlags::NONBLOCK;
    while calls::splice(pipe, &into, 1 << 30, nonblocking).is_ok() {}
    held
}

/// Longer than it takes to go round all pages of the writer, whether these can be abandoned or not.
#[test]
fn what_is_held_for_long_does_not_change() {
    for way in [Way::Cow, Way::Fresh, Way::Fat] {
        what_is_held_for_long_arrives(way, &[]);
    }
    what_is_held_for_long_arrives(Way::Fresh, &[Call::MadviseDontneed]);
}

fn what_is_held_for_long_arrives(way: Way, refused: &'static [Call]) {
    assert_eq!(what_is_held_for_long(way, refused), Ok(()));
}

/// Sends 20 MiB that a reader passes on and keeps; the error says what it has in the end.
fn what_is_held_for_long(way: Way, refused: &'static [Call]) -> Result<(), String> {
    probe_first();
    let (read_end, write_end) = calls::pipe().unwrap();
    set_nonblocking(&write_end);
    let writer = Unbuffered::new(write_end);
    let mut writer = writer.with_way(way).with_pool(4 << 20);
    let before = writer.path();
    let faults = inject(refuse(refused, 0, Errno::INVAL));
    let sequence = Sequence::new(2);
    let (mut sent, mut held) = (0, Vec::new());
    while sent < 20 << 20 {
        sent += writer.write(sequence.at(sent, 1 << 20)).unwrap();
        held.push(hold(&read_end));
    }
    drop(faults);
    assert_eq!(writer.path().way, before.way, "{}", writer.path());
    let got: Vec<u8> = held
        .into_iter()
        .flat_map(|held| reader(held, 1 << 20).join().unwrap())
        .collect();
    assert_eq!(got.len(), sent);
    sequence.compare(0, &got)
}

/// The turn makes `cow` sound, and the look at who holds a page makes it fast: without the look nothing changes, without the
/// turn this suite sees it.
#[test]
fn pool_without_its_turn_changes_what_is_held_and_without_its_look_does_not() {
    probe_first();
    let ready = Unbuffered::new(calls::pipe().unwrap().1)
        .with_way(Way::Cow)
        .path();
    if ready.way != Way::Cow {
        return skip("pool without its turn", ready);
    }
    let arrives = |left_out| {
        leave_out(left_out);
        let result = what_is_held_for_long(Way::Cow, &[]);
        leave_out(&[]);
        result
    };
    assert_eq!(arrives(&[]), Ok(()));
    assert_eq!(arrives(&[LeaveOut::Look]), Ok(()));
    assert!(arrives(&[LeaveOut::Turn, LeaveOut::Look]).is_err());
}

#[test]
fn child_that_is_refused_half_way_leaves_another_way() {
    probe_first();
    for errno in [Errno::AGAIN, Errno::NOMEM, Errno::PERM, Errno::NOSYS] {
        for call in [Call::Clone, Call::Wait] {
            let (read_end, write_end) = calls::pipe().unwrap();
            let reader = reader(read_end, 1 << 20);
            let mut writer = Unbuffered::new(write_end).with_way(Way::Cow).with_pool(1);
            if writer.path().way != Way::Cow {
                return skip("child that is refused", writer.path());
            }
            let faults = inject(refuse(
                if call == Call::Clone {
                    &[Call::Clone]
                } else {
                    &[Call::Wait]
                },
                2,
                errno,
            ));
            let (sequence, mut sent) = (Sequence::new(5), 0);
            while sent < 20 << 20 {
                sent += writer.write(sequence.at(sent, 1 << 20)).unwrap();
            }
            drop(faults);
            let path = writer.path();
            assert!(writer.bytes_by(Way::Cow) > 0 && writer.bytes_by(Way::Copy) > 0);
            // Where something ran out it may have been asked for again.
            if call == Call::Clone && [Errno::PERM, Errno::NOSYS].contains(&errno) {
                assert_eq!(path.way, Way::Copy, "{path}");
                let why = Reason::Refused {
                    call: "clone",
                    errno: errno.raw_os_error(),
                };
                assert!(
                    path.fallbacks.contains(&(Route::CopyOnWrite, why)),
                    "{path}"
                );
            }
            drop(writer);
            let got = reader.join().unwrap();
            assert_eq!(got.len(), sent);
            sequence.check(0, &got);
        }
    }
}

#[test]
fn what_a_full_pipe_did_not_take_is_not_sent_later_by_a_socket_that_cannot_be_replaced() {
    probe_first();
    let (read_end, write_end) = calls::pipe().unwrap();
    set_nonblocking(&write_end);
    let mut writer = Unbuffered::new(write_end)
        .with_way(Way::Fat)
        .keep_capacity();
    writer.path();
    let faults = inject(refuse(&[Call::Socketpair], 0, Errno::MFILE));
    let sequence = Sequence::new(3);
    // Slots that are not full: the pipe takes less than its free bytes.
    let (out, into) = calls::pipe().unwrap();
    let mut sent = 0;
    while sent < 14 {
        calls::write(&into, sequence.at(sent, 1)).unwrap();
        sent += calls::splice(&out, writer.get_ref(), 1, SpliceFlags::NONBLOCK).unwrap();
    }
    loop {
        match writer.write(sequence.at(sent, 1 << 20)) {
            Ok(n) => sent += n,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
            Err(e) => panic!("{e}"),
        }
    }
    drop(faults);
    let path = writer.path();
    drop(writer);
    let got = reader(read_end, 1 << 20).join().unwrap();
    assert_eq!(got.len(), sent, "{path}");
    sequence.check(0, &got);
    assert_eq!(path.way, Way::Copy, "{path}");
    let text = io::Error::from(Errno::MFILE).to_string();
    let why = text.split(" (os").next().unwrap();
    assert!(path.to_string().contains(why), "{path}");
}

/// Remembers the longest piece that was copied into a socket or offered to the pipe.
fn watch_moves() -> (std::rc::Rc<std::cell::Cell<usize>>, impl Drop) {
    let most = std::rc::Rc::new(std::cell::Cell::new(0));
    let seen = most.clone();
    let faults = inject(move |call, len| {
        if matches!(call, Call::Send | Call::Vmsplice) {
            seen.set(seen.get().max(len));
        }
        Ok(len)
    });
    (most, faults)
}

#[test]
fn pipe_that_does_not_block_is_asked_for_room_before_bytes_are_copied() {
    probe_first();
    for way in [Way::Fresh, Way::Fat] {
        let (read_end, write_end) = calls::pipe().unwrap();
        set_nonblocking(&write_end);
        let mut writer = Unbuffered::new(write_end).with_way(way).keep_capacity();
        if writer.path().way != way {
            skip("asked for room", writer.path());
            continue;
        }
        let capacity = writer.path().capacity.unwrap();
        let bytes = vec![1; 1 << 20];
        let (most, _faults) = watch_moves();
        assert_eq!(writer.write(&bytes).unwrap(), capacity);
        assert!(most.get() <= capacity, "{way}: {} bytes", most.get());
        while writer.write(&bytes).is_ok() {}
        most.set(0);
        for _ in 0..3 {
            let error = writer.write(&bytes).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        }
        assert_eq!(most.get(), 0, "{way}: the pipe is full");
        assert_eq!(calls::read(&read_end, &mut [0; 40_000]).unwrap(), 40_000);
        assert!(writer.write(&bytes).unwrap() > 0);
        assert!(most.get() <= 40_000, "{way}: {} bytes", most.get());
    }
}

#[test]
fn commit_that_fails_in_the_middle_keeps_the_rest_and_says_so() {
    probe_first();
    for way in WAYS {
        let (read_end, write_end) = calls::pipe().unwrap();
        set_nonblocking(&write_end);
        let mut writer = Unbuffered::new(write_end);
        writer.forced = way;
        let (sequence, len) = (Sequence::new(7), 1 << 20);
        writer.keep_capacity = true;
        writer.block(len).copy_from_slice(sequence.at(0, len));
        let error = writer.commit(len).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock, "{way:?}");
        let in_pipe = calls::bytes_in_pipe(&read_end).unwrap() as usize;
        assert!(in_pipe > 0);
        assert_eq!(writer.uncommitted(), len - in_pipe, "{way:?}");
        let mut got = Vec::new();
        let mut buffer = vec![0; 50_000];
        while writer.commit(writer.uncommitted()).is_err() {
            let n = calls::read(&read_end, &mut buffer).unwrap();
            got.extend_from_slice(&buffer[..n]);
        }
        assert_eq!(writer.uncommitted(), 0);
        drop(writer);
        got.extend(reader(read_end, 50_000).join().unwrap());
        assert_eq!(got.len(), len, "{way:?}");
        sequence.check(0, &got);
        // An error that is no `WouldBlock`, after some bytes have moved: not `Ok` with less.
        let (read_end, write_end) = calls::pipe().unwrap();
        set_nonblocking(&write_end);
        let mut writer = Unbuffered::new(write_end);
        writer.forced = way;
        writer.keep_capacity = true;
        writer.block(len).fill(1);
        writer.commit(500_000).unwrap_err();
        let left = writer.uncommitted();
        drop(read_end);
        let error = writer.commit(left).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe, "{way:?}");
        assert_eq!(writer.uncommitted(), left);
    }
}

/// The next stretch of blocks goes in place and nothing is written into them: the pages must be real ones all the same.
#[test]
fn blocks_that_nobody_has_touched_are_huge_pages() {
    probe_first();
    let (read_end, write_end) = calls::pipe().unwrap();
    let reader = reader(read_end, 1 << 20);
    let mut writer = Unbuffered::new(write_end).with_way(Way::Fresh);
    let before = writer.path();
    for _ in 0..100 {
        let len = writer.block(1 << 20).len();
        writer.commit(len).unwrap();
    }
    assert_eq!(writer.path().way, before.way, "{}", writer.path());
    drop(writer);
    assert_eq!(reader.join().unwrap().len(), 100 << 20);
}

#[test]
fn memory_that_a_fork_would_share_is_not_lent() {
    probe_first();
    let faults = inject(refuse(&[Call::MadviseWipeonfork], 0, Errno::INVAL));
    let path = send(Some(Way::Fresh), 1 << 20, true);
    drop(faults);
    assert_eq!(path.way, Way::Copy);
    let why = "madvise(MADV_WIPEONFORK): Invalid argument";
    assert!(path.to_string().contains(why), "{path}");
}

#[test]
fn what_is_refused_for_lack_of_something_is_asked_for_again() {
    probe_first();
    let (read_end, write_end) = calls::pipe().unwrap();
    let reader = reader(read_end, 1 << 20);
    let mut writer = Unbuffered::new(write_end).with_way(Way::Fat);
    if writer.path().way != Way::Fat {
        return skip("asked for again", writer.path());
    }
    let (sequence, mut sent) = (Sequence::new(4), 0);
    let mut write = |writer: &mut Unbuffered<_>| {
        let n = writer.write(sequence.at(sent, 1 << 20)).unwrap();
        sent += n;
    };
    let faults = inject(refuse(&[Call::Send], 0, Errno::NOBUFS));
    write(&mut writer);
    drop(faults);
    let path = writer.path();
    assert_eq!(path.way, Way::Copy);
    assert_eq!(path.fallbacks.len(), 1, "{path}");
    while writer.path().way != Way::Fat {
        write(&mut writer);
    }
    assert_eq!(writer.path().fallbacks, [], "{}", writer.path());
    write(&mut writer);
    drop(writer);
    let got = reader.join().unwrap();
    assert_eq!(got.len(), sent);
    sequence.check(0, &got);
}
