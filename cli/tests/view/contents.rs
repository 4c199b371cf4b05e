//! Every byte arrives, whatever both sides are.

use std::fs::File;
use std::io::Write;
use std::process::Stdio;

use crate::support::kinds::{KINDS, Sink, source};
use crate::support::{To, pipe, start};
use crate::tools::{MIB, checker, contents, file_of, move_all, raw_terminal, seeded, view};

/// Runs `view` with these kinds of input and output, and checks what arrives.
fn arrives(line: &str, from: &str, to: &str, data: &'static [u8]) -> String {
    let what = format!("{from} to {to} with {line:?}");
    let output = Sink::new(to, data);
    let run = start(view(line), source(from, data), output.stdio()).finish();
    assert_eq!(run.status.code(), Some(0), "{what}: {run}");
    output.check(&what);
    run.err
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
            ("unix socket", "file"),
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
            "unix socket",
            "unix socket",
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
            "was refused: splice: Invalid argument",
        ),
        (
            "-l",
            "pipe",
            "file for appending",
            "was refused: splice: Invalid argument",
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
