//! `view` and `pv`, and what they show.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

pub use crate::support::kinds::{MIB, checker, contents, file_of, raw_terminal, seeded, terminal};
use crate::support::{Links, Run, To, command, fullbore, start};

/// What is written to a terminal.
pub struct Screen {
    shown: Arc<Mutex<Vec<u8>>>,
    reading: JoinHandle<()>,
}

impl Screen {
    pub fn of(mut ours: File) -> Self {
        let shown = Arc::new(Mutex::default());
        let into: Arc<Mutex<Vec<u8>>> = Arc::clone(&shown);
        let reading = thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(n @ 1..) = ours.read(&mut buffer) {
                into.lock().expect("no panic").extend(&buffer[..n]);
            }
        });
        Self { shown, reading }
    }

    /// What has been shown so far.
    pub fn so_far(&self) -> String {
        String::from_utf8_lossy(&self.shown.lock().expect("no panic")).into_owned()
    }

    /// All that is shown until the other side is closed.
    pub fn finish(self) -> String {
        let Self { shown, reading } = self;
        reading.join().expect("the screen");
        let shown = shown.lock().expect("no panic");
        String::from_utf8_lossy(&shown).into_owned()
    }
}

/// Through a link named `pv`.
pub fn as_pv(line: &str) -> Run {
    let links = Links::new(&["pv"]);
    start(command(links.path("pv"), line), Stdio::null(), To::Captured).finish()
}

pub fn view(line: &str) -> Command {
    fullbore(&format!("view {line}"))
}

/// Runs `view` from this to that and asserts success.
#[track_caller]
pub fn move_all(line: &str, from: impl Into<Stdio>, to: impl Into<OwnedFd>) -> Run {
    start(view(line), from, Stdio::from(to.into())).finish()
}

/// Debian's pv, if it is here.
pub fn debian_pv() -> Result<(), String> {
    match Command::new("pv").arg("--version").output() {
        Ok(out) if out.stdout.starts_with(b"pv ") => Ok(()),
        Ok(_) => Err("the pv of this machine is not Debian's".into()),
        Err(why) => Err(format!("pv does not run: {why}")),
    }
}
