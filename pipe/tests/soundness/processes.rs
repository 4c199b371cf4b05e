//! Writers that fork, exec, are dropped or killed while their data is in flight.

use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use fullbore_sys::calls;
use fullbore_sys::wait::Wait;
use rustix::process::{
    Pid, Signal, WaitOptions, kill_process, set_parent_process_death_signal, waitpid,
};

use crate::feed::Feed;
use crate::readers::{self, Kind, Own};
use crate::schedules::Beside;
use crate::sequence::{Rng, Sequence, Tag};
use crate::two::{collect, sort};
use crate::watch::for_each_seed;
use crate::{WAYS, is_to_be_had, writer};

/// Runs `child` in a forked process, which then ends.
pub fn fork(child: impl FnOnce()) -> Pid {
    // SAFETY: the child runs only code of this test, which takes no lock that another thread of this process may hold:
    // the allocator puts its own right at fork, and all else that is shared was ready before.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        // A child that waits for a parent that failed would wait for ever.
        let _ = set_parent_process_death_signal(Some(Signal::KILL));
        let ended_well = catch_unwind(AssertUnwindSafe(child)).is_ok();
        // SAFETY: ends the process without running anything that belongs to the parent.
        unsafe { libc::_exit(if ended_well { 0 } else { 101 }) }
    }
    Pid::from_raw(pid).expect("fork")
}

/// Makes `fd` another descriptor of the pipe that `to` is one of.
pub fn redirect(fd: &OwnedFd, to: &OwnedFd) {
    // SAFETY: `fd` is replaced while its owner lives on, and stays open.
    let new = unsafe { libc::dup2(to.as_raw_fd(), fd.as_raw_fd()) };
    assert_eq!(new, fd.as_raw_fd());
}

/// Waits for a child and fails if it did.
pub fn finish(child: Pid) {
    let ended = waitpid(Some(child), WaitOptions::empty()).expect("a child");
    let (_, status) = ended.expect("it has ended");
    assert_eq!(status.exit_status(), Some(0), "{status:?}");
}

/// A thread that reads the sequence from its `start`th byte on, as a reader of this kind; it returns how many bytes came.
pub fn read_from(kind: Kind, pipe: OwnedFd, sequence: Sequence, start: usize) -> JoinHandle<usize> {
    thread::spawn(move || {
        let mut at = start;
        let result = readers::read(kind, &pipe, Rng(start as u64), &mut |bytes| {
            sequence.compare(at, bytes)?;
            at += bytes.len();
            Ok(())
        });
        assert_eq!(result, Ok(()));
        at - start
    })
}

/// Fills memory, so that pages which were given back are used again and show it.
fn use_freed_pages() {
    std::hint::black_box(vec![0xA5_u8; 64 << 20]);
    let (read_end, write_end) = calls::pipe().expect("a pipe");
    let mut other = Feed::new(u64::MAX);
    let reader = read_from(Kind::Copies, read_end, other.sequence, 0);
    other
        .send(&mut writer(write_end, None), 6 << 20)
        .expect("a reader");
    assert_eq!(reader.join().expect("no panic"), other.sent);
}

/// Splices the pipe onwards until `pipes` of our own are full, or it has ended.
fn hold(pipe: &OwnedFd, pipes: usize) -> Vec<Own> {
    let mut held = Vec::new();
    while held.len() < pipes {
        let mut own = Own::new();
        loop {
            calls::poll(pipe, fullbore_sys::wait::events(calls::End::Read), None).expect("poll");
            match own.take(pipe, 1 << 20) {
                Some(0) => {
                    held.push(own);
                    return held;
                }
                Some(_) => {}
                None => break,
            }
        }
        held.push(own);
    }
    held
}

/// Checks what is held, and returns its length.
fn check_held(held: &mut [Own], sequence: Sequence) -> usize {
    let mut at = 0;
    for own in held {
        let shown = own.show(usize::MAX, &mut |bytes| {
            sequence.compare(at, bytes)?;
            at += bytes.len();
            Ok(())
        });
        assert_eq!(shown, Ok(()));
    }
    at
}

