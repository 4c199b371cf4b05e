//! `fullbore profile` on real rungs: the shape of what comes out, never the figures.

mod support;

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use support::{Run, Stranger, To, skip, start};

fn profile(line: &str) -> Run {
    let command = support::fullbore(&format!("profile {line}"));
    // Its trials spin on the CPUs that those of other tests spin on, too.
    start(command, Stdio::null(), To::Captured).finish_within(Duration::from_secs(120))
}

/// The measured part of each rung.
const SECONDS: f64 = 0.6;

/// A profile of these rungs, or nothing where the kernel's part may not be sampled here.
fn profiled(rungs: &str) -> Option<Value> {
    let run = profile(&format!(
        "--rungs {rungs} --rounds 1 --seconds {SECONDS} --json --no-save"
    ));
    if !run.status.success() {
        assert!(
            run.err.starts_with("fullbore: this process may not sample"),
            "{run}"
        );
        skip(&run.err);
        return None;
    }
    assert_eq!(run.err, "", "nothing but the document");
    let profile = run.json();
    assert_eq!(profile["schema"], "fullbore.profile/1");
    if profile["method"]["kernel"] != true {
        skip(&profile["warnings"]);
        return None;
    }
    Some(profile)
}

fn side<'a>(profile: &'a Value, rung: &str, side: &str) -> &'a Value {
    let rungs = profile["rungs"].as_array().expect("rungs");
    let rung = rungs.iter().find(|r| r["id"] == rung).expect("the rung");
    assert_eq!(rung["refused"], Value::Null, "{rung}");
    let sides = rung["sides"].as_array().expect("sides");
    sides.iter().find(|s| s["side"] == side).expect("the side")
}

/// Share of a side's CPU time that a cause has.
fn share(side: &Value, cause: &str) -> f64 {
    let causes = side["causes"].as_array().expect("causes");
    let found = causes.iter().find(|c| c["cause"] == cause);
    found.map_or(0.0, |c| c["share"].as_f64().expect("a share"))
}

#[test]
fn findings_of_the_article_come_out() {
    let rungs = "write-read,vmsplice-splice,busy-loop,large-pipe";
    let Some(profile) = profiled(rungs) else {
        return;
    };
    let writer = side(&profile, "write-read", "writer");
    for cause in ["copy", "allocation", "wake"] {
        assert!(
            share(writer, cause) > 0.02,
            "write-read has {cause}: {writer}"
        );
    }
    assert_eq!(
        share(writer, "page-lookup"),
        0.0,
        "write(2) looks up no pages"
    );
    // Where others use the CPUs, too, there are few samples of it.
    let reader = side(&profile, "write-read", "reader");
    assert!(share(reader, "copy") > 0.0, "{reader}");

    // Two CPUs that other tests use as well have trials without any contention, so no more is asked of the lock.
    let writer = side(&profile, "vmsplice-splice", "writer");
    assert!(share(writer, "page-lookup") > 0.05, "{writer}");
    assert_eq!(share(writer, "copy"), 0.0, "nothing is copied: {writer}");
    for who in ["writer", "reader"] {
        let blocking = side(&profile, "vmsplice-splice", who);
        let spinning = side(&profile, "busy-loop", who);
        assert!(share(blocking, "wake") > 0.05, "{who} sleeps: {blocking}");
        // Where another program wants the CPU, its switches show up here, too.
        assert!(
            share(spinning, "wake") < 0.05,
            "{who} never sleeps: {spinning}"
        );
    }
    let small = share(side(&profile, "vmsplice-splice", "writer"), "page-lookup");
    let huge = share(side(&profile, "large-pipe", "writer"), "page-lookup");
    assert!(
        huge < small,
        "huge pages shrink the lookup: {huge} of {small}"
    );
}

