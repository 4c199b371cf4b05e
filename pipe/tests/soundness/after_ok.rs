//! The table on the front page: what may still change after `Ok`, what is held meanwhile, and what is left behind.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;

use fullbore::moving::Fanout;
use fullbore::moving::Inspect;
use fullbore::moving::Pump;
use fullbore::{Constant, PipeReader, Route, copy, fanout};
use fullbore_sys::writer::Way;
use fullbore_sys::{calls, capacity};
use rustix::fs::MemfdFlags;

use crate::{is_to_be_had, writer};

const BEFORE: &[u8] = b"as it was written";
const AFTER: &[u8] = b"as it became later";

/// A file in memory, at its beginning.
fn file() -> File {
    let fd = rustix::fs::memfd_create("after-ok", MemfdFlags::CLOEXEC).expect("memory");
    let file = File::from(fd);
    file.write_all_at(BEFORE, 0).expect("memory");
    file
}

fn read(pipe: &OwnedFd) -> Vec<u8> {
    let mut buffer = [0; 64];
    let n = calls::read(pipe, &mut buffer).expect("bytes");
    buffer[..n].to_vec()
}

/// What arrives where `send` has returned, and the file was changed before anybody read.
fn changed_after(send: impl FnOnce(&File, &OwnedFd)) -> Vec<u8> {
    let (read_end, write_end) = calls::pipe().expect("a pipe");
    let file = file();
    send(&file, &write_end);
    file.write_all_at(&AFTER[..BEFORE.len()], 0)
        .expect("memory");
    read(&read_end)
}

#[test]
fn what_was_moved_from_a_file_changes_with_it_until_it_is_read() {
    let late = &AFTER[..BEFORE.len()];
    let copied = changed_after(|file, pipe| {
        copy(file, pipe).expect("a pipe");
    });
    assert_eq!(copied, late);
    let fanned = changed_after(|file, pipe| {
        let done = fanout(file, &[pipe.as_fd()]).expect("a pipe");
        assert!(done.failed.is_empty());
    });
    assert_eq!(fanned, late);
    let shown = changed_after(|file, pipe| {
        let mut inspect = Inspect::new(file.as_fd(), pipe.as_fd());
        assert_eq!(inspect.fill(64).expect("a file"), BEFORE);
        // What is shown is a copy, and stays.
        assert_eq!(inspect.deliver(64).expect("a pipe"), BEFORE);
    });
    assert_eq!(shown, late);
}

#[test]
fn what_a_file_has_got_stays_when_its_source_changes() {
    for through_pipe in [false, true] {
        let (from, mut to) = (file(), file());
        if through_pipe {
            let (read_end, write_end) = calls::pipe().expect("a pipe");
            copy(&from, &write_end).expect("a pipe");
            drop(write_end);
            copy(&read_end, &to).expect("a file");
        } else {
            copy(&from, &to).expect("a file");
        }
        from.write_all_at(AFTER, 0).expect("memory");
        let mut got = Vec::new();
        rustix::fs::seek(&to, rustix::fs::SeekFrom::Start(0)).expect("a file");
        to.read_to_end(&mut got).expect("a file");
        assert_eq!(got, BEFORE);
    }
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("/proc").count()
}

/// How many descriptors are held once `hold` has returned; all of them are given back.
#[track_caller]
fn held<T>(expected: usize, hold: impl FnOnce() -> T) {
    let before = descriptors();
    let held = hold();
    assert_eq!(descriptors() - before, expected);
    drop(held);
    assert_eq!(descriptors(), before);
}

#[test]
fn descriptors_are_held_as_told_and_given_back() {
    alone!();
    let (read_end, write_end) = calls::pipe().expect("a pipe");
    let null = File::options()
        .write(true)
        .open("/dev/null")
        .expect("/dev/null");
    capacity::largest(&write_end).expect("a pipe");
    // What is found out once per process has its own.
    writer(&write_end, None).path();
    for (way, expected) in [(Way::Fresh, 0), (Way::Fat, 2), (Way::Copy, 0)] {
        if is_to_be_had("descriptors_are_held", Some(way)) {
            held(expected, || {
                let mut writer = writer(&write_end, Some(way));
                writer.write_all(&[1; 20_000]).expect("room");
                writer
            });
            calls::read(&read_end, &mut [0; 20_000]).expect("bytes");
        }
    }
    if is_to_be_had("descriptors_are_held", Some(Way::Fat)) {
        held(5, || {
            let mut constant = Constant::new(b"y\n");
            constant.prepare(&write_end);
            assert_eq!(constant.route(), Some(Route::Tee), "{constant:?}");
            constant
        });
    }
    let (from, pipe, null) = (file(), write_end.as_fd(), null.as_fd());
    held(2, || Pump::new(from.as_fd(), pipe));
    held(0, || Pump::new(read_end.as_fd(), pipe));
    held(4, || Inspect::new(from.as_fd(), pipe));
    held(6, || Fanout::new(from.as_fd(), [pipe, null, null]));
    held(1, || PipeReader::new(&read_end));
    calls::write(&write_end, &[1; 2]).expect("room");
    held(4, || {
        let mut reader = PipeReader::new(&read_end);
        reader.discard(2).expect("bytes");
        reader
    });
}

#[test]
fn what_was_taken_and_not_delivered_goes_with_its_taker() {
    let (read_end, write_end) = calls::pipe().expect("a pipe");
    let (_out, to) = calls::pipe().expect("a pipe");
    calls::write(&write_end, BEFORE).expect("room");
    let mut inspect = Inspect::new(read_end.as_fd(), to.as_fd());
    inspect.fill(64).expect("bytes");
    inspect.deliver(5).expect("room");
    drop(inspect);
    assert_eq!(calls::bytes_in_pipe(&read_end).expect("a pipe"), 0);
    assert_eq!(calls::bytes_in_pipe(&to).expect("a pipe"), 5);
}
