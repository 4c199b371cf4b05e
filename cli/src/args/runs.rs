//! Finds saved runs: by file, by folder, as the last one.

use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use fullbore_lab::saved::load::{Kind, Saved, load_named};
use fullbore_lab::show::escape::shown;
use fullbore_sys::{Error, Result};

use crate::output::failure::complain;
use crate::output::saved::state_directory;

/// No saved run is larger: a ladder of a thousand rounds has 60 MB.
const LARGEST: u64 = 64 << 20;
/// Folders in folders, so deep and no deeper.
const DEEPEST: usize = 8;
/// What a run is not worth reading for says so this often.
const COMPLAINTS: usize = 5;

/// How a run is named on the command line.
#[derive(Debug, PartialEq, Eq)]
pub enum Name {
    /// `last`, `last~1`: so many before the newest.
    Last(usize),
    /// A file or a folder.
    Path(PathBuf),
}

impl Name {
    /// What this text names.
    ///
    /// # Errors
    /// It begins with `last~` and goes on with something other than a number.
    pub fn of(name: impl AsRef<OsStr>) -> Result<Self> {
        let name = name.as_ref();
        let text = name.to_str().unwrap_or_default();
        if text == "last" {
            return Ok(Self::Last(0));
        }
        let Some(n) = text.strip_prefix("last~") else {
            return Ok(Self::Path(name.into()));
        };
        n.parse().map(Self::Last).map_err(|_| {
            Error::new(
                shown(text),
                "what follows last~ is not a number",
                "write last~1 for the run before the last; a file of that name is ./last~…",
            )
        })
    }
}

/// What was found under a name.
pub enum Found {
    Run(Saved),
    /// Each with its path.
    Folder(Vec<(String, Saved)>),
}

/// A run of the state directory.
#[derive(Debug)]
pub struct Entry {
    /// Its directory's name: start and kind.
    pub name: String,
    pub json: PathBuf,
    pub kind: Option<Kind>,
}

/// Reads a file or all runs of a folder.
pub fn at(path: &Path, text: &str) -> Result<Found> {
    if path.is_dir() {
        folder(path).map(Found::Folder)
    } else {
        read(path, text).map(Found::Run)
    }
}

/// Reads one run.
pub fn read(path: &Path, name: &str) -> Result<Saved> {
    let failed = |e: std::io::Error| {
        Error::system(
            format!("{} cannot be read", shown(name)),
            e,
            "name a run.json that fullbore saved, a folder of them, or last; fullbore compare --list shows some",
        )
    };
    let mut bytes = Vec::new();
    let file = fs::File::open(path).map_err(failed)?;
    file.take(LARGEST + 1)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    if bytes.len() as u64 > LARGEST {
        return Err(Error::new(
            format!("{} cannot be read", shown(name)),
            "it is larger than any saved run",
            "name a run.json that fullbore saved",
        ));
    }
    load_named(name, &bytes)
}

/// Every run in a folder and in those inside it, by path. What cannot be read is named and left out: one host of many
/// may have been cut short.
fn folder(path: &Path) -> Result<Vec<(String, Saved)>> {
    let mut files = Vec::new();
    collect(path, DEEPEST, &mut files).map_err(|e| {
        Error::system(
            format!("{} cannot be read", shown(&path.to_string_lossy())),
            e,
            "name a folder you may read",
        )
    })?;
    files.sort();
    let (mut runs, mut left_out) = (Vec::new(), 0);
    for file in files {
        let name = file.to_string_lossy().into_owned();
        match read(&file, &name) {
            Ok(run) => runs.push((name, run)),
            Err(e) => {
                left_out += 1;
                if left_out <= COMPLAINTS {
                    complain(&format!("warning: left out: {e}"));
                }
            }
        }
    }
    if left_out > COMPLAINTS {
        complain(&format!(
            "warning: left out: {} more",
            left_out - COMPLAINTS
        ));
    }
    Ok(runs)
}

fn collect(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        // The link itself is looked at, not what it points to: no loops.
        let kind = entry.file_type()?;
        if kind.is_dir() && depth > 0 {
            // One that may not be read hides its runs, and no others.
            if let Err(e) = collect(&path, depth - 1, files) {
                let e = Error::system("", e, "").to_string();
                complain(&format!(
                    "warning: left out: {}{e}",
                    shown(&path.to_string_lossy())
                ));
            }
        } else if path.extension().is_some_and(|e| e == "json") && path.is_file() {
            files.push(path);
        }
    }
    Ok(())
}

