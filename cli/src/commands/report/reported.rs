//! The saved runs that a page is made of.

use std::collections::BTreeMap;
use std::ffi::OsString;

use fullbore_lab::saved::load::Saved;
use fullbore_lab::show::escape::shown;
use fullbore_sys::{Error, Result};

use crate::args::runs::{self, Found, Name};
use crate::output::failure::complain;

/// The runs that are named, in that order; without any, the newest of each kind.
pub fn find(named: &[OsString]) -> Result<Vec<Saved>> {
    let last = ["last".into()];
    let named = if named.is_empty() { &last } else { named };
    let mut items = Vec::new();
    for name in named {
        match Name::of(name)? {
            Name::Last(before) => items.extend(newest(before)?),
            Name::Path(path) => match runs::at(&path, &name.to_string_lossy())? {
                Found::Run(saved) => items.push(saved),
                Found::Folder(runs) if runs.is_empty() => {
                    return Err(Error::new(
                        format!("nothing to report in {}", shown(&name.to_string_lossy())),
                        "it holds no saved run",
                        "name a folder with run.json files, or a file",
                    ));
                }
                Found::Folder(runs) => {
                    items.extend(runs.into_iter().map(|(_, saved)| saved));
                }
            },
        }
    }
    Ok(items)
}

/// The newest run of each kind, or so many before it. One that cannot be read is named, and the one before it taken.
fn newest(before: usize) -> Result<Vec<Saved>> {
    let mut by_kind = BTreeMap::<_, Vec<_>>::new();
    for entry in runs::entries()?.into_iter().rev() {
        if let Some(kind) = entry.kind {
            by_kind.entry(kind).or_default().push(entry.json);
        }
    }
    let mut items = Vec::new();
    for paths in by_kind.into_values() {
        for path in paths.into_iter().skip(before) {
            match runs::read(&path, &path.to_string_lossy()) {
                Ok(saved) => {
                    items.push(saved);
                    break;
                }
                Err(e) => complain(&format!("warning: left out: {e}")),
            }
        }
    }
    if items.is_empty() {
        return Err(Error::new(
            "there is nothing to report",
            if before == 0 {
                "no run is saved for this user".to_owned()
            } else {
                format!("of no kind {} runs are saved", before + 1)
            },
            "run fullbore ladder first, or name a saved run; fullbore compare --list shows them",
        ));
    }
    Ok(items)
}
