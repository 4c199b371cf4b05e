//! What each command prints as JSON fits the schema that is published for it, and has nothing that the schema does not know.

mod support;

#[path = "../../lab/src/saved/fits.rs"]
mod fits;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use support::{Run, To, feed, fullbore, skip, start};

/// A ladder that an earlier version saved.
const LADDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../lab/tests/data/ladder.json");

/// Runs it as a user who has no saved runs but those in `home`.
fn run_at(home: &Path, line: &str) -> Run {
    let mut command: Command = fullbore(line);
    command.env("HOME", home);
    start(command, Stdio::null(), To::Captured).finish()
}

fn run(line: &str) -> Run {
    let home = tempfile::tempdir().expect("a directory");
    run_at(home.path(), &format!("{line} --json"))
}

/// Asserts that the document is of the form `name`, as published.
#[track_caller]
fn is_published(run: &Run, name: &str) {
    assert_eq!(run.status.code(), Some(0), "{run}");
    let document = run.json();
    assert_eq!(document["schema"], name, "{run}");
    assert_eq!(document["version"], env!("CARGO_PKG_VERSION"), "{run}");
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../docs/schema")
        .join(format!("{}.json", name.replace('/', ".")));
    let text = fs::read_to_string(&file).expect("a published schema");
    let schema: Value = serde_json::from_str(&text).expect("JSON");
    fits::fits(&document, &schema, &schema).unwrap_or_else(|why| panic!("{why}: {run}"));
    for field in document.as_object().expect("an object").keys() {
        assert!(schema["properties"].get(field).is_some(), "{field}: {run}");
    }
}

#[test]
fn runs_that_are_saved() {
    let short = "--rounds 1 --seconds 0.02 --no-save";
    for (line, name) in [
        ("ladder --rungs write-read,busy-loop", "fullbore.ladder/2"),
        ("sweep --buf-size 4K --pipe-size 64K", "fullbore.sweep/2"),
        ("bandwidth --columns mem-read,pipe", "fullbore.bandwidth/1"),
        ("gup", "fullbore.gup/1"),
    ] {
        is_published(&run(&format!("{line} {short}")), name);
    }
}

#[test]
fn profile() {
    let run = run("profile --rungs write-read --rounds 1 --seconds 0.1 --no-save");
    if run.status.code() == Some(1) {
        return skip(format!("no profile here: {}", run.err));
    }
    is_published(&run, "fullbore.profile/1");
}

#[test]
fn comparison_and_list_of_runs() {
    let compared = run(&format!("compare {LADDER} {LADDER}"));
    is_published(&compared, "fullbore.compare/1");
    let home = tempfile::tempdir().expect("a directory");
    let listed = || run_at(home.path(), "compare --list --json");
    is_published(&listed(), "fullbore.runs/1");
    let line = "ladder --rungs write-read --rounds 1 --seconds 0.02 --label mine";
    assert!(run_at(home.path(), line).status.success());
    let state = home.path().join(".local/state/fullbore/runs");
    let damaged = state.join("2026-11-21T10-00-00Z-ladder");
    fs::create_dir(&damaged).expect("a directory");
    fs::write(damaged.join("run.json"), "{}").expect("a file");
    let two = listed();
    is_published(&two, "fullbore.runs/1");
    assert_eq!(two.json()["runs"].as_array().map(Vec::len), Some(2));
}

#[test]
fn reader_of_a_pair() {
    let run = feed(fullbore("read --json"), vec![0; 100_000]);
    is_published(&run, "fullbore.read/1");
}

#[test]
fn doctor_ring_and_walk() {
    is_published(&run("doctor"), "fullbore.doctor/1");
    is_published(&run("ring"), "fullbore.ring/1");
    is_published(&run("walk 0x7f705af953c0"), "fullbore.walk/1");
    is_published(&run("walk --pages small"), "fullbore.walk-pages/1");
}
