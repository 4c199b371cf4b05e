//! `fullbore ladder`, held to what the command line promises. Nothing here asserts a speed.

mod support;

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use rustix::thread::{CpuSet, sched_getaffinity};
use serde_json::Value;
use tempfile::TempDir;

use support::{BINARY, Run, Running, Stranger, To, fullbore, kernel, refused, skip, start, until};

/// The rungs of the article, lowest first; the ladder may have more, between and above.
const ARTICLE: [&str; 7] = [
    "write-read",
    "write-read-huge",
    "vmsplice-read",
    "vmsplice-read-huge",
    "vmsplice-splice",
    "vmsplice-splice-huge",
    "busy-loop",
];

/// What each of them is compared with.
const BASELINES: [Option<usize>; 7] = [None, Some(0), Some(0), Some(2), Some(2), Some(3), Some(5)];

/// The shortest climb that is one.
const SHORT: &str = "--rounds 1 --seconds 0.02 --rungs write-read,busy-loop";

/// A home of its own: no test leaves a run with whoever runs it, and no setting of theirs counts.
struct Home(TempDir);

impl Home {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a directory"))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn ladder(&self, line: &str) -> Command {
        self.of(fullbore(&format!("ladder {line}")))
    }

    /// `command` of a user who lives here.
    fn of(&self, mut command: Command) -> Command {
        command.env("HOME", self.path());
        for setting in ["XDG_STATE_HOME", "NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE"] {
            command.env_remove(setting);
        }
        command
    }

    /// The saved runs, in the state directory that is used when nothing else is said.
    fn saved(&self) -> Vec<PathBuf> {
        saved_in(&self.path().join(".local/state"))
    }

    fn is_empty(&self) -> bool {
        files(self.path()).is_empty()
    }
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten();
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("a file").path()).collect();
    paths.sort();
    paths
}

fn saved_in(state: &Path) -> Vec<PathBuf> {
    let runs = files(&state.join("fullbore/runs"));
    runs.iter().map(|run| run.join("run.json")).collect()
}

/// The one saved run, which has to be there.
#[track_caller]
fn only(saved: Vec<PathBuf>) -> PathBuf {
    let [json] = &saved[..] else {
        panic!("not one saved run: {saved:?}");
    };
    json.clone()
}

#[track_caller]
fn read_json(path: &Path) -> Value {
    let text = fs::read(path).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
    serde_json::from_slice(&text).unwrap_or_else(|why| panic!("{}: {why}", path.display()))
}

/// Runs `command` to its end.
#[track_caller]
fn run(command: Command) -> Run {
    start(command, Stdio::null(), To::Captured).finish()
}

fn allowed_cpus() -> Vec<usize> {
    let set = sched_getaffinity(None).expect("the CPUs of this process");
    (0..CpuSet::MAX_CPU)
        .filter(|&cpu| set.is_set(cpu))
        .collect()
}

/// Asserts success, and that standard error only says where the run was saved. Returns that place.
#[track_caller]
fn saved_place(run: &Run) -> PathBuf {
    assert_eq!(run.status.code(), Some(0), "{run}");
    place_said(run)
}

#[track_caller]
fn place_said(run: &Run) -> PathBuf {
    let place = run.err.strip_prefix("fullbore: saved in ");
    let place = place.and_then(|rest| rest.strip_suffix('\n'));
    match place {
        Some(place) if !place.contains('\n') => place.into(),
        _ => panic!("only the saved line: {run}"),
    }
}

/// The rows of the table, without its head.
#[track_caller]
fn rows(run: &Run) -> Vec<&str> {
    let lines = run.out.lines();
    let rows: Vec<_> = lines
        .skip_while(|line| !line.starts_with("rung "))
        .take_while(|line| !line.is_empty())
        .filter(|line| !line.ends_with(':')) // the name of a series
        .collect();
    assert!(rows.len() > 1, "a table: {run}");
    rows[1..].to_vec()
}

fn ids(document: &Value) -> Vec<&str> {
    let rungs = document["rungs"].as_array().expect("rungs");
    rungs
        .iter()
        .map(|r| r["id"].as_str().expect("an id"))
        .collect()
}

#[track_caller]
fn number(value: &Value) -> f64 {
    value
        .as_f64()
        .unwrap_or_else(|| panic!("{value} is no number"))
}

/// A rung's result and those of other states of the machine, which are kept apart.
fn with_apart(result: &Value) -> Vec<&Value> {
    let apart = result["apart"].as_array();
    let apart = apart.into_iter().flatten();
    std::iter::once(result).chain(apart).collect()
}

fn samples(result: &Value) -> &[Value] {
    result["samples"].as_array().expect("samples")
}

/// All trials of a rung.
fn trials(result: &Value) -> Vec<&Value> {
    let states = with_apart(result).into_iter();
    states.flat_map(samples).collect()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    if values.len() % 2 == 1 {
        values[half]
    } else {
        (values[half - 1] + values[half]) / 2.0
    }
}

