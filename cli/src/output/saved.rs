//! Saved runs: JSON whole, tables as CSV, each written so that a reader never sees half a file.

use std::fs::{File, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use fullbore_sys::{Error, Result};
use serde::Serialize;
use tempfile::NamedTempFile;

/// Where one run is saved.
#[derive(Debug)]
pub struct Place {
    /// The JSON file; of a new directory only once something was saved there.
    json: OnceLock<PathBuf>,
    /// A new directory holds nothing but this run: where, and what it is called if nothing else is.
    new: Option<(PathBuf, String)>,
}

impl Place {
    /// The file the user named. That it cannot be written is found now, and not after the first round.
    pub fn file(json: &Path) -> Result<Self> {
        let writable = if json.exists() {
            File::options().append(true).open(json).map(drop)
        } else {
            part_beside(json).map(drop)
        };
        writable.map_err(|e| not_saved(json, e))?;
        Ok(Self {
            json: OnceLock::from(json.to_owned()),
            new: None,
        })
    }

    /// `run.raw.csv` beside `run.json`.
    fn beside(json: &Path, end: &str) -> PathBuf {
        let mut name = match json.extension() {
            Some(extension) if extension == "json" => json.with_extension(""),
            _ => json.to_owned(),
        }
        .into_os_string();
        name.push(format!(".{end}"));
        name.into()
    }

    /// A new directory under the user's state directory, for a run of this kind: `ladder`, `profile` and so on. It is made
    /// when something is saved; that it can be made is found now.
    pub fn new_in_state(started_unix_s: u64, kind: &str) -> Result<Self> {
        let runs = state_directory()?;
        let name = jiff::Timestamp::from_second(i64::try_from(started_unix_s).unwrap_or(0))
            .unwrap_or_default()
            .strftime("%Y-%m-%dT%H-%M-%SZ")
            .to_string()
            + "-"
            + kind;
        std::fs::create_dir_all(&runs)
            .and_then(|()| part_beside(&runs.join(&name)).map(drop))
            .map_err(|e| not_saved(&runs, e))?;
        Ok(Self {
            json: OnceLock::new(),
            new: Some((runs, name)),
        })
    }

    /// The JSON file, its directory made if need be.
    fn made(&self) -> Result<&Path> {
        if self.json.get().is_none()
            && let Some((runs, name)) = &self.new
        {
            let directory = new_directory(runs, name)?;
            self.json.get_or_init(|| directory.join("run.json"));
        }
        Ok(self.json())
    }

    /// Saves a file that belongs to the run: `NAME` in a directory of its own, else `run.NAME` beside `run.json`.
    pub fn save_beside(&self, name: &str, text: &str) -> Result<()> {
        let json = self.made()?;
        if !is_plain(json) {
            return Ok(());
        }
        let path = match self.new {
            Some(_) => json.with_file_name(name),
            None => Self::beside(json, name),
        };
        replace(&path, text).map_err(|e| not_saved(&path, e))
    }

    /// The JSON file; nowhere before anything was saved.
    pub fn json(&self) -> &Path {
        self.json.get().map_or(Path::new(""), |json| json)
    }

    /// Saves a run and its tables, each named by kind, over an earlier state of the same run.
    pub fn save(&self, run: &impl Serialize, tables: &[(&str, String)]) -> Result<()> {
        let path = self.made()?;
        let json = serde_json::to_string_pretty(run).map_err(|e| not_saved(path, e.into()))?;
        let json = json + "\n";
        write(path, &json).map_err(|e| not_saved(path, e))?;
        if !is_plain(path) {
            return Ok(());
        }
        for (kind, text) in tables {
            let path = Self::beside(path, &format!("{kind}.csv"));
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

/// Makes a directory of that name, or, as two runs may start in the same second, of that name and a number.
fn new_directory(runs: &Path, name: &str) -> Result<PathBuf> {
    let mut directory = runs.join(name);
    for n in 2.. {
        match std::fs::create_dir(&directory) {
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {
                directory = runs.join(format!("{name}-{n}"));
            }
            made => {
                made.map_err(|e| not_saved(&directory, e))?;
                break;
            }
        }
    }
    Ok(directory)
}

fn not_saved(path: &Path, e: io::Error) -> Error {
    Error::system(
        format!("the run cannot be saved in {}", path.display()),
        e,
        "use --out FILE with a place you may write, or --no-save",
    )
}

/// A file until it is complete, in the directory of `path`, under a name that nobody else has. Gone when dropped.
fn part_beside(path: &Path) -> io::Result<NamedTempFile> {
    let directory = directory_of(path);
    tempfile::Builder::new()
        .prefix(".fullbore-")
        .suffix(".part")
        .permissions(Permissions::from_mode(0o666)) // less the umask
        .tempfile_in(directory)
        .map_err(|e| with_directory(directory, e))
}

fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(directory) if directory != Path::new("") => directory,
        _ => Path::new("."),
    }
}

/// An error that names the directory in which it happened, since that is where permissions and space are wanting.
fn with_directory(directory: &Path, e: io::Error) -> io::Error {
    // Without the name that was tried.
    let cause = e.raw_os_error().or_else(|| {
        let inner = e.get_ref()?.source()?.downcast_ref::<io::Error>()?;
        inner.raw_os_error()
    });
    let e = cause.map_or(e, io::Error::from_raw_os_error);
    let text = Error::system("", e, "").to_string();
    let why = text.trim_start_matches(": ");
    io::Error::other(format!("{why} (in the directory {})", directory.display()))
}

/// Whether a file can be replaced by another one, and have others beside it: no link, device or pipe.
fn is_plain(path: &Path) -> bool {
    std::fs::symlink_metadata(path).map_or(true, |m| m.is_file())
}

/// Writes a file as [`replace`] does; what is no plain file (a device, a pipe, a link) is written through.
pub fn write(path: &Path, content: impl AsRef<[u8]>) -> io::Result<()> {
    if is_plain(path) {
        replace(path, content)
    } else {
        std::fs::write(path, content)
    }
}

/// Writes a file that nobody ever sees half of. Where that fails, what was there before stays.
fn replace(path: &Path, content: impl AsRef<[u8]>) -> io::Result<()> {
    let mut part = part_beside(path)?;
    part.write_all(content.as_ref())?;
    part.persist(path).map(drop).map_err(|e| e.error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_replaced_and_what_it_leads_to_left_alone_with_the_rights_that_the_umask_leaves() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        std::fs::write(at("victim"), "precious").unwrap();
        std::os::unix::fs::symlink(at("victim"), at("run.json")).unwrap();
        replace(&at("run.json"), "result").unwrap();
        let read = |name| std::fs::read_to_string(at(name)).unwrap();
        assert_eq!(
            (read("victim"), read("run.json")),
            ("precious".into(), "result".into())
        );
        assert!(!at("run.json").is_symlink());
        let mode = |name| std::fs::metadata(at(name)).unwrap().permissions().mode();
        assert_eq!(mode("run.json"), mode("victim"));
    }

    #[test]
    fn directory_of_a_run_is_made_when_something_is_saved() {
        let place = tempfile::tempdir().unwrap();
        let new = || Place {
            json: OnceLock::new(),
            new: Some((place.path().to_owned(), "start-ladder".to_owned())),
        };
        let (one, two) = (new(), new());
        let made = || std::fs::read_dir(place.path()).unwrap().count();
        assert_eq!(made(), 0);
        one.save(&1, &[]).unwrap();
        two.save(&2, &[]).unwrap();
        one.save(&3, &[("raw", String::new())]).unwrap();
        assert_eq!(made(), 2);
        assert_ne!(one.json(), two.json());
        assert_eq!(std::fs::read_to_string(one.json()).unwrap(), "3\n");
    }

    #[test]
    fn what_cannot_be_written_leaves_nothing_and_names_its_directory() {
        let place = tempfile::tempdir().unwrap();
        // A directory cannot be replaced by a file.
        assert!(replace(place.path(), "x").is_err());
        let why = replace(&place.path().join("none/run.json"), "x").unwrap_err();
        assert!(why.to_string().contains("none)"), "{why}");
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
    }
}
