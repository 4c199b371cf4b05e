//! `fullbore sweep`, held to what the command line promises. Nothing here asserts a speed.

mod support;

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use support::{Run, Stranger, To, fullbore, refused, skip, start, until};

struct Home(TempDir);

impl Home {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a directory"))
    }

    fn command(&self, line: &str) -> Command {
        let mut command = fullbore(&format!("sweep {line}"));
        command.env("XDG_STATE_HOME", self.0.path());
        for setting in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "COLORTERM"] {
            command.env_remove(setting);
        }
        command
    }

    fn sweeps(&self, line: &str) -> Run {
        start(self.command(line), Stdio::null(), To::Captured).finish()
    }

    fn saved(&self) -> Vec<PathBuf> {
        let runs = fs::read_dir(self.0.path().join("fullbore/runs"));
        let runs = runs.into_iter().flatten();
        runs.map(|run| run.expect("a saved run").path()).collect()
    }
}

const SHORT: &str = "--rounds 1 --seconds 0.02";

#[test]
fn every_cell_is_measured_shown_and_saved() {
    let home = Home::new();
    let run = home.sweeps(&format!(
        "--buf-size 8K,64K --pipe-size 4K,5000,64K {SHORT} --label mine"
    ));
    assert_eq!(run.status.code(), Some(0), "{run}");
    assert!(
        run.out.contains("write → read, small pages, block"),
        "{run}"
    );
    assert!(
        run.out.contains('█') && !run.out.contains('\u{1b}'),
        "{run}"
    );
    let [directory] = &home.saved()[..] else {
        panic!("one run: {:?}", home.saved());
    };
    assert!(directory.to_string_lossy().ends_with("Z-sweep"));
    let text = fs::read_to_string(directory.join("run.json")).unwrap();
    let saved: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(saved["schema"], "fullbore.sweep/2");
    assert_eq!(saved["label"], "mine");
    // 5000 is granted as 8 KiB, where pages are of 4.
    let page = rustix::param::page_size() as u64;
    if page == 4096 {
        assert_eq!(saved["capacities"], serde_json::json!([4096, 8192, 65536]));
    }
    let cells = saved["cells"].as_array().unwrap();
    assert_eq!(
        cells.len(),
        2 * saved["capacities"].as_array().unwrap().len()
    );
    for cell in cells {
        assert!(
            cell["gib_per_s"]["median"].as_f64().unwrap() > 0.0,
            "{cell}"
        );
        assert_eq!(cell["samples"].as_array().unwrap().len(), 1);
        assert!(cell["latency_us"].is_null());
    }
    let raw = fs::read_to_string(directory.join("run.raw.csv")).unwrap();
    let mean = fs::read_to_string(directory.join("run.mean.csv")).unwrap();
    assert_eq!(
        (raw.lines().count(), mean.lines().count()),
        (cells.len() + 1, cells.len() + 1)
    );
    for csv in [raw, mean] {
        let columns: Vec<_> = csv.lines().map(|l| l.split(',').count()).collect();
        assert!(columns.iter().all(|n| *n == columns[0]), "{csv}");
    }
}

#[test]
fn cells_that_cannot_be_are_shown_with_the_reason() {
    let home = Home::new();
    let page = rustix::param::page_size() as u64;
    let (small, large) = (2 * page, 8 * page);
    let line = format!(
        "--write-with vmsplice --read-with splice --buf-size {small},{large} --pipe-size {},{} {SHORT} --no-save",
        small / 2,
        large / 2
    );
    let run = home.sweeps(&line);
    run.quiet_success();
    assert!(
        run.out.contains("– a")
            && run
                .out
                .contains("a: not possible with vmsplice: the capacity is half the buffer"),
        "{run}"
    );
    let run = home.sweeps(&format!("{line} --json"));
    let document = run.quiet_success().json();
    let refused: Vec<_> = document["cells"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c["refused"].is_string())
        .collect();
    assert_eq!(refused, [false, true, true, false]);
    assert!(home.saved().is_empty());
}

