//! `--help`, `--json`, the table, and other users.

use std::process::{Command, Stdio};

use crate::answers::{GUP, checks, doctor, measured_or_explained, run, state_of, usable};
use crate::support::{Stranger, To, fullbore, pipe, skip, start};

#[test]
fn help_begins_with_a_sentence_and_ends_with_examples() {
    for command in ["doctor", "gup"] {
        let run = run(fullbore(&format!("{command} --help")));
        run.quiet_success();
        let (sentence, _) = run.out.split_once("\n\n").expect("paragraphs");
        assert!(!sentence.replace('\n', " ").contains(". "), "{run}");
        let (_, examples) = run.out.rsplit_once("Examples:").expect("examples");
        assert!(examples.contains(&format!("fullbore {command}")), "{run}");
        assert!(!examples.contains("\n  -"), "examples come last: {run}");
    }
}

#[test]
fn wrong_options_are_named() {
    for line in [
        "doctor --fix",
        "doctor 1",
        "gup --rounds 0",
        "gup --seconds 0",
        "gup --seconds nan",
        "gup --color blue",
        "gup --cpu 99999",
        "gup --cpu 0,1",
    ] {
        run(fullbore(line)).complains(&[2]);
    }
}

#[test]
fn doctor_finds_this_machine_usable_and_says_the_same_as_text() {
    let report = usable(&run(doctor()));
    assert_eq!(state_of(&report, "pipe"), "ok");
    let mut command = fullbore("doctor");
    command.env_remove("CLICOLOR_FORCE");
    let text = run(command);
    text.quiet_success();
    assert!(!text.out.contains('\x1b'), "no colours in a file: {text}");
    for check in &report {
        let id = check["id"].as_str().expect("an id");
        assert!(text.out.contains(&format!(" {id} ")), "{id}: {text}");
    }
    assert!(text.out.ends_with("Fullbore works here.\n"), "{text}");
    for line in text.out.lines() {
        let commands = line.contains('/') || line.contains('=');
        assert!(commands || line.chars().count() <= 100, "{line:?}");
    }
}

#[test]
fn gup_says_which_of_the_two_it_was_in_either_form() {
    measured_or_explained(&run(fullbore(GUP)));
    let text = run(fullbore("gup --rounds 1 --seconds 0.01"));
    if text.status.success() {
        let kernel = text.out.contains("Measured by the kernel itself");
        let outside = text.out.contains("An estimate from the outside");
        assert!(kernel != outside, "{text}");
        assert!(
            text.out.contains("small (4KiB)") || cfg!(target_arch = "aarch64"),
            "{text}"
        );
    }
}

#[test]
fn colours_come_when_they_are_asked_for() {
    for line in [
        "doctor --color always",
        "gup --rounds 1 --seconds 0.01 --color always",
    ] {
        let coloured = run(fullbore(line));
        if coloured.status.success() {
            assert!(coloured.out.contains("\x1b["), "{coloured}");
        }
    }
}

#[test]
fn output_that_nobody_reads_is_no_failure() {
    for line in ["doctor", "doctor --json", GUP] {
        let (read_end, write_end) = pipe();
        drop(read_end);
        let run = start(fullbore(line), Stdio::null(), write_end).finish();
        // Where nothing can be measured it says that.
        let is_explained = run.status.code() == Some(1) && run.err.starts_with("fullbore: ");
        assert!(run.status.success() || is_explained, "{run}");
        assert!(!run.err.contains("cannot be printed"), "{run}");
    }
}

#[test]
fn interrupted_measuring_ends_with_130() {
    let running = start(fullbore("gup --rounds 10000"), Stdio::null(), To::Captured);
    std::thread::sleep(std::time::Duration::from_millis(300));
    running.interrupt();
    let run = running.finish();
    // Where nothing can be measured it has ended before.
    assert!([Some(130), Some(1)].contains(&run.status.code()), "{run}");
}

#[test]
fn another_user_gets_an_answer() {
    let stranger = match Stranger::new() {
        Ok(stranger) => stranger,
        Err(why) => return skip(why),
    };
    let report = usable(&run(stranger.fullbore("doctor --json")));
    if stranger.is_another_user() {
        assert_eq!(state_of(&report, "gup-test"), "missing");
    }
    measured_or_explained(&run(stranger.fullbore(GUP)));
}

#[test]
fn root_of_a_user_namespace_gets_an_answer() {
    let inside = |line: &str| {
        let mut command = Command::new("unshare");
        command.arg("-Ur").arg(crate::support::BINARY);
        command.args(line.split_whitespace());
        command
    };
    match Command::new("unshare").args(["-Ur", "true"]).output() {
        Ok(output) if output.status.success() => {}
        Ok(output) => return skip(String::from_utf8_lossy(&output.stderr).trim()),
        Err(why) => return skip(format_args!("unshare does not run: {why}")),
    }
    usable(&run(inside("doctor --json")));
    measured_or_explained(&run(inside(GUP)));
}

#[test]
fn without_descriptors_left_nothing_works_and_doctor_says_so() {
    let mut command = Command::new("sh");
    // Standard streams and one more: no pipe fits.
    let script = format!("ulimit -n 4; exec {} doctor --json", crate::support::BINARY);
    command.args(["-c", &script]);
    let run = run(command);
    // The dynamic loader itself needs one, and has it.
    assert_eq!(run.status.code(), Some(1), "{run}");
    assert!(run.err.contains("no pipe can be made"), "{run}");
    assert_eq!(state_of(&checks(&run), "pipe"), "missing");
}
