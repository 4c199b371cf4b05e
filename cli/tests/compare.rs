//! `fullbore compare`, held to what the command line promises. Runs are made up, but for those of the last test.

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use support::{BINARY, Run, To, fullbore, refused, skip, start};

const SAVED: &str = include_str!("../../lab/tests/data/ladder.json");

/// A user with saved runs.
struct User(TempDir);

impl User {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a directory"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Saves a run the way measuring commands do.
    fn saves(&self, name: &str, run: &Value) {
        let directory = self.path("state/fullbore/runs").join(name);
        fs::create_dir_all(&directory).expect("a file that can be written");
        fs::write(directory.join("run.json"), run.to_string()).expect("a file that can be written");
    }

    fn has(&self, name: &str, text: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a file that can be written"))
            .expect("a file that can be written");
        fs::write(&path, text).expect("a file that can be written");
        path.to_str()
            .expect("a file that can be written")
            .to_owned()
    }

    fn command(&self, line: &str) -> Command {
        let mut command = fullbore(&format!("compare {line}"));
        command.env("XDG_STATE_HOME", self.path("state"));
        command.env_remove("NO_COLOR");
        command.current_dir(self.0.path());
        command
    }

    fn compares(&self, line: &str) -> Run {
        start(self.command(line), Stdio::null(), To::Captured).finish()
    }
}

/// A ladder of two rungs in one state; all rates times `scale`.
fn ladder(scale: f64, state: &str) -> Value {
    let mut run: Value = serde_json::from_str(SAVED).expect("a file that can be written");
    let side = run["rungs"][0]["samples"][0]["writer"].clone();
    let rungs = [("write-read", 1.0), ("busy-loop", 8.0)].map(|(id, rate)| {
        let samples: Vec<_> = (0..9)
            .map(|round| {
                let noise = 1.0 + 0.01 * f64::from((round * 7) % 5);
                json!({"round": round, "gib_per_s": rate * scale * noise, "state": state,
                    "line_travel_ns": {"before": 30.0, "after": 30.0}, "steal": 0.0, "writer": side, "reader": side})
            })
            .collect();
        let mut rung = run["rungs"][0].clone();
        rung["id"] = id.into();
        rung["state"] = state.into();
        rung["apart"] = json!([]);
        rung["samples"] = samples.into();
        rung
    });
    run["rungs"] = rungs.to_vec().into();
    run
}

#[test]
fn last_names_the_newest_run_of_a_kind_and_the_ones_before_it() {
    let user = User::new();
    assert!(
        refused(user.command("last~1 last"))
            .err
            .contains("none is saved for this user")
    );
    user.saves("2026-11-20T10-00-00Z-ladder", &ladder(1.0, "near"));
    user.saves("2026-11-21T10-00-00Z-ladder", &ladder(0.5, "near"));
    fs::create_dir_all(user.path("state/fullbore/runs/2026-11-22T10-00-00Z-ladder")).unwrap();
    user.saves("2026-11-22T11-00-00Z-profile", &json!({}));
    let run = user.compares("last~1 last --json");
    let document = run.quiet_success().json();
    assert_eq!(document["schema"], "fullbore.compare/1");
    let row = &document["comparisons"][0]["rows"][0];
    assert_eq!(
        (row["id"].as_str(), row["verdict"].as_str()),
        (Some("write-read"), Some("slower"))
    );
    assert!((row["ratio"]["median"].as_f64().unwrap() - 0.5).abs() < 1e-9);
    assert!(
        refused(user.command("last last~2"))
            .err
            .contains("only 2 runs of kind ladder")
    );
    assert!(
        refused(user.command("last last~1 --kind sweep"))
            .err
            .contains("make one with fullbore sweep")
    );
}

#[test]
fn list_shows_every_run_by_the_name_it_can_be_called() {
    let user = User::new();
    assert!(
        user.compares("--list")
            .quiet_success()
            .out
            .contains("No runs")
    );
    let mut run = ladder(1.0, "near");
    run["label"] = "\u{1b}[31mred\u{202e}\u{7}".into();
    user.saves("2026-11-20T10-00-00Z-ladder", &run);
    user.saves(
        "2026-11-21T10-00-00Z-ladder",
        &json!({"schema": "fullbore.ladder/9"}),
    );
    let list = user.compares("--list");
    let lines: Vec<_> = list.quiet_success().out.lines().collect();
    assert!(
        lines[1].starts_with("ladder  last ") && lines[1].contains("newer fullbore"),
        "{list}"
    );
    assert!(lines[2].starts_with("ladder  last~1"), "{list}");
    assert!(
        lines[2].contains("write-read, busy-loop") && lines[2].contains("\\u{1b}[31mred"),
        "{list}"
    );
    assert!(
        !list.out.contains(['\u{1b}', '\u{7}', '\u{202e}']),
        "{list}"
    );
    assert_eq!(
        user.compares("--list --json").json()["runs"][1]["name"],
        "last~1"
    );
}

