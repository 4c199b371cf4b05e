//! Every byte arrives, whatever both sides are.

use std::fs::File;
use std::io::{Seek, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::thread;

use crate::support::{To, pipe, start};
use crate::tools::{MIB, checker, contents, file_of, move_all, raw_terminal, seeded, view};

const KINDS: [&str; 3] = ["pipe", "file", "socket"];

/// The input of a kind; what is not a file is filled by a thread.
fn source(kind: &str, data: &'static [u8]) -> Stdio {
    match kind {
        "pipe" => {
            let (read_end, mut write_end) = pipe();
            thread::spawn(move || write_end.write_all(data));
            read_end.into()
        }
        "socket" => {
            let (theirs, mut ours) = UnixStream::pair().expect("sockets");
            thread::spawn(move || ours.write_all(data));
            OwnedFd::from(theirs).into()
        }
        _ => file_of(data).into(),
    }
}

/// Runs `view` with these kinds of input and output, and checks what arrives.
fn arrives(line: &str, from: &str, to: &str, data: &'static [u8]) -> String {
    let what = format!("{from} to {to} with {line:?}");
    let stdin = source(from, data);
    let (run, arrived) = match to {
        "pipe" => {
            let (read_end, write_end) = pipe();
            let checked = checker(read_end, data);
            (move_all(line, stdin, write_end), checked.join())
        }
        "socket" => {
            let (ours, theirs) = UnixStream::pair().expect("sockets");
            let checked = checker(ours, data);
            (move_all(line, stdin, OwnedFd::from(theirs)), checked.join())
        }
        "file for appending" => {
            let file = file_of(b"");
            rustix::fs::fcntl_setfl(&file, rustix::fs::OFlags::APPEND).expect("appending");
            let run = move_all(line, stdin, file.try_clone().expect("a copy"));
            (run, checked_file(file, data))
        }
        _ => {
            let file = file_of(b"");
            let run = move_all(line, stdin, file.try_clone().expect("a copy"));
            (run, checked_file(file, data))
        }
    };
    assert_eq!(run.status.code(), Some(0), "{what}: {run}");
    let arrived = arrived.unwrap_or_else(|_| panic!("{what}: other bytes"));
    assert_eq!(arrived, data.len(), "{what}: {run}");
    run.err
}

fn checked_file(mut file: File, data: &'static [u8]) -> thread::Result<usize> {
    file.rewind().expect("its beginning");
    checker(file, data).join()
}

#[test]
fn every_mix_of_inputs_and_outputs_arrives_byte_for_byte() {
    for from in KINDS {
        for to in KINDS {
            arrives("-q", from, to, seeded());
        }
    }
}

#[test]
fn every_way_of_moving_arrives_byte_for_byte() {
    let data = &seeded()[..8 * MIB + 13];
    for line in [
        "-ql",
        "-C",
        "-B 5000",
        "-fA 8 -i 0.1",
        "-fl -F %L",
        "-E",
        "-Y",
        "-L 1T",
        "-lL 1T",
        "-T -l",
    ] {
        for (from, to) in [
            ("pipe", "pipe"),
            ("file", "pipe"),
            ("socket", "file"),
            ("pipe", "file for appending"),
        ] {
            arrives(line, from, to, data);
        }
    }
}

#[test]
fn paths_are_explained_with_their_reasons() {
    let data = &seeded()[..MIB];
    for (line, from, to, path) in [
        (
            "",
            "pipe",
            "pipe",
            ": splice, since a pipe needs no byte to be copied",
        ),
        ("", "file", "pipe", "path of (stdin): splice"),
        (
            "",
            "socket",
            "socket",
            ": splice through a private pipe, since",
        ),
        ("-E", "file", "pipe", "path of (stdin): splice"),
        ("-l", "pipe", "pipe", "made by tee; 1MiB, input pipe "),
        (
            "-C",
            "pipe",
            "pipe",
            ": read and write, since -B, -C or -T asks for it; 1MiB",
        ),
        (
            "",
            "pipe",
            "file for appending",
            "was refused: Invalid argument",
        ),
        (
            "-l",
            "pipe",
            "file for appending",
            "was refused: Invalid argument",
        ),
    ] {
        let said = arrives(&format!("--explain {line}"), from, to, data);
        assert!(said.starts_with("fullbore: path of (stdin): "), "{said}");
        assert!(said.contains(path), "{from} to {to} with {line:?}: {said}");
    }
}

#[test]
fn raw_terminals_carry_every_byte() {
    let data = &seeded()[..16 * MIB];
    let (ours, theirs) = raw_terminal();
    let checked = checker(ours, data);
    let run = move_all("-q", source("pipe", data), theirs);
    assert_eq!(run.status.code(), Some(0), "{run}");
    assert_eq!(checked.join().expect("the same bytes"), data.len());

    let (mut ours, theirs) = raw_terminal();
    let (read_end, write_end) = pipe();
    let checked = checker(read_end, data);
    // The terminal has no end: the size says where to stop.
    let line = format!("-q -S -s {}", data.len());
    let running = start(view(&line), theirs, write_end);
    ours.write_all(data).expect("room in the terminal");
    let run = running.finish();
    assert_eq!(run.status.code(), Some(0), "{run}");
    assert_eq!(checked.join().expect("the same bytes"), data.len());
}

#[test]
fn counts_into_dev_null_are_right() {
    let data = &seeded()[..64 * MIB];
    let lines = memchr::memchr_iter(b'\n', data).count();
    let nulls = memchr::memchr_iter(0, data).count();
    for (line, count) in [
        ("-nb", data.len()),
        ("-nbl", lines),
        ("-nb0", nulls),
        ("-nb8", 8 * data.len()),
        ("-nbC", data.len()),
        ("-nbX", data.len()),
    ] {
        for from in ["pipe", "file"] {
            let null = File::create("/dev/null").expect("/dev/null");
            let run = move_all(line, source(from, data), null);
            let last = run.err.lines().last().unwrap_or_default();
            assert_eq!(last, count.to_string(), "{line} from {from}: {run}");
        }
    }
}

#[test]
fn files_follow_each_other_and_dash_is_standard_input() {
    let place = tempfile::tempdir().expect("a directory");
    for (name, data) in [("one", "first "), ("two", "third "), ("empty", "")] {
        std::fs::write(place.path().join(name), data).expect("a file");
    }
    for line in ["-q", "-ql", "-C"] {
        let mut command = view(&format!("{line} one - empty two"));
        command.current_dir(place.path());
        let run = start(command, file_of(b"second "), To::Captured).finish();
        run.quiet_success();
        assert_eq!(run.out, "first second third ", "{line}");
    }
}

#[test]
fn empty_inputs_end_at_once() {
    for from in KINDS {
        for line in ["-q", "-ql", "-C", "-f", "-n"] {
            arrives(line, from, "pipe", b"");
        }
    }
}

#[test]
fn what_is_added_to_a_file_meanwhile_is_moved_too() {
    let mut input = tempfile::NamedTempFile::new().expect("a file");
    input.write_all(&[b'a'; 5000]).expect("its data");
    let output = file_of(b"");
    let line = format!("-q -L 20000 {}", input.path().display());
    let running = start(
        view(&line),
        Stdio::null(),
        output.try_clone().expect("a copy"),
    );
    input.write_all(&[b'b'; 3000]).expect("more data");
    running.finish().quiet_success();
    let got = contents(output);
    assert_eq!(got.len(), 8000);
    assert!(got.ends_with(&[b'b'; 3000]));
}

#[test]
fn output_file_is_made_and_cut() {
    let place = tempfile::tempdir().expect("a directory");
    let path = place.path().join("out");
    std::fs::write(&path, "longer than what comes").expect("a file");
    let run = start(
        view(&format!("-o {}", path.display())),
        file_of(b"short"),
        To::Captured,
    )
    .finish();
    run.quiet_success();
    assert_eq!(std::fs::read(&path).expect("the output"), b"short");
    assert_eq!(run.out, "");
}