#[test]
fn the_question_of_2005_is_answered_with_bandwidth_and_latency() {
    let home = Home::new();
    let file = home.0.path().join("answer.json");
    let run = home.sweeps(&format!("--preset 2005 {SHORT} --out {}", file.display()));
    assert_eq!(run.status.code(), Some(0), "{run}");
    assert!(
        run.out.contains("8KiB writes") && run.out.contains("round trip of 1 B"),
        "{run}"
    );
    let saved: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    assert_eq!(saved["method"]["preset"], "pages-in-flight");
    assert_eq!(saved["capacities"].as_array().unwrap().len(), 9);
    let measured = saved["cells"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|c| c["refused"].is_null());
    for cell in measured {
        let latency = &cell["latency_us"];
        assert!(
            latency["p99"].as_f64() >= latency["median"].as_f64()
                && latency["median"].as_f64() > Some(0.0),
            "{cell}"
        );
    }
    assert!(home.saved().is_empty());
    assert!(file.with_extension("raw.csv").exists());
}

#[test]
fn colours_are_for_those_who_want_them() {
    let home = Home::new();
    // Their earlier names.
    let line = format!("--buffers 4K --capacities 64K {SHORT} --no-save");
    let coloured = home.sweeps(&format!("{line} --color always"));
    assert!(
        coloured.out.contains("\u{1b}[48;5;") || coloured.out.contains(";48;5;"),
        "{coloured:?}"
    );
    let mut true_colour = home.command(&format!("{line} --color always"));
    true_colour.env("COLORTERM", "truecolor");
    let run = start(true_colour, Stdio::null(), To::Captured).finish();
    assert!(run.out.contains("48;2;"), "{run:?}");
    let never = home.sweeps(&format!("{line} --color never"));
    assert!(!never.out.contains('\u{1b}'), "{never:?}");
}

#[test]
fn wrong_command_lines_are_refused() {
    let home = Home::new();
    for line in [
        "--buf-size 0",
        "--pipe-size 4K,0",
        "--buf-size 4Q",
        "--preset 2006",
        "--preset 2005 --wait spin",
        "--write-with relay",
        "--rounds 0",
        "--seconds 0",
        "--out a --no-save",
        "--cpus 0,99999",
    ] {
        home.sweeps(line).complains(&[2]);
    }
    for line in ["--pipe-size 1T", "--write-with vmsplice --buf-size 12K"] {
        let run = refused(home.command(&format!("{line} {SHORT} --no-save")));
        assert!(run.err.contains("nothing can be swept"), "{run}");
    }
}

#[test]
fn a_capacity_above_the_limit_is_refused_for_itself_alone() {
    let stranger = match Stranger::new() {
        Ok(stranger) => stranger,
        Err(why) => return skip(why),
    };
    let line = format!("sweep --buf-size 64K --pipe-size 64K,1G {SHORT} --no-save --json");
    let run = start(stranger.fullbore(&line), Stdio::null(), To::Captured).finish();
    let document = run.quiet_success().json();
    assert!(document["cells"][0]["refused"].is_null(), "{run}");
    let why = document["cells"][1]["refused"].as_str().unwrap();
    assert!(why.contains("fs.pipe-max-size"), "{why}");
}

#[test]
fn what_was_measured_before_ctrl_c_is_kept() {
    let home = Home::new();
    let command = home.command("--buf-size 4K --pipe-size 64K --rounds 1000 --seconds 0.05");
    let running = start(command, Stdio::null(), To::Captured);
    let saved = || home.saved().iter().any(|run| run.join("run.json").exists());
    until("a round is saved", saved);
    running.interrupt();
    let run = running.finish();
    assert_eq!(run.status.code(), Some(130), "{run}");
    assert!(run.out.contains("ended early"), "{run}");
    let text = fs::read_to_string(home.saved()[0].join("run.json")).unwrap();
    let saved: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert!(saved["method"]["rounds_done"].as_u64().unwrap() < 1000);
    assert!(!saved["cells"][0]["samples"].as_array().unwrap().is_empty());
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let home = Home::new();
    let (reader, writer) = support::pipe();
    drop(reader);
    let command = home.command(&format!("--buf-size 4K --pipe-size 64K {SHORT} --no-save"));
    start(command, Stdio::null(), writer)
        .finish()
        .quiet_success();
}