/// The saved runs of this user, oldest first. One that was interrupted before anything was saved is none.
pub fn entries() -> Result<Vec<Entry>> {
    let directory = state_directory().map_err(|_| {
        Error::new(
            "there are no saved runs to be found",
            "neither XDG_STATE_HOME nor HOME is set",
            "set one of them, or name a file",
        )
    })?;
    let found = match fs::read_dir(&directory) {
        Ok(found) => found,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => {
            return Err(Error::system(
                format!("{} cannot be read", directory.display()),
                e,
                "name a file",
            ));
        }
    };
    let mut entries: Vec<_> = found
        .filter_map(|entry| {
            let name = entry.ok()?.file_name().into_string().ok()?;
            let json = directory.join(&name).join("run.json");
            json.is_file().then(|| {
                let (_, kind, _) = parts(&name);
                Entry {
                    kind: kind.parse().ok(),
                    name,
                    json,
                }
            })
        })
        .collect();
    entries.sort_by(|a, b| order(&a.name).cmp(&order(&b.name)));
    Ok(entries)
}

/// `2026-11-21T11-12-13Z-ladder-2`: start, kind, and which of several in that second.
fn parts(name: &str) -> (&str, &str, u32) {
    let (start, rest) = name.split_once("Z-").unwrap_or((name, ""));
    let (kind, n) = rest.split_once('-').unwrap_or((rest, "1"));
    (start, kind, n.parse().unwrap_or(1))
}

fn order(name: &str) -> (&str, u32, &str) {
    let (start, kind, n) = parts(name);
    (start, n, kind)
}

/// The kind of the newest run that can be compared.
pub fn newest_kind() -> Result<Kind> {
    let entries = entries()?;
    let kinds = entries.iter().rev().filter_map(|e| e.kind);
    let mut kinds = kinds.filter(|k| *k != Kind::Profile);
    kinds.next().ok_or_else(|| none_saved("fullbore ladder"))
}

/// The newest run of a kind, or so many before it.
pub fn last(before: usize, kind: Option<Kind>) -> Result<Saved> {
    let kind = kind.map_or_else(newest_kind, Ok)?;
    let entries = entries()?;
    let mut runs = entries.iter().rev().filter(|e| e.kind == Some(kind));
    let Some(entry) = runs.nth(before) else {
        let there = entries.iter().filter(|e| e.kind == Some(kind)).count();
        if there == 0 {
            return Err(none_saved(&format!("fullbore {kind}")));
        }
        return Err(Error::new(
            format!("last~{before}"),
            format!("only {there} runs of kind {kind} are saved"),
            "fullbore compare --list shows them",
        ));
    };
    read(&entry.json, &entry.json.to_string_lossy())
}

fn none_saved(command: &str) -> Error {
    Error::new(
        "there is no last run",
        "none is saved for this user",
        format!("make one with {command}, or name a file"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_is_a_run_and_anything_else_a_path() {
        assert_eq!(Name::of("last").unwrap(), Name::Last(0));
        assert_eq!(Name::of("last~12").unwrap(), Name::Last(12));
        assert_eq!(Name::of("./last").unwrap(), Name::Path("./last".into()));
        assert_eq!(Name::of("lastly").unwrap(), Name::Path("lastly".into()));
        for wrong in ["last~", "last~-1", "last~x", "last~99999999999999999999"] {
            assert!(Name::of(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn runs_of_one_second_keep_their_order() {
        let mut names = [
            "2026-11-21T10-00-00Z-ladder-10",
            "2026-11-21T10-00-01Z-sweep",
            "2026-11-21T10-00-00Z-ladder-2",
            "2026-11-21T10-00-00Z-ladder",
        ];
        names.sort_by(|a, b| order(a).cmp(&order(b)));
        assert_eq!(names[0], "2026-11-21T10-00-00Z-ladder");
        assert_eq!(names[1], "2026-11-21T10-00-00Z-ladder-2");
        assert_eq!(names[3], "2026-11-21T10-00-01Z-sweep");
        assert_eq!(parts(names[2]).1, "ladder");
    }
}
