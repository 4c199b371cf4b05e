//! What is shown, on standard error that is no terminal (`-f`, `-n`).

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::state::{until_it_waits, waiting};
use crate::support::{Links, Run, To, command, ctrl_c_is_ignored, pipe, skip, start, until};
use crate::tools::{as_pv, debian_pv, file_of, view};

fn null() -> File {
    File::options()
        .write(true)
        .open("/dev/null")
        .expect("/dev/null")
}

/// What is shown of a file of so many bytes that goes to /dev/null.
fn shown(command: Command, bytes: usize) -> Run {
    start(command, file_of(&vec![b'\n'; bytes]), null()).finish()
}

#[test]
fn last_lines_are_those_of_debian_s_pv() {
    if let Err(why) = debian_pv() {
        return skip(why);
    }
    let links = Links::new(&["pv"]);
    for line in [
        "-fp",
        "-fp -w 50",
        "-fp -w 9",
        "-fp -w 3",
        "-fb",
        "-ft",
        "-fbt -N name",
        "-fpe",
        "-fpeb -w 60",
        "-fpS -s 1K",
        "-n",
        "-nb",
        "-nbl",
        "-fbl",
        "-fbl0",
        "-fT -C",
        "-fA 7",
        "-fb -i 0.1",
        "-f -F %b",
        "-f -F x%%%p%N",
        "-f -F %20A|%b",
        "-fp -N 0123456789ab",
        "-q",
        "-fbS -s 1024",
        "-nS -s 1K",
        "-b",
        "-fpt -c",
        "-fb -D 5",
        "-fp -H 3",
        "-fbfbf",
        "-f --progress --bytes --name=x",
    ] {
        // Below a kibibyte, and of two-digit percentages, older versions show a blank less.
        for bytes in [1024, 1_045_000] {
            let theirs = shown(command("pv", line), bytes);
            let ours = shown(command(links.path("pv"), line), bytes);
            assert_eq!(ours.err, theirs.err, "{line} of {bytes} bytes");
            assert_eq!(
                ours.status.code(),
                theirs.status.code(),
                "{line} of {bytes} bytes"
            );
        }
    }
}

#[test]
fn rates_have_the_form_of_debian_s_pv() {
    if let Err(why) = debian_pv() {
        return skip(why);
    }
    let links = Links::new(&["pv"]);
    // Digits differ; signs, units and columns do not.
    let form = |run: Run| -> String {
        let place = |c: char| if c.is_ascii_digit() { '9' } else { c };
        run.err.chars().map(place).collect()
    };
    let line = "-f -r -L 100k -S -s 40k";
    let theirs = form(shown(command("pv", line), 50_000));
    let ours = form(shown(command(links.path("pv"), line), 50_000));
    let unit = |text: &str| text.trim_start_matches(['[', ' ', '9', '.']).to_owned();
    assert_eq!(unit(&ours), unit(&theirs), "{ours:?} {theirs:?}");
}

#[test]
fn newer_parts_of_pv_are_shown_as_its_manual_says() {
    for (line, text) in [
        ("-fb8", "78.1Kib\r\n"),
        ("-kfb", "10.0kB\r\n"),
        ("-nb8", "80000\n"),
        ("-n -s 20000", "50\n"),
        (
            "-f -F %{bytes}/%{transferred}%{nothing}",
            "9.77KiB/9.77KiB%{nothing}\r\n",
        ),
        (
            "-f -w 20 -F %{progress-bar-only}|",
            "==================>|\r\n",
        ),
        (
            "-f -F %10{bar-plain}%{progress-amount-only}",
            "=========>100%\r\n",
        ),
        ("-f -F %5L|", "     |\r\n"),
        ("-f -F %{sgr:green}%b", "\x1b[32m9.77KiB\x1b[m\r\n"),
        ("-fbl", "10.0k\r\n"),
        ("-f -F", "\r\n"),
    ] {
        let mut command = view(line);
        if line.ends_with("-F") {
            command.arg("x%{ratio}");
            let run = shown(command, 10_000);
            assert_eq!(run.err, "x-:-\r\n", "{run}");
            continue;
        }
        let run = shown(command, 10_000);
        assert_eq!(run.status.code(), Some(0), "{run}");
        assert_eq!(run.err, text, "{line}");
    }
    let mut command = view("-f -F %{sgr:green}%b");
    command.env("NO_COLOR", "1");
    assert_eq!(shown(command, 10_000).err, "9.77KiB\r\n");
    let mut command = view("-fp -u block -w 10");
    command.env("LC_ALL", "C.UTF-8");
    assert_eq!(shown(command, 10_000).err, "[███] 100%\r\n");
}

#[test]
fn nothing_is_shown_where_nobody_looks() {
    for line in ["", "-pterb", "-c", "-v -q -F x"] {
        let run = shown(view(line), 1000);
        assert_eq!(
            run.err.replace("rate min/avg/max/mdev", "").lines().count(),
            usize::from(line.contains('v')),
            "{run}"
        );
    }
    let run = shown(view("-f -F "), 1000);
    assert_eq!(run.status.code(), Some(2), "{run}");
}

#[test]
fn stall_is_shown_while_it_lasts() {
    if ctrl_c_is_ignored() {
        return skip("Ctrl-C is ignored by whoever started this test");
    }
    let (read_end, mut write_end) = pipe();
    let (_out, theirs) = pipe();
    let running = start(view("-n --json -i 0.1"), read_end, theirs);
    thread::spawn(move || write_end.write_all(&vec![0; 8 << 20]));
    let stalled = |line: &str| {
        let line: Option<Value> = serde_json::from_str(line).ok();
        line.is_some_and(|line| line["stalled_s"].as_f64() > Some(0.2))
    };
    until("a stall", || running.said().lines().any(stalled));
    running.interrupt();
    let run = running.finish();
    assert_eq!(run.status.code(), Some(130), "{run}");
    let lines: Vec<Value> = run
        .err
        .lines()
        .map(|l| serde_json::from_str(l).expect("JSON"))
        .collect();
    let last = lines.last().expect("lines");
    assert!(last["stalled_s"].as_f64().expect("a stall") > 0.2, "{run}");
    assert_eq!(last["per_s"], 0.0, "{run}");
    // What waits in the pipe has not arrived.
    assert_eq!(last["bytes"], 0, "{run}");
}

