//! `--cursor`: several instances in one pipeline, each on a line of its own.
//!
//! They share a small file, locked while one of them draws, that lists who is there. The cursor rests below all lines;
//! whoever draws goes up to its own line and back. That holds when the terminal scrolls, and nothing is asked of the
//! terminal, so that nothing that is typed gets lost.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::PathBuf;

use rustix::fs::FlockOperation;
use rustix::process::{Pid, getuid};

use super::terminal;

/// One's own line.
#[derive(Debug)]
pub struct Cursor {
    file: File,
    line: usize,
}

/// Instances that ended; their lines stay.
const ENDED: &str = "-";

impl Cursor {
    /// Takes the next line of the terminal, or none where this is no terminal or cannot be agreed on.
    pub fn new() -> Option<Self> {
        let terminal = rustix::fs::fstat(rustix::stdio::stderr()).ok()?;
        if !terminal::is_terminal() {
            return None;
        }
        let file = open(terminal.st_rdev).ok()?;
        let mut cursor = Self { file, line: 0 };
        cursor
            .locked(|lines| {
                if !lines.iter().any(|pid| is_alive(pid)) {
                    lines.clear();
                }
                lines.push(std::process::id().to_string());
                terminal::print("\n");
                lines.len() - 1
            })
            .map(|line| {
                cursor.line = line;
                cursor
            })
            .ok()
    }

    /// Draws on the own line.
    pub fn draw(&self, text: &str) {
        let _ = self.locked(|lines| {
            let up = lines.len().saturating_sub(self.line).max(1);
            terminal::print(&format!("\x1b7\x1b[{up}A\r{text}\x1b8"));
        });
    }

    /// Gives the line up as it is.
    pub fn finish(self) {
        let _ = self.locked(|lines| {
            if let Some(line) = lines.get_mut(self.line) {
                *line = ENDED.into();
            }
        });
    }

    /// Changes the list of lines while nobody else does.
    fn locked<T>(&self, change: impl FnOnce(&mut Vec<String>) -> T) -> io::Result<T> {
        rustix::fs::flock(&self.file, FlockOperation::LockExclusive)?;
        let mut file = &self.file;
        let mut text = String::new();
        file.rewind()?;
        file.read_to_string(&mut text)?;
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let before = lines.clone();
        let result = change(&mut lines);
        if lines != before {
            file.rewind()?;
            file.set_len(0)?;
            file.write_all((lines.join("\n") + "\n").as_bytes())?;
        }
        rustix::fs::flock(&self.file, FlockOperation::Unlock)?;
        Ok(result)
    }
}

/// The file of a terminal, of this user alone.
fn open(terminal: u64) -> io::Result<File> {
    let directory = std::env::var_os("XDG_RUNTIME_DIR")
        .map(PathBuf::from)
        .filter(|d| d.is_dir())
        .unwrap_or_else(std::env::temp_dir);
    let uid = getuid().as_raw();
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits() as i32)
        .open(directory.join(format!("fullbore-view-{uid}-{terminal}")))?;
    if file.metadata()?.uid() != uid {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    Ok(file)
}

fn is_alive(pid: &str) -> bool {
    let pid = pid.parse().ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| rustix::process::test_kill_process(pid).is_ok())
}
