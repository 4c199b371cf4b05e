//! A tool called through a link named `cat`, `tee` or `yes` stands in for the program of that name: its messages, its exit
//! codes, its death by SIGPIPE. Called by its own name it speaks like the rest of `fullbore`.

use std::ffi::OsStr;
use std::io::{self, Write};

use fullbore_lab::sys::start;
use fullbore_sys::Error;
use rustix::process::{Signal, getpid, kill_process};

use crate::links::link_of;
use crate::output::failure::{Failure, Outcome, complain};
use crate::output::quote::quoted;

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Voice {
    /// `fullbore`.
    Own,
    /// The program that a link is named after.
    StandIn(&'static str),
}

impl Voice {
    /// The one in which this process was addressed.
    pub fn of_process() -> Self {
        let name = std::env::args_os().next();
        match name.and_then(|name| link_of(&name)) {
            Some(link @ ("cat" | "tee" | "yes")) => Self::StandIn(link),
            _ => Self::Own,
        }
    }

    pub fn is_own(self) -> bool {
        self == Self::Own
    }

    /// A stand-in dies by SIGPIPE, as whoever called it expects.
    pub fn take_signals(self) {
        if !self.is_own() {
            start::let_sigpipe_kill();
        }
    }

    /// Says what failed and why; what to do is said in our own voice only.
    pub fn complain(self, what: &str, error: &io::Error, what_to_do: &str) {
        let error = match error.raw_os_error() {
            Some(errno) => io::Error::from_raw_os_error(errno),
            None => error.kind().into(),
        };
        let message = Error::system(what, error, "").to_string();
        self.say(&message, what_to_do);
    }

    /// Says what is wrong in words of ours.
    pub fn say(self, message: &str, what_to_do: &str) {
        match self {
            Self::Own if what_to_do.is_empty() => complain(message),
            Self::Own => complain(&format!("{message}; {what_to_do}")),
            Self::StandIn(name) => {
                let _ = writeln!(io::stderr(), "{name}: {message}");
            }
        }
    }

    /// Says that a file failed.
    pub fn complain_of_file(self, name: &OsStr, error: &io::Error) {
        let what_to_do = match error.kind() {
            io::ErrorKind::NotFound => "check the name",
            io::ErrorKind::PermissionDenied => "ask its owner, or another user",
            io::ErrorKind::IsADirectory => "name a file in it",
            io::ErrorKind::StorageFull => "free some space",
            _ => "the other files are not concerned",
        };
        self.complain(&quoted(name), error, what_to_do);
    }

    /// What an error of standard output means: nothing, where its reader has seen what it wanted.
    pub fn output_failed(self, what: &str, error: &io::Error) -> Outcome {
        if self.is_own() && error.kind() == io::ErrorKind::BrokenPipe {
            return Ok(());
        }
        if error.kind() == io::ErrorKind::BrokenPipe {
            // Where it is not ignored, this is the end.
            self.take_signals();
            let _ = kill_process(getpid(), Signal::PIPE);
        }
        self.complain(what, error, "send standard output somewhere else");
        Err(Failure::Reported)
    }

    /// Fails where standard output was closed when this process was started.
    pub fn check_output(self, what: &str) -> Outcome {
        if start::was_closed(1) {
            let closed = rustix::io::Errno::BADF.into();
            self.complain(what, &closed, "open standard output");
            return Err(Failure::Reported);
        }
        Ok(())
    }
}
