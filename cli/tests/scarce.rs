//! What is said where something that every program takes for granted is not to be had.

mod support;

use std::process::Stdio;

use support::{BINARY, Run, Stranger, To, command, skip, start};

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

#[test]
fn where_no_thread_can_be_had_work_goes_on_or_is_refused_in_one_line() {
    let stranger = match Stranger::new() {
        Ok(stranger) if stranger.is_another_user() => stranger,
        Ok(_) => return skip("needs root, to be a user who may start nothing"),
        Err(why) => return skip(why),
    };
    let limited = |line: &str| {
        let inner = stranger.fullbore(line);
        let mut limited = command(inner.get_program(), "");
        // As that user: root's own limit does not count.
        let (options, rest) = inner.get_args().partition::<Vec<_>, _>(|a| {
            let option = a.to_string_lossy();
            option.starts_with("--re") || option.starts_with("--clear")
        });
        limited
            .args(options)
            .args(["prlimit", "--nproc=1"])
            .args(rest);
        start(limited, Stdio::null(), To::Captured).finish()
    };
    let run = limited("fizzbuzz --threads 4 --count 100");
    assert_eq!(run.quiet_success().out.lines().count(), 100);
    limited("ladder --rungs write-read --rounds 1 --seconds 0.01 --no-save").complains(&[1]);
    limited("write --bytes 8 --seconds 1").complains(&[1]);
}

#[test]
fn where_memory_is_small_the_ladder_leaves_memory_out_and_says_so() {
    let line = "ladder --rungs write-read --rounds 1 --seconds 0.01 --no-save";
    let run = shell("ulimit -v 60000;", line, "");
    assert!(run.status.success(), "{run}");
    assert!(run.out.contains("memory alone was not measured"), "{run}");
    assert!(!run.out.contains("For scale"), "{run}");
}

#[test]
fn file_that_may_not_grow_is_told_and_leaves_no_part() {
    let place = tempfile::tempdir().expect("a directory");
    let out = place.path().join("run.json");
    let line = "ladder --rungs write-read --rounds 1 --seconds 0.01 --out";
    let run = shell(
        "ulimit -f 0;",
        &format!("{line} '{}'", out.display()),
        // What it says must not go into a file, which may not grow, either.
        ">/dev/null 2>&1",
    );
    assert_eq!(run.status.code(), Some(1), "{run}");
    assert_eq!(std::fs::read_dir(place.path()).expect("it").count(), 0);
}

#[test]
fn lack_of_descriptors_names_their_limit() {
    for line in ["gup", "ladder --no-save --rounds 1 --seconds 0.01"] {
        let run = shell("ulimit -n 5;", line, "");
        run.complains(&[1]);
        assert!(run.err.contains("ulimit -n"), "{run}");
    }
    let run = shell("ulimit -n 7;", "doctor", "");
    assert!(run.err.contains("ulimit -n"), "{run}");
    assert!(!run.err.contains("seccomp"), "{run}");
}
