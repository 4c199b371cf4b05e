//! How it ends: exit codes, messages, signals, closed outputs; and what it leaves as it was.

use std::io::{Read, Write};
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::{Signal, kill_process};

use crate::support::state::{ticks, until_it_waits, waiting};
use crate::support::{Links, To, command, ctrl_c_is_ignored, pipe, skip, start, until, words};
use crate::tools::{Screen, as_pv, file_of, terminal, view};

#[test]
fn output_that_is_closed_early_is_success() {
    for line in ["-q", "-ql", "-C", "-f", "-n"] {
        for link in ["view", "pv"] {
            let (read_end, write_end) = pipe();
            drop(read_end);
            let links = Links::new(&["pv"]);
            let command = if link == "pv" {
                command(links.path("pv"), line)
            } else {
                view(line)
            };
            let run = start(command, file_of(&[7; 100_000]), write_end).finish();
            assert_eq!(run.status.code(), Some(0), "{run}");
            assert!(
                !run.err.contains("fullbore:") && !run.err.contains("pv:"),
                "{run}"
            );
        }
    }
}

#[test]
fn missing_files_are_named_and_the_others_moved() {
    let place = tempfile::tempdir().expect("a directory");
    let file = place.path().join("here");
    std::fs::write(&file, "data").expect("a file");
    let line = format!("-q /nonexistent {}", file.display());
    let run = start(view(&line), Stdio::null(), To::Captured).finish();
    run.complains(&[1]);
    assert_eq!(run.out, "data");
    let run = as_pv(&line);
    assert_eq!(run.status.code(), Some(2), "{run}");
    assert_eq!(
        run.err,
        "pv: failed to read file: /nonexistent: No such file or directory\n"
    );
    assert_eq!(run.out, "data");
}

#[test]
fn input_that_is_the_output_is_refused() {
    let place = tempfile::tempdir().expect("a directory");
    let path = place.path().join("file");
    std::fs::write(&path, "data").expect("a file");
    let open = || {
        std::fs::OpenOptions::new()
            .append(true)
            .open(&path)
            .expect("the file")
    };
    let line = format!("-q {}", path.display());
    let run = start(view(&line), Stdio::null(), open()).finish();
    run.complains(&[1]);
    let links = Links::new(&["pv"]);
    let run = start(command(links.path("pv"), &line), Stdio::null(), open()).finish();
    assert_eq!(run.status.code(), Some(4), "{run}");
    assert!(
        run.err.starts_with("pv: input file is output file: "),
        "{run}"
    );
    assert_eq!(std::fs::read(&path).expect("the file"), b"data");
}

#[test]
fn read_and_write_errors_are_told_apart() {
    for line in ["-q", "-ql", "-C"] {
        let run = as_pv(&format!("{line} /"));
        assert_eq!(run.status.code(), Some(16), "{run}");
        assert_eq!(run.err, "pv: /: read failed: Is a directory\n");
        let links = Links::new(&["pv"]);
        let full = std::fs::OpenOptions::new()
            .write(true)
            .open("/dev/full")
            .expect("/dev/full");
        let run = start(command(links.path("pv"), line), file_of(b"data"), full).finish();
        assert_eq!(run.status.code(), Some(16), "{run}");
        assert_eq!(run.err, "pv: write failed: No space left on device\n");
    }
    start(view("-q /"), Stdio::null(), To::Captured)
        .finish()
        .complains(&[1]);
}

#[test]
fn unreadable_parts_become_null_bytes() {
    // The first page of an address space is never mapped.
    let memory = "/proc/self/mem";
    for (line, complaints) in [("-qE", 2..50), ("-qEE", 1..2), ("-q -EE -Z 4K", 1..2)] {
        let run = as_pv(&format!("{line} -S -s 4096 {memory}"));
        assert_eq!(run.status.code(), Some(16), "{run}");
        assert!(run.out.bytes().eq([0; 4096]), "{run}");
        assert!(
            run.err
                .starts_with("pv: /proc/self/mem: warning: read errors detected: "),
            "{run}"
        );
        assert!(complaints.contains(&run.err.lines().count()), "{run}");
    }
}

/// A shell line in which `$0` is the program.
fn shell(program: &std::path::Path, line: &str, place: &std::path::Path) -> crate::support::Run {
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", line]).arg(program).current_dir(place);
    start(shell, Stdio::null(), To::Captured).finish()
}

