//! `copy`, `PipeReader` and `Relay` on real descriptors: every byte arrives, whatever the kinds of both ends.

#![allow(clippy::unwrap_used)]

use std::fs::File;
use std::io::{self, PipeReader as StdReader, PipeWriter as StdWriter, Read, Seek, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;

use fullbore::Route;
use fullbore::moving::Fanout;
use fullbore::moving::Inspect;
use fullbore::moving::Pump;
use fullbore::{PipeReader, copy};
use fullbore_sys::calls::SpliceFlags;
use fullbore_sys::read::relay::Relay;
use fullbore_sys::write::fat::Fat;
use fullbore_sys::writer::Unbuffered;
use rustix::fs::{MemfdFlags, OFlags};

/// `len` bytes, each different from its neighbours at every power of two.
fn bytes(len: usize) -> Vec<u8> {
    (0..len)
        .map(|i| ((i as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8)
        .collect()
}

fn file() -> File {
    File::from(rustix::fs::memfd_create("fullbore-test", MemfdFlags::CLOEXEC).unwrap())
}

fn file_of(data: &[u8]) -> File {
    let mut file = file();
    file.write_all(data).unwrap();
    file.rewind().unwrap();
    file
}

fn pipe() -> (StdReader, StdWriter) {
    io::pipe().unwrap()
}

/// A source of a kind, fed by a thread that ends.
fn source(kind: &str, data: &[u8]) -> Box<dyn AsFdSend> {
    let data = data.to_vec();
    match kind {
        "pipe" => {
            let (reader, mut writer) = pipe();
            thread::spawn(move || writer.write_all(&data));
            Box::new(reader)
        }
        "fat pipe" => {
            let (reader, writer) = pipe();
            let way = fullbore_sys::writer::Way::Fat;
            thread::spawn(move || Unbuffered::new(writer).with_way(way).write_all(&data));
            Box::new(reader)
        }
        "fresh pipe" => {
            let (reader, writer) = pipe();
            let way = fullbore_sys::writer::Way::Fresh;
            thread::spawn(move || Unbuffered::new(writer).with_way(way).write_all(&data));
            Box::new(reader)
        }
        "socket" => {
            let (reader, mut writer) = UnixStream::pair().unwrap();
            thread::spawn(move || writer.write_all(&data));
            Box::new(reader)
        }
        "file" => Box::new(file_of(&data)),
        other => panic!("{other}"),
    }
}

trait AsFdSend: AsFd + Send {}
impl<T: AsFd + Send> AsFdSend for T {}

/// Runs `work` with a target of a kind, and returns what arrived there.
fn into(kind: &str, work: impl FnOnce(&dyn AsFdSend)) -> Vec<u8> {
    let collect = |mut from: Box<dyn Read + Send>| {
        thread::spawn(move || {
            let mut got = Vec::new();
            from.read_to_end(&mut got).unwrap();
            got
        })
    };
    match kind {
        "pipe" => {
            let (reader, writer) = pipe();
            let got = collect(Box::new(reader));
            work(&writer);
            drop(writer);
            got.join().unwrap()
        }
        "socket" => {
            let (reader, writer) = UnixStream::pair().unwrap();
            let got = collect(Box::new(reader));
            work(&writer);
            drop(writer);
            got.join().unwrap()
        }
        "file" | "file for appending" => {
            let mut target = file();
            if kind == "file for appending" {
                rustix::fs::fcntl_setfl(&target, OFlags::APPEND).unwrap();
            }
            work(&target);
            let mut got = Vec::new();
            target.rewind().unwrap();
            target.read_to_end(&mut got).unwrap();
            got
        }
        other => panic!("{other}"),
    }
}

const SOURCES: [&str; 5] = ["pipe", "fat pipe", "fresh pipe", "socket", "file"];
const TARGETS: [&str; 4] = ["pipe", "socket", "file", "file for appending"];

#[test]
fn copy_moves_every_byte_between_any_two_kinds() {
    for from in SOURCES {
        for to in TARGETS {
            for len in [0, 1, 4095, 70_001, 3_000_001] {
                let data = bytes(len);
                let source = source(from, &data);
                let mut copied = None;
                let got = into(to, |target| copied = Some(copy(&*source, target).unwrap()));
                let copied = copied.unwrap();
                assert_eq!(copied.bytes, len as u64, "{from} to {to}: {copied:?}");
                assert!(got == data, "{from} to {to}, {len} bytes: {copied:?}");
            }
        }
    }
}

#[test]
fn copy_says_which_route_it_took() {
    let data = bytes(100_000);
    for (from, to, route) in [
        ("pipe", "pipe", Route::Splice),
        ("file", "pipe", Route::Relay),
        ("pipe", "file", Route::Relay),
        ("socket", "socket", Route::Relay),
        ("file", "socket", Route::Relay),
        ("pipe", "file for appending", Route::ReadWrite),
    ] {
        let source = source(from, &data);
        let mut copied = None;
        into(to, |target| copied = Some(copy(&*source, target).unwrap()));
        let copied = copied.unwrap();
        assert_eq!(copied.route, route, "{from} to {to}: {copied:?}");
        assert_eq!(
            !copied.fallbacks.is_empty(),
            route == Route::ReadWrite,
            "{copied:?}"
        );
    }
}

#[test]
fn copy_reads_files_that_claim_to_be_empty() {
    for name in ["/proc/self/status", "/proc/cpuinfo", "/proc/filesystems"] {
        let source = File::open(name).unwrap();
        let got = into("file", |target| {
            let copied = copy(&source, target).unwrap();
            assert!(copied.bytes > 0, "{name}: {copied:?}");
        });
        if Path::new(name).ends_with("filesystems") {
            assert_eq!(got, std::fs::read(name).unwrap());
        }
    }
}

#[test]
fn copy_waits_for_descriptors_that_are_non_blocking() {
    let data = bytes(2_000_000);
    let (reader, mut writer) = pipe();
    let (mut out, into_out) = pipe();
    rustix::fs::fcntl_setfl(&reader, OFlags::NONBLOCK).unwrap();
    rustix::fs::fcntl_setfl(&into_out, OFlags::NONBLOCK).unwrap();
    let sent = data.clone();
    thread::spawn(move || {
        for piece in sent.chunks(30_001) {
            thread::sleep(std::time::Duration::from_micros(300));
            writer.write_all(piece).unwrap();
        }
    });
    let copying = thread::spawn(move || copy(&reader, &into_out).unwrap().bytes);
    let mut got = Vec::new();
    out.read_to_end(&mut got).unwrap();
    assert_eq!(copying.join().unwrap(), data.len() as u64);
    assert!(got == data);
}

#[test]
fn copy_reports_an_output_that_was_closed() {
    let source = file_of(&bytes(1 << 20));
    let (reader, writer) = pipe();
    drop(reader);
    let error = copy(&source, &writer).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    (&source).rewind().unwrap(); // what was taken from it is gone
    let full = File::options().write(true).open("/dev/full").unwrap();
    let error = copy(&source, &full).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
}

#[test]
fn reader_reads_and_discards_in_turn_without_losing_its_place() {
    for from in SOURCES {
        let data = bytes(3_000_000);
        let mut reader = PipeReader::new(source(from, &data));
        let mut at = 0;
        for (i, len) in [1usize, 4096, 33_000, 100_001, 500_000]
            .into_iter()
            .enumerate()
        {
            if i % 2 == 0 {
                assert_eq!(reader.discard(len as u64).unwrap(), len as u64, "{from}");
            } else {
                let mut got = vec![0; len];
                reader.read_exact(&mut got).unwrap();
                assert!(got == data[at..at + len], "{from} at {at}");
            }
            at += len;
        }
        let mut rest = Vec::new();
        reader.read_to_end(&mut rest).unwrap();
        assert!(rest == data[at..], "{from}: the rest");
        assert_eq!(reader.discard(1).unwrap(), 0, "{from}: end of file");
    }
}

#[test]
fn reader_leaves_shared_flags_alone_and_obeys_them() {
    let (reader, _writer) = pipe();
    let mut own = PipeReader::new(&reader);
    let flags = || rustix::fs::fcntl_getfl(&reader).unwrap();
    assert!(!flags().contains(OFlags::NONBLOCK));
    rustix::fs::fcntl_setfl(&reader, OFlags::NONBLOCK).unwrap();
    let error = own.read(&mut [0; 8]).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    let error = own.discard(8).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
}

#[test]
fn reader_makes_a_pipe_larger_when_it_reads_and_not_if_it_is_to_keep_it() {
    let capacity = |fd: &StdReader| fullbore_sys::capacity::get(fd).unwrap();
    let (reader, mut writer) = pipe();
    writer.write_all(&[1; 100]).unwrap();
    let before = capacity(&reader);
    let mut keeping = PipeReader::new(&reader).keep_capacity();
    keeping.read_exact(&mut [0; 10]).unwrap();
    keeping.discard(10).unwrap();
    assert_eq!(capacity(&reader), before);
    let mut other = PipeReader::new(&reader);
    assert_eq!(capacity(&reader), before, "by making a reader");
    other.read_exact(&mut [0; 10]).unwrap();
    let (_, new) = pipe();
    let granted = fullbore_sys::capacity::largest(&new).unwrap().granted;
    // Others of this user may have used up what there was in between.
    assert!(capacity(&reader) > before || granted == before);
}

/// Kept in a struct, moved into a thread, and closed when dropped: else whoever reads their outputs would wait for ever.
#[test]
fn movers_of_their_own_descriptors_go_into_a_thread_and_close_them() {
    struct Movers {
        pump: Pump<OwnedFd, OwnedFd>,
        fanout: Fanout<OwnedFd, OwnedFd>,
        inspect: Inspect<OwnedFd, OwnedFd>,
    }
    let data = bytes(300_000);
    let source = || OwnedFd::from(file_of(&data));
    let pipes: [_; 4] = std::array::from_fn(|_| pipe());
    let (outs, ins): (Vec<_>, Vec<_>) = pipes.into_iter().unzip();
    let mut ins = ins.into_iter().map(OwnedFd::from);
    let mut movers = Movers {
        pump: Pump::new(source(), ins.next().unwrap()),
        fanout: Fanout::new(source(), ins.by_ref().take(2)),
        inspect: Inspect::new(source(), ins.next().unwrap()),
    };
    let moving = thread::spawn(move || {
        while movers.pump.step(usize::MAX).unwrap() > 0 {}
        drop(movers.pump);
        while movers.fanout.step(usize::MAX).unwrap().bytes > 0 {}
        drop(movers.fanout);
        while !movers.inspect.fill(usize::MAX).unwrap().is_empty() {
            movers.inspect.deliver(usize::MAX).unwrap();
        }
    });
    let reading: Vec<_> = outs
        .into_iter()
        .map(|mut out| {
            thread::spawn(move || {
                let mut got = Vec::new();
                out.read_to_end(&mut got).map(|_| got)
            })
        })
        .collect();
    for reader in reading {
        assert!(reader.join().unwrap().unwrap() == data);
    }
    moving.join().unwrap();
}

/// Fat slots keep their contents through every way out that copies, also through a relay into a file.
#[test]
fn relay_carries_fat_slots_into_a_file() {
    let data = bytes(300_000);
    let (reader, writer) = pipe();
    let mut fat = Fat::new().unwrap();
    let mut relay = Relay::new().unwrap();
    let mut target = file();
    let mut sent = 0;
    while sent < data.len() {
        let staged = fat.stage(&data[sent..]).unwrap();
        let mut left = staged;
        while left > 0 {
            left -= fat.deliver(&writer, left, SpliceFlags::NONBLOCK).unwrap();
            while let Ok(1..) = relay.fill(&reader, 1 << 20, SpliceFlags::NONBLOCK) {}
            while relay.held() > 0 {
                relay
                    .deliver(&target, relay.held(), SpliceFlags::empty())
                    .unwrap();
            }
        }
        sent += staged;
    }
    let mut got = Vec::new();
    target.rewind().unwrap();
    target.read_to_end(&mut got).unwrap();
    assert!(got == data);
}