#[track_caller]
fn assert_near(value: &Value, expected: f64) {
    let value = number(value);
    let close = (value - expected).abs() <= 1e-9 * expected.abs();
    assert!(close, "{value}, not {expected}");
}

/// Asserts that `estimate` has the median of `values` and an interval around it; it is absent where there are none.
#[track_caller]
fn assert_estimate(estimate: &Value, values: Vec<f64>) {
    if values.is_empty() {
        return assert!(estimate.is_null(), "{estimate}");
    }
    let [low, high] = [0, 1].map(|end| number(&estimate["ci95"][end]));
    let middle = number(&estimate["median"]);
    assert!(low <= middle && middle <= high, "{estimate}");
    assert_near(&estimate["median"], median(values));
}

/// Rates of `result` by those of `other`, round by round, where the machine was in one and the same state.
fn ratios(result: &Value, other: &Value) -> Vec<f64> {
    let alone = |sample: &Value| sample["state"] == "one-cpu";
    let others = trials(other);
    let pairs = samples(result).iter().filter_map(|sample| {
        let comparable = |o: &&&Value| {
            o["round"] == sample["round"]
                && (o["state"] == sample["state"] || alone(o) || alone(sample))
        };
        let other = others.iter().find(comparable)?;
        Some(number(&sample["gib_per_s"]) / number(&other["gib_per_s"]))
    });
    pairs.collect()
}

/// Asserts that one rung's result has every field, and that they agree with each other.
#[track_caller]
fn assert_whole(result: &Value, first: Option<&Value>, baseline: Option<&Value>) {
    let rates: Vec<_> = samples(result)
        .iter()
        .map(|s| number(&s["gib_per_s"]))
        .collect();
    let bytes_by_time = |s: &Value| {
        number(&s["reader"]["bytes"]) / number(&s["reader"]["seconds"]) / f64::from(1 << 30)
    };
    for (sample, rate) in samples(result).iter().zip(&rates) {
        assert!(*rate > 0.0, "{sample}");
        assert_near(&sample["gib_per_s"], bytes_by_time(sample));
        assert_eq!(sample["state"], result["state"], "states are never pooled");
    }
    let rate = median(rates.clone());
    assert_estimate(&result["gib_per_s"], rates);
    assert_near(&result["ns_per_page"], 4096e9 / rate / f64::from(1 << 30));
    assert!(number(&result["cpu_s_per_gib"]) > 0.0, "{result}");

    let to_first = first.map(|f| ratios(result, f)).unwrap_or_default();
    assert_estimate(&result["ratio_to_first"], to_first);
    assert_eq!(result["series"], "article");
    assert_eq!(result.get("baseline"), baseline.map(|b| &b["id"]));
    let to_baseline = baseline.map(|b| ratios(result, b)).unwrap_or_default();
    // Two rounds are too few to tell rungs apart.
    let expected = (!to_baseline.is_empty()).then_some("not distinguishable");
    assert_eq!(result["verdict"].as_str(), expected, "{result}");
    assert_estimate(&result["ratio_to_baseline"], to_baseline);

    for side in ["writer", "reader"] {
        let way = result["path"][side]["way"].as_str();
        assert!(way.is_some_and(|way| !way.is_empty()), "{result}");
    }
    for time in ["before", "after"] {
        let time = result["line_travel_ns"].get(time).expect("a travel time");
        assert!(time.is_null() || number(time) > 0.0, "{result}");
    }
    let warnings = result["warnings"].as_array().expect("warnings");
    assert!(warnings.iter().all(Value::is_string), "{result}");
}

#[test]
fn json_has_every_field_for_every_rung_in_the_order_of_the_ladder() {
    let mut backwards = ARTICLE;
    backwards.reverse();
    let line = format!(
        "--json --no-save --rounds 2 --seconds 0.03 --seed 7 --rungs {}",
        backwards.join(",")
    );
    let run = run(Home::new().ladder(&line));
    run.quiet_success();
    let document = run.json();
    assert_eq!(document["schema"], "fullbore.ladder/2");
    assert_eq!(document["machine"]["arch"], std::env::consts::ARCH);
    assert!(document["warnings"].is_array());
    let method = &document["method"];
    assert_eq!((&method["rounds"], &method["seed"]), (&2.into(), &7.into()));
    assert_eq!(method["rounds_done"], 2);
    assert_eq!(method["until"]["seconds"], 0.03);
    assert_eq!(ids(&document), ARTICLE);

    let rungs = document["rungs"].as_array().unwrap();
    for (i, rung) in rungs.iter().enumerate() {
        let id = ARTICLE[i];
        let mut rounds: Vec<_> = trials(rung).iter().map(|t| number(&t["round"])).collect();
        rounds.sort_by(f64::total_cmp);
        assert_eq!(rounds, [0.0, 1.0], "one trial a round: {id}");
        for result in with_apart(rung) {
            assert_eq!(result["id"], id);
            assert_eq!(result["touches_data"], id.contains("-read"), "{id}");
            assert_eq!(result["sound"], id.starts_with("write"), "{id}");
            let baseline = BASELINES[i].map(|b| &rungs[b]);
            assert_whole(result, baseline.and(rungs.first()), baseline);
        }
    }
}

