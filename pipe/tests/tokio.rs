//! Writer, reader and copy under a real runtime, with real pipes.
#![allow(
    clippy::unwrap_used,
    reason = "async tests are no test functions to the lint"
)]

#[allow(dead_code, reason = "the soundness suite uses the rest")]
#[path = "soundness/readers.rs"]
mod readers;
#[allow(dead_code, reason = "the soundness suite uses the rest")]
#[path = "soundness/sequence.rs"]
mod sequence;

use std::io;
use std::os::fd::AsFd;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use fullbore::PipeWriter;
use fullbore::tokio::{AsyncPipeReader, AsyncPipeWriter, copy};
use fullbore_sys::writer::{Unbuffered, Way};
use fullbore_sys::{calls, capacity};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;

/// Bytes that differ from those a page or a huge page further on.
fn bytes(len: usize) -> Vec<u8> {
    let mut x = 1_u64;
    let mut next = || {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (x >> 56) as u8
    };
    (0..len).map(|_| next()).collect()
}

/// Drives a writer with pieces of any size, and reads what arrives.
async fn through(capacity: usize, copy_on_write: bool) {
    let (read_end, write_end) = calls::pipe().unwrap();
    capacity::set(&write_end, capacity).unwrap();
    let mut reader = AsyncPipeReader::new(read_end).unwrap();
    let mut writer = if copy_on_write {
        let own = calls::reopen_nonblocking(write_end.as_fd(), calls::End::Write).unwrap();
        AsyncPipeWriter::from_writer(PipeWriter::new(own).copy_on_write()).unwrap()
    } else {
        AsyncPipeWriter::new(write_end.try_clone().unwrap()).unwrap()
    };
    drop(write_end);
    let sent = bytes(20 << 20);
    let expected = sent.clone();
    let task = tokio::spawn(async move {
        let (mut at, mut len) = (0, 1);
        while at < sent.len() {
            let end = sent.len().min(at + len);
            writer.write_all(&sent[at..end]).await.unwrap();
            at = end;
            len = (len * 7 + 13) % 300_000 + 1;
            if len % 10 == 0 {
                writer.flush().await.unwrap();
            }
        }
        writer.shutdown().await.unwrap();
    });
    let mut got = Vec::new();
    reader.read_to_end(&mut got).await.unwrap();
    task.await.unwrap();
    assert!(got == expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_written_arrives_once_and_in_order() {
    for capacity in [4096, 64 << 10, 1 << 20] {
        for copy_on_write in [false, true] {
            through(capacity, copy_on_write).await;
        }
    }
}

/// Waits until as much is in a pipe as the task beside this one writes before it waits.
async fn until_full(pipe: OwnedFd) {
    let (mut before, mut now) = (0, 1);
    while now != before {
        tokio::time::sleep(Duration::from_millis(1)).await;
        (before, now) = (now, calls::bytes_in_pipe(&pipe).unwrap());
    }
}

/// Readers that splice onwards, tee, and hold pages for long.
#[tokio::test]
async fn no_reader_sees_a_byte_change() {
    let kinds = [readers::Kind::Onwards, readers::Kind::Tees];
    for (seed, kind) in (0..20).flat_map(|seed| kinds.map(|kind| (seed, kind))) {
        let mut rng = sequence::Rng(seed);
        let sequence = sequence::Sequence::new(seed);
        let (read_end, write_end) = calls::pipe().unwrap();
        capacity::set(&write_end, 4096 << rng.below(9)).unwrap();
        let reader = std::thread::spawn(move || {
            let mut got = 0;
            let read = readers::read(kind, &read_end, sequence::Rng(!seed), &mut |bytes| {
                sequence.compare(got, bytes)?;
                got += bytes.len();
                Ok(())
            });
            read.map(|()| got)
        });
        let own = calls::reopen_nonblocking(write_end.as_fd(), calls::End::Write).unwrap();
        drop(write_end);
        let out = Unbuffered::new(own).with_pool(1).with_start(0).fill_ahead();
        let out = match rng.below(4) {
            0 => out,
            1 => out.copy_on_write(),
            2 => out.with_way(Way::Fresh),
            _ => out.with_way(Way::Cow),
        };
        let mut writer = AsyncPipeWriter::from_writer(PipeWriter::over(out)).unwrap();
        let total = rng.between(1, 8 << 20);
        let mut at = 0;
        while at < total {
            let len = rng.write_len().min(total - at);
            writer.write_all(sequence.at(at, len)).await.unwrap();
            at += len;
            if rng.once_in(10) {
                writer.flush().await.unwrap();
            }
        }
        writer.shutdown().await.unwrap();
        drop(writer);
        assert_eq!(reader.join().unwrap(), Ok(total), "{kind:?}, seed {seed}");
    }
}

/// On one thread nothing may wait in a call: the other task would never run.
#[tokio::test]
async fn one_thread_is_enough() {
    through(4096, false).await;
    through(1 << 20, false).await;
}

#[tokio::test]
async fn a_full_pipe_is_waited_for_and_a_task_beside_goes_on() {
    let (read_end, write_end) = calls::pipe().unwrap();
    capacity::set(&write_end, 4096).unwrap();
    let looked_at = read_end.try_clone().unwrap();
    let writer = AsyncPipeWriter::new(write_end).unwrap().into_inner();
    let mut writer = AsyncPipeWriter::from_writer(writer.unbuffered().keep_capacity()).unwrap();
    let mut reader = AsyncPipeReader::new(read_end).unwrap();
    let write = async {
        writer.write_all(&[7; 100_000]).await.unwrap();
        drop(writer);
    };
    let read = async {
        until_full(looked_at).await;
        let mut got = Vec::new();
        reader.read_to_end(&mut got).await.unwrap();
        assert_eq!(got, [7; 100_000]);
    };
    tokio::join!(write, read);
}

#[tokio::test]
async fn a_reader_that_has_gone_is_an_error_value() {
    let (read_end, write_end) = calls::pipe().unwrap();
    let mut writer = AsyncPipeWriter::new(write_end).unwrap();
    drop(read_end);
    writer.write_all(b"nobody").await.unwrap();
    let error = writer.flush().await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
}

/// As many bytes wait as may, and there will never be room for more.
#[tokio::test]
async fn a_reader_that_goes_while_the_pipe_is_full_is_an_error_value() {
    let (read_end, write_end) = calls::pipe().unwrap();
    let looked_at = write_end.try_clone().unwrap();
    let mut writer = AsyncPipeWriter::new(write_end).unwrap();
    let write = async {
        let piece = [7; 50_000];
        loop {
            if let Err(e) = writer.write_all(&piece).await {
                return e.kind();
            }
        }
    };
    let leave = async {
        // After the first 4 MiB there is more than `write(2)`.
        let mut buffer = vec![0; 1 << 20];
        let (mut reader, mut got) = (AsyncPipeReader::new(read_end).unwrap(), 0);
        while got < 8 << 20 {
            got += reader.read(&mut buffer).await.unwrap();
        }
        until_full(looked_at).await;
    };
    let (error, ()) = tokio::join!(write, leave);
    assert_eq!(error, io::ErrorKind::BrokenPipe);
}

/// The reader is never late, so that there is always room.
#[tokio::test]
async fn a_task_beside_goes_on_though_no_write_ever_waits() {
    let (read_end, write_end) = calls::pipe().unwrap();
    let mut writer = AsyncPipeWriter::new(write_end).unwrap();
    let reader = std::thread::spawn(move || {
        let mut buffer = vec![0; 1 << 20];
        while calls::read(&read_end, &mut buffer).unwrap() > 0 {}
    });
    let write = async {
        let until = Instant::now() + Duration::from_secs(5);
        while Instant::now() < until {
            writer.write_all(b"a line\n").await.unwrap();
        }
    };
    let beside = tokio::time::timeout(Duration::from_millis(10), write);
    assert!(beside.await.is_err(), "the timer never had its turn");
    writer.shutdown().await.unwrap();
    drop(writer);
    reader.join().unwrap();
}

#[tokio::test]
async fn what_blocks_and_is_no_pipe_is_refused() {
    let null = std::fs::File::options()
        .write(true)
        .open("/dev/null")
        .unwrap();
    let error = AsyncPipeWriter::new(null).unwrap_err();
    assert!(error.to_string().contains("O_NONBLOCK"), "{error}");
}

#[tokio::test]
async fn copy_moves_all_between_pipes_sockets_and_files() {
    let sent = bytes(3 << 20);
    // A file into a pipe, the pipe into a socket, the socket into another pipe.
    let mut file = tempfile::tempfile().unwrap();
    io::Write::write_all(&mut file, &sent).unwrap();
    io::Seek::rewind(&mut file).unwrap();
    let (first_in, first_out) = pipe::pipe().unwrap();
    let (socket_in, socket_out) = tokio::net::UnixStream::pair().unwrap();
    let (second_in, mut second_out) = pipe::pipe().unwrap();
    let one = async {
        assert_eq!(copy(&file, &first_in).await.unwrap(), 3 << 20);
        drop(first_in);
    };
    let two = async {
        assert_eq!(copy(&first_out, &socket_in).await.unwrap(), 3 << 20);
        drop(socket_in);
    };
    let three = async {
        assert_eq!(copy(&socket_out, &second_in).await.unwrap(), 3 << 20);
        drop(second_in);
    };
    let four = async {
        let mut got = Vec::new();
        second_out.read_to_end(&mut got).await.unwrap();
        assert!(got == sent);
    };
    tokio::join!(one, two, three, four);
}

/// splice(2) refuses a file that is open for appending.
#[tokio::test]
async fn copy_reads_and_writes_where_splice_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let log = std::fs::File::options()
        .create(true)
        .append(true)
        .open(&path)
        .unwrap();
    let (mut sender, receiver) = pipe::pipe().unwrap();
    let sent = bytes(500_000);
    let write = async {
        sender.write_all(&sent).await.unwrap();
        drop(sender);
    };
    let (_, copied) = tokio::join!(write, copy(&receiver, &log));
    assert_eq!(copied.unwrap(), 500_000);
    assert!(std::fs::read(&path).unwrap() == sent);
}
