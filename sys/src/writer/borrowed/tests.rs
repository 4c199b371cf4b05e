//! Lending when system calls fail, and what it would be without the turn and without the look.

use std::os::fd::OwnedFd;
use std::thread::JoinHandle;

use rustix::io::Errno;

use super::*;
use crate::calls::fault::{Call, LeaveOut, inject, leave_out};
use crate::calls::{self, SpliceFlags};
use crate::pages::{Pages, Request};
use crate::route::Route;
use crate::testing::sequence::{Rng, Sequence};
use crate::testing::watch::{for_each_seed, skip};

const MIB: usize = 1 << 20;

fn pages(len: usize) -> Pages {
    let request = Request {
        len,
        kind: PageKind::Huge,
        lock: false,
        fill: Some(0),
    };
    Pages::map(&request).unwrap()
}

fn fill(buffer: &mut [u8], sequence: Sequence, at: usize) {
    for (i, piece) in buffer.chunks_mut(MIB).enumerate() {
        piece.copy_from_slice(sequence.at(at + i * MIB, piece.len()));
    }
}

/// Splices everything into pipes of its own, and reads those when all has come.
fn holder(pipe: OwnedFd) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut held = Vec::new();
        loop {
            let (out, into) = calls::pipe().unwrap();
            let _ = crate::capacity::largest(&into);
            match calls::splice(&pipe, &into, MIB, SpliceFlags::empty()).unwrap() {
                0 => break,
                n => held.push((out, n)),
            }
        }
        let mut all = Vec::new();
        for (out, mut left) in held {
            while left > 0 {
                let at = all.len();
                all.resize(at + left, 0);
                let n = calls::read(&out, &mut all[at..]).unwrap();
                all.truncate(at + n);
                left -= n;
            }
        }
        all
    })
}

fn lender() -> (Unbuffered<OwnedFd>, JoinHandle<Vec<u8>>) {
    let (read_end, write_end) = calls::pipe().unwrap();
    (
        Unbuffered::new(write_end).with_way(Way::Cow),
        holder(read_end),
    )
}

/// Whether memory can be lent here; says so where it cannot. Finds out all that is found out once per process.
fn can_lend(test: &str) -> bool {
    let (mut writer, reader) = lender();
    writer.lend(&pages(4 * MIB)).unwrap();
    let (lent, path) = (writer.bytes_lent(), writer.path());
    drop(writer);
    reader.join().unwrap();
    if lent == 0 {
        skip(test, path);
    }
    lent > 0
}

/// Lends 6 MiB, writes to them at once, and says whether what a reader held meanwhile has changed.
fn arrives(mut buffer: Pages, left_out: &'static [LeaveOut]) -> Result<(), String> {
    let (mut writer, reader) = lender();
    let sequence = Sequence::new(1);
    fill(&mut buffer, sequence, 0);
    leave_out(left_out);
    let sent = writer.lend(&buffer).unwrap();
    buffer.fill(0xEE);
    leave_out(&[]);
    assert_eq!(sent, buffer.len());
    drop(writer);
    sequence.compare(0, &reader.join().unwrap())
}

/// The turn makes it sound where a forked child shares the memory, and the look finds where it does not: without either this
/// suite sees bytes change.
#[test]
fn without_the_turn_or_the_look_what_is_held_changes() {
    if !can_lend("without the turn or the look") {
        return;
    }
    let kept_from_children = || {
        let pages = pages(6 * MIB);
        let start = pages.as_ptr().cast_mut().cast();
        // SAFETY: our own mapping, whose contents stay as they are.
        let advised = unsafe { libc::madvise(start, 6 * MIB, libc::MADV_DONTFORK) };
        assert_eq!(advised, 0);
        pages
    };
    assert_eq!(arrives(pages(6 * MIB), &[]), Ok(()));
    assert_eq!(arrives(pages(6 * MIB), &[LeaveOut::Look]), Ok(()));
    assert_eq!(arrives(kept_from_children(), &[]), Ok(()));
    // The turn of another test, in this very moment, would do it as well.
    let changes = |_| arrives(pages(6 * MIB), &[LeaveOut::Turn]).is_err();
    assert!((0..10).any(changes));
    assert!(arrives(kept_from_children(), &[LeaveOut::Look]).is_err());
}

#[test]
fn child_that_is_refused_leaves_a_copy_and_the_reason() {
    if !can_lend("child that is refused") {
        return;
    }
    for errno in [Errno::AGAIN, Errno::NOMEM, Errno::PERM, Errno::NOSYS] {
        for call in [Call::Clone, Call::Wait] {
            let (mut writer, reader) = lender();
            let (sequence, mut buffer) = (Sequence::new(2), pages(6 * MIB));
            let faults = inject(move |asked, len| if asked == call { Err(errno) } else { Ok(len) });
            for time in 0..3 {
                fill(&mut buffer, sequence, time * 6 * MIB);
                assert_eq!(writer.lend(&buffer).unwrap(), 6 * MIB);
                buffer.fill(0xEE);
            }
            drop(faults);
            // A child that is lost after the look does not matter, except that there is no other one.
            let may_pass = [Errno::AGAIN, Errno::NOMEM].contains(&errno);
            let most = match call {
                Call::Clone => 0,
                _ if may_pass => 18 << 20,
                _ => 6 << 20,
            };
            assert!(writer.bytes_lent() <= most, "{}", writer.path());
            let before = writer.bytes_lent();
            let path = writer.path();
            let name = if call == Call::Clone {
                "clone"
            } else {
                "waitid"
            };
            let why = Reason::Refused {
                call: name,
                errno: errno.raw_os_error(),
            };
            assert!(path.fallbacks.contains(&(Route::Lent, why)), "{path}");
            // What may pass is asked for again, other reasons are for good.
            let mut sent = 18 * MIB;
            for _ in 0..if may_pass { 50 } else { 5 } {
                std::thread::sleep(PAUSE.start * 2);
                fill(&mut buffer, sequence, sent);
                sent += writer.lend(&buffer).unwrap();
                if writer.bytes_lent() > before {
                    break; // not at once, where the turns of other tests make small pages of it
                }
            }
            assert_eq!(writer.bytes_lent() > before, may_pass, "{}", writer.path());
            drop(writer);
            let got = reader.join().unwrap();
            assert_eq!(got.len(), sent);
            sequence.check(0, &got);
        }
    }
}