#[test]
fn json_says_nothing_of_whose_machine_it_is() {
    let home = Home::new();
    let mut command = home.ladder(&format!("--json {SHORT}"));
    for name in ["USER", "LOGNAME", "HOSTNAME", "HOST"] {
        command.env(name, "wintermute");
    }
    let run = run(command);
    run.quiet_success();
    let json = only(home.saved());
    let saved = [json.clone(), csv(&json, "raw"), csv(&json, "mean")];
    let texts = saved.map(|path| fs::read_to_string(path).expect("a saved file"));
    let host = kernel("/proc/sys/kernel/hostname").trim().to_owned();
    let own_home = std::env::var("HOME").unwrap_or_default();
    let home = home.path().display().to_string();
    for text in texts.iter().chain([&run.out]) {
        for secret in [&home, "wintermute", &host, &own_home] {
            // Shorter ones are found in innocent words.
            assert!(
                secret.len() <= 3 || !text.contains(secret),
                "{secret}: {text}"
            );
        }
    }
}

/// The rungs that are climbed by default, as `--explain` names them.
fn default_ids() -> Vec<String> {
    explained("--explain")
}

/// All rungs of this build.
fn all_ids() -> Vec<String> {
    explained("--explain --all")
}

fn explained(line: &str) -> Vec<String> {
    let run = run(Home::new().ladder(line));
    run.quiet_success();
    let words = run.out.lines().map(|l| l.split_whitespace().next());
    words.map(|word| word.expect("an id").to_owned()).collect()
}

#[test]
fn every_rung_can_be_climbed_and_the_table_shows_each_in_its_columns() {
    let ids = all_ids();
    let run = run(Home::new().ladder("--all --no-save --rounds 1 --seconds 0.05"));
    run.quiet_success();
    let head = run.out.lines().find(|l| l.starts_with("rung "));
    let data = head.and_then(|head| Some(head[..head.find("data")?].chars().count()));
    let data = data.expect("a column named data");
    let mut shown = Vec::new();
    for row in rows(&run) {
        let words: Vec<_> = row.split_whitespace().collect();
        if !row.starts_with(' ') {
            shown.push(words[0]);
            // Not every machine can climb every rung; then it says why instead.
            if words[1] == "–" {
                assert!(words.len() > 3, "{row}");
                continue;
            }
        }
        assert!(row.chars().count() <= 110, "too wide: {row}\n{}", run.out);
        let touched: String = row.chars().skip(data).take(4).collect();
        let in_line = ["yes ", "no  "].contains(&&*touched);
        assert!(in_line, "out of line: {row}\n{}", run.out);
        assert!(!row.contains("NaN") && !row.contains("inf"), "{row}");
    }
    assert_eq!(shown, ids);
}

#[test]
fn explain_says_a_line_per_rung_and_measures_nothing() {
    let home = Home::new();
    // One trial of it would take longer than the test waits.
    let endless = "ladder --explain --rounds 100 --seconds 3600";
    for (rungs, chosen) in [
        ("", default_ids()),
        ("--all", all_ids()),
        (
            "--rungs busy-loop,write-read",
            ["write-read", "busy-loop"].map(str::to_owned).to_vec(),
        ),
    ] {
        let run = run(home.of(fullbore(&format!("{endless} {rungs}"))));
        run.quiet_success();
        let lines: Vec<_> = run.out.lines().collect();
        assert_eq!(lines.len(), chosen.len(), "{run}");
        for (line, id) in lines.iter().zip(&chosen) {
            let (first, rest) = line.split_once(' ').expect("words");
            assert_eq!(first, id, "{run}");
            assert!(rest.split_whitespace().count() > 3, "{run}");
            let is_marked = rest.ends_with("(not by default)");
            assert_eq!(is_marked, !default_ids().contains(id), "{line}");
        }
    }
    let all = all_ids();
    let positions = ARTICLE.map(|id| all.iter().position(|known| known == id));
    assert!(positions[0] == Some(0) && positions.is_sorted(), "{all:?}");
    assert!(home.is_empty(), "nothing is saved");
}

#[test]
fn some_twenty_rungs_are_climbed_by_default_and_the_others_by_name() {
    let (default, all) = (default_ids(), all_ids());
    assert!((15..25).contains(&default.len()), "{default:?}");
    assert!(all.len() > default.len(), "{all:?}");
    let in_order: Vec<_> = all.iter().filter(|id| default.contains(id)).collect();
    assert_eq!(in_order, default.iter().collect::<Vec<_>>());
    let others: Vec<_> = all.into_iter().filter(|id| !default.contains(id)).collect();
    let line = format!(
        "--json --no-save --rounds 1 --seconds 0.02 --rungs {}",
        others.join(",")
    );
    let run = run(Home::new().ladder(&line));
    run.quiet_success();
    assert_eq!(ids(&run.json()), others);
}

