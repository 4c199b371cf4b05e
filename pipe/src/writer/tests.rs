//! The buffer against a model: what arrives is what was said to be taken, once and in order, whatever fails.

use std::io::Write;
use std::os::fd::OwnedFd;

use fullbore_sys::calls::fault::{Call, inject};
use fullbore_sys::writer::{Unbuffered, Way};
use fullbore_sys::{calls, capacity, probe};
use rustix::io::Errno;

use super::*;
use crate::testing::drive::Drive;
use crate::testing::feed::{reader, set_nonblocking};
use crate::testing::sequence::Rng;
use crate::testing::watch::for_each_seed;

const WAYS: [Option<Way>; 5] = [
    None,
    Some(Way::Cow),
    Some(Way::Fresh),
    Some(Way::Fat),
    Some(Way::Copy),
];

/// Lets calls that move bytes fail or fall short at random, seldom or often.
fn at_random(mut rng: Rng) -> impl FnMut(Call, usize) -> Result<usize, Errno> {
    let often = rng.pick(&[2, 5, 20, 200]);
    move |call, len| match rng.below(often) {
        0 if len > 1 && rng.once_in(2) => Ok(rng.between(1, len)),
        0 => Err(
            match rng.pick(&[Errno::INTR, Errno::AGAIN, Errno::PERM, Errno::NOMEM]) {
                Errno::AGAIN if call == Call::Poll => Errno::NOMEM, // poll(2) knows no EAGAIN
                errno => errno,
            },
        ),
        _ => Ok(len),
    }
}

#[test]
fn faults_at_random_points_never_alter_repeat_or_lose_a_buffered_byte() {
    // Facts about the kernel are found out once a process, and not while faults are injected.
    let _ = (
        probe::cow_refusal(),
        probe::fresh_refusal(),
        probe::fat_refusal(),
    );
    for way in WAYS {
        for_each_seed(&format!("buffered, faults {way:?}"), 0..150, |seed| {
            let mut drive = Drive::new(seed);
            drive.faults = true;
            let (read_end, write_end) = calls::pipe().unwrap();
            let _ = capacity::set(&write_end, 4096 << drive.rng.below(9));
            drive.blocking = !drive.rng.once_in(3);
            if !drive.blocking {
                set_nonblocking(&write_end);
            }
            let reader = reader(read_end, drive.rng.between(1000, 300_000));
            let start = drive.rng.pick(&[0, 0, 100_000]);
            let out = Unbuffered::new(write_end).with_pool(1).with_start(start);
            let out = match way {
                Some(way) => out.with_way(way),
                None => out,
            };
            let mut writer = PipeWriter::over(out.fill_ahead());
            if drive.rng.once_in(4) {
                writer = writer.unbuffered();
            }
            let faults = inject(at_random(Rng(!seed)));
            let total = drive.rng.between(10_000, 3 << 20);
            drive.send(&mut writer, total).unwrap();
            drop(writer);
            drop(faults);
            let got = reader.join().unwrap();
            drive.sequence.check(0, &got);
            assert_eq!(got.len(), drive.taken);
        });
    }
}

/// A pipe that holds a page, and nobody reads.
fn full() -> (OwnedFd, OwnedFd) {
    let (read_end, write_end) = calls::pipe().unwrap();
    capacity::set(&write_end, 4096).unwrap();
    set_nonblocking(&write_end);
    (read_end, write_end)
}

#[test]
fn what_a_commit_cannot_send_stays_and_is_sent_once() {
    let (read_end, write_end) = full();
    let mut writer = PipeWriter::new(write_end).keep_capacity().unbuffered();
    let mut block = writer.block(10_000).unwrap();
    for (i, byte) in block.iter_mut().enumerate() {
        *byte = i as u8;
    }
    let unsent = block.commit(9_000).unwrap_err();
    assert_eq!(unsent.error().kind(), io::ErrorKind::WouldBlock);
    let writer = unsent.into_writer();
    assert_eq!(writer.buffered(), 9_000 - 4096);
    assert_eq!(
        writer.write(b"later").unwrap_err().kind(),
        io::ErrorKind::WouldBlock
    );
    let mut got = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let n = calls::read(&read_end, &mut buffer).unwrap();
        got.extend_from_slice(&buffer[..n]);
        match writer.flush() {
            Ok(()) => break,
            Err(e) => assert_eq!(e.kind(), io::ErrorKind::WouldBlock),
        }
    }
    let n = calls::read(&read_end, &mut buffer).unwrap();
    got.extend_from_slice(&buffer[..n]);
    assert_eq!(got.len(), 9_000);
    assert!(got.iter().enumerate().all(|(i, &b)| b == i as u8));
}

#[test]
fn a_writer_that_becomes_unbuffered_buffers_no_more() {
    let (read_end, write_end) = calls::pipe().unwrap();
    let mut writer = PipeWriter::new(write_end);
    writer.write_all(b"before, ").unwrap();
    let mut writer = writer.unbuffered();
    assert_eq!(writer.write(b"after").unwrap(), 5);
    assert_eq!(calls::bytes_in_pipe(&read_end).unwrap(), 13);
    assert_eq!(writer.buffered(), 0);
    let mut seen = [0; 100];
    let n = calls::read(&read_end, &mut seen).unwrap();
    assert_eq!(&seen[..n], b"before, after");
}

