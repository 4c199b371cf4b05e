//! What is said where something that every program takes for granted is not to be had.

mod support;

use std::process::Stdio;

use support::{BINARY, Run, To, command, start};

/// Runs `fullbore` with these arguments in a shell, after `before` it and with `redirections` behind it.
#[track_caller]
fn shell(before: &str, arguments: &str, redirections: &str) -> Run {
    let mut shell = command("sh", "-c");
    shell.arg(format!(
        "{before} exec '{BINARY}' {arguments} {redirections}"
    ));
    start(shell, Stdio::null(), To::Captured).finish()
}

#[test]
fn closed_standard_output_is_told_and_nothing_is_lost_silently() {
    for arguments in [
        "fizzbuzz --count 3",
        "write --bytes 1M",
        "read --bytes 1M </dev/zero",
        "ladder --explain",
        "doctor --json",
    ] {
        let run = shell("", arguments, ">&-");
        run.complains(&[1]);
        assert!(run.err.contains("standard output"), "{run}");
    }
    let run = shell("", "read", "<&-");
    run.complains(&[1]);
    assert!(run.err.contains("standard input"), "{run}");
}
