//! Outputs that are full, and inputs that end or grow meanwhile.

use std::fs::File;
use std::io::{PipeReader, PipeWriter, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::Stdio;

use rustix::fs::{OFlags, fcntl_setfl};
use rustix::pipe::{fcntl_getpipe_size, fcntl_setpipe_size};

use crate::support::kinds::{MIB, Sink, checker, seeded, source};
use crate::support::state::{ticks, until_it_waits, waiting};
use crate::support::{fullbore, pipe, seccomp, skip, start, until};
use crate::{ALL_WAYS, MOVERS};

/// A pipe that no tool will make larger, as far as this user may, and what it takes.
fn largest_pipe() -> (PipeReader, PipeWriter, usize) {
    let (read_end, write_end) = pipe();
    let most = crate::support::kernel("/proc/sys/fs/pipe-max-size");
    let _ = fcntl_setpipe_size(&write_end, most.trim().parse().unwrap_or(MIB)); // if this user may
    let capacity = fcntl_getpipe_size(&write_end).expect("a capacity");
    (read_end, write_end, capacity)
}

/// Whoever reads the output only when the tool has ended waits for ever if the tool waits for room.
#[test]
fn end_of_input_is_seen_while_the_output_is_full() {
    for line in ALL_WAYS {
        for (comes_later, flags) in [
            (false, OFlags::empty()),
            (true, OFlags::empty()),
            (true, OFlags::NONBLOCK),
        ] {
            let (theirs, mut ours) = pipe();
            let (mut out, to_us, capacity) = largest_pipe();
            fcntl_setfl(&theirs, flags).expect("flags");
            let run = start(fullbore(line), theirs, to_us);
            ours.write_all(&seeded()[..capacity]).expect("room");
            if comes_later {
                until_it_waits(run.pid(), || waiting(&out));
            }
            drop(ours);
            run.finish().quiet_success();
            let mut got = Vec::new();
            out.read_to_end(&mut got).expect("all of it");
            assert!(got == seeded()[..capacity], "{line}");
        }
    }
}

/// Each piece has a slot of its own, however few bytes it has: so a pipe is full, and a splice short, long before its
/// capacity is used up. Whoever splices into a private pipe again before that is empty waits for himself.
#[test]
fn many_small_pieces_pass_through_pipes_of_one_page() {
    if let Some(why) = seccomp::refusal() {
        return skip(why);
    }
    let data = &seeded()[..MIB];
    for line in ALL_WAYS {
        for from in ["pipe", "unix socket"] {
            let (input, mut ours): (OwnedFd, Box<dyn Write + Send>) = if from == "pipe" {
                let (input, ours) = pipe();
                let _ = fcntl_setpipe_size(&ours, 1);
                (input.into(), Box::new(ours))
            } else {
                let (input, ours) = UnixStream::pair().expect("sockets");
                (input.into(), Box::new(ours))
            };
            let (out, to_us) = pipe();
            fcntl_setpipe_size(&to_us, 1).expect("a small pipe");
            let checked = checker(out, data);
            let mut command = fullbore(line);
            let set_pipe_size = libc::F_SETPIPE_SZ as u32;
            seccomp::refuse_value(&mut command, libc::SYS_fcntl, 1, set_pipe_size, libc::EPERM);
            let run = start(command, input, to_us);
            // 1 to 3000 bytes, most of them few.
            let mut rest = data;
            for len in (1..).map(|i: usize| 1 + (i * i * i) % 3000) {
                let (piece, more) = rest.split_at(len.min(rest.len()));
                ours.write_all(piece).expect("a reader");
                rest = more;
                if rest.is_empty() {
                    break;
                }
            }
            drop(ours);
            run.finish().quiet_success();
            let arrived = checked.join().expect("the same bytes");
            assert_eq!(arrived, data.len(), "{line} from {from}");
        }
    }
}

/// A tool at the beginning of a file gets what is written behind it until it comes there.
#[test]
fn file_that_grows_is_read_to_the_end_that_it_has_then() {
    let data = &seeded()[..8 * MIB];
    for line in ALL_WAYS {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        file.write_all(&data[..2 * MIB]).expect("its beginning");
        let input = file.reopen().expect("the same file");
        let (mut out, to_us) = pipe();
        let run = start(fullbore(line), input, to_us);
        // More than one byte is there, but no tool has read so far ahead as to see the end: pipes hold less.
        let mut got = vec![0; 1000];
        out.read_exact(&mut got).expect("a beginning");
        file.write_all(&data[2 * MIB..]).expect("the rest");
        out.read_to_end(&mut got).expect("the rest");
        run.finish().quiet_success();
        assert!(got == data, "{line}: {} bytes", got.len());
    }
}

/// As above, with inputs that come to an end, and go on to be used by the next program.
#[test]
fn what_comes_behind_the_end_is_left_to_the_next_reader() {
    let (data, more) = seeded()[..MIB].split_at(MIB / 2);
    for line in ALL_WAYS {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        file.write_all(data).expect("its contents");
        let input: OwnedFd = file.reopen().expect("the same file").into();
        for part in [data, more] {
            let output = Sink::new("file", part);
            let same: Stdio = input.try_clone().expect("a copy").into();
            start(fullbore(line), same, output.stdio())
                .finish()
                .quiet_success();
            output.check(line);
            if part == data {
                file.write_all(more).expect("more of it");
            }
        }
    }
}

/// Splice refuses a pipe as its own output. What is in it goes round, and nothing is lost.
#[test]
fn a_pipe_may_be_input_and_output() {
    let data = &seeded()[..20_000];
    for line in ALL_WAYS {
        let (mut ours, mut theirs) = pipe();
        let input = ours.try_clone().expect("a copy");
        theirs.write_all(data).expect("room");
        let run = start(fullbore(line), input, theirs);
        until("some rounds", || ticks(run.pid()) > 1);
        // All of it is in the pipe or with the tool, which gives back all it has taken at once.
        let mut got = vec![0; data.len()];
        ours.read_exact(&mut got).expect("all of it");
        run.kill();
        // It may have been taken and given back in two parts, of which one may be read in between.
        got.sort_unstable();
        let mut expected = data.to_vec();
        expected.sort_unstable();
        assert!(got == expected, "{line}");
    }
}

/// A device that is full, and a pipe whose other end is what was opened.
#[test]
fn wrong_ends_are_errors() {
    for line in MOVERS {
        let (read_end, write_end) = pipe();
        let readable = source("file", &seeded()[..10]);
        for (input, output) in [
            (OwnedFd::from(write_end), Stdio::null()),
            (readable, Stdio::from(read_end)),
        ] {
            let run = start(fullbore(line), input, output).finish();
            assert_eq!(run.status.code(), Some(1), "{run}");
            assert!(run.err.contains("Bad file descriptor"), "{run}");
            run.complains(&[1]);
        }
        let full = File::options().write(true).open("/dev/full").expect("it");
        let run = start(fullbore(line), source("pipe", &seeded()[..10]), full).finish();
        run.complains(&[1]);
        assert!(run.err.contains("No space left"), "{run}");
    }
}