#[test]
fn a_slower_run_fails_the_check_only_beyond_noise_and_percent() {
    let user = User::new();
    let a = user.has("a.json", ladder(1.0, "near").to_string());
    let b = user.has("b.json", ladder(0.8, "near").to_string());
    let code = |line: &str| user.compares(line).status.code();
    assert_eq!(code(&format!("{a} {b}")), Some(0));
    assert_eq!(code(&format!("{a} {b} --fail-if-slower 10")), Some(3));
    assert_eq!(code(&format!("{a} {b} --fail-if-slower 10%")), Some(3));
    // 20 %, but the interval leaves less open.
    assert_eq!(code(&format!("{a} {b} --fail-if-slower 20")), Some(0));
    assert_eq!(code(&format!("{b} {a} --fail-if-slower 0")), Some(0));
    assert_eq!(code(&format!("{a} {a} --fail-if-slower 0")), Some(0));
    let run = user.compares(&format!("{a} {b} --fail-if-slower 5 --json"));
    run.json();
    run.complains(&[3]);
    assert!(
        run.err
            .contains("write-read, near: B is 20.0 % slower than A"),
        "{run}"
    );
}

#[test]
fn a_check_that_compared_nothing_has_not_succeeded() {
    let user = User::new();
    let a = user.has("a.json", ladder(1.0, "near").to_string());
    let b = user.has("b.json", ladder(1.0, "far").to_string());
    let run = user.compares(&format!("{a} {b} --fail-if-slower 5"));
    run.complains(&[4]);
    assert!(run.err.contains("same state"), "{run}");
    assert!(run.out.contains("near") && run.out.contains("far"), "{run}");
}

/// A gate that passes over what is missing passes a rung that has vanished.
#[test]
fn what_is_on_one_side_only_or_cannot_be_judged_fails_the_check() {
    let user = User::new();
    let whole = ladder(1.0, "near");
    let a = user.has("a.json", whole.to_string());
    let changed = |name: &str, change: &dyn Fn(&mut Value)| {
        let mut run = whole.clone();
        change(&mut run);
        user.has(name, run.to_string())
    };
    let busy_loop = |run: &mut Value, change: &dyn Fn(&mut Value)| change(&mut run["rungs"][1]);
    let gone = changed("gone.json", &|run| {
        run["rungs"].as_array_mut().expect("rungs").pop();
    });
    let refused = changed("refused.json", &|run| {
        busy_loop(run, &|rung| {
            rung["samples"] = json!([]);
            rung["gib_per_s"] = Value::Null;
            rung["refused"] = "no huge pages".into();
        });
    });
    let far = changed("far.json", &|run| {
        busy_loop(run, &|rung| {
            for sample in rung["samples"].as_array_mut().expect("samples") {
                sample["state"] = "far".into();
            }
        });
    });
    let few = changed("few.json", &|run| {
        busy_loop(run, &|rung| {
            rung["samples"].as_array_mut().expect("samples").truncate(2);
        });
    });
    for (base, other, why) in [
        (&a, &gone, "it was measured in A only"),
        (&gone, &a, "it was not measured in A"),
        (&a, &refused, "it was measured in A only"),
        (&a, &far, "the CPUs were in another state"),
        (&a, &few, "there are too few samples"),
    ] {
        let run = user.compares(&format!("{base} {other} --fail-if-slower 5"));
        run.complains(&[4]);
        let said = format!("busy-loop, B against A: {why}");
        assert!(run.err.contains(&said), "{run}");
        // Without the check it is shown, and no failure.
        let run = user.compares(&format!("{base} {other}"));
        assert_eq!(run.status.code(), Some(0), "{run}");
    }
    // What is slower goes before what is missing.
    let slower = user.has("slower.json", {
        let mut run = ladder(0.5, "near");
        run["rungs"].as_array_mut().expect("rungs").pop();
        run.to_string()
    });
    user.compares(&format!("{a} {slower} --fail-if-slower 5"))
        .complains(&[3]);
}