#[test]
fn what_was_closed_or_cannot_be_had_is_a_failure_of_pv_s_kind() {
    let place = tempfile::tempdir().expect("a directory");
    std::fs::write(place.path().join("f"), "data").expect("a file");
    let links = Links::new(&["pv"]);
    let own = std::path::Path::new(crate::support::BINARY);
    let closed = "Bad file descriptor";
    for (line, code, ours, what) in [
        (
            "-q f >&-",
            2,
            1,
            format!("failed to stat output file: {closed}"),
        ),
        (
            "-q <&-",
            2,
            1,
            format!("failed to stat file: (stdin): {closed}"),
        ),
        (
            "-q -B 1T f",
            64,
            2,
            format!("buffer allocation failed: {}", words(Errno::NOMEM)),
        ),
    ] {
        if line.contains("-B")
            && std::fs::read_to_string("/proc/sys/vm/overcommit_memory")
                .is_ok_and(|mode| mode.trim() == "1")
        {
            skip("this kernel refuses nobody any memory");
            continue;
        }
        let run = shell(&links.path("pv"), &format!("\"$0\" {line}"), place.path());
        assert_eq!(run.status.code(), Some(code), "{run}");
        assert_eq!(run.err, format!("pv: {what}\n"));
        let run = shell(own, &format!("\"$0\" view {line}"), place.path());
        run.complains(&[ours]);
        assert!(run.err.starts_with(&format!("fullbore: {what}; ")), "{run}");
    }
    // A file is an output of its own.
    shell(own, "\"$0\" view -q -o x f >&-", place.path()).quiet_success();
}

#[test]
fn failed_output_is_told_once_and_names_missing_files_too() {
    let place = tempfile::tempdir().expect("a directory");
    std::fs::write(place.path().join("f"), "data").expect("a file");
    let links = Links::new(&["pv"]);
    let full = "pv: write failed: No space left on device\n";
    for line in ["-n", "-f"] {
        let run = shell(
            &links.path("pv"),
            &format!("\"$0\" {line} f >/dev/full"),
            place.path(),
        );
        assert_eq!((run.status.code(), &*run.err), (Some(16), full));
    }
    let run = shell(
        &links.path("pv"),
        "\"$0\" -q f nope >/dev/full",
        place.path(),
    );
    assert_eq!(run.status.code(), Some(18), "{run}");
    let missing = "pv: failed to read file: nope: No such file or directory\n";
    assert_eq!(run.err, format!("{full}{missing}"));
}

#[test]
fn link_speaks_of_wrong_options_as_getopt_does() {
    for (line, words) in [
        ("--bogus", "unrecognized option '--bogus'"),
        ("--bogus=1", "unrecognized option '--bogus=1'"),
        ("-qz", "invalid option -- 'z'"),
        ("-qs", "option requires an argument -- 's'"),
        ("--siz", "option '--size' requires an argument"),
        ("--quiet=x f", "option '--quiet' doesn't allow an argument"),
        (
            "--rat f",
            "option '--rat' is ambiguous; possibilities: '--rate' '--rate-limit'",
        ),
    ] {
        let run = as_pv(line);
        assert_eq!(run.status.code(), Some(64), "{run}");
        let hint = "Try `pv --help' for more information.";
        assert_eq!(run.err, format!("pv: {words}\n{hint}\n"));
    }
}

#[test]
fn help_is_of_the_name_that_was_called_and_must_arrive() {
    let links = Links::new(&["pv", "cat", "write"]);
    let place = tempfile::tempdir().expect("a directory");
    for name in ["pv", "cat", "write"] {
        let run = shell(&links.path(name), "\"$0\" --help", place.path());
        run.quiet_success();
        let usage = format!("Usage: {name} [OPTIONS]");
        assert!(run.out.contains(&usage), "{run}");
    }
    let own = std::path::Path::new(crate::support::BINARY);
    for line in ["view --help", "cat -h", "--version"] {
        for broken in [">/dev/full", ">&-"] {
            let run = shell(own, &format!("\"$0\" {line} {broken}"), place.path());
            run.complains(&[1]);
        }
        let run = shell(own, &format!("\"$0\" {line} | true"), place.path());
        run.quiet_success();
    }
    let run = shell(&links.path("pv"), "\"$0\" --help >/dev/full", place.path());
    assert_eq!(run.status.code(), Some(16), "{run}");
    assert_eq!(run.err, "pv: write failed: No space left on device\n");
}

