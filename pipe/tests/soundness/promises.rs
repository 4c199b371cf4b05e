//! What `Unbuffered` promises beside soundness: exact counts without blocking, errors as values, other outputs.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::thread;

use fullbore::Constant;
use fullbore_sys::calls::{self, SpliceFlags};
use fullbore_sys::capacity;
use fullbore_sys::pages::{PageKind, page_size};
use fullbore_sys::wait::Wait;
use fullbore_sys::writer::Unbuffered;
use fullbore_sys::writer::{LARGE, Path, Way};
use rustix::fs::{CWD, Mode, OFlags, mkfifoat};
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt};

use crate::feed::set_nonblocking;
use crate::readers::Own;
use crate::sequence::{Rng, Sequence};
use crate::two::ATOMIC;
use crate::watch::for_each_seed;
use crate::watch::until_it_stays;
use crate::{WAYS, skip, writer};

/// One thread writes and reads in turn, so that after each step it is known what must be in the pipe.
fn count_every_byte(way: Option<Way>, wait: Wait, seed: u64) {
    let (mut rng, sequence) = (Rng(seed), Sequence::new(seed));
    let (read_end, write_end) = calls::pipe().expect("a pipe");
    set_nonblocking(&write_end);
    let _ = capacity::set(&write_end, 4096 << rng.below(9));
    let mut writer = writer(write_end, way).with_wait(wait).keep_capacity();
    let (mut sent, mut got, mut block) = (0, 0, 0);
    let mut held = Own::new();
    for _ in 0..60 {
        let result = match rng.below(6) {
            // Reads a little, or holds on to it.
            0 => {
                let mut buffer = vec![0; rng.between(1, 200_000)];
                let waiting = calls::bytes_in_pipe(&read_end).expect("a pipe");
                if waiting > 0 {
                    held.show(usize::MAX, &mut |bytes| {
                        sequence.check(got, bytes);
                        got += bytes.len();
                        Ok(())
                    })
                    .expect("compared");
                    let n = calls::read(&read_end, &mut buffer).expect("data");
                    sequence.check(got, &buffer[..n]);
                    got += n;
                }
                continue;
            }
            1 => {
                if calls::bytes_in_pipe(&read_end).expect("a pipe") > 0 {
                    let _ = held.take(&read_end, rng.between(1, 2 << 20));
                }
                continue;
            }
            2 | 3 if block > 0 => {
                let part = rng.between(1, block);
                let result = writer.commit(part);
                let n = block - writer.uncommitted();
                block = writer.uncommitted();
                assert_eq!(result.is_ok(), n == part);
                match result {
                    Err(e) if n == 0 => Err(e),
                    _ => Ok((n, part)),
                }
            }
            2 | 3 => {
                let open = writer.block(rng.write_len());
                open.copy_from_slice(sequence.at(sent, open.len()));
                block = open.len();
                continue;
            }
            _ => {
                block = 0; // no longer what comes next
                let len = rng.write_len();
                writer.write(sequence.at(sent, len)).map(|n| (n, len))
            }
        };
        match result {
            Ok((n, len)) => {
                assert!(n > 0 && n <= len);
                assert!(
                    n == len || len > ATOMIC,
                    "{n} of {len} bytes are not atomic"
                );
                sent += n;
            }
            Err(e) => assert_eq!(e.kind(), io::ErrorKind::WouldBlock),
        }
        let in_pipes = calls::bytes_in_pipe(&read_end).expect("a pipe") as usize + held.len();
        assert_eq!(
            sent - got,
            in_pipes,
            "what was taken is in the pipe, and no more"
        );
    }
    drop(writer);
    let check = &mut |bytes: &[u8]| {
        sequence.check(got, bytes);
        got += bytes.len();
        Ok(())
    };
    held.show(usize::MAX, check).expect("compared");
    let mut rest = Vec::new();
    File::from(read_end).read_to_end(&mut rest).expect("read");
    check(&rest).expect("compared");
    assert_eq!(got, sent);
}

#[test]
fn pipe_that_does_not_block_takes_exactly_what_was_said() {
    for way in WAYS {
        for wait in Wait::ALL {
            for_each_seed(&format!("nonblocking {way:?} {wait}"), 0..30, |seed| {
                count_every_byte(way, wait, seed);
            });
        }
    }
}