#[test]
fn times_of_each_side_agree_with_its_samples_and_with_what_its_rung_does() {
    let rungs = "write-read,busy-loop,one-core,copy-tuned,fat-read,fresh-read,fat-constant";
    let Some(profile) = profiled(rungs) else {
        return;
    };
    let knows_waits = !profile["warnings"]
        .to_string()
        .contains("CONFIG_SCHED_INFO");
    let frequency = profile["method"]["frequency_hz"].as_f64().expect("hertz");
    for rung in profile["rungs"].as_array().expect("rungs") {
        if rung["refused"] != Value::Null {
            skip(format_args!("{}: {}", rung["id"], rung["refused"]));
            continue;
        }
        assert_ne!(rung["sentence"], "");
        let sides = rung["sides"].as_array().expect("sides");
        if sides.iter().any(|s| s["samples"].as_u64() < Some(20)) {
            skip(format_args!(
                "{}: a side hardly ran, the machine is busy",
                rung["id"]
            ));
            continue;
        }
        if rung["id"] == "one-core" {
            let s = |i: usize, name: &str| rung["sides"][i][name].as_f64().expect("seconds");
            for (one, other) in [(0, 1), (1, 0)] {
                let off = s(one, "runnable_s") + s(one, "blocked_s");
                assert!(
                    off > s(other, "on_cpu_s") - 0.05 * s(one, "wall_s"),
                    "one CPU is one side's or the other's: {rung}"
                );
            }
        }
        // The sum of the times is the wall time by definition; these come from different clocks.
        for side in sides {
            let s = |name: &str| side[name].as_f64().expect("seconds");
            let (wall, on_cpu) = (s("wall_s"), s("on_cpu_s"));
            assert!(wall > 0.9 * SECONDS, "{}: {side}", rung["id"]);
            let steal = side["steal_s"].as_f64().unwrap_or(0.0);
            if rung["id"] == "write-read" {
                assert!(s("blocked_s") > 0.0, "it sleeps: {side}");
            } else if rung["id"] != "one-core" && knows_waits {
                // It spins; but whoever holds the pipe's mutex may have lost its CPU to another program.
                let awake = on_cpu + s("runnable_s") + steal;
                assert!(awake > 0.5 * wall, "{}: {side}", rung["id"]);
            }
            // A side that sleeps and wakes all the time may do so in step with the sampling.
            if on_cpu > 0.5 * wall {
                let sampled = side["samples"].as_f64().expect("a number") / frequency;
                let near = (sampled - on_cpu).abs() < 0.2 * on_cpu + steal;
                assert!(near, "{}: {sampled} s sampled: {side}", rung["id"]);
            }
            if side["samples"].as_u64() > Some(50) {
                let causes = side["causes"].as_array().expect("causes");
                let seconds = causes.iter().filter_map(|c| c["ns_per_page"].as_f64());
                let seconds = seconds.sum::<f64>() * s("pages") * 1e-9;
                assert!(
                    (seconds - on_cpu).abs() < 1e-3 * on_cpu,
                    "the causes take {seconds} s: {side}"
                );
                assert!(share(side, "other") < 0.10, "{}: {side}", rung["id"]);
            }
        }
    }
}

#[test]
fn flame_graphs_and_folded_stacks_are_saved_and_a_function_can_be_looked_into() {
    let dir = tempfile::tempdir().expect("a directory");
    let out = dir.path().join("p.json");
    let run = profile(&format!(
        "--rungs busy-loop --rounds 2 --seconds 0.15 --out {}",
        out.display()
    ));
    if !run.status.success() {
        return skip(&run.err);
    }
    let table = &run.out;
    assert!(
        table.contains("busy-loop") && table.contains("writer "),
        "{table}"
    );
    let read = |name: &str| {
        let text = std::fs::read_to_string(dir.path().join(name));
        text.unwrap_or_else(|e| panic!("{name}: {e}"))
    };
    for who in ["writer", "reader"] {
        let folded = read(&format!("p.busy-loop-{who}.folded"));
        assert!(folded.lines().count() > 0);
        for line in folded.lines() {
            let (stack, count) = line.rsplit_once(' ').expect("a stack and a count");
            assert!(
                !stack.contains(' ') && count.parse::<u64>().is_ok(),
                "{line}"
            );
        }
        assert!(read(&format!("p.busy-loop-{who}.svg")).contains("<svg"));
    }
    assert!(read("p.causes.csv").lines().count() > 2);

    let symbol = |name| {
        profile(&format!(
            "--rungs busy-loop --rounds 1 --seconds 0.3 --no-save --symbol {name}"
        ))
    };
    let nowhere = symbol("no_such_function");
    nowhere.complains(&[1]);
    assert!(
        nowhere.err.contains("--symbol no_such_function: "),
        "{nowhere}"
    );
    if cfg!(target_arch = "x86_64") && Path::new("/proc/kallsyms").exists() {
        let run = symbol("do_syscall_64");
        if run.status.success() {
            assert!(
                run.out.contains("% of its CPU time is in do_syscall_64"),
                "{run}"
            );
        } else {
            skip(&run.err);
        }
    }
}