fn csv(json: &Path, kind: &str) -> PathBuf {
    json.with_extension(format!("{kind}.csv"))
}

/// The lines of a CSV file, by column names.
#[track_caller]
fn csv_lines(path: &Path) -> Vec<Vec<(String, String)>> {
    let text = fs::read_to_string(path).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
    assert!(text.ends_with('\n'), "{text}");
    let fields = |line: &str| line.split(',').map(str::to_owned).collect::<Vec<_>>();
    let mut lines = text.lines().map(fields);
    let names = lines.next().expect("names of columns");
    lines
        .map(|line| {
            assert_eq!(line.len(), names.len(), "{text}");
            names.iter().cloned().zip(line).collect()
        })
        .collect()
}

fn field<'a>(line: &'a [(String, String)], name: &str) -> &'a str {
    let found = line.iter().find(|(column, _)| column == name);
    found.map(|(_, value)| value.as_str()).expect(name)
}

/// Asserts that the CSV files beside a saved run tell what it tells.
#[track_caller]
fn assert_csv_agrees(json: &Path, document: &Value) {
    let results: Vec<_> = document["rungs"]
        .as_array()
        .expect("rungs")
        .iter()
        .collect();
    let raw = csv_lines(&csv(json, "raw"));
    let all: Vec<_> = results
        .iter()
        .flat_map(|r| trials(r).into_iter().map(|t| (r["id"].as_str(), t)))
        .collect();
    assert_eq!(raw.len(), all.len(), "one line per trial");
    for (id, trial) in all {
        let round = (number(&trial["round"]) + 1.0).to_string();
        let line = raw
            .iter()
            .find(|l| Some(field(l, "rung")) == id && field(l, "round") == round)
            .expect("the line of this trial");
        assert_eq!(Some(field(line, "state")), trial["state"].as_str());
        let rate = field(line, "gib_per_s").parse().expect("a rate");
        assert_near(&trial["gib_per_s"], rate);
    }
    let mean = csv_lines(&csv(json, "mean"));
    let measured: Vec<_> = results
        .iter()
        .flat_map(|r| with_apart(r))
        .filter(|r| !r["gib_per_s"].is_null())
        .collect();
    assert_eq!(mean.len(), measured.len(), "one line per rung and state");
    for (line, result) in mean.iter().zip(measured) {
        assert_eq!(Some(field(line, "rung")), result["id"].as_str());
        assert_eq!(Some(field(line, "state")), result["state"].as_str());
        assert_eq!(field(line, "trials"), samples(result).len().to_string());
        let rate = field(line, "median_gib_per_s").parse().expect("a rate");
        assert_near(&result["gib_per_s"]["median"], rate);
    }
}

#[test]
fn saved_run_is_what_json_prints() {
    let home = Home::new();
    let label = "two words, \"quoted\"";
    let mut command = home.ladder("--json --rounds 2 --seconds 0.02 --rungs write-read,busy-loop");
    command.args(["--label", label]);
    let run = run(command);
    run.quiet_success();
    let json = only(home.saved());
    let beside = [json.clone(), csv(&json, "mean"), csv(&json, "raw")];
    assert_eq!(files(json.parent().unwrap()), beside);
    let printed = run.json();
    assert_eq!(printed, read_json(&json));
    assert_eq!(printed["label"], label);
    assert_csv_agrees(&json, &printed);
}

#[test]
fn state_directory_is_the_users_and_the_table_says_where() {
    let state = tempfile::tempdir().unwrap();
    let home = Home::new();
    let mut command = home.ladder(SHORT);
    command.env("XDG_STATE_HOME", state.path());
    let place = saved_place(&run(command));
    assert_eq!(place, only(saved_in(state.path())));
    assert!(home.is_empty());

    // Empty and relative values have to be ignored: so says the XDG base directory specification.
    for ignored in [None, Some(""), Some("state")] {
        let home = Home::new();
        let mut command = home.ladder(SHORT);
        command.current_dir(state.path());
        if let Some(value) = ignored {
            command.env("XDG_STATE_HOME", value);
        }
        let run = run(command);
        assert_eq!(saved_place(&run), only(home.saved()), "{ignored:?}");
        assert_eq!(rows(&run).iter().filter(|r| !r.starts_with(' ')).count(), 2);
    }
}

#[test]
fn runs_of_the_same_second_are_both_saved() {
    let home = Home::new();
    let two = [(); 2].map(|()| start(home.ladder(SHORT), Stdio::null(), To::Captured));
    let places = two.map(|running| saved_place(&running.finish()));
    assert_ne!(places[0], places[1]);
    for place in &places {
        read_json(place);
    }
    assert_eq!(home.saved().len(), 2);
}