#[test]
fn both_sides_of_a_fork_go_on_in_pipes_of_their_own() {
    alone!();
    for way in WAYS {
        for_each_seed(&format!("fork {way:?}"), 0..25, |seed| {
            let mut feed = Feed::new(seed);
            let sequence = feed.sequence;
            let (read_end, write_end) = calls::pipe().expect("a pipe");
            let (read_childs, childs) = calls::pipe().expect("a pipe");
            let mut writer = feed.maybe_ahead(writer(write_end, way));
            let total = feed.rng.between(1, 3 << 20);
            let before = feed.rng.between(1, total);
            let reader = read_from(Kind::Onwards, read_end, sequence, 0);
            feed.send(&mut writer, before).expect("a reader");
            let start = feed.sent;
            let child = fork(|| {
                // As a shell redirects: the writer has the same descriptor, which now is another pipe.
                redirect(writer.get_ref(), &childs);
                feed.rng = Rng(!seed);
                feed.send(&mut writer, start + total).expect("a reader");
            });
            drop(childs);
            let of_child = read_from(Kind::Onwards, read_childs, sequence, start);
            feed.send(&mut writer, start + total).expect("a reader");
            drop(writer);
            finish(child);
            assert_eq!(of_child.join().expect("no panic"), total);
            assert_eq!(reader.join().expect("no panic"), start + total);
        });
    }
}

#[test]
fn both_sides_of_a_fork_go_on_in_the_same_pipe() {
    alone!();
    for way in WAYS {
        for_each_seed(&format!("fork, one pipe {way:?}"), 0..10, |seed| {
            let mut feed = Feed::new(seed);
            feed.sequence = Sequence::tagged(seed, Tag::Zero);
            Sequence::tagged(seed, Tag::One).at(0, 1); // ready before the fork
            let (read_end, write_end) = calls::pipe().expect("a pipe");
            let mut writer = writer(write_end, way);
            let total = 500_000;
            let reader = thread::spawn(move || collect(Kind::Onwards, &read_end, seed));
            let before = feed.rng.between(1, total);
            feed.send(&mut writer, before).expect("a reader");
            let child = fork(|| {
                let mut feed = Feed::new(!seed);
                feed.sequence = Sequence::tagged(seed, Tag::One);
                feed.send(&mut writer, total).expect("a reader");
            });
            feed.send(&mut writer, total).expect("a reader");
            drop(writer);
            finish(child);
            let (zero, one, _) = sort(&reader.join().expect("no panic"));
            assert_eq!((zero.len(), one.len()), (total, total));
            Sequence::tagged(seed, Tag::Zero).check(0, &zero);
            Sequence::tagged(seed, Tag::One).check(0, &one);
        });
    }
}

