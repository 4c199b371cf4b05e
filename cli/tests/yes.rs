//! `fullbore yes`, and as a link named `yes`.

#![allow(clippy::unwrap_used)]

mod support;
mod tools;

use std::io::Read;
use std::process::Stdio;

use support::{Links, command, fullbore, pipe, start};

#[test]
fn link_does_what_the_original_does() {
    tools::same_as_the_original(
        &["yes"],
        &[
            "yes | head -3; echo ${PIPESTATUS[*]}",
            "yes a 'b c' -- d | head -2",
            "yes -- -x -- y | head -c 5",
            "yes > /dev/full",
            "yes >&-",
            "yes -x",
            "yes -h; yes --x=y; yes --help=3",
            "yes --help > /dev/full; yes --version >&-",
            "yes a -b",
            "yes --nonsense",
            "yes '' | head -c 7 | od -c",
            "(trap '' PIPE; yes; echo $? >&2) | head -c 0",
            "yes $'\\377' | head -c 2 | od -c",
            "yes | head -c 3000001 | md5sum",
            "yes \"$(head -c 100000 /dev/zero | tr '\\0' x)\" | head -c 5000001 | md5sum",
            "yes abc > out & sleep 0.05; kill $!; wait $! 2>/dev/null; head -c 1000000 out | md5sum | head -c 0",
        ],
    );
}

#[test]
fn reader_that_goes_away_is_success_under_our_own_name() {
    let (mut read_end, write_end) = pipe();
    let run = start(fullbore("yes --explain a b"), Stdio::null(), write_end);
    let mut first = vec![0; 64 << 20];
    read_end.read_exact(&mut first).unwrap();
    drop(read_end);
    assert!(first == b"a b\n".repeat(16 << 20));
    let run = run.finish();
    assert_eq!(run.status.code(), Some(0), "{run}");
    assert!(run.err.starts_with("fullbore: yes: "), "{run}");
    assert_eq!(run.err.lines().count(), 1, "{run}");
}

#[test]
fn link_dies_by_sigpipe() {
    use std::os::unix::process::ExitStatusExt;
    let links = Links::new(&["yes"]);
    let (read_end, write_end) = pipe();
    let run = start(command(links.path("yes"), ""), Stdio::null(), write_end);
    drop(read_end);
    let run = run.finish();
    assert_eq!(run.status.signal(), Some(13), "{run}");
    assert_eq!(run.err, "", "{run}");
}

#[test]
fn line_of_a_mebibyte_arrives_unbroken() {
    let word = "x".repeat(100_000);
    let mut yes = fullbore("yes");
    // The kernel takes no argument longer than 128 KiB.
    yes.args(std::iter::repeat_n(&word, 10));
    let mut line = vec![word; 10].join(" ");
    line.push('\n');
    let (mut read_end, write_end) = pipe();
    let run = start(yes, Stdio::null(), write_end);
    let mut got = vec![0; line.len() * 12];
    read_end.read_exact(&mut got).unwrap();
    drop(read_end);
    assert!(got == line.repeat(12).as_bytes());
    run.finish().quiet_success();
}

#[test]
fn full_device_is_a_failure_with_advice() {
    let full = std::fs::File::options()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let run = start(fullbore("yes"), Stdio::null(), full).finish();
    run.complains(&[1]);
    assert!(
        run.err.contains("standard output: No space left on device"),
        "{run}"
    );
}
