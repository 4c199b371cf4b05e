//! What a clear answer is, of either command.

use std::process::{Command, Stdio};

use serde_json::Value;

use crate::support::{Run, To, fullbore, start};

pub const STATES: [&str; 4] = ["ok", "costs you", "missing", "unknown"];

/// The shortest measuring that is one.
pub const GUP: &str = "gup --rounds 1 --seconds 0.01 --json";

pub fn doctor() -> Command {
    fullbore("doctor --json")
}

pub fn run(command: Command) -> Run {
    start(command, Stdio::null(), To::Captured).finish()
}

/// Asserts that every check has a state, and everything that is not ok says why that matters. Returns the checks.
#[track_caller]
pub fn checks(run: &Run) -> Vec<Value> {
    let document = run.json();
    assert_eq!(document["schema"], "fullbore.doctor/1", "{run}");
    let groups = document["groups"].as_array().expect("groups");
    let checks: Vec<Value> = groups
        .iter()
        .flat_map(|group| group["checks"].as_array().expect("checks").clone())
        .collect();
    assert!(checks.len() > 20, "{run}");
    for check in &checks {
        let state = check["state"].as_str().expect("a state");
        assert!(STATES.contains(&state), "{check}");
        let found = check["found"].as_str().expect("what was found");
        assert!(!found.is_empty(), "{check}");
        if ["costs you", "missing"].contains(&state) {
            assert!(check["costs"].is_string(), "what does it cost? {check}");
            assert!(check["change"].is_string(), "what changes it? {check}");
        }
    }
    let fatal = checks.iter().any(|check| check["is_fatal"] == true);
    assert_eq!(document["is_usable"], !fatal, "{run}");
    checks
}

/// Asserts a whole report of a machine that can be used.
#[track_caller]
pub fn usable(run: &Run) -> Vec<Value> {
    run.quiet_success();
    checks(run)
}

/// Asserts a whole report of a machine that cannot be used, and one line that says so.
#[track_caller]
pub fn unusable(run: &Run) -> Vec<Value> {
    run.complains(&[1]);
    assert!(run.err.contains("cannot work here"), "{run}");
    checks(run)
}

#[track_caller]
pub fn state_of<'a>(checks: &'a [Value], id: &str) -> &'a str {
    let check = checks.iter().find(|check| check["id"] == id);
    check.expect(id)["state"].as_str().expect("a state")
}

/// Asserts a result with its source, or one line that says why there is none.
#[track_caller]
pub fn measured_or_explained(run: &Run) {
    if run.status.code() != Some(0) {
        assert_eq!(run.out, "", "{run}");
        run.complains(&[1]);
        return;
    }
    run.quiet_success();
    let document = run.json();
    assert_eq!(document["schema"], "fullbore.gup/1", "{run}");
    let method = &document["method"];
    match method["source"].as_str() {
        Some("gup_test") => assert!(method["request_bytes"].is_u64(), "{run}"),
        Some("estimate") => assert!(method["no_gup_test"].is_string(), "why not? {run}"),
        _ => panic!("which of the two was it? {run}"),
    }
    let rows = document["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 6, "{run}");
    for row in rows {
        let figure = &row["ns_per_page"];
        if figure.is_null() {
            assert!(row["refused"].is_string(), "{row}");
            continue;
        }
        let [low, high] = [0, 1].map(|i| figure["ci95"][i].as_f64().expect("an interval"));
        let median = figure["median"].as_f64().expect("a median");
        assert!(low <= median && median <= high, "{row}");
    }
}
