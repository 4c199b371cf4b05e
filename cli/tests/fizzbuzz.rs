//! `fullbore fizzbuzz`: every byte, through real pipes, files and readers of all manners. Nothing here asserts a speed.

mod support;

use std::fs::File;
use std::io::{PipeReader, Read, Seek};
use std::os::fd::OwnedFd;
use std::process::Stdio;

use fullbore_sys::calls::{SpliceFlags, splice};
use rustix::fs::OFlags;

use support::state::{until_it_waits, waiting};
use support::{Links, Stranger, collect, command, fullbore, pipe, skip, start};

/// What every run with these options may end with on standard error.
const CONDITION: &str = "fullbore: --recycle: every reader must copy";

/// The lines from a number on.
fn model(from: u64, count: u64) -> Vec<u8> {
    let line = |n: u64| match (n % 3, n % 5) {
        (0, 0) => "FizzBuzz\n".to_owned(),
        (0, _) => "Fizz\n".to_owned(),
        (_, 0) => "Buzz\n".to_owned(),
        _ => format!("{n}\n"),
    };
    (from..=from.saturating_add(count - 1))
        .map(line)
        .collect::<String>()
        .into_bytes()
}

#[track_caller]
fn same(got: &[u8], wanted: &[u8], what: &str) {
    if let Some(at) = (0..got.len().min(wanted.len())).find(|&i| got[i] != wanted[i]) {
        let line = |text: &[u8]| {
            String::from_utf8_lossy(&text[at..][..20.min(text.len() - at)]).into_owned()
        };
        panic!(
            "{what}: at byte {at} {:?} in place of {:?}",
            line(got),
            line(wanted)
        );
    }
    assert_eq!(got.len(), wanted.len(), "{what}");
}

#[test]
fn every_byte_arrives_by_every_way() {
    for (from, count) in [
        (1, 1_100_000),
        (4_294_967_296 - 100_000, 300_000),
        (1_000_000_000_000_000_000 - 100_000, 300_000),
        (u64::MAX - 200_000, 1_000_000),
    ] {
        let wanted = model(from, count);
        for options in ["", "--threads 3", "--recycle", "--recycle --threads 3"] {
            let line = format!("fizzbuzz --from {from} --count {count} {options}");
            let (run, got) = collect(fullbore(&line));
            assert!(run.status.success(), "{run}");
            let told = run.err.starts_with(CONDITION) && run.err.lines().count() == 1;
            assert!(told || run.err.is_empty(), "{run}");
            assert_eq!(told, options.contains("--recycle"), "{run}");
            same(&got, &wanted, &line);
        }
    }
}

#[test]
fn it_ends_with_the_largest_number() {
    let (run, got) = collect(fullbore("fizzbuzz --from 18446744073709551610"));
    run.quiet_success();
    let wanted =
        "Buzz\n18446744073709551611\nFizz\n18446744073709551613\n18446744073709551614\nFizzBuzz\n";
    assert_eq!(String::from_utf8(got).expect("text"), wanted);
}

#[test]
fn no_lines_are_no_lines_and_zero_is_fizzbuzz() {
    let (run, got) = collect(fullbore("fizzbuzz --count 0"));
    run.quiet_success();
    assert!(got.is_empty());
    let (run, got) = collect(fullbore("fizzbuzz --from 0 --count 2"));
    run.quiet_success();
    assert_eq!(got, b"FizzBuzz\n1\n");
}

#[test]
fn through_a_link_it_is_that_command() {
    let links = Links::new(&["fizzbuzz"]);
    let (run, got) = collect(command(links.path("fizzbuzz"), "--count 3"));
    run.quiet_success();
    assert_eq!(got, b"1\n2\nFizz\n");
}

#[test]
fn a_reader_that_goes_away_is_the_end_of_a_success() {
    for options in ["", "--threads 3", "--recycle", "--recycle --threads 3"] {
        let (mut read_end, write_end) = pipe();
        let running = start(
            fullbore(&format!("fizzbuzz {options}")),
            Stdio::null(),
            write_end,
        );
        let mut first = [0; 100_000];
        read_end.read_exact(&mut first).expect("text");
        drop(read_end);
        let run = running.finish();
        assert_eq!(run.status.code(), Some(0), "{run}");
        same(&first, &model(1, 20_000)[..first.len()], options);
    }
}

#[test]
fn a_file_gets_every_byte_and_explains_itself() {
    for (options, reason) in [
        ("--explain", "not fresh: the output is not a pipe"),
        (
            "--explain --recycle --threads 2",
            "not recycled: the output is not a pipe",
        ),
    ] {
        let mut file = tempfile::tempfile().expect("a file");
        let out = file.try_clone().expect("its descriptor");
        let line = format!("fizzbuzz --count 400000 {options}");
        let run = start(fullbore(&line), Stdio::null(), Stdio::from(out)).finish();
        assert_eq!(run.status.code(), Some(0), "{run}");
        assert_eq!(run.err.lines().count(), 1, "{run}");
        assert!(run.err.starts_with("fullbore: fizzbuzz: write"), "{run}");
        assert!(run.err.contains(reason), "{run}");
        assert!(run.err.contains("400000 lines, "), "{run}");
        let mut got = Vec::new();
        file.rewind().expect("a file");
        file.read_to_end(&mut got).expect("text");
        same(&got, &model(1, 400_000), &line);
    }
}

