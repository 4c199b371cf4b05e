//! `fullbore bandwidth`, held to what the command line promises. Nothing here asserts a speed.

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use fullbore_lab::bandwidth::result::{BandwidthRun as Saved, ColumnResult};
use tempfile::TempDir;

use support::{BINARY, Run, Running, Stranger, To, command, fullbore, refused, skip, start, until};

/// The shortest run of some columns that do not need large buffers.
const SHORT: &str = "--rounds 1 --seconds 0.02 --columns pipe,af-unix,tcp,shared-memory";

/// A home and a directory for temporary files, of nobody else.
struct Home(TempDir);

impl Home {
    fn new() -> Self {
        let home = Self(tempfile::tempdir().expect("a directory"));
        fs::create_dir(home.tmp()).expect("a directory");
        home
    }

    fn tmp(&self) -> PathBuf {
        self.0.path().join("tmp")
    }

    fn bandwidth(&self, line: &str) -> Command {
        self.of(fullbore(&format!("bandwidth {line}")))
    }

    /// `command` of a user who lives here.
    fn of(&self, mut command: Command) -> Command {
        command
            .env("HOME", self.0.path())
            .env("TMPDIR", self.tmp())
            .env_remove("XDG_STATE_HOME")
            .env_remove("NO_COLOR");
        command
    }

    fn saved(&self) -> Vec<PathBuf> {
        let runs = files(&self.0.path().join(".local/state/fullbore/runs"));
        runs.iter().map(|run| run.join("run.json")).collect()
    }
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten();
    entries.map(|entry| entry.expect("a file").path()).collect()
}

fn running(command: Command) -> Running {
    start(command, Stdio::null(), To::Captured)
}

fn run(command: Command) -> Run {
    running(command).finish()
}

fn document(run: &Run) -> Saved {
    assert!(
        run.out.starts_with("{\"schema\":\"fullbore.bandwidth/1\","),
        "{run}"
    );
    serde_json::from_str(&run.out).unwrap_or_else(|why| panic!("{why}: {run}"))
}

fn column<'a>(saved: &'a Saved, id: &str) -> &'a ColumnResult {
    let column = saved.columns.iter().find(|c| c.id == id);
    column.unwrap_or_else(|| panic!("no {id}"))
}

#[test]
fn json_has_every_column_asked_for_its_round_trips_and_the_row_of_2005() {
    let home = Home::new();
    let run = run(home.bandwidth(&format!("{SHORT} --json --label here --seed 7")));
    run.quiet_success();
    let saved = document(&run);
    assert_eq!(
        (saved.head.label.as_deref(), saved.method.made.seed),
        (Some("here"), 7)
    );
    assert_eq!(saved.method.message_bytes, 65536);
    let ids: Vec<_> = saved.columns.iter().map(|c| c.id.as_str()).collect();
    assert_eq!(ids, ["pipe", "af-unix", "tcp", "shared-memory"]);
    for column in &saved.columns {
        assert!(column.refused.is_none(), "{column:?}");
        let (mb, gib) = (column.mb_per_s.unwrap(), column.gib_per_s.unwrap());
        assert!(gib.median > 0.0);
        assert!((mb.median / gib.median - 1_073.741_824).abs() < 1e-6);
        assert_eq!(column.samples.len(), 1);
        assert_eq!(column.samples[0].figures.gib_per_s, gib.median);
        assert!(column.cpu_s_per_gib.is_some_and(|s| s > 0.0));
    }
    let ids: Vec<_> = saved.latencies.iter().map(|l| l.id.as_str()).collect();
    assert_eq!(ids, ["pipe", "af-unix", "tcp"]);
    for latency in &saved.latencies {
        let us = latency.us.unwrap();
        assert!(us.median > 0.0 && us.p99 >= us.median, "{latency:?}");
    }
    let row = saved.row_2005.expect("the row of 2005");
    assert_eq!(
        (row.columns.len(), row.before.len(), row.after.len()),
        (9, 9, 9)
    );
    assert_eq!(home.saved().len(), 1, "saved as well");
}

