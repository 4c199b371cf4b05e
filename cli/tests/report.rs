//! `fullbore report`: what it makes of saved runs, whoever wrote them.

mod support;

#[path = "report/browser.rs"]
mod browser;
#[path = "report/hostile.rs"]
mod hostile;
#[path = "report/output.rs"]
mod output;
#[path = "report/runs.rs"]
mod runs;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use roxmltree::Document;
use serde_json::{Value, json as value};
use tempfile::TempDir;

use support::{Run, To, fullbore, start};

/// A ladder that an earlier version saved.
const LADDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../lab/tests/data/ladder.json");

/// A recorded run of another kind.
fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data")
        .join(name)
}

/// A run of every kind, and of conduits.
fn one_of_each() -> Vec<PathBuf> {
    let others = ["profile", "sweep", "bandwidth", "conduits"];
    let others = others.map(|kind| data(&format!("{kind}.json")));
    [LADDER.into()].into_iter().chain(others).collect()
}

fn place() -> TempDir {
    tempfile::tempdir().expect("a directory")
}

/// `fullbore report` in `place`, whose owner has no runs of their own.
fn report(place: &Path, arguments: &[&str]) -> Command {
    let mut command = fullbore("report");
    command.args(arguments).current_dir(place);
    command.env("HOME", place).env_remove("XDG_STATE_HOME");
    command
}

#[track_caller]
fn run(command: Command) -> Run {
    start(command, Stdio::null(), To::Captured).finish()
}

/// The page of these runs.
#[track_caller]
fn page(runs: &[PathBuf]) -> String {
    let place = place();
    let mut command = report(place.path(), &["-o", "-"]);
    command.args(runs);
    let run = run(command);
    run.quiet_success();
    run.out.clone()
}

#[track_caller]
fn json(path: impl AsRef<Path>) -> Value {
    let text = fs::read(path).expect("a run");
    serde_json::from_slice(&text).expect("JSON")
}

/// Saves a changed run and returns its path.
fn saved(place: &Path, name: &str, run: &Value) -> PathBuf {
    let path = place.join(name);
    fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
    fs::write(&path, run.to_string()).expect("a file");
    path
}

/// Asserts that a chart by itself is well-formed, has its words, and asks for nothing.
#[track_caller]
fn is_a_picture(svg: &str) {
    let document = Document::parse(svg).unwrap_or_else(|why| panic!("{why}: {svg}"));
    let root = document.root_element();
    assert_eq!(root.attribute("role"), Some("img"));
    for words in ["title", "desc"] {
        let found = root
            .children()
            .find(|n| n.has_tag_name(("http://www.w3.org/2000/svg", words)));
        assert!(found.is_some_and(|n| n.text().is_some()), "{words}");
    }
    for node in document.descendants() {
        assert_ne!(node.tag_name().name(), "script");
        for attribute in node.attributes() {
            assert!(!attribute.name().starts_with("on"), "{attribute:?}");
            assert_ne!(attribute.name(), "href");
            assert!(!attribute.value().contains("NaN"), "{attribute:?}");
            assert!(!attribute.value().contains("inf"), "{attribute:?}");
        }
    }
}

/// What a page asks for: the value of every `src`, `href` and the like, outside text.
fn asked_for(page: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for name in [
        "src=\"",
        "href=\"",
        "url(",
        "@import",
        "action=\"",
        "srcset=\"",
    ] {
        found.extend(page.match_indices(name).map(|(at, _)| {
            let rest = &page[at + name.len()..];
            &rest[..rest.find(['"', ')']).unwrap_or(rest.len()).min(40)]
        }));
    }
    found
}