/// What each round adds is in the sums, and the intervals are of the rounds.
#[test]
fn rounds_make_intervals_and_shares_are_of_all_of_them() {
    let line = "--rungs busy-loop,relay --rounds 4 --seconds 0.1 --seed 3 --json --no-save";
    let run = profile(line);
    if !run.status.success() {
        return skip(&run.err);
    }
    let profile = run.json();
    assert_eq!(profile["method"]["rounds_done"], 4);
    for rung in profile["rungs"].as_array().expect("rungs") {
        let apart = rung["apart"].as_array().into_iter().flatten();
        let states: Vec<_> = std::iter::once(rung).chain(apart).collect();
        let rates = |state: &Value| state["samples"].as_array().expect("trials").len();
        assert_eq!(states.iter().map(|s| rates(s)).sum::<usize>(), 4, "{rung}");
        for state in states.iter().filter(|s| rates(s) > 1) {
            let ends = state["gib_per_s_ci95"].as_array().expect("an interval");
            let rate = state["gib_per_s"].as_f64();
            assert!(
                ends[0].as_f64() <= rate && rate <= ends[1].as_f64(),
                "{state}"
            );
            for side in state["sides"].as_array().expect("sides") {
                let least = 0.09 * rates(state) as f64;
                assert!(side["wall_s"].as_f64() > Some(least), "{side}");
            }
        }
    }
}

/// By the usual setting of perf_event_paranoid a user without privileges sees user code only.
#[test]
fn user_without_privileges_gets_what_is_permitted_and_is_told_how_to_get_more() {
    let stranger = match Stranger::new() {
        Ok(stranger) => stranger,
        Err(why) => return skip(why),
    };
    let line = "profile --rungs busy-loop --rounds 1 --seconds 0.3 --json --no-save";
    let run = start(stranger.fullbore(line), Stdio::null(), To::Captured).finish();
    if !run.status.success() {
        run.complains(&[1]);
        assert!(run.err.contains("this process may not sample"), "{run}");
        assert!(
            run.err.contains("sysctl") || run.err.contains("sandbox"),
            "{run}"
        );
        return;
    }
    let profile = run.json();
    let samples = |who| side(&profile, "busy-loop", who)["samples"].as_u64();
    assert!(
        samples("writer").max(samples("reader")) > Some(0),
        "{profile}"
    );
    let hidden = share(side(&profile, "busy-loop", "writer"), "hidden");
    if profile["method"]["kernel"] == true {
        return assert_eq!(hidden, 0.0, "{profile}");
    }
    let warning = profile["warnings"][0].as_str().expect("a warning");
    assert!(warning.contains("sysctl kernel."), "{warning}");
    assert!(
        hidden > 0.2,
        "the writer is in the kernel most of the time: {hidden}"
    );
}

#[test]
fn a_wrong_command_line_is_refused() {
    for (line, what) in [
        ("--rungs nonsense", "nonsense"),
        ("--all --rungs write-read", "--all"),
        ("--frequency 0", "--frequency"),
        ("--seconds -1", "--seconds"),
        ("--json --symbol f", "--symbol"),
        ("--cpus 0,99999", "CPU 99999"),
        ("--symbol read --out -", "--symbol with --out -"),
    ] {
        let run = profile(line);
        run.complains(&[2]);
        assert!(run.err.contains(what), "{run}");
    }
}
