//! What is to be watched.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::Path;

use crate::tools::view::voice::{Complaint, Fault};

/// A process, or one descriptor of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) pid: u32,
    pub(super) fd: Option<u32>,
}

/// `PID`, `PID:FD`, `=NAME` or `@LISTFILE`.
pub(super) fn parse(text: &str) -> Result<Vec<Target>, Complaint> {
    if let Some(name) = text.strip_prefix('=') {
        return Ok(named(name));
    }
    if let Some(file) = text.strip_prefix('@') {
        let list = fs::read_to_string(file).map_err(|e| {
            Complaint::system(
                Fault::Usage,
                format!("-d @: {file}"),
                e,
                "name a file with a PID a line",
            )
        })?;
        let lines = list
            .lines()
            .map(str::trim)
            .filter(|l| !l.is_empty() && !l.starts_with('#'));
        let mut targets = Vec::new();
        for line in lines {
            if line.starts_with('@') {
                let why = "list files may not contain @ lines";
                return Err(Complaint::usage(
                    format!("-d @: {file}"),
                    why,
                    "put all into one",
                ));
            }
            targets.extend(parse(line)?);
        }
        return Ok(targets);
    }
    let (pid, fd) = match text.split_once(':') {
        Some((pid, fd)) => (pid, Some(fd)),
        None => (text, None),
    };
    let wrong = || {
        Complaint::usage(
            format!("-d: {text}"),
            "process ID or pid:fd pair expected",
            "use for example 1234 or 1234:3",
        )
    };
    let pid = pid
        .parse()
        .ok()
        .filter(|&pid: &u32| pid > 0)
        .ok_or_else(wrong)?;
    let fd = fd.map(|fd| fd.parse().map_err(|_| wrong())).transpose()?;
    Ok(vec![Target { pid, fd }])
}

/// Processes whose name contains this.
fn named(name: &str) -> Vec<Target> {
    let mut targets: Vec<Target> = numbers(Path::new("/proc"))
        .unwrap_or_default()
        .into_iter()
        .filter(|pid| {
            let comm = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            comm.trim_end().contains(name) && *pid != std::process::id()
        })
        .map(|pid| Target { pid, fd: None })
        .collect();
    targets.sort_by_key(|t| t.pid);
    targets
}

/// Entries of a directory that are numbers.
pub(super) fn numbers(directory: &Path) -> io::Result<Vec<u32>> {
    let entries = fs::read_dir(directory)?;
    let number = |name: OsString| name.to_str()?.parse().ok();
    Ok(entries
        .flatten()
        .filter_map(|e| number(e.file_name()))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_processes_or_descriptors() {
        assert_eq!(parse("12").unwrap(), [Target { pid: 12, fd: None }]);
        assert_eq!(
            parse("12:3").unwrap(),
            [Target {
                pid: 12,
                fd: Some(3)
            }]
        );
        for wrong in ["", "x", "0", "-1", "12:", "12:x", "@/nonexistent"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
