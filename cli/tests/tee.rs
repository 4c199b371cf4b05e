//! `fullbore tee`, and as a link named `tee`.

#![allow(clippy::unwrap_used)]

mod support;
mod tools;

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

use rustix::pty::{OpenptFlags, openpt, ptsname, unlockpt};
use support::kinds::{MIB, Sink, feed, seeded, source};
use support::{BINARY, Links, command, fullbore, pipe, start};

#[test]
fn link_does_what_the_original_does() {
    tools::same_as_the_original(
        &["tee"],
        &[
            "tee -h < f; tee --help > /dev/full; tee --version >&-",
            "tee a b < f; md5sum a b",
            "tee a < f > b; tee -a a b < f; md5sum a b; tee --append a --app b < f > /dev/null; md5sum a b",
            "head -c 3000000 /dev/zero | tee a | md5sum; md5sum a",
            "head -c 3000000 /dev/zero | tee >(md5sum > s) /dev/null | md5sum; sleep 0.2; cat s",
            "echo x | tee; echo $?; echo x | tee -; cat ./-",
            "tee missing/a < f; echo $?; tee missing/a b < f; cat b",
            "tee --output-error=exit missing/a b < f; echo $?; ls",
            "echo a | tee > /dev/full; echo $?; echo a | tee b > /dev/full; cat b",
            "echo a | tee /dev/full b; echo $?; cat b",
            "echo a | tee --output-error=exit /dev/full b; echo $?",
            "head -c 9000000 /dev/zero | tee /dev/full | wc -c",
            "tee < d; echo $?; tee a < /proc/self/mem; echo $?",
            "echo a | tee >&-; echo $?; tee < /dev/null >&-; echo $?; echo a | tee b >&-; cat b",
            "tee <&-; echo $?",
            "tee d < f; echo $?; tee 'a b'/c < /dev/null",
            "head -c 9000000 /dev/zero | tee a | head -c 1 | wc -c; echo ${PIPESTATUS[*]:1}",
            "head -c 9000000 /dev/zero | tee -p a | head -c 1 | wc -c; echo ${PIPESTATUS[*]}; wc -c a",
            "head -c 9000000 /dev/zero | tee --output-error a | head -c 1 | wc -c; echo ${PIPESTATUS[*]}",
            "head -c 9000000 /dev/zero | tee --output-error=warn a | head -c 1 | wc -c; echo ${PIPESTATUS[*]}; wc -c a",
            "head -c 9000000 /dev/zero | tee --output-error=exit a | head -c 1 | wc -c; echo ${PIPESTATUS[*]:1}",
            "head -c 9000000 /dev/zero | tee --output-error=exit-nopipe a | head -c 1 | wc -c; echo ${PIPESTATUS[*]}; wc -c a",
            "(trap '' PIPE; head -c 9000000 /dev/zero | tee a; echo $? >&2) | head -c 1 | wc -c",
            "tee --nonsense; echo $?; tee -z; echo $?",
            ": | tee a; wc -c a; cat f | tee -i a | md5sum; (tee a; echo done) < f",
        ],
    );
}

/// A reader that wants more of one output before it takes anything from the other one gets it, up to what pipes hold.
#[test]
fn output_that_blocks_does_not_starve_the_other_one() {
    let (from_us, to_tee) = pipe();
    let (mut one, to_one) = pipe();
    let (mut other, to_other) = pipe();
    let mut tee = fullbore("tee");
    tee.arg(format!(
        "/proc/{}/fd/{}",
        std::process::id(),
        to_other.as_raw_fd()
    ));
    let run = start(tee, from_us, to_one);
    let data = &seeded()[..30 * MIB];
    let feeding = feed(to_tee, data);
    let (mut at, mut got, mut got_other) = (0, vec![0; MIB], vec![0; MIB]);
    while at < data.len() {
        // 48 KiB ahead at one, then at the other.
        let lead = (48 << 10).min(data.len() - at);
        one.read_exact(&mut got[..lead]).unwrap();
        assert!(got[..lead] == data[at..at + lead]);
        other.read_exact(&mut got_other[..lead]).unwrap();
        assert!(got_other[..lead] == data[at..at + lead]);
        at += lead;
    }
    assert!(feeding.join().unwrap());
    run.finish().quiet_success();
}