#[test]
fn names_do_not_command_the_terminal() {
    let place = tempfile::tempdir().expect("a directory");
    let name = "\x1b]0;x\x07\u{202e}";
    std::fs::write(place.path().join(name), "data").expect("a file");
    for words in [
        &["-q", "nope\x1b[2J"][..],
        &["-q", "--explain", name],
        &["-q", "-s", "@nope\x1b[2J"],
        &["-L", "1\x1b[2J"],
        &["-o", "no/\x1b[2J"],
    ] {
        let mut command = view("");
        command.args(words).current_dir(place.path());
        let run = start(command, Stdio::null(), To::Captured).finish();
        assert!(!run.err.contains(['\x1b', '\x07', '\u{202e}']), "{run}");
        assert!(run.err.contains("\\u{1b}"), "{run}");
        assert_eq!(run.err.lines().count(), 1, "{run}");
    }
}

#[test]
fn wrong_command_lines_are_refused_by_name() {
    for (line, name) in [
        ("-X -o x", "-"),
        ("-K", "-K: not built"),
        ("-O", "-O: not built"),
        ("-U f", "-U: not built"),
        ("-x window", "-x: not built"),
        ("-Q 1", "-Q: not built"),
        ("-M in", "-M: not built"),
        ("-s 1x", "-s: 1x"),
        ("-L many", "-L: many"),
        ("-d x", "-d: x"),
        ("-L -1", "-L: -1"),
        ("-i -1", "-i: -1"),
        ("-d -1", "-d: -1"),
        ("-u bogus", "-u: bogus"),
        ("-d 1 -l", "-d"),
        ("--json", ""),
        ("--nosuch", ""),
    ] {
        let run = start(view(line), Stdio::null(), To::Captured).finish();
        run.complains(&[2]);
        assert!(run.err.contains(name), "{line}: {run}");
        let run = as_pv(line);
        assert_eq!(run.status.code(), Some(64), "{line}: {run}");
        assert!(run.err.starts_with("pv: "), "{line}: {run}");
    }
}

#[test]
fn control_c_ends_the_line_and_the_process() {
    if ctrl_c_is_ignored() {
        return skip("Ctrl-C is ignored by whoever started this test");
    }
    for (link, code) in [("view", 130), ("pv", 32)] {
        let (ours, theirs) = terminal();
        let screen = Screen::of(ours);
        let (read_end, _write_end) = pipe();
        let links = Links::new(&["pv"]);
        let mut command = match link {
            "pv" => command(links.path("pv"), "-i 0.1"),
            _ => view("-i 0.1"),
        };
        let mut child = command
            .stdin(read_end)
            .stdout(Stdio::null())
            .stderr(theirs)
            .spawn()
            .expect("a run");
        drop(command);
        until("a line", || screen.so_far().contains("[0.00  B/s]"));
        let pid = rustix::process::Pid::from_child(&child);
        kill_process(pid, Signal::INT).expect("a signal");
        assert_eq!(child.wait().expect("its end").code(), Some(code));
        let shown = screen.finish();
        assert!(shown.ends_with("\r\n"), "{shown:?}");
    }
}

#[test]
fn ignored_interrupts_stay_ignored() {
    let (read_end, mut write_end) = pipe();
    let mut shell = std::process::Command::new("sh");
    shell.args([
        "-c",
        "trap '' INT; exec \"$0\" view -q",
        crate::support::BINARY,
    ]);
    let running = start(shell, read_end, To::Captured);
    write_end.write_all(b"still ").expect("a reader");
    until("the program at work", || waiting(&write_end) == 0);
    until_it_waits(running.pid(), || 0);
    running.interrupt();
    write_end.write_all(b"here").expect("a reader");
    drop(write_end);
    let run = running.finish();
    run.quiet_success();
    assert_eq!(run.out, "still here");
}

#[test]
fn typed_end_of_file_is_read_once() {
    let (mut ours, theirs) = terminal();
    let running = start(
        view("-q"),
        theirs.try_clone().expect("a copy"),
        To::Captured,
    );
    ours.write_all(b"line\n\x04").expect("a terminal");
    let run = running.finish();
    run.quiet_success();
    assert_eq!(run.out, "line\n");
    drop(theirs);
}