#[test]
fn out_names_the_file_and_replaces_what_was_there() {
    let place = tempfile::tempdir().unwrap();
    let home = Home::new();
    let json = place.path().join("mine.json");
    for earlier in ["", "something else"] {
        fs::write(&json, earlier).unwrap();
        let mut command = home.ladder(SHORT);
        command.arg("--out").arg(&json);
        assert_eq!(saved_place(&run(command)), json);
        assert_csv_agrees(&json, &read_json(&json));
    }
    let beside = ["mine.json", "mine.mean.csv", "mine.raw.csv"];
    assert_eq!(
        files(place.path()),
        beside.map(|name| place.path().join(name))
    );
    assert!(home.is_empty());
}

#[test]
fn out_writes_to_where_a_link_points() {
    let place = tempfile::tempdir().unwrap();
    let [target, link] = ["target.json", "link.json"].map(|name| place.path().join(name));
    std::os::unix::fs::symlink(&target, &link).unwrap();
    let mut command = Home::new().ladder(SHORT);
    command.arg("--out").arg(&link);
    saved_place(&run(command));
    assert!(link.is_symlink(), "the link is still one");
    read_json(&target);
}

#[test]
fn no_save_leaves_nothing_and_needs_no_home() {
    let home = Home::new();
    run(home.ladder(&format!("--no-save {SHORT}"))).quiet_success();
    assert!(home.is_empty());
    let mut command = home.ladder(&format!("--no-save {SHORT}"));
    command.env_remove("HOME");
    run(command).quiet_success();
}

#[test]
fn nowhere_to_save_is_said_before_anything_is_measured() {
    let home = Home::new();
    let mut homeless = home.ladder("--seconds 3600");
    homeless.env_remove("HOME");
    let run_without = run(homeless);
    run_without.complains(&[1]);
    for way_out in ["HOME", "--out", "--no-save"] {
        assert!(run_without.err.contains(way_out), "{run_without}");
    }
    // No privilege helps below a file.
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut blocked = home.ladder("--seconds 3600");
    blocked.env("XDG_STATE_HOME", file.path());
    run(blocked).complains(&[1]);
    assert!(home.is_empty());
}

#[test]
fn out_to_standard_output_is_the_run_and_saves_nothing() {
    let home = Home::new();
    for out in ["--out -", "-o-", "--out - --json"] {
        let run = run(home.ladder(&format!("{out} {SHORT}")));
        assert!(run.quiet_success().json()["rungs"].is_array(), "{run}");
    }
    assert!(home.is_empty());
}

#[test]
fn out_that_cannot_be_written_is_said_in_one_line() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("file");
    fs::write(&file, "whole").unwrap();
    for (name, hint) in [
        ("missing/run.json", "missing/run.json"),
        ("file/run.json", "file/run.json"),
        (".", "cannot be saved"),
    ] {
        let mut command = Home::new().ladder(SHORT);
        command.arg("--out").arg(place.path().join(name));
        let run = run(command);
        run.complains(&[1]);
        assert!(run.err.contains(hint), "{run}");
        assert_eq!(run.out, "", "{run}");
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "whole");
}

/// Processes of a group, zombies included.
fn members(group: Pid) -> Vec<String> {
    let stats = files(Path::new("/proc")).into_iter().filter_map(|p| {
        // Processes may end while this looks.
        let stat = fs::read_to_string(p.join("stat")).ok()?;
        (group_of(&stat) == Some(group.as_raw_pid())).then_some(stat)
    });
    stats.collect()
}

/// The group of a process by its line in /proc: of one that is about to be gone, the kernel says -1.
fn group_of(stat: &str) -> Option<i32> {
    // After the name, which may hold anything: state, parent, group.
    let (_, rest) = stat.rsplit_once(") ")?;
    rest.split(' ').nth(2)?.parse().ok()
}

#[test]
fn process_that_is_about_to_be_gone_is_of_no_group() {
    let of = |group| group_of(&format!("12 (a) b) X 1 {group} {group} 0 -1 4228364"));
    assert_eq!(of(12), Some(12));
    assert_eq!(of(-1), Some(-1));
    assert!(members(Pid::INIT).len() <= files(Path::new("/proc")).len());
}

/// A ladder in a process group of its own, as a shell starts it. Dropping it ends what is left of the group.
struct Group {
    running: Option<Running>,
    id: Pid,
}

impl Group {
    fn start(mut command: Command) -> Self {
        command.process_group(0);
        let running = start(command, Stdio::null(), To::Captured);
        let id = running.pid();
        let running = Some(running);
        Self { running, id }
    }

    /// Waits until both sides of a trial were started.
    #[track_caller]
    fn until_trial(&self) {
        until("a trial", || members(self.id).len() == 3);
    }