#[test]
fn what_is_typed_comes_out_at_once() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("log");
    let (from_us, mut to_tee) = pipe();
    let (mut from_tee, to_us) = pipe();
    let mut tee = fullbore("tee");
    tee.arg(&path);
    let run = start(tee, from_us, to_us);
    let mut so_far = String::new();
    for text in ["a\n", "part of ", "b\n"] {
        to_tee.write_all(text.as_bytes()).unwrap();
        so_far += text;
        let mut got = [0; 64];
        let n = from_tee.read(&mut got).unwrap();
        assert_eq!(&got[..n], text.as_bytes());
        support::until("the file", || {
            std::fs::read_to_string(&path).unwrap() == so_far
        });
    }
    drop(to_tee);
    run.finish().quiet_success();
}

#[test]
fn reader_that_goes_away_leaves_the_others_with_p() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("all");
    let data = &seeded()[..5 * MIB];
    let mut tee = fullbore("tee -p");
    tee.arg(&path);
    let (read_end, write_end) = pipe();
    drop(read_end);
    start(tee, source("pipe", data), write_end)
        .finish()
        .quiet_success();
    assert!(std::fs::read(&path).unwrap() == data);
}

/// Where this process has a pipe's write end open.
fn path_of(pipe: &impl AsRawFd) -> String {
    format!("/proc/{}/fd/{}", std::process::id(), pipe.as_raw_fd())
}

#[test]
fn first_reader_that_goes_away_ends_it_under_our_own_name() {
    for other in ["/dev/null", ""] {
        for from in ["/dev/zero", "yes"] {
            let (mut out, to_out) = pipe();
            let (from_yes, to_tee) = pipe();
            let input: Stdio = match from {
                "yes" => from_yes.into(),
                file => File::open(file).unwrap().into(),
            };
            let yes = (from == "yes").then(|| start(command("yes", ""), Stdio::null(), to_tee));
            let mut tee = fullbore("tee");
            tee.args((!other.is_empty()).then_some(other));
            let run = start(tee, input, to_out);
            out.read_exact(&mut [0; 2]).unwrap();
            drop(out);
            run.finish().quiet_success();
            drop(yes);
        }
    }
}

/// The original writes to standard output first, and so never comes to the other one.
#[test]
fn output_without_room_does_not_keep_it_when_a_reader_has_gone() {
    let (_nobody_reads, full) = pipe();
    let capacity = fullbore_sys::capacity::get(&full).unwrap();
    (&full).write_all(&vec![0; capacity]).unwrap();
    let (read_end, write_end) = pipe();
    drop(read_end);
    let mut tee = fullbore("tee");
    tee.arg(path_of(&full));
    start(tee, source("pipe", &seeded()[..MIB]), write_end)
        .finish()
        .quiet_success();
}

#[test]
fn every_mode_ends_where_the_original_ends() {
    let modes = [
        "",
        "-p",
        "--output-error=warn",
        "--output-error=warn-nopipe",
        "--output-error=exit",
        "--output-error=exit-nopipe",
    ];
    let lines = modes.iter().flat_map(|mode| {
        [
            format!("yes | tee {mode} | head -n 1; echo ${{PIPESTATUS[*]}}"),
            format!("tee {mode} < /dev/zero | head -c 1 | wc -c; echo ${{PIPESTATUS[*]}}"),
        ]
    });
    let mut lines: Vec<_> = lines.collect();
    for mode in ["", "--output-error=exit"] {
        lines.push(format!(
            "yes | tee {mode} /dev/null | head -n 1; echo ${{PIPESTATUS[*]}}"
        ));
    }
    let lines: Vec<_> = lines.iter().map(String::as_str).collect();
    tools::same_as_the_original(&["tee"], &lines);
}

/// What looks out for its outputs, by its own name and as a link.
fn each_that_watches(work: impl Fn(Command)) {
    let links = Links::new(&["tee"]);
    for mode in [
        "-p",
        "--output-error=warn-nopipe",
        "--output-error=exit-nopipe",
    ] {
        work(fullbore(&format!("tee {mode}")));
        work(command(links.path("tee"), mode));
    }
}

#[test]
fn end_of_the_last_reader_is_noticed_while_there_is_no_input() {
    each_that_watches(|tee| {
        let (_idle, from_us) = UnixStream::pair().unwrap();
        let (from_pipe, _to_pipe) = pipe();
        let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        unlockpt(&terminal).unwrap();
        let name = ptsname(&terminal, Vec::new()).unwrap();
        let typed = File::options()
            .read(true)
            .write(true)
            .open(name.to_str().unwrap())
            .unwrap();
        for input in [OwnedFd::from(from_us), from_pipe.into(), typed.into()] {
            let (read_end, write_end) = pipe();
            let mut again = command(tee.get_program(), "");
            again.args(tee.get_args());
            let run = start(again, input, write_end);
            drop(read_end);
            run.finish().quiet_success();
        }
    });
}

