//! Saved runs: JSON whole, tables as CSV, each written so that a reader never sees half a file.

use std::path::{Path, PathBuf};

use fullbore::{Error, Result};
use serde::Serialize;

/// Where one run is saved.
#[derive(Debug)]
pub struct Place {
    json: PathBuf,
    /// The directory holds nothing but this run.
    is_alone: bool,
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
        Ok(Self {
            json: json.into(),
            is_alone: false,
        })
    }

    /// Whether the file can be replaced by another one, and have others beside it: no link, device or pipe.
    fn is_plain(&self) -> bool {
        std::fs::symlink_metadata(&self.json).map_or(true, |m| m.is_file())
    }

    /// `run.raw.csv` beside `run.json`.
    fn beside(&self, end: &str) -> PathBuf {
        let mut name = match self.json.extension() {
            Some(extension) if extension == "json" => self.json.with_extension(""),
            _ => self.json.clone(),
        }
        .into_os_string();
        name.push(format!(".{end}"));
        name.into()
    }

    /// A new directory under the user's state directory, for a run of this kind: `ladder`, `profile` and so on.
    pub fn new_in_state(started_unix_s: u64, kind: &str) -> Result<Self> {
        let runs = state_directory()?;
        let name = jiff::Timestamp::from_second(i64::try_from(started_unix_s).unwrap_or(0))
            .unwrap_or_default()
            .strftime("%Y-%m-%dT%H-%M-%SZ")
            .to_string()
            + "-"
            + kind;
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
            is_alone: true,
        })
    }

    /// Saves a file that belongs to the run: `NAME` in a directory of its own, else `run.NAME` beside `run.json`.
    pub fn save_beside(&self, name: &str, text: &str) -> Result<()> {
        if !self.is_plain() {
            return Ok(());
        }
        let path = if self.is_alone {
            self.json.with_file_name(name)
        } else {
            self.beside(name)
        };
        replace(&path, text).map_err(|e| not_saved(&path, e))
    }

    /// The JSON file.
    pub fn json(&self) -> &Path {
        &self.json
    }

    /// Saves a run and its tables, each named by kind, over an earlier state of the same run.
    pub fn save(&self, run: &impl Serialize, tables: &[(&str, String)]) -> Result<()> {
        let json =
            serde_json::to_string_pretty(run).map_err(|e| not_saved(&self.json, e.into()))?;
        let json = json + "\n";
        if !self.is_plain() {
            return std::fs::write(&self.json, json).map_err(|e| not_saved(&self.json, e));
        }
        replace(&self.json, &json).map_err(|e| not_saved(&self.json, e))?;
        for (kind, text) in tables {
            let path = self.beside(&format!("{kind}.csv"));
            replace(&path, text).map_err(|e| not_saved(&path, e))?;
        }
        Ok(())
    }
}

/// Where runs are saved when nothing else is said.
///
/// # Errors
/// The environment does not say where.
pub fn state_directory() -> Result<PathBuf> {
    let absolute = |name| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|p| p.is_absolute())
    };
    let state = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")));
    state.map(|s| s.join("fullbore/runs")).ok_or_else(|| {
        Error::new(
            "the run cannot be saved",
            "neither XDG_STATE_HOME nor HOME is set",
            "set one of them, or use --out FILE or --no-save",
        )
    })
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

/// Writes a file that nobody ever sees half of. Where that fails, what was there before stays.
pub fn replace(path: &Path, content: impl AsRef<[u8]>) -> std::io::Result<()> {
    let part = part_of(path);
    std::fs::write(&part, content)
        .and_then(|()| std::fs::rename(&part, path))
        .inspect_err(|_| drop(std::fs::remove_file(&part)))
}