#[test]
fn full_pipe_that_does_not_block_says_so_and_takes_nothing() {
    for way in WAYS {
        for wait in Wait::ALL {
            let (read_end, write_end) = calls::pipe().expect("a pipe");
            set_nonblocking(&write_end);
            let mut writer = writer(write_end, way).with_wait(wait);
            while writer.write(&[1; 100_000]).is_ok() {}
            while writer.write(&[1]).is_ok() {}
            let full = calls::bytes_in_pipe(&read_end).expect("a pipe");
            for len in [1, ATOMIC, LARGE, 1 << 20] {
                let error = writer.write(&vec![2; len]).expect_err("full");
                assert_eq!(error.kind(), io::ErrorKind::WouldBlock, "{way:?} {wait}");
                writer.block(len).fill(2);
                let error = writer.commit(len).expect_err("full");
                assert_eq!(error.kind(), io::ErrorKind::WouldBlock, "{way:?} {wait}");
            }
            assert_eq!(calls::bytes_in_pipe(&read_end).expect("a pipe"), full);
        }
    }
}

#[test]
fn reader_that_has_gone_is_an_error_value() {
    for way in WAYS {
        for wait in Wait::ALL {
            for len in [1, LARGE, 1 << 20] {
                let (read_end, write_end) = calls::pipe().expect("a pipe");
                let mut writer = writer(write_end, way).with_wait(wait);
                drop(read_end);
                let error = writer.write(&vec![1; len]).expect_err("no reader");
                assert_eq!(
                    error.kind(),
                    io::ErrorKind::BrokenPipe,
                    "{way:?} {wait} {len}"
                );
                writer.block(len).fill(1);
                let error = writer.commit(len).expect_err("no reader");
                assert_eq!(
                    error.kind(),
                    io::ErrorKind::BrokenPipe,
                    "{way:?} {wait} {len}"
                );
            }
        }
    }
}

/// vmsplice would take bytes out of the pipe there.
#[test]
fn read_end_of_a_pipe_is_an_error_value() {
    for way in WAYS {
        let (read_end, write_end) = calls::pipe().expect("a pipe");
        calls::write(&write_end, &[1; 60_000]).expect("room");
        let mut writer = writer(&read_end, way);
        for len in [1, LARGE, 50_000] {
            assert!(writer.write(&vec![2; len]).is_err(), "{way:?} {len}");
            writer.block(len).fill(2);
            assert!(writer.commit(len).is_err(), "{way:?} {len}");
        }
        let mut constant = Constant::new(b"y\n");
        assert!(constant.write_all(&read_end, 50_000).is_err());
        assert_eq!(calls::bytes_in_pipe(&read_end).expect("a pipe"), 60_000);
    }
}

/// The reader goes while the writer waits for room.
#[test]
fn reader_that_goes_while_the_pipe_is_full_is_an_error_value() {
    for way in WAYS {
        for wait in Wait::ALL {
            let (read_end, write_end) = calls::pipe().expect("a pipe");
            thread::scope(|scope| {
                scope.spawn(move || {
                    until_it_stays(|| calls::bytes_in_pipe(&read_end).expect("a pipe"));
                });
                let mut writer = writer(write_end, way).with_wait(wait);
                let error = writer.write_all(&vec![1; 64 << 20]).expect_err("no reader");
                assert_eq!(error.kind(), io::ErrorKind::BrokenPipe, "{way:?} {wait}");
            });
        }
    }
}

/// Sends in every manner; returns what was sent.
fn send(out: impl AsFd) -> (Vec<u8>, Path) {
    let mut writer = Unbuffered::new(out);
    // Letters only: a terminal changes others.
    let bytes: Vec<u8> = (0..300_000).map(|i| b'a' + (i % 23) as u8).collect();
    writer.write_all(&bytes[..10]).expect("room");
    writer.write_all(&bytes[10..100_000]).expect("room");
    writer
        .block(100_000)
        .copy_from_slice(&bytes[100_000..200_000]);
    writer.commit(100_000).expect("room");
    writer.write_all(&bytes[200_000..]).expect("room");
    writer.flush().expect("nothing to do");
    (bytes, writer.path())
}

/// What is no pipe gets write(2) and says so.
#[track_caller]
fn goes_by_write(name: &str, path: &Path) {
    assert_eq!(path.way, Way::Copy, "{name}");
    assert_eq!(path.capacity, None, "{name}");
    assert!(path.to_string().contains("not a pipe"), "{name}: {path}");
}

#[test]
fn files_and_devices_get_write() {
    let mut file = tempfile::tempfile().expect("a file");
    let (bytes, path) = send(&file);
    goes_by_write("file", &path);
    file.rewind().expect("a file");
    let mut all = Vec::new();
    file.read_to_end(&mut all).expect("a file");
    assert!(all == bytes);
    let null = File::options()
        .write(true)
        .open("/dev/null")
        .expect("/dev/null");
    goes_by_write("/dev/null", &send(null).1);
    match File::options().write(true).open("/dev/full") {
        Err(e) => skip("files_and_devices: /dev/full", e),
        Ok(full) => {
            let mut writer = Unbuffered::new(full);
            for len in [1, 100_000] {
                let error = writer.write(&vec![1; len]).expect_err("full");
                assert_eq!(error.kind(), io::ErrorKind::StorageFull);
            }
        }
    }
}