#[test]
fn a_run_is_saved_as_json_and_csv_and_says_where() {
    let home = Home::new();
    let run = run(home.bandwidth(SHORT));
    assert_eq!(run.status.code(), Some(0), "{run}");
    let [json] = &home.saved()[..] else {
        panic!("not one saved run: {run}");
    };
    assert_eq!(run.err, format!("fullbore: saved in {}\n", json.display()));
    let directory = json.parent().unwrap();
    assert!(
        directory.to_string_lossy().ends_with("Z-bandwidth"),
        "{run}"
    );
    let text = fs::read_to_string(json).unwrap();
    let saved: Saved = serde_json::from_str(&text).unwrap();
    assert_eq!(saved.method.made.rounds_done, 1);
    let raw = fs::read_to_string(directory.join("run.raw.csv")).unwrap();
    assert_eq!(raw.lines().count(), 1 + 4 + 3, "{raw}");
    let mean = fs::read_to_string(directory.join("run.mean.csv")).unwrap();
    assert_eq!(mean.lines().count(), 1 + 4 + 3, "{mean}");
    for csv in [raw, mean] {
        let fields: Vec<_> = csv.lines().map(|l| l.split(',').count()).collect();
        assert!(fields.iter().all(|n| *n == fields[0]), "{csv}");
    }
}

#[test]
fn the_table_shows_2005_above_today_within_100_columns() {
    let home = Home::new();
    let run = run(home.bandwidth(&format!("{SHORT},file-reread,fresh,fat --no-save")));
    run.quiet_success();
    let at = |start: &str| {
        let line = run.out.lines().position(|l| l.starts_with(start));
        line.unwrap_or_else(|| panic!("no {start:?}: {run}"))
    };
    assert!(at("2005, 1 page") < at("  16 pages"));
    assert!(at("  16 pages") < at("today"));
    assert!(run.out.contains("lkml"), "its source: {run}");
    let tables = run.out.lines().filter(|l| !l.starts_with("warning:"));
    for line in tables {
        assert!(line.chars().count() <= 100, "{line:?}");
    }
    assert!(!run.out.contains('\x1b'), "no colours into a file: {run}");
    assert!(home.saved().is_empty());
}

#[test]
fn conduits_come_with_and_without_copies_and_leave_no_file() {
    let home = Home::new();
    let run = run(home.bandwidth("--conduits --rounds 1 --seconds 0.02 --json --no-save"));
    run.quiet_success();
    let saved = document(&run);
    assert_eq!(saved.columns.len(), 10);
    for column in &saved.columns {
        assert!(column.refused.is_none(), "{column:?}");
        assert!(column.gib_per_s.unwrap().median > 0.0);
        assert!(column.copies.is_some() && column.cpu_s_per_gib.is_some());
    }
    assert!(!column(&saved, "tee-2-splice").touches_data);
    assert!(saved.row_2005.is_none() && saved.latencies.is_empty());
    assert!(saved.method.file_system.is_some());
    assert!(files(&home.tmp()).is_empty());
}

#[test]
fn memory_is_measured_in_buffers_larger_than_the_cache_or_it_says_why_not() {
    let home = Home::new();
    let line = "--columns mem-read --rounds 1 --seconds 0.01 --json --no-save";
    let run = run(home.bandwidth(line));
    run.quiet_success();
    let saved = document(&run);
    let caches = saved.head.machine.topology.last_level_caches.iter();
    let cache = caches.filter_map(|c| c.size).max().unwrap_or(0);
    let small = saved.method.memory_bytes <= cache;
    let said = saved
        .warnings
        .iter()
        .any(|w| w.contains("may show a cache"));
    assert!(
        !small || said || saved.method.memory_bytes == 512 << 20,
        "{run}"
    );
    assert!(column(&saved, "mem-read").gib_per_s.unwrap().median > 0.0);
}

#[test]
fn a_column_without_its_file_is_refused_and_the_rest_is_measured() {
    let home = Home::new();
    let line = "--rounds 1 --seconds 0.02 --no-save --columns";
    let mut some = home.bandwidth(&format!("{line} pipe,file-reread --json"));
    some.env("TMPDIR", "/nonexistent");
    let run1 = run(some);
    run1.quiet_success();
    let saved = document(&run1);
    let refused = column(&saved, "file-reread").refused.as_deref().unwrap();
    assert!(refused.contains("/nonexistent"), "{refused}");
    assert!(column(&saved, "pipe").gib_per_s.is_some());

    let mut all = home.bandwidth(&format!("{line} file-reread,mmap-reread"));
    all.env("TMPDIR", "/nonexistent");
    run(all).complains(&[1]);
}