    /// Waits until a side is past its warm-up of 0.1 s: it spins, so its CPU time tells.
    #[track_caller]
    fn until_middle_of_trial(&self) {
        let is_past = |stat: &String| {
            let pid = stat.split(' ').next().and_then(|pid| pid.parse().ok());
            let side = pid.and_then(Pid::from_raw).filter(|&pid| pid != self.id);
            side.is_some_and(|side| support::state::ticks(side) > 15)
        };
        until("a trial", || members(self.id).iter().any(is_past));
    }

    /// What a terminal does on Ctrl-C.
    fn ctrl_c(&self) {
        kill_process_group(self.id, Signal::INT).expect("a signal to the group");
    }

    /// Waits for the end of the ladder, which leaves no process behind.
    #[track_caller]
    fn finish(&mut self) -> Run {
        let running = self.running.take();
        let run = running.expect("a ladder that was not waited for").finish();
        let left = members(self.id);
        assert!(left.is_empty(), "left behind: {left:?}: {run}");
        run
    }

    fn kill_ladder(&mut self) {
        self.running.take().expect("a ladder").kill();
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if !members(self.id).is_empty() {
            let _ = kill_process_group(self.id, Signal::KILL);
        }
    }
}

/// More rounds than will ever be run.
const ENDLESS: &str = "--rounds 10000 --seconds 0.01 --rungs write-read,busy-loop";

#[track_caller]
fn rounds_done(document: &Value) -> u64 {
    let done = document["method"]["rounds_done"].as_u64();
    done.expect("a number of rounds")
}

/// Waits until a saved run holds so many rounds; what is read on the way is always whole.
#[track_caller]
fn until_rounds(json: &Path, rounds: u64) {
    until("finished rounds on disk", || {
        json.exists() && rounds_done(&read_json(json)) >= rounds
    });
}

#[test]
fn every_finished_round_is_on_disk_before_the_run_ends() {
    let place = tempfile::tempdir().unwrap();
    let json = place.path().join("run.json");
    let mut command = Home::new().ladder(ENDLESS);
    command.arg("--out").arg(&json);
    let mut group = Group::start(command);
    until_rounds(&json, 1);
    let opened = File::open(&json).unwrap();
    let soon = rounds_done(&read_json(&json));
    until_rounds(&json, soon + 2);
    group.kill_ladder();
    // Replaced, not overwritten: who opened the file at some time still reads all of it.
    let earlier = serde_json::from_reader(opened).unwrap();
    assert!(rounds_done(&earlier) <= soon);
    let document = read_json(&json);
    let done = rounds_done(&document);
    assert!((3..10_000).contains(&done), "{document}");
    for rung in document["rungs"].as_array().unwrap() {
        assert_eq!(trials(rung).len() as u64, done);
    }
    // The kill may have come between one file and the next.
    let lines = csv_lines(&csv(&json, "raw")).len() as u64;
    assert!(lines == 2 * done || lines == 2 * (done - 1), "{lines}");
    until("the end of the sides", || members(group.id).is_empty());
}

#[test]
fn ctrl_c_in_a_trial_ends_it_at_once() {
    let line = "--json --no-save --rounds 3 --seconds 20 --rungs busy-loop";
    let mut group = Group::start(Home::new().ladder(line));
    group.until_middle_of_trial();
    let pressed = Instant::now();
    group.ctrl_c();
    let run = group.finish();
    assert!(pressed.elapsed() < Duration::from_secs(10), "{run}");
    assert_eq!(run.status.code(), Some(130), "{run}");
    assert_eq!(run.err, "", "{run}");
    let document = run.json();
    assert_eq!(ids(&document), ["busy-loop"]);
    assert!(document["rungs"][0]["gib_per_s"].is_null(), "{run}");
    assert_eq!(document["method"]["rounds_done"], 0, "{run}");
}

#[test]
fn ctrl_c_shows_and_saves_what_was_measured() {
    let home = Home::new();
    for json in [true, false] {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("run.json");
        let mut command = home.ladder(ENDLESS);
        command.args(json.then_some("--json"));
        command.arg("--out").arg(&file);
        let mut group = Group::start(command);
        until_rounds(&file, 2);
        // From the terminal it reaches the sides, too; from `kill` the ladder only.
        if json {
            group.running.as_ref().unwrap().interrupt();
        } else {
            group.ctrl_c();
        }
        let run = group.finish();
        assert_eq!(run.status.code(), Some(130), "{run}");
        let document = read_json(&file);
        let done = rounds_done(&document);
        assert!((2..10_000).contains(&done), "{run}");
        for rung in document["rungs"].as_array().unwrap() {
            // One of them may have had its turn in the round that was broken off.
            let trials = trials(rung).len() as u64;
            assert!(trials == done || trials == done + 1, "{document}");
        }
        assert_csv_agrees(&file, &document);
        if json {
            assert_eq!(run.err, "", "{run}");
            assert_eq!(run.json(), document);
        } else {
            assert_eq!(place_said(&run), file);
            assert!(run.out.contains(&format!("{done} of 10000")), "{run}");
            assert!(!run.out.contains("not measured"), "{run}");
        }
    }
}

