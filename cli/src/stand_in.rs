//! A tool called through a link named `cat`, `tee` or `yes` stands in for the program of that name: its messages, its exit
//! codes, its death by SIGPIPE. Called by its own name it speaks like the rest of `fullbore`.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use fullbore_lab::sys::start;
use fullbore_sys::Error;
use rustix::process::{Signal, getpid, kill_process};

use crate::args::link_of;
use crate::failure::{Failure, Outcome, complain};
use crate::quote::{quoted, visible};

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
        Err(Failure::Told)
    }

    /// Fails where standard output was closed when this process was started.
    pub fn check_output(self, what: &str) -> Outcome {
        if start::was_closed(1) {
            let closed = rustix::io::Errno::BADF.into();
            self.complain(what, &closed, "open standard output");
            return Err(Failure::Told);
        }
        Ok(())
    }
}

/// What a stand-in says of a wrong command line; `None` where the binary is no stand-in.
pub fn explain_parsing(error: &clap::Error) -> Option<ExitCode> {
    let Voice::StandIn(name) = Voice::of_process() else {
        return None;
    };
    let message = getopt_words(error, name).unwrap_or_else(|| {
        let text = error.to_string();
        let line = text.lines().next().unwrap_or_default();
        line.trim_start_matches("error: ").to_owned()
    });
    Voice::StandIn(name).say(&message, "");
    let _ = writeln!(io::stderr(), "Try '{name} --help' for more information.");
    Some(ExitCode::from(1))
}

/// What getopt_long(3) says of a command line that clap refused, behind a link of this name; `None` where it has no words.
pub fn getopt_words(error: &clap::Error, link: &str) -> Option<String> {
    let context = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.as_str(),
        _ => "",
    };
    let option = context(ContextKind::InvalidArg);
    let long = option.split(['=', '[', ' ']).next().unwrap_or_default();
    let value = context(ContextKind::InvalidValue);
    let words = match error.kind() {
        ErrorKind::UnknownArgument if option.starts_with("--") => {
            let typed = as_typed(option);
            let meant: String = meant(option, link)
                .iter()
                .map(|name| format!(" '--{name}'"))
                .collect();
            if meant.is_empty() {
                format!("unrecognized option '{typed}'")
            } else {
                format!("option '{typed}' is ambiguous; possibilities:{meant}")
            }
        }
        ErrorKind::UnknownArgument => {
            format!("invalid option -- '{}'", option.trim_start_matches('-'))
        }
        ErrorKind::InvalidValue if value.is_empty() && last_is_option() => {
            match last().strip_prefix("--") {
                Some(_) => format!("option '{long}' requires an argument"),
                None => {
                    let letter = last().chars().last().unwrap_or('-');
                    format!("option requires an argument -- '{letter}'")
                }
            }
        }
        ErrorKind::InvalidValue | ErrorKind::ValueValidation => {
            format!("invalid argument ‘{value}’ for ‘{long}’")
        }
        ErrorKind::TooManyValues => format!("option '{long}' doesn't allow an argument"),
        _ => return None,
    };
    Some(visible(&words).into_owned())
}

/// An option with the value that may hang on it.
fn as_typed(option: &str) -> String {
    let with_value = format!("{option}=");
    std::env::args_os()
        .map(|arg| arg.to_string_lossy().into_owned())
        .find(|arg| arg == option || arg.starts_with(&with_value))
        .unwrap_or_else(|| option.to_owned())
}

/// The options that an abbreviation may mean.
fn meant(option: &str, link: &str) -> Vec<String> {
    let mut definition = crate::args::definition_of_link(link);
    definition.build();
    let command = definition.find_subcommand(link);
    let names = command.into_iter().flat_map(|c| c.get_arguments());
    names
        .filter_map(|arg| arg.get_long())
        .filter(|name| name.starts_with(option.trim_start_matches('-')))
        .map(str::to_owned)
        .collect()
}

fn last() -> String {
    let last = std::env::args_os().next_back().unwrap_or_default();
    last.to_string_lossy().into_owned()
}

/// Whether the command line ends with an option, so that its value is missing.
fn last_is_option() -> bool {
    last().len() > 1 && last().starts_with('-') && !last().contains('=')
}