#[test]
fn few_bytes_arrive_promptly() {
    for line in ["-q", "-ql", "-C", "-f"] {
        let (read_end, mut write_end) = pipe();
        let (mut out, theirs) = pipe();
        let running = start(view(line), read_end, theirs);
        for _ in 0..3 {
            write_end.write_all(b"x").expect("a reader");
            let mut got = [0; 8];
            assert_eq!(out.read(&mut got).expect("a byte"), 1, "{line}");
        }
        drop(write_end);
        assert_eq!(running.finish().status.code(), Some(0));
    }
}

#[test]
fn inherited_descriptors_may_be_nonblocking_and_stay_as_they_are() {
    for line in ["-q", "-ql", "-C"] {
        for nonblocking in [true, false] {
            let flags = if nonblocking {
                OFlags::NONBLOCK
            } else {
                OFlags::empty()
            };
            let (read_end, mut write_end) = pipe();
            let (mut out, theirs) = pipe();
            for end in [
                std::os::fd::AsFd::as_fd(&read_end),
                std::os::fd::AsFd::as_fd(&theirs),
            ] {
                rustix::fs::fcntl_setfl(end, flags).expect("flags");
            }
            let (input, output) = (
                read_end.try_clone().expect("a copy"),
                theirs.try_clone().expect("a copy"),
            );
            let running = start(view(line), read_end, theirs);
            // It waits for input, then for room.
            until_it_waits(running.pid(), || 0);
            let feeder = thread::spawn(move || write_end.write_all(&vec![9; 3_000_000]));
            until("output", || waiting(&out) > 0);
            until_it_waits(running.pid(), || waiting(&out));
            let mut got = vec![0; 3_000_000];
            out.read_exact(&mut got).expect("all bytes");
            feeder.join().expect("no panic").expect("a reader");
            running.finish().quiet_success();
            assert!(got.iter().all(|&b| b == 9));
            for end in [
                std::os::fd::AsFd::as_fd(&input),
                std::os::fd::AsFd::as_fd(&output),
            ] {
                let now = rustix::fs::fcntl_getfl(end).expect("flags");
                assert_eq!(now.contains(OFlags::NONBLOCK), nonblocking, "{line}");
            }
        }
    }
}

#[test]
fn stalled_output_uses_no_processor_time() {
    let (read_end, mut write_end) = pipe();
    let (out, theirs) = pipe();
    let running = start(view("-f -i 0.1"), read_end, theirs);
    thread::spawn(move || write_end.write_all(&vec![0; 8 << 20]));
    until("output", || waiting(&out) > 0);
    until_it_waits(running.pid(), || waiting(&out));
    let before = ticks(running.pid());
    // Time in which it must do nothing.
    thread::sleep(Duration::from_millis(1000));
    let used = ticks(running.pid()) - before;
    assert!(used <= 3, "{used} ticks of 10 ms in 100");
    running.kill();
}

#[test]
fn pidfile_lives_as_long_as_the_process() {
    let place = tempfile::tempdir().expect("a directory");
    let file = place.path().join("pid");
    let (read_end, write_end) = pipe();
    let running = start(
        view(&format!("-q -P {}", file.display())),
        read_end,
        To::Captured,
    );
    until("the file", || {
        std::fs::read_to_string(&file).is_ok_and(|t| t.ends_with('\n'))
    });
    let pid = std::fs::read_to_string(&file).expect("the file");
    assert_eq!(pid, format!("{}\n", running.pid()));
    drop(write_end);
    running.finish().quiet_success();
    assert!(!file.exists());
}

#[test]
fn many_descriptors_less_is_no_reason_to_lose_data() {
    // Standard streams, and the one that the dynamic linker needs: no private pipe can be made, and no socket.
    for limit in 4..9 {
        for line in ["-q", "-ql", "-qC"] {
            let mut shell = std::process::Command::new("sh");
            let script = format!("ulimit -n {limit}; exec \"$0\" view {line}");
            shell.args(["-c", &script, crate::support::BINARY]);
            let (mut out, theirs) = pipe();
            let running = start(shell, file_of(&[b'y'; 300_000]), theirs);
            let mut got = Vec::new();
            out.read_to_end(&mut got).expect("all bytes");
            running.finish().quiet_success();
            assert!(got == [b'y'; 300_000], "{line}, limit {limit}");
        }
    }
}