#[test]
fn ctrl_c_ends_it_cleanly_whenever_it_comes() {
    let groups = [1, 40, 90, 150, 260].map(|ms| {
        let group = Group::start(Home::new().ladder(&format!("--json --no-save {ENDLESS}")));
        group.until_trial();
        thread::sleep(Duration::from_millis(ms));
        group.ctrl_c();
        group
    });
    for mut group in groups {
        let run = group.finish();
        assert_eq!(run.status.code(), Some(130), "{run}");
        assert_eq!(run.err, "", "{run}");
        run.json();
    }
}

#[test]
fn default_ladder_takes_less_than_a_minute() {
    let home = Home::new();
    let mut group = Group::start(home.ladder(""));
    group.until_trial();
    group.ctrl_c();
    let run = group.finish();
    assert_eq!(run.status.code(), Some(130), "{run}");
    let rows = rows(&run);
    let shown: Vec<_> = rows.iter().map(|r| r.split(' ').next().unwrap()).collect();
    assert_eq!(shown, default_ids());

    let json = only(home.saved());
    assert_eq!(place_said(&run), json);
    let document = read_json(&json);
    let method = &document["method"];
    let rounds = number(&method["rounds"]);
    assert!(rounds >= 7.0, "{method}");
    let each = number(&method["warm_up_s"]) + number(&method["until"]["seconds"]);
    let promised = rounds * rows.len() as f64 * each;
    assert!((30.0..60.0).contains(&promised), "{promised} s: {method}");
}

#[test]
fn sides_end_when_the_ladder_is_killed() {
    let line = "--no-save --rounds 1 --seconds 20 --rungs busy-loop";
    let mut group = Group::start(Home::new().ladder(line));
    group.until_middle_of_trial();
    group.kill_ladder();
    until("the end of both sides", || members(group.id).is_empty());
}

#[test]
fn wrong_command_lines_exit_with_2_and_measure_nothing() {
    let home = Home::new();
    for line in [
        "--rungs no-such-rung",
        "--rungs write-read,no-such-rung",
        "--rungs=",
        "--rungs write-read,,busy-loop",
        "--rungs no-such-rung --explain",
        "--rungs write-read --all",
        "--all=yes",
        "--rounds 0",
        "--rounds -1",
        "--rounds 1.5",
        "--rounds many",
        "--rounds",
        "--seconds 0",
        "--seconds -1",
        "--seconds=-1",
        "--seconds nan",
        "--seconds inf",
        "--seconds soon",
        "--bytes 0",
        "--bytes=-1",
        "--bytes 12Q",
        "--seconds 1 --bytes 64M",
        "--cpus 0",
        "--cpus 0,1,2",
        "--cpus=-1,0",
        "--cpus a,b",
        "--cpus 0,99999",
        "--cpus 99999,0",
        "--cpus 0,18446744073709551616",
        "--json --no-such-option",
        "--no-save --out run.json",
        "--color sometimes",
        "--seed first",
        "up",
    ] {
        for command in ["ladder ", ""] {
            let run = refused(home.of(fullbore(&format!("{command}{line}"))));
            run.complains(&[2]);
        }
    }
    assert!(home.is_empty());
}

#[test]
fn unknown_rung_is_told_with_the_known_ones() {
    let run = refused(Home::new().ladder("--rungs write-read,no-such-rung"));
    run.complains(&[2]);
    for name in std::iter::once("no-such-rung".to_owned()).chain(all_ids()) {
        assert!(run.err.contains(&name), "{name}: {run}");
    }
}

#[test]
fn trials_can_end_after_bytes() {
    let line = "--json --no-save --rounds 1 --bytes 64M --rungs write-read,busy-loop";
    let run = run(Home::new().ladder(line));
    run.quiet_success();
    let document = run.json();
    assert_eq!(document["method"]["until"]["bytes"], 64 << 20);
    for rung in document["rungs"].as_array().unwrap() {
        for trial in trials(rung) {
            let bytes = trial["reader"]["bytes"].as_u64().unwrap();
            // The reader looks once per MiB.
            assert!((64 << 20..66 << 20).contains(&bytes), "{trial}");
        }
    }
}

#[test]
fn both_sides_can_share_one_cpu() {
    let cpu = allowed_cpus()[0];
    let run = run(Home::new().ladder(&format!("--json --no-save --cpus {cpu},{cpu} {SHORT}")));
    run.quiet_success();
    let document = run.json();
    assert_eq!(document["method"]["cpus"], Value::from(vec![cpu, cpu]));
    for rung in document["rungs"].as_array().unwrap() {
        assert_eq!(rung["state"], "one-cpu", "{rung}");
        assert_eq!(samples(rung).len(), 1, "{rung}");
        assert!(rung["line_travel_ns"]["before"].is_null(), "{rung}");
        assert!(number(&rung["gib_per_s"]["median"]) > 0.0, "{rung}");
    }
}