#[test]
fn faults_at_random_points_never_alter_repeat_or_lose_a_byte() {
    if !can_lend("faults at random points") {
        return;
    }
    const CALLS: [Call; 9] = [
        Call::Vmsplice,
        Call::Splice,
        Call::Clone,
        Call::Wait,
        Call::Poll,
        Call::Write,
        Call::Pipe,
        Call::Mmap,
        Call::MadviseCollapse,
    ];
    const ERRORS: [Errno; 6] = [
        Errno::INTR,
        Errno::AGAIN,
        Errno::PERM,
        Errno::INVAL,
        Errno::NOBUFS,
        Errno::NOMEM,
    ];
    for_each_seed("lend, faults", 0..40, |seed| {
        let mut rng = Rng(seed);
        let (mut writer, reader) = lender();
        let (sequence, mut buffer, mut sent) = (Sequence::new(seed), pages(7 * MIB), 0);
        let mut plan = Rng(!seed);
        let (often, only) = (plan.pick(&[3, 10, 50]), plan.pick(&CALLS));
        let all = plan.once_in(2);
        let faults = inject(move |call, len| {
            if !(all || call == only) || !plan.once_in(often) {
                return Ok(len);
            }
            match plan.pick(&ERRORS) {
                _ if len > 1 && plan.once_in(2) => Ok(plan.between(1, len)),
                Errno::AGAIN if call == Call::Poll => Err(Errno::NOMEM), // poll(2) knows no EAGAIN
                errno => Err(errno),
            }
        });
        while sent < 20 * MIB {
            let from = rng.below(MIB);
            let part = &mut buffer[from..];
            fill(part, sequence, sent);
            sent += writer.lend(part).unwrap_or(0);
            part.fill(0xEE);
        }
        drop(faults);
        let path = writer.path();
        let counted: u64 = Way::ALL.map(|way| writer.bytes_by(way)).iter().sum();
        assert_eq!(counted + writer.bytes_lent(), sent as u64, "{path}");
        drop(writer);
        let got = reader.join().unwrap();
        assert_eq!(got.len(), sent, "{path}");
        sequence.check(0, &got);
    });
}

#[test]
fn same_bytes_may_be_lent_again_while_they_are_held() {
    if !can_lend("same bytes may be lent again") {
        return;
    }
    let (mut writer, reader) = lender();
    let (sequence, mut buffer) = (Sequence::new(3), pages(4 * MIB));
    fill(&mut buffer, sequence, 0);
    for _ in 0..5 {
        assert_eq!(writer.lend(&buffer).unwrap(), 4 * MIB);
    }
    buffer.fill(0xEE);
    drop(writer);
    let got = reader.join().unwrap();
    assert_eq!(got.len(), 20 * MIB);
    got.chunks(4 * MIB).for_each(|time| sequence.check(0, time));
}

/// A page that was held when it was written to becomes small ones, and is lent again all the same.
#[test]
fn memory_that_became_small_pages_is_lent_again() {
    if !can_lend("memory that became small pages") {
        return;
    }
    let mut buffer = pages(4 * MIB);
    let (read_end, write_end) = calls::pipe().unwrap();
    let (mut writer, reader) = (
        Unbuffered::new(write_end).with_way(Way::Cow),
        holder(read_end),
    );
    let mut times = 0..20_u8;
    for time in times.by_ref() {
        buffer.fill(time); // all of what was sent before is held
        writer.lend(&buffer).unwrap();
        // The turns of other tests may get in the way.
        if writer.bytes_lent() >= 16 << 20 {
            break;
        }
    }
    assert!(writer.bytes_lent() >= 16 << 20, "{}", writer.path());
    drop(writer);
    let got = reader.join().unwrap();
    assert_eq!(got.len(), usize::from(times.start) * 4 * MIB);
    for (time, bytes) in got.chunks(4 * MIB).enumerate() {
        assert!(bytes.iter().all(|&b| usize::from(b) == time));
    }
}

#[test]
fn memory_that_was_refused_is_not_asked_about_for_a_while() {
    let mut lending = Lending::default();
    lending.refuse_memory(100..200, "small");
    assert!(lending.is_refused(&(150..300)).is_some());
    assert!(lending.is_refused(&(200..300)).is_none());
    std::thread::sleep(PAUSE.start);
    assert!(lending.is_refused(&(150..300)).is_none(), "asked again");
    lending.refuse_memory(150..300, "small");
    std::thread::sleep(PAUSE.start);
    assert!(lending.is_refused(&(100..200)).is_some(), "twice as long");
    for i in 0..2 * REMEMBERED {
        lending.refuse_memory(1000 * i..1000 * i + 1, "small");
    }
    assert_eq!(lending.memory.len(), REMEMBERED);
    lending.refuse_all(&Error::new("no child", "forbidden", ""));
    assert!(lending.is_refused(&(1..2)).is_some());
}