#[test]
fn without_a_loopback_interface_tcp_is_refused_and_the_rest_is_measured() {
    let home = Home::new();
    let line = format!("-rn {BINARY} bandwidth {SHORT} --json --no-save");
    let can = command("unshare", "-rn true")
        .stderr(Stdio::null())
        .status();
    if !can.is_ok_and(|status| status.success()) {
        return skip("no network namespace can be made");
    }
    let run = run(home.of(command("unshare", &line)));
    run.quiet_success();
    let saved = document(&run);
    let refused = column(&saved, "tcp").refused.as_deref().unwrap();
    assert!(refused.contains("loopback"), "{refused}");
    assert!(saved.latencies[2].refused.is_some());
    assert!(column(&saved, "af-unix").gib_per_s.is_some());
}

#[test]
fn interrupted_it_keeps_what_it_has_and_leaves_no_file() {
    let home = Home::new();
    let running =
        running(home.bandwidth("--columns pipe,file-reread --rounds 5000 --seconds 0.01"));
    until("a saved round", || {
        home.saved().iter().any(|json| json.exists())
    });
    running.interrupt();
    let run = running.finish();
    assert_eq!(run.status.code(), Some(130), "{run}");
    assert!(run.out.contains("today"), "the table so far: {run}");
    let text = fs::read_to_string(&home.saved()[0]).unwrap();
    let saved: Saved = serde_json::from_str(&text).unwrap();
    assert!((1..5000).contains(&saved.method.made.rounds_done));
    assert!(files(&home.tmp()).is_empty());
}

#[test]
fn killed_it_leaves_neither_files_nor_processes() {
    let home = Home::new();
    let running = running(home.bandwidth("--conduits --rounds 1 --seconds 60 --no-save"));
    let tmp = home.tmp();
    // The children hold the file; only they have this TMPDIR.
    let processes = || {
        let mine = format!("TMPDIR={}", tmp.display());
        files(Path::new("/proc"))
            .iter()
            .filter_map(|p| fs::read(p.join("environ")).ok())
            .filter(|environ| environ.split(|b| *b == 0).any(|v| v == mine.as_bytes()))
            .count()
    };
    until("a trial", || processes() > 1);
    running.kill();
    until("their end", || processes() == 0);
    assert!(files(&home.tmp()).is_empty());
}

#[test]
fn a_wrong_command_line_is_explained() {
    let home = Home::new();
    for line in [
        "--columns nine",
        "--columns tee-2-splice",
        "--conduits --columns pipe",
        "--rounds 0",
        "--seconds 0",
        "--seconds nan",
        "--cpus 0",
        "--cpus 0,99999",
        "--out x --no-save",
    ] {
        let run = run(home.bandwidth(line));
        assert_eq!(run.status.code(), Some(2), "{run}");
        assert!(
            run.err.starts_with("fullbore: ") && run.out.is_empty(),
            "{run}"
        );
        assert_eq!(run.err.lines().count(), 1, "{run}");
    }
    assert!(home.saved().is_empty());
}

#[test]
fn a_process_of_a_trial_started_by_hand_says_what_it_is() {
    refused(fullbore("worker")).complains(&[1]);
}

#[test]
fn anyone_may_measure() {
    let stranger = match Stranger::new() {
        Ok(stranger) => stranger,
        Err(why) => return skip(why),
    };
    let line =
        "bandwidth --rounds 1 --seconds 0.02 --columns pipe,tcp,file-reread --json --no-save";
    let mut theirs = stranger.fullbore(line);
    theirs.env("HOME", "/nonexistent").env_remove("TMPDIR");
    let run = run(theirs);
    run.quiet_success();
    for column in document(&run).columns {
        assert!(column.refused.is_none(), "{column:?}");
    }
}

#[test]
fn a_reader_that_leaves_early_is_no_failure() {
    let home = Home::new();
    let (read_end, write_end) = support::pipe();
    drop(read_end);
    let line = "--rounds 1 --seconds 0.02 --columns pipe --no-save";
    let run = start(home.bandwidth(line), Stdio::null(), write_end).finish();
    assert_eq!(run.status.code(), Some(0), "{run}");
}

#[test]
fn one_trial_has_no_interval() {
    let line = "--rounds 1 --seconds 0.02 --columns pipe --no-save";
    let run = run(Home::new().bandwidth(line));
    let lines = run.out.lines().filter(|l| l.contains("95 %"));
    let digits = |l: &str| l.replace("95 %", "").contains(|c: char| c.is_ascii_digit());
    assert!(lines.clone().count() > 0, "{run}");
    assert!(!lines.into_iter().any(digits), "{run}");
}
