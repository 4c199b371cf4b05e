//! Saved runs: JSON whole, CSV raw and mean, each written so that a reader never sees half a file.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use fullbore::{Error, Result};
use fullbore_lab::run::{Run, RungResult};

/// Where one run is saved.
#[derive(Debug)]
pub struct Place {
    json: PathBuf,
}

impl Place {
    /// The file the user named. That it cannot be written is found now, and not after the first round.
    pub fn file(json: &Path) -> Result<Self> {
        let writable = if json.exists() {
            std::fs::File::options().append(true).open(json).map(drop)
        } else {
            let part = part_of(json);
            std::fs::write(&part, "").and_then(|()| std::fs::remove_file(part))
        };
        writable.map_err(|e| not_saved(json, e))?;
        Ok(Self { json: json.into() })
    }

    /// Whether the file can be replaced by another one, and have others beside it: no link, device or pipe.
    fn is_plain(&self) -> bool {
        std::fs::symlink_metadata(&self.json).map_or(true, |m| m.is_file())
    }

    /// The CSV file of a kind: `run.raw.csv` beside `run.json`.
    fn csv(&self, kind: &str) -> PathBuf {
        let mut name = match self.json.extension() {
            Some(extension) if extension == "json" => self.json.with_extension(""),
            _ => self.json.clone(),
        }
        .into_os_string();
        name.push(format!(".{kind}.csv"));
        name.into()
    }

    /// A new directory under the user's state directory.
    pub fn new_in_state(started_unix_s: u64) -> Result<Self> {
        let runs = state_directory().ok_or_else(|| {
            Error::new(
                "the run cannot be saved",
                "neither XDG_STATE_HOME nor HOME is set",
                "set one of them, or use --out FILE or --no-save",
            )
        })?;
        let name = jiff::Timestamp::from_second(i64::try_from(started_unix_s).unwrap_or(0))
            .unwrap_or_default()
            .strftime("%Y-%m-%dT%H-%M-%SZ-ladder")
            .to_string();
        // Two runs may start in the same second.
        let mut directory = runs.join(&name);
        for n in 2.. {
            let parent = std::fs::create_dir_all(&runs);
            match parent.and_then(|()| std::fs::create_dir(&directory)) {
                Ok(()) => break,
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {
                    directory = runs.join(format!("{name}-{n}"));
                }
                Err(e) => return Err(not_saved(&directory, e)),
            }
        }
        Ok(Self {
            json: directory.join("run.json"),
        })
    }

    /// The JSON file.
    pub fn json(&self) -> &Path {
        &self.json
    }

    /// Saves a run, over an earlier state of the same run.
    pub fn save(&self, run: &Run) -> Result<()> {
        let json =
            serde_json::to_string_pretty(run).map_err(|e| not_saved(&self.json, e.into()))?;
        let json = json + "\n";
        if !self.is_plain() {
            return std::fs::write(&self.json, json).map_err(|e| not_saved(&self.json, e));
        }
        for (path, text) in [
            (self.json.clone(), json),
            (self.csv("raw"), raw_csv(run)),
            (self.csv("mean"), mean_csv(run)),
        ] {
            replace(&path, &text).map_err(|e| not_saved(&path, e))?;
        }
        Ok(())
    }
}

fn state_directory() -> Option<PathBuf> {
    let absolute = |name| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|p| p.is_absolute())
    };
    let state =
        absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")))?;
    Some(state.join("fullbore/runs"))
}

fn not_saved(path: &Path, e: std::io::Error) -> Error {
    Error::system(
        format!("the run cannot be saved in {}", path.display()),
        e,
        "use --out FILE with a place you may write, or --no-save",
    )
}

/// The name a file has until it is complete.
fn part_of(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".part");
    path.with_file_name(name)
}

fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    let part = part_of(path);
    std::fs::write(&part, text)?;
    std::fs::rename(part, path)
}

/// The result itself and what was measured apart.
fn with_apart(result: &RungResult) -> impl Iterator<Item = &RungResult> {
    std::iter::once(result).chain(&result.apart)
}

/// One line per trial.
fn raw_csv(run: &Run) -> String {
    let mut csv = String::from(
        "rung,round,state,gib_per_s,seconds,bytes,line_travel_before_ns,line_travel_after_ns,steal,\
         writer_cpu_s,writer_calls,writer_eagain,writer_switches,reader_cpu_s,reader_calls,reader_eagain,reader_switches\n",
    );
    let number = |value: Option<f64>| value.map_or(String::new(), |v| v.to_string());
    for result in run.rungs.iter().flat_map(with_apart) {
        for s in &result.samples {
            let _ = write!(
                csv,
                "{},{},{},{},{},{},{},{},{}",
                result.id,
                s.round + 1,
                s.state,
                s.gib_per_s,
                s.reader.seconds,
                s.reader.bytes,
                number(s.line_travel_ns.before),
                number(s.line_travel_ns.after),
                number(s.steal),
            );
            for side in [&s.writer, &s.reader] {
                let switches = side.voluntary_switches + side.involuntary_switches;
                let _ = write!(
                    csv,
                    ",{},{},{},{switches}",
                    side.cpu_s, side.calls, side.eagain
                );
            }
            csv.push('\n');
        }
    }
    csv
}

/// One line per rung and state.
fn mean_csv(run: &Run) -> String {
    let mut csv = String::from(
        "rung,state,trials,mean_gib_per_s,median_gib_per_s,ci95_low,ci95_high,ns_per_page,cpu_s_per_gib\n",
    );
    let number = |value: Option<f64>| value.map_or(String::new(), |v| v.to_string());
    for result in run.rungs.iter().flat_map(with_apart) {
        let (Some(state), Some(e)) = (result.state, result.gib_per_s) else {
            continue;
        };
        let trials = result.samples.len();
        let mean = result.samples.iter().map(|s| s.gib_per_s).sum::<f64>() / trials as f64;
        let _ = writeln!(
            csv,
            "{},{state},{trials},{mean},{},{},{},{},{}",
            result.id,
            e.median,
            e.ci95[0],
            e.ci95[1],
            number(result.ns_per_page),
            number(result.cpu_s_per_gib),
        );
    }
    csv
}
