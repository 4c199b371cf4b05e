//! What is said where something that every program takes for granted is unavailable.

mod support;

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use support::{BINARY, Run, Stranger, To, command, fullbore, seccomp, skip, start, until};

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
fn where_saving_fails_in_the_middle_the_table_comes_before_the_error() {
    let place = tempfile::tempdir().expect("a directory");
    let (here, gone) = (place.path().join("here"), place.path().join("gone"));
    std::fs::create_dir(&here).expect("a directory");
    let mut ladder = fullbore("ladder --rungs write-read --rounds 500 --seconds 0.01 --out");
    ladder.arg(here.join("run.json"));
    let running = start(ladder, Stdio::null(), To::Captured);
    until("the first round", || here.join("run.json").exists());
    // As good as a disk that is full, and needs no disk.
    std::fs::rename(&here, &gone).expect("another name");
    let run = running.finish();
    run.complains(&[1]);
    assert!(run.err.contains("cannot be saved"), "{run}");
    assert!(run.out.contains("write-read"), "{run}");
    // What was saved before is whole, and of fewer rounds than were asked for.
    let saved = std::fs::read_to_string(gone.join("run.json")).expect("the first rounds");
    let saved: serde_json::Value = serde_json::from_str(&saved).expect("JSON");
    let rounds = saved["method"]["rounds_done"].as_u64().expect("a number");
    assert!((1..500).contains(&rounds), "{rounds}");
}

#[test]
fn picture_that_cannot_be_written_leaves_the_old_one() {
    let place = tempfile::tempdir().expect("a directory");
    let file = place.path().join("old.svg");
    for arguments in ["ring", "walk 0x7f705af953c0"] {
        std::fs::write(&file, "old").expect("a file");
        let arguments = format!("{arguments} --svg '{}'", file.display());
        let run = shell("ulimit -f 1;", &arguments, "");
        run.complains(&[1]);
        assert_eq!(std::fs::read_to_string(&file).expect("it"), "old");
        assert_eq!(std::fs::read_dir(place.path()).expect("it").count(), 1);
        shell("", &arguments, "").quiet_success();
        let picture = std::fs::read_to_string(&file).expect("it");
        assert!(picture.starts_with("<svg"), "{picture}");
    }
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

/// A program that its user may not read may not be looked into by that user either: its /proc/self/auxv cannot be opened.
#[test]
fn nothing_panics_where_the_auxiliary_vector_cannot_be_read() {
    if let Some(why) = seccomp::refusal() {
        return skip(why);
    }
    let place = tempfile::tempdir().expect("a directory");
    let all = |mode| Permissions::from_mode(mode);
    std::fs::set_permissions(place.path(), all(0o755)).expect("ours");
    let binary = place.path().join("fullbore");
    // By a child, as for `Stranger`: nobody else may hold the copy open for writing.
    let copied = Command::new("cp").arg(BINARY).arg(&binary).status();
    assert!(copied.is_ok_and(|status| status.success()), "a copy");
    std::fs::set_permissions(&binary, all(0o111)).expect("ours");
    for line in [
        "write --bytes 4M",
        "read --bytes 4M </dev/zero",
        "write --with fresh --bytes 4M | cat >/dev/null",
        "yes | head -c 4M",
        "ladder --rungs write-read,large-pipe --rounds 1 --seconds 0.01 --no-save",
        "doctor",
        "fizzbuzz --count 100000",
        "walk --pages small",
        "ring",
        "cat /dev/null",
        "gup",
    ] {
        let mut shell = if rustix::process::geteuid().is_root() {
            let mut other = command(
                "setpriv",
                "--reuid=65534 --regid=65534 --clear-groups sh -c",
            );
            // Not where the tests were started, which that user may be unable to reach.
            other.current_dir("/");
            other
        } else {
            command("sh", "-c")
        };
        shell.arg(format!("'{}' {line}", binary.display()));
        let get_auxv = 0x4155_5856;
        seccomp::refuse_value(&mut shell, libc::SYS_prctl, 0, get_auxv, libc::EINVAL);
        let run = start(shell, Stdio::null(), To::Captured).finish();
        assert!(!run.err.contains("panicked"), "{line}: {run}");
        if !line.starts_with("gup") {
            assert!(run.status.success(), "{line}: {run}");
        }
    }
}

#[test]
fn no_rung_takes_a_larger_pipe_than_1_mib_where_1_gib_is_allowed() {
    let script = format!(
        "printf 1073741824 >limit && mount --bind limit /proc/sys/fs/pipe-max-size || exit 9; \
         '{BINARY}' ladder --rungs large-pipe --rounds 1 --seconds 0.01 --no-save --json"
    );
    let place = tempfile::tempdir().expect("a directory");
    let mut unshared = command("unshare", "--mount sh -c");
    unshared.arg(script).current_dir(place.path());
    let run = start(unshared, Stdio::null(), To::Captured).finish();
    if [Some(1), Some(9)].contains(&run.status.code()) && run.out.is_empty() {
        return skip(format!("the limit cannot be covered here: {}", run.err));
    }
    let rung = &run.json()["rungs"][0];
    let path = &rung["path"]["writer"];
    assert!(path["capacity"].as_u64() <= Some(1 << 20), "{rung}");
    // Where the kernel has refused more than that, this says what was asked for.
    let note = path["note"].as_str().unwrap_or_default();
    assert!(path.is_object() && !note.contains("1GiB"), "{rung}");
}

/// Sends of eight messages at once are refused: what is tried before is smaller, so that `fat` is begun with, and left.
#[test]
fn bytes_that_did_not_go_the_way_that_was_asked_for_are_told() {
    if let Some(why) = seccomp::refusal() {
        return skip(why);
    }
    let without = |line: &str| {
        let mut command = fullbore(line);
        seccomp::refuse_value(&mut command, libc::SYS_sendmmsg, 2, 8, libc::EPERM);
        command
    };
    let (run, bytes) = support::collect(without("write --with fat --bytes 4M --verbose"));
    assert!(run.status.success() && bytes.len() == 4 << 20, "{run}");
    if run.err.contains("4MiB by fat") {
        return skip("the library sends otherwise than this test knows");
    }
    assert!(
        run.err
            .contains("warning: write: 4MiB of 4MiB went by write, not fat: "),
        "{run}"
    );
    assert!(run.err.contains("write: 4MiB by write"), "{run}");
    let ladder = "ladder --rungs fat-read --rounds 1 --seconds 0.01 --no-save --json";
    let run = start(without(ladder), Stdio::null(), To::Captured).finish();
    let rung = &run.json()["rungs"][0];
    let path = &rung["samples"][0]["writer"]["path"];
    assert_eq!(
        path["bytes_by"]["write"], rung["samples"][0]["writer"]["bytes"],
        "{rung}"
    );
    assert!(
        rung["warnings"]
            .to_string()
            .contains("went by write, not fat: "),
        "{rung}"
    );
    assert!(run.out.contains("ermitted"), "the reason: {rung}");
    let quiet = |line| support::collect(fullbore(line)).0;
    let run = quiet("write --with fat --bytes 100 --verbose");
    assert!(
        run.err.contains("100B by write") && !run.err.contains("warning"),
        "{run}"
    );
    let run = quiet("write --with fat --bytes 1M --buf-size 4K --verbose");
    assert!(
        run.err
            .contains("write, as the buffer of fat is below 16KiB"),
        "{run}"
    );
    assert!(!run.err.contains("warning"), "{run}");
}
