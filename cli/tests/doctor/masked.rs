//! Machines on which /proc or /sys cannot be seen.

use std::process::Command;

use crate::answers::{GUP, measured_or_explained, run, state_of, usable};
use crate::support::{BINARY, skip};

/// The command with these directories empty, in a mount namespace of its own; or why that cannot be had.
fn masked(directories: &[&str], line: &str) -> Result<Command, String> {
    let mounts: Vec<_> = directories
        .iter()
        .map(|directory| format!("mount -t tmpfs none {directory}"))
        .collect();
    let mounts = mounts.join(" && ");
    let namespace = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["-rm", "sh", "-c", script]);
        command
    };
    match namespace(&mounts).output() {
        Ok(output) if output.status.success() => {}
        Ok(output) => return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        Err(why) => return Err(format!("unshare does not run: {why}")),
    }
    Ok(namespace(&format!("{mounts} && exec {BINARY} {line}")))
}

#[track_caller]
fn answers(directories: &[&str]) -> Option<Vec<serde_json::Value>> {
    let doctor = match masked(directories, "doctor --json") {
        Ok(command) => command,
        Err(why) => {
            skip(why);
            return None;
        }
    };
    let report = usable(&run(doctor));
    if let Ok(gup) = masked(directories, GUP) {
        measured_or_explained(&run(gup));
    }
    Some(report)
}

#[test]
fn without_proc_what_it_says_is_unknown_and_nothing_is_made_up() {
    let Some(report) = answers(&["/proc"]) else {
        return;
    };
    for id in ["kernel", "seccomp", "hugetlb", "memory-cgroup", "steal"] {
        assert_eq!(state_of(&report, id), "unknown", "{id}");
    }
    assert_eq!(state_of(&report, "process"), "missing");
    assert_eq!(state_of(&report, "vmsplice"), "ok");
}

#[test]
fn without_sys_what_it_says_is_unknown_and_nothing_is_made_up() {
    let Some(report) = answers(&["/sys"]) else {
        return;
    };
    for id in ["defrag", "mitigations", "governor"] {
        assert_eq!(state_of(&report, id), "unknown", "{id}");
    }
    // Found by trying, as their size is by that of small ones.
    assert_ne!(state_of(&report, "huge-pages"), "unknown");
}

#[test]
fn without_proc_and_sys_there_still_is_an_answer() {
    answers(&["/proc", "/sys"]);
}

#[test]
fn without_dev_there_still_is_an_answer() {
    if let Some(report) = answers(&["/dev"]) {
        assert_eq!(state_of(&report, "dev-null"), "missing");
        assert_eq!(state_of(&report, "process"), "ok");
    }
}