#[test]
fn table_says_what_differs_and_never_speaks_to_the_terminal() {
    let user = User::new();
    let a = user.has("a.json", ladder(1.0, "near").to_string());
    let mut other = ladder(1.0, "near");
    let evil = "\u{1b}]0;x\u{7}\u{9b}2J\n";
    other["label"] = evil.into();
    other["version"] = evil.into();
    other["machine"]["kernel"] = evil.into();
    other["machine"]["cpu_model"] = evil.into();
    other["machine"]["mitigations"] = json!({evil: evil});
    other["rungs"][0]["id"] = evil.into();
    let b = user.has("b.json", other.to_string());
    let run = user.compares(&format!("{a} {b} --color never"));
    run.quiet_success();
    assert!(run.out.contains("the machines differ (CPU)"), "{run}");
    assert!(
        run.out
            .contains("kernel: A 6.18.44-fc-v669 · B \\u{1b}]0;x"),
        "{run}"
    );
    assert!(
        !run.out.contains(|c: char| c.is_control() && c != '\n'),
        "{run}"
    );
    let coloured = user.compares(&format!("{a} {b} --color always"));
    assert!(
        coloured.out.contains("\u{1b}[1m") && !coloured.out.contains('\u{7}'),
        "{coloured}"
    );
    let mut plain = user.command(&format!("{a} {b}"));
    plain.env("NO_COLOR", "1");
    let plain = start(plain, Stdio::null(), To::Captured).finish();
    assert_eq!(plain.out, run.out);
}

#[test]
fn what_is_no_run_is_named_with_the_reason() {
    let user = User::new();
    let good = user.has("good.json", ladder(1.0, "near").to_string());
    let cut = &SAVED[..1000];
    let newer = SAVED.replacen("fullbore.ladder/1", "fullbore.ladder/99", 1);
    for (name, text, why) in [
        ("cut.json", cut, "cut short"),
        ("empty.json", "", "cut short"),
        ("newer.json", &newer, "use a newer fullbore"),
        ("other.json", "{\"results\": []}", "has no \"schema\""),
        ("text.json", "\u{1b}[2J hello", "not JSON"),
    ] {
        let bad = user.has(name, text);
        let run = refused(user.command(&format!("{good} {bad}")));
        assert!(run.err.contains(name) && run.err.contains(why), "{run}");
        assert!(!run.err.contains('\u{1b}'), "{run}");
    }
    let binary = user.has("binary.json", [0xff, 0xfe, 0x00]);
    for line in [
        format!("{good} {binary}"),
        format!("{good} /nonexistent"),
        good.clone(),
        format!("{good} /proc/self/mem"),
    ] {
        refused(user.command(&line));
    }
}

#[test]
fn wrong_command_lines_are_refused() {
    let user = User::new();
    for line in [
        "",
        "last~x last",
        "a b --fail-if-slower 100",
        "a b --fail-if-slower -1",
        "a b --fail-if-slower nan",
        "a b --kind ring",
        "--list a",
    ] {
        user.compares(line).complains(&[2]);
    }
}

#[test]
fn a_folder_of_many_hosts_is_grouped_by_kernel_and_cpu() {
    let user = User::new();
    for i in 0..14 {
        let (kernel, scale) = if i < 7 { ("6.1", 1.0) } else { ("6.18", 0.5) };
        let mut host = ladder(scale * (1.0 + 0.01 * f64::from(i % 7)), "near");
        host["machine"]["kernel"] = kernel.into();
        user.has(&format!("fleet/host{i}/tmp/ladder.json"), host.to_string());
    }
    user.has("fleet/broken.json", &SAVED[..500]);
    user.has("fleet/notes.txt", "no run");
    let run = user.compares("fleet --json");
    assert_eq!(run.status.code(), Some(0), "{run}");
    assert!(run.err.contains("left out: fleet/broken.json"), "{run}");
    let document = run.json();
    assert_eq!(document["groups"][0]["name"], "Linux 6.1, AMD EPYC");
    assert_eq!(document["groups"][1]["runs"], 7);
    assert_eq!(document["comparisons"][0]["rows"][0]["verdict"], "slower");
    assert_eq!(
        user.compares("fleet --fail-if-slower 10").status.code(),
        Some(3)
    );
    // Hosts of one kind: each against the first.
    let run = user.compares("fleet/host0 fleet/host3 --json");
    assert_eq!(
        run.quiet_success().json()["groups"][1]["name"],
        "fleet/host3"
    );
    for i in 7..14 {
        fs::remove_dir_all(user.path(&format!("fleet/host{i}"))).unwrap();
    }
    let run = user.compares("fleet --json");
    assert_eq!(run.json()["groups"].as_array().unwrap().len(), 7, "{run}");
    fs::create_dir(user.path("nothing")).unwrap();
    assert!(
        refused(user.command("fleet nothing"))
            .err
            .contains("nothing holds no such run")
    );
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let user = User::new();
    let a = user.has("a.json", SAVED);
    let (reader, writer) = support::pipe();
    drop(reader);
    let run = start(user.command(&format!("{a} {a}")), Stdio::null(), writer).finish();
    run.quiet_success();
}