/// Reads what is sent through a descriptor that is no pipe.
fn through(name: &str, mut read_end: impl Read + Send, write_end: OwnedFd) {
    thread::scope(|scope| {
        let reader = scope.spawn(move || {
            let mut all = Vec::new();
            // A terminal ends with an error when its other side is closed.
            let _ = read_end.read_to_end(&mut all);
            all
        });
        let (bytes, path) = send(&write_end);
        drop(write_end);
        goes_by_write(name, &path);
        assert!(reader.join().expect("no panic") == bytes, "{name}");
    });
}

#[test]
fn sockets_get_write() {
    let (read_end, write_end) = UnixStream::pair().expect("sockets");
    through("AF_UNIX", read_end, write_end.into());
    match TcpListener::bind("127.0.0.1:0") {
        Err(e) => skip("sockets: TCP", e),
        Ok(listener) => {
            let address = listener.local_addr().expect("bound");
            let write_end = TcpStream::connect(address).expect("it listens");
            let (read_end, _) = listener.accept().expect("connected");
            through("TCP", read_end, write_end.into());
        }
    }
}

#[test]
fn terminals_get_write() {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let opened = openpt(flags).and_then(|ours| {
        unlockpt(&ours)?;
        let terminal = ioctl_tiocgptpeer(&ours, flags)?;
        Ok((ours, terminal))
    });
    match opened {
        Err(e) => skip("terminals", e),
        Ok((ours, terminal)) => through("terminal", File::from(ours), terminal),
    }
}

#[test]
fn fifo_is_a_pipe() {
    let directory = tempfile::tempdir().expect("a directory");
    let name = directory.path().join("fifo");
    mkfifoat(CWD, &name, Mode::RUSR | Mode::WUSR).expect("a FIFO");
    let open = |flags| rustix::fs::open(&name, flags | OFlags::CLOEXEC, Mode::empty());
    let mut read_end = File::from(open(OFlags::RDONLY | OFlags::NONBLOCK).expect("a FIFO"));
    let write_end = open(OFlags::WRONLY).expect("a FIFO");
    thread::scope(|scope| {
        let sender = scope.spawn(move || send(write_end));
        let mut all = Vec::new();
        while read_end.read_to_end(&mut all).is_err() {
            thread::yield_now();
        }
        let (bytes, path) = sender.join().expect("no panic");
        assert!(all == bytes);
        assert!(path.capacity.is_some(), "{path}");
    });
}

/// Other writers, and splice, find what they expect between what the writer wrote.
#[test]
fn bytes_written_to_the_descriptor_go_between() {
    for way in WAYS {
        let (read_end, write_end) = calls::pipe().expect("a pipe");
        let mut writer = writer(write_end, way);
        let page = page_size(PageKind::Small).expect("pages");
        let mut expected = Vec::new();
        for i in 0..3 {
            let large = vec![i; 5 * page + 17];
            writer.write_all(&large).expect("room");
            calls::write(writer.get_ref(), b"between").expect("room");
            writer.write_all(b"small").expect("room");
            expected.extend([&large[..], b"between", b"small"].concat());
        }
        drop(
            writer
                .into_inner()
                .map_err(|(e, _)| e)
                .expect("nothing waits"),
        );
        let (mut all, held) = (Vec::new(), &mut Own::new());
        while held.take(&read_end, 1 << 20).is_some_and(|n| n > 0) {}
        held.show(usize::MAX, &mut |bytes| {
            all.extend_from_slice(bytes);
            Ok(())
        })
        .expect("kept");
        assert!(all == expected, "{way:?}");
    }
}

/// `SPLICE_F_NONBLOCK` and the rest do not leak into the descriptor.
#[test]
fn writer_leaves_the_descriptor_as_it_was() {
    for way in WAYS {
        let (read_end, write_end) = calls::pipe().expect("a pipe");
        let before = rustix::fs::fcntl_getfl(&write_end).expect("open");
        let capacity_before = capacity::get(&write_end).expect("a pipe");
        let mut writer = writer(&write_end, way).keep_capacity();
        writer.write_all(&[1; 40_000]).expect("room");
        drop(writer);
        assert_eq!(rustix::fs::fcntl_getfl(&write_end).expect("open"), before);
        assert_eq!(capacity::get(&write_end).expect("a pipe"), capacity_before);
        let null = File::options()
            .write(true)
            .open("/dev/null")
            .expect("/dev/null");
        let moved = calls::splice(&read_end, null, 1 << 20, SpliceFlags::NONBLOCK);
        assert_eq!(moved.expect("data"), 40_000);
    }
}