#[test]
fn a_pipe_explains_itself() {
    for (options, path) in [("", "pipe; "), ("--recycle", "recycled, ")] {
        let line = format!("fizzbuzz --count 1000000 --explain {options}");
        let (run, _) = collect(fullbore(&line));
        assert_eq!(run.status.code(), Some(0), "{run}");
        let last = run.err.lines().last().unwrap_or_default();
        assert!(last.starts_with("fullbore: fizzbuzz: "), "{run}");
        assert!(
            last.contains(path) && last.contains("1000000 lines"),
            "{run}"
        );
    }
}

#[test]
fn a_few_lines_are_said_to_be_written() {
    let (run, _) = collect(fullbore("fizzbuzz --count 100 --explain"));
    assert_eq!(run.status.code(), Some(0), "{run}");
    assert!(run.err.starts_with("fullbore: fizzbuzz: write, "), "{run}");
}

#[test]
fn a_full_device_is_a_failure() {
    let Ok(full) = File::options().write(true).open("/dev/full") else {
        return skip("no /dev/full");
    };
    let run = start(fullbore("fizzbuzz"), Stdio::null(), Stdio::from(full)).finish();
    run.complains(&[1]);
}

#[test]
fn what_is_no_number_is_refused() {
    for line in [
        "fizzbuzz --from -1",
        "fizzbuzz --count x",
        "fizzbuzz --threads 0",
    ] {
        let run = support::refused(fullbore(line));
        assert_eq!(run.status.code(), Some(2), "{run}");
        assert!(run.err.starts_with("fullbore: "), "{run}");
    }
}

#[test]
fn a_nonblocking_output_loses_nothing_and_stays_as_it_is() {
    for options in ["", "--recycle"] {
        let (mut read_end, write_end) = pipe();
        rustix::fs::fcntl_setfl(&write_end, OFlags::NONBLOCK).expect("a flag");
        let kept = write_end.try_clone().expect("the same description");
        let line = format!("fizzbuzz --count 300000 {options}");
        let running = start(fullbore(&line), Stdio::null(), write_end);
        let wanted = model(1, 300_000);
        let mut got = vec![0; wanted.len()];
        read_end.read_exact(&mut got).expect("text");
        let run = running.finish();
        assert_eq!(run.status.code(), Some(0), "{run}");
        let flags = rustix::fs::fcntl_getfl(&kept).expect("flags");
        assert!(flags.contains(OFlags::NONBLOCK));
        same(&got, &wanted, &line);
    }
}

#[test]
fn a_reader_that_enlarges_the_pipe_gets_every_byte_of_recycled_buffers() {
    let (mut read_end, write_end) = pipe();
    let running = start(
        fullbore("fizzbuzz --recycle --from 100000000 --count 2000000"),
        Stdio::null(),
        write_end,
    );
    let mut got = vec![0; 1 << 20];
    read_end.read_exact(&mut got).expect("text");
    if fullbore_sys::capacity::set(&read_end, 1 << 20).is_err() {
        skip("the pipe cannot be made larger");
    }
    // The writer fills what it may, and waits for it to leave.
    until_it_waits(running.pid(), || waiting(&read_end));
    read_end.read_to_end(&mut got).expect("text");
    let run = running.finish();
    assert_eq!(run.status.code(), Some(0), "{run}");
    same(&got, &model(100_000_000, 2_000_000), "a larger pipe");
}

/// Moves what is in a pipe on into another, which keeps it.
fn held(read_end: &PipeReader) -> OwnedFd {
    let (kept, into) = fullbore_sys::calls::pipe().expect("a pipe");
    splice(read_end, &into, 1 << 20, SpliceFlags::empty()).expect("some slots");
    kept
}

#[test]
fn what_a_reader_has_passed_on_never_changes() {
    for options in ["", "--threads 2"] {
        let count = 3_000_000;
        let line = format!("fizzbuzz --count {count} {options}");
        let (mut read_end, write_end) = pipe();
        let running = start(fullbore(&line), Stdio::null(), write_end);
        let mut got = Vec::new();
        // Some slots are kept while the writer goes on for megabytes, and read afterwards.
        for _ in 0..4 {
            let kept = held(&read_end);
            let mut behind = vec![0; 3 << 20];
            read_end.read_exact(&mut behind).expect("text");
            File::from(kept)
                .read_to_end(&mut got)
                .expect("what was kept");
            got.append(&mut behind);
        }
        read_end.read_to_end(&mut got).expect("text");
        running.finish().quiet_success();
        same(&got, &model(1, count), &line);
    }
}

#[test]
fn anybody_may_run_it() {
    let stranger = match Stranger::new() {
        Ok(stranger) => stranger,
        Err(why) => return skip(why),
    };
    for options in ["", "--recycle"] {
        let (run, got) = collect(stranger.fullbore(&format!("fizzbuzz --count 500000 {options}")));
        assert_eq!(run.status.code(), Some(0), "{run}");
        same(&got, &model(1, 500_000), options);
    }
}

#[test]
fn number_that_is_too_large_names_the_limit() {
    let run = support::refused(fullbore("fizzbuzz --from 18446744073709551616"));
    assert_eq!(run.status.code(), Some(2), "{run}");
    assert!(
        run.err.contains("largest number is 18446744073709551615"),
        "{run}"
    );
}
