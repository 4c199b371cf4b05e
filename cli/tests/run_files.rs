//! Run files that are large, endless or made to be dear, for `report` and `compare`: none takes more memory than a run needs.

mod support;

use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use serde_json::Value;

use support::kinds::contents;
use support::{Run, fullbore};

const LADDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../lab/tests/data/ladder.json");
const PROFILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/profile.json");

/// Nobody's report needs more.
const MOST_KIB: i64 = 200 << 10;

/// Waits for the end, and returns with it how much memory the process had at most, in KiB.
#[allow(unsafe_code)]
fn waited_for(child: &Child) -> (ExitStatus, i64) {
    let mut status = 0;
    // SAFETY: all zeros is a value of this plain structure.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to what wait4(2) writes; the child is ours and nobody else waits for it.
    let pid = unsafe { libc::wait4(child.id() as i32, &raw mut status, 0, &raw mut usage) };
    assert_eq!(pid, child.id() as i32);
    (ExitStatus::from_raw(status), usage.ru_maxrss)
}

/// Runs a command with this on its standard input, and asserts that it stays small.
#[allow(clippy::zombie_processes, reason = "wait4 waits for it")]
fn small(mut command: Command, input: impl Iterator<Item = Vec<u8>> + Send) -> Run {
    let what = format!("{command:?}");
    let err = tempfile::tempfile().expect("a file");
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(err.try_clone().expect("a copy"))
        .spawn()
        .expect("a child");
    let mut feed = child.stdin.take().expect("a pipe");
    std::thread::scope(|scope| {
        // As far as it is read.
        scope.spawn(move || input.map(|part| feed.write_all(&part)).all(|r| r.is_ok()));
        let (status, kib) = waited_for(&child);
        assert!(kib < MOST_KIB, "{what}: {} MiB", kib >> 10);
        let run = Run {
            what,
            status,
            out: String::new(),
            err: String::from_utf8_lossy(&contents(err)).into_owned(),
        };
        assert!(run.status.code().is_some(), "{run}");
        run
    })
}

/// `report` and `compare` of a standard input that begins so, and goes on like that as often as said.
fn both(begin: &str, again: &str, times: usize) -> [Run; 2] {
    let again = again.repeat(1 + (64 << 10) / again.len());
    let parts = || {
        let rest = std::iter::repeat_n(again.clone(), times * 64 / again.len().div_ceil(1024));
        std::iter::once(begin.to_owned())
            .chain(rest)
            .map(String::into_bytes)
    };
    let mut compare = fullbore("compare");
    compare.args(["/dev/stdin", "/dev/stdin"]);
    [
        small(report("/dev/stdin"), parts()),
        small(compare, parts()),
    ]
}

#[test]
fn endless_and_huge_files_are_refused_and_take_little_memory() {
    let in_ladder = |text: &str| format!("{{\"schema\":\"fullbore.ladder/1\",{text}");
    // In MiB; the last ones never end.
    for (begin, again, mib) in [
        (in_ladder("\"unknown\":["), "1,", 60),
        (in_ladder("\"unknown\":["), "[[],{\"a\":1}],", 60),
        (in_ladder("\"warnings\":["), "\"\",", 60),
        (in_ladder("\"label\":\"\\n"), "long", 60),
        (in_ladder("\"\\nlong"), "long", 60),
        (in_ladder("\"machine\":{"), "\"a\":\"b\",", 60),
        (in_ladder("\"rungs\":["), "null,", 60),
        (in_ladder("\"deep\":"), "[", 60),
        (in_ladder("\"space\":"), "    ", 1 << 20),
        (String::new(), "\0", 1 << 20),
        (String::new(), "\u{fffd}\u{7f}\"", 1 << 20),
    ] {
        for run in both(&begin, again, mib) {
            run.complains(&[1]);
        }
    }
    for device in ["/dev/zero", "/dev/urandom"] {
        small(report(device), std::iter::empty()).complains(&[1]);
    }
}

/// Runs of our form that nobody measured, as large as the loader lets them pass.
#[test]
fn large_runs_are_reported_and_compared_in_little_memory() {
    let place = tempfile::tempdir().expect("a directory");
    let mut ladder = json(LADDER);
    let mut rung = ladder["rungs"][0].clone();
    rung["samples"].as_array_mut().expect("samples").truncate(7);
    let rungs = (0..300).map(|i| {
        let mut rung = rung.clone();
        rung["id"] = format!("rung-{i}").into();
        rung
    });
    ladder["rungs"] = rungs.collect();
    ladder["rungs"][1]["warnings"] = vec!["w"; 100_000].into();
    let ladder = saved(place.path(), "ladder.json", &ladder);
    let mut profile = json(PROFILE);
    let folded: Vec<_> = (0..30_000)
        .map(|i| serde_json::json!([format!("a;b{i}"), 1]))
        .collect();
    profile["rungs"][0]["sides"][0]["folded"] = folded.into();
    let profile = saved(place.path(), "profile.json", &profile);
    for path in [&ladder, &profile] {
        let run = small(report(path), std::iter::empty());
        assert!(run.status.success(), "{run}");
        let mut command = fullbore("compare");
        command.arg(path).arg(path);
        small(command, std::iter::empty());
    }
}

/// The page is not kept.
fn report(run: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = fullbore("report -o -");
    command.arg(run);
    command
}

fn json(path: &str) -> Value {
    let text = std::fs::read(path).expect("a run");
    serde_json::from_slice(&text).expect("JSON")
}

fn saved(place: &Path, name: &str, run: &Value) -> PathBuf {
    let path = place.join(name);
    std::fs::write(&path, run.to_string()).expect("a file");
    path
}
