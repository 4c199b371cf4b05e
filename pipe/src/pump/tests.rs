//! Blame and what is held, with injected faults.

use std::fs::File;
use std::io::{Read, Seek, Write};

use proptest::prelude::*;
use rustix::fs::{MemfdFlags, OFlags};
use rustix::io::Errno;

use super::*;
use fullbore_sys::calls::fault::{Call, inject};

fn file_of(data: &[u8]) -> File {
    let file = rustix::fs::memfd_create("pump", MemfdFlags::CLOEXEC).unwrap();
    let mut file = File::from(file);
    file.write_all(data).unwrap();
    file.rewind().unwrap();
    file
}

fn contents(mut file: File) -> Vec<u8> {
    let mut got = Vec::new();
    file.rewind().unwrap();
    file.read_to_end(&mut got).unwrap();
    got
}

#[test]
fn output_without_reader_is_to_blame() {
    let (read_end, write_end) = calls::pipe().unwrap();
    drop(read_end);
    for from in [file_of(b"x"), File::open("/dev/zero").unwrap()] {
        let mut pump = Pump::new(from.as_fd(), write_end.as_fd());
        assert_eq!(pump.step(1).unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        assert_eq!(pump.blame(), Side::Output);
    }
}

#[test]
fn input_that_cannot_be_read_is_to_blame() {
    let (_read_end, write_end) = calls::pipe().unwrap();
    let target = file_of(b"");
    let directory = File::open("/").unwrap();
    for to in [write_end.as_fd(), target.as_fd()] {
        let mut pump = Pump::new(directory.as_fd(), to);
        assert_eq!(
            pump.step(1).unwrap_err().kind(),
            io::ErrorKind::IsADirectory
        );
        assert_eq!(pump.blame(), Side::Input);
    }
}

#[test]
fn full_device_is_to_blame() {
    let (read_end, write_end) = calls::pipe().unwrap();
    calls::write(&write_end, b"x").unwrap();
    let full = File::options().write(true).open("/dev/full").unwrap();
    for from in [read_end.as_fd(), file_of(b"x").as_fd()] {
        let mut pump = Pump::new(from, full.as_fd());
        assert_eq!(pump.step(1).unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(pump.blame(), Side::Output);
    }
}

#[test]
fn copying_pump_takes_no_more_than_was_asked_for() {
    let from = file_of(&[7; 1000]);
    let to = file_of(b"");
    let mut pump = Pump::copying(from.as_fd(), to.as_fd(), 64);
    assert_eq!(pump.route(), Route::ReadWrite);
    assert_eq!(pump.step(10).unwrap(), 10);
    assert_eq!((&from).stream_position().unwrap(), 10);
    assert_eq!(pump.step(1000).unwrap(), 64);
    assert_eq!(pump.held(), 0);
    while pump.step(1 << 30).unwrap() > 0 {}
    drop(pump);
    assert_eq!(contents(to), [7; 1000]);
}

#[test]
fn copying_pump_that_holds_bytes_may_be_asked_for_all_there_are() {
    let (from, to) = (file_of(b"0123456789"), file_of(b""));
    let mut pump = Pump::copying(from.as_fd(), to.as_fd(), 64);
    let short = inject(|call, len| Ok(if call == Call::Write { len.min(3) } else { len }));
    while pump.step(usize::MAX).unwrap() > 0 {}
    drop((short, pump));
    assert_eq!(contents(to), b"0123456789");
}

/// Waits until a thread of this process sleeps in two looks.
fn until_asleep(thread: rustix::thread::Pid) {
    let stat = format!("/proc/self/task/{}/stat", thread.as_raw_pid());
    let sleeps = || std::fs::read_to_string(&stat).is_ok_and(|stat| stat.contains(") S "));
    while !(sleeps() && {
        std::thread::sleep(Duration::from_millis(1));
        sleeps()
    }) {
        std::thread::yield_now();
    }
}

#[test]
fn end_of_a_pipe_is_seen_while_the_output_is_full() {
    for refused in [None, Some(Call::Tee), Some(Call::Pipe)] {
        for flags in [OFlags::empty(), OFlags::NONBLOCK] {
            let (from, feed) = calls::pipe().unwrap();
            let (_reader, to) = calls::pipe().unwrap();
            rustix::fs::fcntl_setfl(&from, flags).unwrap();
            let mut pump = Pump::new(from.as_fd(), to.as_fd());
            let len = capacity::get(&to).unwrap();
            let pump_thread = rustix::thread::gettid();
            let feeder = std::thread::spawn(move || {
                let mut feed = File::from(feed);
                feed.write_all(&vec![1; len]).unwrap();
                // The pump has found the output full and the input empty.
                until_asleep(pump_thread);
            });
            let _refused = inject(move |call, len| match refused {
                Some(refused) if call == refused => Err(Errno::PERM),
                _ => Ok(len),
            });
            let mut moved = 0;
            loop {
                match pump.step(usize::MAX).unwrap() {
                    0 => break,
                    n => moved += n,
                }
            }
            assert_eq!(moved, len);
            feeder.join().unwrap();
        }
    }
}

#[test]
fn input_that_has_ended_needs_no_reader_of_the_output() {
    let (from, feed) = calls::pipe().unwrap();
    let (reader, to) = calls::pipe().unwrap();
    calls::write(&feed, b"x").unwrap();
    let mut pump = Pump::new(from.as_fd(), to.as_fd());
    assert_eq!(pump.step(usize::MAX).unwrap(), 1);
    drop(reader);
    drop(feed);
    assert_eq!(pump.step(usize::MAX).unwrap(), 0);
}

#[test]
fn missing_private_pipe_is_named_as_the_reason() {
    let (read_end, write_end) = calls::pipe().unwrap();
    calls::write(&write_end, b"data").unwrap();
    drop(write_end);
    let (one, other) = std::os::unix::net::UnixStream::pair().unwrap();
    let _refused = inject(|call, len| match call {
        Call::Pipe => Err(Errno::MFILE),
        _ => Ok(len),
    });
    for (from, route) in [
        (read_end.as_fd(), Route::Splice),
        (file_of(b"data").as_fd(), Route::ReadWrite),
    ] {
        let copied = copy(from, &one).unwrap();
        assert_eq!((copied.bytes, copied.route), (4, route));
        let reason = Reason::Refused {
            call: "pipe",
            errno: Errno::MFILE.raw_os_error(),
        };
        assert_eq!(copied.fallbacks, [(Route::Relay, reason)]);
    }
    drop(other);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Through the private pipe (neither side is one), with short, refused and delayed calls: every byte arrives, and the
    /// steps add up.
    #[test]
    fn steps_add_up_whatever_call_fails(
        len in 0..600_000_usize,
        most in 1..300_000_usize,
        plan in proptest::collection::vec((0..4_u8, 1..100_000_usize), 1..40),
        refused_after in 0..60_usize,
    ) {
        let data: Vec<u8> = (0..len).map(|i| (i / 7) as u8).collect();
        let (from, mut feed) = std::os::unix::net::UnixStream::pair().unwrap();
        let sent = data.clone();
        let feeder = std::thread::spawn(move || feed.write_all(&sent));
        let to = file_of(b"");
        let mut calls = 0;
        let plan = inject(move |call, len| {
            let (what, short) = plan[calls % plan.len()];
            calls += usize::from(call != Call::Poll);
            match (call, what) {
                (Call::Splice | Call::Write | Call::Read, 1) => Ok(len.min(short)),
                (Call::Splice, 2) if calls > refused_after => Err(Errno::INVAL),
                (Call::Splice, 3) if calls % 3 > 0 => Err(Errno::AGAIN), // else it never ends
                _ => Ok(len),
            }
        });
        let mut pump = Pump::new(from.as_fd(), to.as_fd());
        let mut sum = 0;
        loop {
            match pump.step(most).unwrap() {
                0 => break,
                n => sum += n,
            }
            prop_assert!(pump.held() <= len);
        }
        drop(plan);
        prop_assert_eq!(sum, len);
        feeder.join().unwrap().unwrap();
        prop_assert!(contents(to) == data);
    }
}

/// Every error with which a sandbox may refuse a call, and some that a file may report, too.
const REFUSALS: [Errno; 9] = [
    Errno::PERM,
    Errno::ACCESS,
    Errno::NOSYS,
    Errno::NOMEM,
    Errno::AGAIN,
    Errno::INVAL,
    Errno::IO,
    Errno::NFILE,
    Errno::BADF,
];

#[test]
fn refused_splice_is_no_error_whatever_the_reason() {
    for errno in REFUSALS {
        let _refused = inject(move |call, len| match call {
            Call::Splice | Call::Tee => Err(errno),
            _ => Ok(len),
        });
        let (read_end, write_end) = calls::pipe().unwrap();
        calls::write(&write_end, b"data").unwrap();
        drop(write_end);
        let (_one, other) = calls::pipe().unwrap();
        let file = file_of(b"data");
        for (from, better) in [
            (read_end.as_fd(), Route::Splice),
            (file.as_fd(), Route::Relay),
        ] {
            let copied = copy(from, &other).unwrap();
            assert_eq!(
                (copied.bytes, copied.route),
                (4, Route::ReadWrite),
                "{errno}"
            );
            let reason = Reason::Refused {
                call: "splice",
                errno: errno.raw_os_error(),
            };
            assert_eq!(copied.fallbacks, [(better, reason)], "{errno}");
        }
    }
}

#[test]
fn read_that_is_refused_is_an_error_and_never_waited_for() {
    for errno in REFUSALS {
        let _refused = inject(move |call, len| match call {
            Call::Splice | Call::Read => Err(errno),
            _ => Ok(len),
        });
        let (_one, other) = calls::pipe().unwrap();
        let file = file_of(b"data");
        let mut pump = Pump::new(file.as_fd(), other.as_fd());
        let error = pump.step(usize::MAX).unwrap_err();
        // That it would block is waited for, but not for ever.
        let code = error.raw_os_error().unwrap_or(Errno::AGAIN.raw_os_error());
        assert_eq!(code, errno.raw_os_error());
        assert_eq!(pump.blame(), Side::Input);
    }
}

/// A second call would find the end of the data, and nobody would know that some are missing.
#[test]
fn connection_that_was_reset_is_not_taken_for_a_refusal() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let theirs = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (ours, _) = listener.accept().unwrap();
    rustix::net::sockopt::set_socket_linger(&theirs, Some(Duration::ZERO)).unwrap();
    drop(theirs); // resets it
    let (_reader, to) = calls::pipe().unwrap();
    let error = copy(&ours, &to).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
}

#[test]
fn step_may_ask_for_all_there_is() {
    for refused in [None, Some(Call::Pipe)] {
        let (_read_end, write_end) = calls::pipe().unwrap();
        let _refused = inject(move |call, len| match refused {
            Some(refused) if call == refused => Err(Errno::MFILE),
            _ => Ok(len),
        });
        let file = file_of(b"data");
        let mut pump = Pump::new(file.as_fd(), write_end.as_fd());
        assert_eq!(pump.step(usize::MAX).unwrap(), 4);
        assert_eq!(pump.fallbacks().len(), usize::from(refused.is_some()));
        assert_ne!(pump.route(), Route::ReadWrite);
    }
}

#[test]
fn what_was_copied_by_value_does_not_change_with_the_file() {
    let delivered = |copy: &dyn Fn(&File, &std::os::fd::OwnedFd) -> Copied| {
        let data = vec![1; 3 * 4096 + 5];
        let (read_end, write_end) = calls::pipe().unwrap();
        let mut file = file_of(&data);
        assert_eq!(copy(&file, &write_end).bytes, data.len() as u64);
        drop(write_end);
        file.rewind().unwrap();
        file.write_all(&vec![2; data.len()]).unwrap();
        let mut got = Vec::new();
        File::from(read_end).read_to_end(&mut got).unwrap();
        assert_eq!(got.len(), data.len());
        got == data
    };
    assert!(delivered(&|from, to| copy_by_value(from, to).unwrap()));
    // Else this test could not fail.
    assert!(!delivered(&|from, to| copy(from, to).unwrap()));
}

#[test]
fn copy_by_value_between_files_is_the_kernels_and_between_others_by_hand() {
    let (from, to) = (file_of(b"data"), file_of(b""));
    let copied = copy_by_value(&from, to.try_clone().unwrap()).unwrap();
    assert_eq!(copied.bytes, 4);
    assert_eq!(contents(to), b"data");
    let (read_end, write_end) = calls::pipe().unwrap();
    calls::write(&write_end, b"data").unwrap();
    drop(write_end);
    let (_reader, to) = calls::pipe().unwrap();
    assert_eq!(
        copy_by_value(&read_end, &to).unwrap().route,
        Route::ReadWrite
    );
}

/// Packets of a socket are larger than what a pipe has room for, where its user may have no more.
#[test]
fn packets_of_a_socket_are_taken_whole() {
    use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType};
    let (ours, theirs) = rustix::net::socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )
    .unwrap();
    let sent: Vec<u8> = (0..100_000_u32).map(|i| (i / 7) as u8).collect();
    for packet in sent.chunks(50_000) {
        rustix::net::send(&theirs, packet, SendFlags::empty()).unwrap();
    }
    drop(theirs);
    let to = file_of(b"");
    let mut pump = Pump::new(ours.as_fd(), to.as_fd());
    let mut steps = 0;
    while pump.step_within(usize::MAX, 7000).unwrap() > 0 {
        steps += 1;
    }
    assert_eq!(
        steps, 16,
        "at most 7000 bytes each, and never of two packets"
    );
    assert_eq!(pump.fallbacks(), [(Route::Relay, Reason::Packets)]);
    drop(pump);
    assert!(contents(to) == sent);
}