#[test]
fn chosen_cpus_are_used_in_the_order_given() {
    let [one, other, ..] = allowed_cpus()[..] else {
        return skip("only one CPU may be used");
    };
    let line = format!("--json --no-save --cpus {other},{one} {SHORT}");
    let run = run(Home::new().ladder(&line));
    run.quiet_success();
    let document = run.json();
    assert_eq!(document["method"]["cpus"], Value::from(vec![other, one]));
}

#[test]
fn user_without_privileges_climbs_and_saves_at_home() {
    let stranger = match Stranger::new() {
        Ok(stranger) => stranger,
        Err(why) => return skip(why),
    };
    let home = Home::new();
    fs::set_permissions(home.path(), Permissions::from_mode(0o777)).unwrap();
    let line = format!(
        "ladder --rounds 1 --seconds 0.02 --rungs {}",
        ARTICLE.join(",")
    );
    let run_at_home = run(home.of(stranger.fullbore(&line)));
    let json = only(home.saved());
    assert_eq!(saved_place(&run_at_home), json);
    let document = read_json(&json);
    assert_eq!(ids(&document), ARTICLE);
    for rung in document["rungs"].as_array().unwrap() {
        assert_eq!(trials(rung).len(), 1, "{rung}");
    }
    if stranger.is_another_user() {
        let elsewhere = Home::new();
        let run = run(elsewhere.of(stranger.fullbore(&format!("ladder {SHORT}"))));
        run.complains(&[1]);
        assert!(run.err.contains("Permission denied"), "{run}");
    }
}

#[test]
fn reader_that_goes_away_is_no_failure() {
    let home = Home::new();
    for line in ["--json", "--color always", "--explain"] {
        let line = format!("--no-save {SHORT} {line}");
        refused(home.ladder(&line)).quiet_success();
    }
}

#[test]
fn result_that_cannot_be_written_is_a_failure() {
    let Ok(full) = File::options().write(true).open("/dev/full") else {
        return skip("no /dev/full");
    };
    for line in ["--json", "", "--explain"] {
        let out = full.try_clone().unwrap();
        let command = Home::new().ladder(&format!("--no-save {SHORT} {line}"));
        start(command, Stdio::null(), out).finish().complains(&[1]);
    }
}

#[test]
fn colours_come_where_they_are_asked_for_and_nowhere_else() {
    let home = Home::new();
    for (color, coloured) in [("always", true), ("never", false), ("auto", false)] {
        let line = format!("--no-save {SHORT} --color {color}");
        let run = run(home.ladder(&line));
        run.quiet_success();
        assert_eq!(run.out.contains('\x1b'), coloured, "{color}: {run}");
    }
    let mut command = home.ladder(&format!("--no-save {SHORT}"));
    command.env("NO_COLOR", "1");
    let run = run(command);
    run.quiet_success();
    assert!(!run.out.contains('\x1b'), "{run}");
}

/// Runs the words of `line` under a terminal. The reason is one to skip with.
fn on_a_terminal(home: &Home, line: &str, setting: (&str, &str)) -> Result<Run, String> {
    let works = Command::new("script")
        .args(["-qec", "true", "/dev/null"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    if !works.is_ok_and(|status| status.success()) {
        return Err("script(1) does not run".into());
    }
    let mut command = Command::new("script");
    command
        .arg("-qec")
        .arg(format!("'{BINARY}' ladder --no-save {SHORT} {line}"))
        .arg("/dev/null");
    let mut command = home.of(command);
    command.env("TERM", "xterm").env(setting.0, setting.1);
    Ok(run(command))
}

#[test]
fn terminal_gets_colours_unless_no_color_is_set() {
    let home = Home::new();
    for (setting, coloured) in [(("NO_COLOR", ""), true), (("NO_COLOR", "1"), false)] {
        // The progress bar moves the cursor, which is no colour.
        let run = match on_a_terminal(&home, "2>/dev/null", setting) {
            Ok(run) => run,
            Err(why) => return skip(why),
        };
        assert_eq!(run.status.code(), Some(0), "{run}");
        assert_eq!(run.out.contains("\x1b["), coloured, "{setting:?}: {run}");
    }
}

#[test]
fn terminal_gets_a_progress_bar_and_the_result_stays_clean() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("out.json");
    let line = format!("--json >'{}'", file.display());
    let run = match on_a_terminal(&Home::new(), &line, ("COLUMNS", "80")) {
        Ok(run) => run,
        Err(why) => return skip(why),
    };
    assert_eq!(run.status.code(), Some(0), "{run}");
    assert!(run.out.contains("trials"), "{run}");
    assert_eq!(ids(&read_json(&file)), ["write-read", "busy-loop"]);
}
