//! What a sandbox or a limit takes away, and inputs that lose what is not read at once.

use std::io::{PipeReader, PipeWriter, Write};
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::thread;

use libc::{EAGAIN, EMFILE, EPERM};
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, socketpair};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Signal, kill_process};

use crate::support::kinds::{Sink, contents, seeded};
use crate::support::{
    Links, Running, command, ctrl_c_is_ignored, pipe, seccomp, skip, start, until,
};
use crate::tools::{file_of, view};

/// Packets that a pipe takes one by one, and one whose reader shows no sign of it.
fn pipe_of_packets(data: &'static [u8]) -> OwnedFd {
    let (read_end, write_end) = pipe_with(PipeFlags::DIRECT | PipeFlags::CLOEXEC).expect("a pipe");
    thread::spawn(move || send(data, |packet| rustix::io::write(&write_end, packet)));
    read_end
}

fn socket_of_packets(data: &'static [u8]) -> OwnedFd {
    let kind = (
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
    );
    let (ours, theirs) = socketpair(kind.0, kind.1, kind.2, None).expect("sockets");
    thread::spawn(move || {
        send(data, |packet| {
            rustix::net::send(&theirs, packet, SendFlags::NOSIGNAL)
        })
    });
    ours
}

/// Sends packets of 2000 bytes for as long as somebody takes them.
fn send(data: &[u8], send: impl Fn(&[u8]) -> rustix::io::Result<usize>) {
    for packet in data.chunks(2000) {
        if send(packet) != Ok(packet.len()) {
            return;
        }
    }
}

/// A rate that is reached within the first packets, so that it does shorten something.
#[test]
fn rate_limit_loses_nothing_of_a_packet() {
    let data = &seeded()[..500_000];
    for line in [
        "-qL 1M",
        "-qCL 1M",
        "-qCL 1M -B 64k",
        "-ql -L 4k",
        "-q -A 9 -L 1M",
        "-qEL 1M",
    ] {
        for source in [pipe_of_packets, socket_of_packets] {
            let output = Sink::new("file for appending", data);
            let run = start(view(line), source(data), output.stdio()).finish();
            run.quiet_success();
            output.check(line);
        }
    }
}

/// Starts it with an input that does not end, and waits until it has moved something. Both ends have to be kept.
fn moving(command: Command) -> (Running, PipeWriter, PipeReader) {
    let (input, mut feed) = pipe();
    let (output, theirs) = pipe();
    let running = start(command, input, theirs);
    feed.write_all(b"data").expect("a reader");
    until("the first bytes", || {
        fullbore_sys::calls::bytes_in_pipe(&output).is_ok_and(|n| n == 4)
    });
    (running, feed, output)
}

#[test]
fn signals_end_it_where_no_thread_and_no_socket_can_be_had() {
    if let Some(why) = seccomp::refusal() {
        return skip(why);
    }
    if ctrl_c_is_ignored() {
        return skip("Ctrl-C is ignored here");
    }
    let threads: (&[i64], _) = (&[libc::SYS_clone3, libc::SYS_clone], EAGAIN);
    let sockets: (&[i64], _) = (
        &[libc::SYS_socketpair, libc::SYS_recvfrom, libc::SYS_sendto],
        EPERM,
    );
    let pipes: (&[i64], _) = (&[libc::SYS_pipe2], EMFILE);
    let links = Links::new(&["pv"]);
    for (calls, errno) in [threads, sockets, pipes, (&[], 0)] {
        for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
            for pv in [false, true] {
                let command = if pv {
                    command(links.path("pv"), "-q")
                } else {
                    view("-q")
                };
                let mut command = command;
                seccomp::refuse(&mut command, calls, errno);
                let (running, _feed, _output) = moving(command);
                kill_process(running.pid(), signal).expect("a signal");
                let run = running.finish();
                assert!(!run.status.success(), "{calls:?} {signal:?}: {run}");
                assert_eq!(run.err, "", "{calls:?} {signal:?}: {run}");
            }
        }
    }
}

#[test]
fn splice_that_would_block_on_what_is_ready_is_not_waited_for_for_ever() {
    if let Some(why) = seccomp::refusal() {
        return skip(why);
    }
    for line in ["-q", "-ql", "-qC", "-qE -B 4k"] {
        let mut command = view(line);
        seccomp::refuse(&mut command, &[libc::SYS_splice, libc::SYS_tee], EAGAIN);
        let output = tempfile::tempfile().expect("a file");
        let ours = output.try_clone().expect("a copy");
        let run = start(command, file_of(b"data"), Stdio::from(output)).finish();
        assert_eq!(run.status.code(), Some(0), "{line}: {run}");
        assert_eq!(contents(ours), b"data", "{line}");
    }
}