#[test]
fn json_lines_are_valid_and_end_with_the_last() {
    let bytes = 300_000;
    for (line, counted, count) in [("", "bytes", bytes), ("-l", "lines", bytes)] {
        let run = shown(view(&format!("-n --json -i 0.1 -L 1000000 {line}")), bytes);
        let lines: Vec<Value> = run
            .err
            .lines()
            .map(|l| serde_json::from_str(l).expect("JSON"))
            .collect();
        let (last, before) = lines.split_last().expect("lines");
        assert_eq!(last["last"], true, "{run}");
        assert_eq!(last[counted], count, "{run}");
        assert_eq!(last["size"], count, "{run}");
        assert_eq!(last["percent"], 100.0, "{run}");
        assert!(before.iter().all(|l| l["last"] == false), "{run}");
        assert!(lines.is_sorted_by_key(|l| l["elapsed_s"].as_f64()), "{run}");
    }
    let (read_end, write_end) = pipe();
    drop(write_end);
    let run = start(view("-n --json"), read_end, null()).finish();
    let only: Value = serde_json::from_str(&run.err).expect("JSON");
    assert!(
        only["size"].is_null() && only["percent"].is_null() && only["left_s"].is_null(),
        "{run}"
    );
}

#[test]
fn blocked_display_holds_up_neither_the_data_nor_its_end() {
    let (_display, theirs) = pipe();
    // Full, and nobody reads it.
    let room = rustix::pipe::fcntl_setpipe_size(&theirs, 4096).expect("its size");
    assert!(room >= 4096);
    (&theirs).write_all(&[b'.'; 4096]).expect("room");
    let (read_end, mut write_end) = pipe();
    let (mut out, stdout) = pipe();
    let mut child = view("-f -i 0.1")
        .stdin(read_end)
        .stdout(stdout)
        .stderr(theirs)
        .spawn()
        .expect("a run");
    let feeder = thread::spawn(move || {
        for _ in 0..30 {
            // No wait for anything: in this time it has something to show.
            thread::sleep(Duration::from_millis(10));
            write_end.write_all(&[1; 100_000]).expect("a reader");
        }
    });
    let mut got = Vec::new();
    out.read_to_end(&mut got).expect("the end of the data");
    assert_eq!(got.len(), 3_000_000);
    feeder.join().expect("all data");
    child.kill().expect("its end");
    child.wait().expect("its end");
}

#[test]
fn size_may_be_that_of_a_file_or_a_directory() {
    let place = tempfile::tempdir().expect("a directory");
    std::fs::create_dir(place.path().join("below")).expect("a directory");
    std::fs::write(place.path().join("one"), [0; 1500]).expect("a file");
    std::fs::write(place.path().join("below/two"), [0; 500]).expect("a file");
    for (name, percent) in [("one", "66\n"), ("", "50\n")] {
        let path = place.path().join(name);
        let run = shown(view(&format!("-n -s @{}", path.display())), 1000);
        // 66.67 is rounded.
        let percent = if name == "one" { "67\n" } else { percent };
        assert_eq!(run.err, percent, "{run}");
    }
    shown(view("-n -s @/nonexistent"), 1000).complains(&[2]);
}

#[test]
fn lines_of_files_are_counted_before() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), "a\nb\nc\nd\n").expect("its lines");
    let run = as_pv(&format!("-nl -S -s 2 {}", file.path().display()));
    assert_eq!(
        (run.err.as_str(), run.out.as_str()),
        ("100\n", "a\nb\n"),
        "{run}"
    );
    let run = as_pv(&format!("-nl {}", file.path().display()));
    assert_eq!((run.err.as_str(), run.out.len()), ("100\n", 8), "{run}");
}

#[test]
fn delay_and_wait_keep_the_display_back() {
    let run = shown(view("-f -D 10 -L 100000"), 30_000);
    assert_eq!(run.err, "", "{run}");
    let (read_end, mut write_end) = pipe();
    let running = start(view("-n -t -b -W -i 0.1"), read_end, null());
    until_it_waits(running.pid(), || 0);
    // What must not count.
    thread::sleep(Duration::from_millis(200));
    let since = Instant::now();
    write_end.write_all(b"x").expect("a reader");
    until("the byte taken", || waiting(&write_end) == 0);
    drop(write_end);
    let run = running.finish();
    for line in run.err.lines() {
        let (seconds, bytes) = line.split_once(' ').expect("two numbers");
        assert_eq!(bytes, "1", "{run}");
        let seconds = seconds.parse::<f64>().expect("seconds");
        // It is rounded.
        assert!(seconds <= since.elapsed().as_secs_f64() + 0.0001, "{run}");
    }
    assert!(!run.err.is_empty());
}

#[test]
fn captured_standard_output_is_only_the_data() {
    let run = start(
        view("-f --explain -v -i 0.1"),
        Stdio::from(file_of(b"data")),
        To::Captured,
    )
    .finish();
    assert_eq!(run.out, "data");
    assert!(
        run.err.contains("rate min/avg/max/mdev = ") || run.err.contains("rate not measured"),
        "{run}"
    );
    assert!(run.err.contains("fullbore: path of (stdin): "), "{run}");
}