#[test]
fn a_reader_that_has_gone_is_told_from_a_full_pipe() {
    let buffered_or_not = [true, false].into_iter();
    let lens = buffered_or_not.flat_map(|b| [3_000, 16 << 10, 100_000].map(|len| (b, len)));
    for (buffered, len) in lens {
        for way in WAYS {
            let (read_end, write_end) = full();
            let out = Unbuffered::new(write_end).with_start(0).keep_capacity();
            let out = match way {
                Some(way) => out.with_way(way),
                None => out,
            };
            // Bytes may wait in the engine, beneath the buffer or without one.
            let mut writer = PipeWriter::over(out.fill_ahead());
            if !buffered {
                writer.mode = Mode::Unbuffered;
            }
            let piece = vec![7; len];
            let mut errors =
                std::iter::repeat_with(|| writer.write(&piece)).filter_map(Result::err);
            let full = errors.next().unwrap().kind();
            assert_eq!(full, io::ErrorKind::WouldBlock, "{way:?}, {len}");
            drop(read_end);
            let gone = errors.next().unwrap().kind();
            assert_eq!(gone, io::ErrorKind::BrokenPipe, "{way:?}, {len}");
        }
    }
}

#[test]
fn blocks_that_are_filled_slowly_are_not_held_back() {
    let (read_end, write_end) = calls::pipe().unwrap();
    let mut writer = PipeWriter::over(Unbuffered::new(write_end).with_start(0).fill_ahead());
    for _ in 0..10 {
        std::thread::sleep(OLD * 2);
        writer.block(4096).unwrap().commit(4096).unwrap();
        assert!(writer.buffered() < 20 << 10, "{}", writer.buffered());
    }
    assert!(calls::bytes_in_pipe(&read_end).unwrap() > 20 << 10);
}

#[test]
fn into_inner_gives_the_writer_back_where_it_cannot_send() {
    let (read_end, write_end) = full();
    let mut writer = PipeWriter::new(write_end).keep_capacity();
    writer.write_all(&[7; 6000]).unwrap();
    let (error, writer) = writer.into_inner().unwrap_err().into_parts();
    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    assert_eq!(calls::read(&read_end, &mut [0; 4096]).unwrap(), 4096);
    drop(writer.into_inner().unwrap());
    let mut rest = [0; 4096];
    assert_eq!(calls::read(&read_end, &mut rest).unwrap(), 6000 - 4096);
    assert_eq!(calls::read(&read_end, &mut rest).unwrap(), 0);
}

#[test]
fn nothing_is_set_up_for_a_short_stream() {
    let (_read_end, write_end) = calls::pipe().unwrap();
    let capacity = capacity::get(&write_end).unwrap();
    let mut writer = PipeWriter::new(&write_end);
    for _ in 0..600 {
        writer.write_all(&[7; 100]).unwrap();
    }
    writer.flush().unwrap();
    assert_eq!(capacity::get(&write_end).unwrap(), capacity);
    assert_eq!(writer.out.memory(), 0);
}

#[test]
fn a_flush_gives_memory_back_that_was_had_long_ago() {
    if probe::fresh_refusal().is_some() {
        return crate::testing::watch::skip(
            "a_flush_gives_memory_back",
            "no huge pages are available",
        );
    }
    for buffered in [true, false] {
        let (read_end, write_end) = calls::pipe().unwrap();
        let reader = reader(read_end, 1 << 20);
        let out = Unbuffered::new(write_end).with_way(Way::Fresh);
        let mut writer = PipeWriter::over(out.fill_ahead());
        if !buffered {
            writer = writer.unbuffered();
        }
        writer.write_all(&vec![7; 3 << 20]).unwrap();
        assert!(writer.out.memory() > 0, "{:?}", writer.path());
        std::thread::sleep(Duration::from_millis(20));
        writer.flush().unwrap();
        assert_eq!(writer.out.memory(), 0, "buffered: {buffered}");
        drop(writer);
        assert_eq!(reader.join().unwrap().len(), 3 << 20);
    }
}

#[test]
fn a_terminal_gets_whole_lines() {
    let pty = rustix::pty::openpt(rustix::pty::OpenptFlags::RDWR).unwrap();
    rustix::pty::unlockpt(&pty).unwrap();
    let name = rustix::pty::ptsname(&pty, Vec::new()).unwrap();
    let terminal = std::fs::File::options()
        .write(true)
        .open(name.to_str().unwrap())
        .unwrap();
    let mut writer = PipeWriter::new(terminal);
    let mut seen = [0; 100];
    write!(writer, "one").unwrap();
    assert_eq!(writer.buffered(), 3);
    writeln!(writer, " two").unwrap();
    let n = calls::read(&pty, &mut seen).unwrap();
    assert_eq!(&seen[..n], b"one two\r\n");
    write!(writer, "three\nfour").unwrap();
    let n = calls::read(&pty, &mut seen).unwrap();
    assert_eq!(&seen[..n], b"three\r\n");
    assert_eq!(writer.buffered(), 4);
    drop(writer);
    let n = calls::read(&pty, &mut seen).unwrap();
    assert_eq!(&seen[..n], b"four");
}

#[test]
fn a_panic_sends_what_is_there() {
    let (read_end, write_end) = calls::pipe().unwrap();
    let panics = std::panic::catch_unwind(move || {
        let mut writer = PipeWriter::new(write_end);
        writer.write_all(b"before").unwrap();
        panic!("on purpose");
    });
    assert!(panics.is_err());
    let mut seen = [0; 100];
    assert_eq!(calls::read(&read_end, &mut seen).unwrap(), 6);
}