/// The line of the guide for GNU parallel, with real runs; `ssh` is a script that runs the command here.
#[test]
fn line_of_the_guide_for_gnu_parallel_makes_a_folder_that_compares_with_a_local_shell_for_ssh() {
    let user = User::new();
    let gnu = Command::new("parallel")
        .arg("--version")
        .stdin(Stdio::null())
        .output();
    if !gnu.is_ok_and(|o| String::from_utf8_lossy(&o.stdout).starts_with("GNU parallel")) {
        skip("GNU parallel is not installed");
        return;
    }
    let guide = include_str!("../../docs/fleet.md");
    let line = guide
        .lines()
        .find(|l| l.starts_with("parallel "))
        .expect("a line for parallel");
    // Short, one after the other on this machine, and for this binary.
    let short = "ladder --rungs write-read,one-core --rounds 2 --seconds 0.02";
    let line = line
        .replace("fullbore ladder", &format!("{BINARY} {short}"))
        .replace("-j0", "-j1");
    let bin = user.path("bin");
    user.has("bin/ssh", "#!/bin/sh\nshift\nexec sh -c \"$*\"\n");
    make_executable(&bin.join("ssh"));
    user.has("hosts", "one\ntwo\n");
    fs::create_dir(user.path("fleet")).unwrap();
    let mut path = bin.into_os_string();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    let mut shell = Command::new("sh");
    shell
        .args(["-c", &line])
        .env("PATH", path)
        .env("HOME", user.path("home"));
    shell.current_dir(user.0.path());
    let run = start(shell, Stdio::null(), To::Captured).finish();
    assert_eq!(run.status.code(), Some(0), "{run}");
    let run = user.compares("fleet --json");
    assert!(matches!(run.status.code(), Some(0 | 4)), "{run}");
    let groups = run.json()["groups"].clone();
    assert_eq!(groups[0]["name"], "fleet/one.json");
    assert_eq!(groups[1]["name"], "fleet/two.json");
}

fn make_executable(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    let all = fs::Permissions::from_mode(0o755);
    fs::set_permissions(path, all).expect("permissions that can be changed");
}

#[test]
fn gate_that_could_judge_nothing_does_not_pass() {
    let user = User::new();
    for n in 0..2 {
        user.has(&format!("before/{n}.json"), ladder(1.0, "near").to_string());
        user.has(&format!("after/{n}.json"), ladder(0.5, "near").to_string());
    }
    let run = user.compares("before/ after/ --fail-if-slower 5");
    assert_eq!(run.status.code(), Some(4), "{run}");
    assert!(run.err.contains("too few samples"), "{run}");
    // Without the gate it is a comparison like any other.
    user.compares("before/ after/").quiet_success();
}

#[test]
fn names_that_are_no_text_are_names_all_the_same() {
    use std::os::unix::ffi::OsStrExt;
    let user = User::new();
    let name = std::ffi::OsStr::from_bytes(b"run\xff.json");
    if let Err(why) = fs::write(user.0.path().join(name), ladder(1.0, "near").to_string()) {
        return skip(format!("this file system has no such names: {why}"));
    }
    for command in ["compare", "report -o page.html"] {
        let mut command = fullbore(command);
        command.args([name, name]).current_dir(user.0.path());
        let run = start(command, Stdio::null(), To::Captured).finish();
        assert!(run.status.success(), "{run}");
    }
}
