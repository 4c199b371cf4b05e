//! The buffered writer, as programs use it: every schedule, every kind of reader.

use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Barrier};
use std::time::Duration;

use fullbore::PipeWriter;
use fullbore_sys::writer::Way;
use fullbore_sys::{calls, capacity};

use crate::alone::status;
use crate::drive::Drive;
use crate::feed::set_nonblocking;
use crate::processes::{finish, fork, read_from, redirect};
use crate::readers::Kind;
use crate::schedules::flow;
use crate::watch::for_each_seed;
use crate::{WAYS, is_to_be_had, skip, writer};

/// A buffered writer that takes this way from its `start`th byte on.
fn buffered(fd: OwnedFd, way: Option<Way>, start: u64) -> PipeWriter<OwnedFd> {
    PipeWriter::over(writer(fd, way).with_start(start).fill_ahead())
}

fn drive(pipe: OwnedFd, way: Option<Way>, seed: u64, total: usize) -> io::Result<usize> {
    let mut drive = Drive::new(seed);
    let total = drive.rng.between(total / 100, total);
    let _ = capacity::set(&pipe, 4096 << drive.rng.below(9));
    drive.blocking = !drive.rng.once_in(3);
    if !drive.blocking {
        set_nonblocking(&pipe);
    }
    let start = drive.rng.pick(&[0, 0, 0, 100_000, 1 << 20]);
    let mut writer = buffered(pipe, way, start);
    if drive.rng.once_in(4) {
        writer = writer.unbuffered();
    }
    drive.send(&mut writer, total)?;
    match writer.into_inner() {
        Ok(_) => Ok(drive.taken),
        Err(unsent) => Err(unsent.into()),
    }
}

#[test]
fn buffered_bytes_arrive_as_they_were_written_whatever_the_reader_does() {
    let kinds = [
        Kind::Copies,
        Kind::Onwards,
        Kind::Tees,
        Kind::ResizesOnwards,
    ];
    for kind in kinds {
        let test = &format!("buffered_bytes {kind:?}");
        for way in WAYS {
            is_to_be_had(test, way);
            for_each_seed(&format!("{test} {way:?}"), 0..60, |seed| {
                let result = flow(kind, seed, |pipe| drive(pipe, way, seed, 6 << 20));
                result.unwrap_or_else(|wrong| panic!("{wrong}"));
            });
        }
    }
}

/// What a reader gets that waits while the program goes on writing slowly.
#[test]
fn a_program_that_goes_on_writing_holds_little_back() {
    for start in [0, 1 << 20] {
        let (read_end, write_end) = calls::pipe().expect("a pipe");
        let mut writer = buffered(write_end, None, start);
        let (line, mut written, mut read) = ([b'l'; 1000], 0, 0);
        for _ in 0..200 {
            std::thread::sleep(Duration::from_micros(300));
            writer.write_all(&line).expect("room");
            written += line.len();
            let waits = calls::bytes_in_pipe(&read_end).expect("a pipe") as usize;
            let mut got = vec![0; waits];
            if waits > 0 {
                read += calls::read(&read_end, &mut got).expect("bytes");
            }
            assert!(written - read < (16 << 10) + 1000, "{written}, {read}");
        }
        drop(writer);
        let mut rest = vec![0; 1 << 20];
        read += calls::read(&read_end, &mut rest).expect("the rest");
        assert_eq!(read, written);
    }
}

#[test]
fn idle_writers_keep_little_memory() {
    alone!(); // tests beside this one take memory, too
    let Some(_) = status("RssAnon") else {
        return skip("idle_writers", "/proc/self/status has no RssAnon");
    };
    let piece = vec![7; 1 << 20];
    let (mut writers, mut readers) = (Vec::new(), Vec::new());
    let buffers = Arc::new(Barrier::new(11));
    for _ in 0..10 {
        let (read_end, write_end) = calls::pipe().expect("a pipe");
        let buffers_too = Arc::clone(&buffers);
        readers.push(std::thread::spawn(move || {
            let mut buffer = vec![1; 64 << 10];
            buffers_too.wait();
            let mut read = 0;
            loop {
                match calls::read(&read_end, &mut buffer).expect("read") {
                    0 => return read,
                    n => read += n,
                }
            }
        }));
        writers.push(PipeWriter::new(write_end));
    }
    buffers.wait();
    let before = status("RssAnon").unwrap_or(0);
    for writer in &mut writers {
        for _ in 0..40 {
            writer.write_all(&piece).expect("written");
        }
        writer.flush().expect("flushed");
    }
    let kept = status("RssAnon").unwrap_or(0).saturating_sub(before);
    assert!(kept < 1024, "{kept} KiB in ten idle writers");
    drop(writers);
    for reader in readers {
        assert_eq!(reader.join().expect("no panic"), 40 << 20);
    }
}

/// Like a shell: the child writes through the copy of the writer that it has, into another pipe.
#[test]
fn what_is_buffered_at_a_fork_is_sent_by_the_parent_alone() {
    alone!();
    for way in WAYS {
        for_each_seed(&format!("fork, buffered {way:?}"), 0..40, |seed| {
            let mut drive = Drive::new(seed);
            let sequence = drive.sequence;
            let (read_end, write_end) = calls::pipe().expect("a pipe");
            let (read_childs, childs) = calls::pipe().expect("a pipe");
            let start = drive.rng.pick(&[0, 0, 1 << 20]);
            let mut writer = buffered(write_end, way, start);
            let total = drive.rng.between(1, 2 << 20);
            let before = drive.rng.between(1, total);
            let reader = read_from(Kind::Onwards, read_end, sequence, 0);
            // Something is in the buffer at the fork.
            drive.send(&mut writer, before).expect("a reader");
            let kept = drive.rng.between(1, 5000);
            writer
                .write_all(sequence.at(drive.taken, kept))
                .expect("room");
            drive.taken += kept;
            let at_fork = drive.taken;
            let child = fork(|| {
                redirect(writer.get_ref(), &childs);
                drive.rng = crate::sequence::Rng(!seed);
                drive.send(&mut writer, at_fork + total).expect("a reader");
            });
            drop(childs);
            let of_child = read_from(Kind::Onwards, read_childs, sequence, at_fork);
            drive.send(&mut writer, at_fork + total).expect("a reader");
            drop(writer);
            finish(child);
            assert_eq!(of_child.join().expect("no panic"), total);
            assert_eq!(reader.join().expect("no panic"), at_fork + total);
        });
    }
}