/// The children of this process will be in a pid namespace of their own, the first of them number 1.
fn new_pid_namespace() -> std::io::Result<()> {
    // SAFETY: takes no pointers.
    match unsafe { libc::unshare(libc::CLONE_NEWPID) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

#[test]
fn sides_of_a_fork_that_have_the_same_number_go_on_in_pipes_of_their_own() {
    alone!();
    let mut allowed = true;
    let asked = fork(|| new_pid_namespace().expect("allowed"));
    if let Some((_, status)) = waitpid(Some(asked), WaitOptions::empty()).expect("a child") {
        allowed = status.exit_status() == Some(0);
    }
    if !allowed {
        return crate::skip(
            "sides_of_a_fork_that_have_the_same_number",
            "no namespaces here",
        );
    }
    let total = 3 << 20;
    for way in WAYS {
        for_each_seed(&format!("fork, same number {way:?}"), 0..10, |seed| {
            let mut feed = Feed::new(seed);
            let sequence = feed.sequence;
            let start = feed.rng.between(1, total);
            let (read_end, write_end) = calls::pipe().expect("a pipe");
            let (read_childs, childs) = calls::pipe().expect("a pipe");
            let outside = fork(|| {
                new_pid_namespace().expect("allowed");
                finish(fork(|| {
                    assert_eq!(std::process::id(), 1);
                    let mut writer = writer(write_end, way);
                    feed.send(&mut writer, start).expect("a reader");
                    new_pid_namespace().expect("allowed");
                    let child = fork(|| {
                        assert_eq!(std::process::id(), 1);
                        redirect(writer.get_ref(), &childs);
                        feed.rng = Rng(!seed);
                        feed.send(&mut writer, start + total).expect("a reader");
                    });
                    feed.send(&mut writer, start + total).expect("a reader");
                    finish(child);
                }));
            });
            drop(childs);
            let of_child = read_from(Kind::Onwards, read_childs, sequence, start);
            let reader = read_from(Kind::Onwards, read_end, sequence, 0);
            finish(outside);
            assert_eq!(of_child.join().expect("no panic"), total);
            assert_eq!(reader.join().expect("no panic"), start + total);
        });
    }
}

#[test]
fn block_that_is_open_at_a_fork_stays_with_the_parent() {
    alone!();
    for way in WAYS {
        let len = 50_000; // fits into a pipe
        let bytes = Sequence::new(1).at(0, len);
        let (read_end, write_end) = calls::pipe().expect("a pipe");
        let (read_childs, childs) = calls::pipe().expect("a pipe");
        let mut writer = writer(write_end, way);
        writer.block(len).copy_from_slice(bytes);
        finish(fork(|| {
            redirect(writer.get_ref(), &childs);
            writer.commit(len).expect("room");
            // Were it the parent's page, this would show there.
            writer.block(len).fill(0);
            writer.commit(1).expect("room");
        }));
        writer.commit(len).expect("room");
        drop((writer, childs));
        let childs = collect(Kind::Copies, &read_childs, 1);
        assert_eq!(childs.len(), len + 1);
        assert!(
            childs[..len] == *bytes || childs.iter().all(|&b| b == 0),
            "{way:?}"
        );
        assert!(collect(Kind::Copies, &read_end, 1) == bytes, "{way:?}");
    }
}

#[test]
fn forks_and_execs_with_data_in_flight_change_nothing() {
    alone!();
    for way in WAYS {
        for_each_seed(&format!("exec {way:?}"), 0..6, |seed| {
            let mut feed = Feed::new(seed);
            let sequence = feed.sequence;
            let (read_end, write_end) = calls::pipe().expect("a pipe");
            let mut writer = writer(write_end, way);
            let reader = read_from(Kind::Onwards, read_end, sequence, 0);
            for part in 1..=8 {
                feed.send(&mut writer, part * 700_000).expect("a reader");
                let mut command = Command::new("true");
                if feed.rng.once_in(2) {
                    // SAFETY: does nothing; that there is one makes it fork rather than vfork.
                    unsafe { command.pre_exec(|| Ok(())) };
                }
                let mut child = command.spawn().expect("`true` is there");
                let at_once = feed.rng.once_in(2);
                if at_once {
                    feed.send(&mut writer, part * 700_000 + 300_000)
                        .expect("a reader");
                }
                assert!(child.wait().expect("a child").success());
            }
            drop(writer);
            assert_eq!(reader.join().expect("no panic"), feed.sent);
        });
    }
}

#[test]
fn what_a_killed_writer_has_written_stays_as_it_was() {
    alone!();
    for way in WAYS {
        for_each_seed(&format!("kill {way:?}"), 0..5, |seed| {
            let sequence = Sequence::new(seed);
            sequence.at(0, 1); // ready before the fork
            let (read_end, write_end) = calls::pipe().expect("a pipe");
            let mut writer = writer(write_end, way);
            if seed % 2 == 0 {
                writer.path(); // its memory and sockets are made by the parent
            }
            let child = fork(|| {
                let _ = Feed::new(seed).send(&mut writer, usize::MAX / 2);
            });
            drop(writer);
            let mut held = hold(&read_end, 4);
            kill_process(child, Signal::KILL).expect("it runs");
            let ended = waitpid(Some(child), WaitOptions::empty()).expect("a child");
            assert!(ended.is_some_and(|(_, status)| status.terminating_signal().is_some()));
            use_freed_pages();
            let got = check_held(&mut held, sequence);
            assert!(got > 0);
            let rest = read_from(Kind::Copies, read_end, sequence, got);
            rest.join().expect("no panic");
        });
    }
}

#[test]
fn what_a_dropped_writer_has_written_stays_as_it_was() {
    for way in WAYS {
        is_to_be_had("what_a_dropped_writer_has_written", way);
        for_each_seed(&format!("drop {way:?}"), 0..10, |seed| {
            let mut feed = Feed::new(seed);
            let sequence = feed.sequence;
            let (read_end, write_end) = calls::pipe().expect("a pipe");
            let sender = thread::spawn(move || {
                feed.send(&mut writer(write_end, way), 3_500_000)
                    .expect("a reader");
                feed.sent
            });
            let mut held = hold(&read_end, 8);
            let sent = sender.join().expect("no panic");
            use_freed_pages();
            assert_eq!(check_held(&mut held, sequence), sent);
        });
    }
}

/// Signals come in the middle of calls that sleep, which then end early: with a short count, or with `EINTR`.
#[test]
fn signals_that_interrupt_calls_lose_nothing() {
    alone!();
    extern "C" fn nothing(_: libc::c_int) {}
    // SAFETY: all zeros is a valid `sigaction`: no flags (so no `SA_RESTART`), an empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = nothing as *const () as usize;
    // SAFETY: the handler does nothing at all.
    let installed = unsafe { libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut()) };
    assert_eq!(installed, 0);
    for way in WAYS {
        for wait in Wait::ALL {
            for_each_seed(&format!("signals {way:?} {wait}"), 0..5, |seed| {
                let mut feed = Feed::new(seed);
                let (read_end, write_end) = calls::pipe().expect("a pipe");
                let mut writer = writer(write_end, way).with_wait(wait).keep_capacity();
                let reader = read_from(Kind::Onwards, read_end, feed.sequence, 0);
                // SAFETY: names the calling thread, which outlives the scope below.
                let this = unsafe { libc::pthread_self() };
                // As a number, since some C libraries have a pointer there, which no other thread may be given.
                let (this, beside) = (this as usize, Beside::default());
                thread::scope(|scope| {
                    scope.spawn(|| {
                        beside.repeat(|| {
                            // SAFETY: that thread waits for this one.
                            unsafe { libc::pthread_kill(this as libc::pthread_t, libc::SIGUSR1) };
                            thread::sleep(Duration::from_micros(30));
                        });
                    });
                    let _guard = beside.guard();
                    feed.send(&mut writer, 1 << 20).expect("a reader");
                });
                drop(writer);
                assert_eq!(reader.join().expect("no panic"), feed.sent);
            });
        }
    }
}

/// The writer goes from thread to thread.
#[test]
fn writer_may_move_between_threads() {
    for way in WAYS {
        let mut feed = Feed::new(5);
        let sequence = feed.sequence;
        let (read_end, write_end) = calls::pipe().expect("a pipe");
        let mut writer = writer(write_end, way);
        let reader = read_from(Kind::Onwards, read_end, sequence, 0);
        for part in 1..=10 {
            let moved = thread::spawn(move || {
                feed.send(&mut writer, part * 300_000).expect("a reader");
                (feed, writer)
            });
            (feed, writer) = moved.join().expect("no panic");
        }
        drop(writer);
        assert_eq!(reader.join().expect("no panic"), feed.sent);
    }
}