#[test]
fn outputs_that_are_left_get_everything_before_the_last_one_ends_it() {
    each_that_watches(|mut tee| {
        let (mut other, to_other) = pipe();
        let (mut out, to_out) = pipe();
        let (from_us, mut to_tee) = pipe();
        tee.arg(path_of(&to_other));
        let run = start(tee, from_us, to_out);
        let mut got = [0; 8];
        to_tee.write_all(b"a\n").unwrap();
        assert_eq!(out.read(&mut got).unwrap(), 2);
        assert_eq!(other.read(&mut got).unwrap(), 2);
        drop((out, to_other));
        to_tee.write_all(b"b\n").unwrap();
        assert_eq!(other.read(&mut got).unwrap(), 2);
        assert_eq!(&got[..2], b"b\n");
        drop(other);
        run.finish().quiet_success();
    });
}

#[test]
fn file_is_written_to_the_end_of_the_input_after_the_reader_has_gone() {
    each_that_watches(|mut tee| {
        let place = tempfile::tempdir().unwrap();
        tee.arg("all").current_dir(place.path());
        let (read_end, write_end) = pipe();
        let (from_us, mut to_tee) = pipe();
        let run = start(tee, from_us, write_end);
        drop(read_end);
        for _ in 0..3 {
            support::state::until_it_waits(run.pid(), || 0);
            to_tee.write_all(b"line\n").unwrap();
        }
        drop(to_tee);
        run.finish().quiet_success();
        let all = std::fs::read(place.path().join("all")).unwrap();
        assert_eq!(all, b"line\n".repeat(3));
    });
}

#[test]
fn link_dies_by_sigpipe_unless_told_otherwise() {
    use std::os::unix::process::ExitStatusExt;
    let links = Links::new(&["tee"]);
    for (line, signal) in [("", Some(13)), ("-p", None), ("--output-error", None)] {
        let (read_end, write_end) = pipe();
        drop(read_end);
        let zero = File::open("/dev/zero").unwrap();
        let run = start(command(links.path("tee"), line), zero, write_end).finish();
        assert_eq!(run.status.signal(), signal, "{run}");
        assert_eq!(run.err, "", "{run}");
    }
}

#[test]
fn interrupt_is_ignored_with_i() {
    let (from_us, mut to_tee) = pipe();
    let (mut from_tee, to_us) = pipe();
    let run = start(fullbore("tee -i"), from_us, to_us);
    let mut got = [0; 8];
    to_tee.write_all(b"before").unwrap();
    assert_eq!(from_tee.read(&mut got).unwrap(), 6);
    run.interrupt();
    to_tee.write_all(b"after").unwrap();
    assert_eq!(from_tee.read(&mut got).unwrap(), 5);
    drop(to_tee);
    run.finish().quiet_success();
}

#[test]
fn explanation_names_way_and_reason_for_each_output() {
    let place = tempfile::tempdir().unwrap();
    let mut tee = fullbore("tee --explain -a log");
    tee.current_dir(place.path());
    let run = start(tee, source("pipe", &seeded()[..300_000]), Stdio::null()).finish();
    assert_eq!(run.status.code(), Some(0), "{run}");
    let lines: Vec<_> = run.err.lines().collect();
    assert_eq!(lines.len(), 2, "{run}");
    assert!(
        lines[0].ends_with("by splice through a private pipe"),
        "{run}"
    );
    assert!(
        lines[1].contains("log: ") && lines[1].contains("by read and write, "),
        "{run}"
    );
}

#[test]
fn failing_output_has_advice_under_our_own_name() {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let run = start(fullbore("tee"), source("pipe", &seeded()[..10]), full).finish();
    run.complains(&[1]);
    assert!(run.err.contains("No space left on device"), "{run}");
}

#[test]
fn pipes_that_are_refused_cost_nothing_but_speed() {
    let data = &seeded()[..6 * MIB];
    let place = tempfile::tempdir().unwrap();
    for limit in ["ulimit -n 4", "ulimit -n 5", "ulimit -n 7"] {
        let mut shell = command("bash", "");
        shell.args(["-c", &format!("{limit}; exec \"$0\" tee one"), BINARY]);
        shell.current_dir(place.path());
        let output = Sink::new("unix socket", data);
        start(shell, source("pipe", data), output.stdio())
            .finish()
            .quiet_success();
        output.check(limit);
        assert!(
            std::fs::read(place.path().join("one")).unwrap() == data,
            "{limit}"
        );
    }
}
