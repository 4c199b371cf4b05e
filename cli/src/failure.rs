//! How a command fails: on standard error one line, and an exit code.

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

use fullbore_lab::sys::start;
use fullbore_sys::Error;
use rustix::io::Errno;

use crate::quote::visible;

/// A failure, by exit code.
#[derive(Debug)]
pub enum Failure {
    /// The command line is wrong: 2.
    Usage(Error),
    /// The work failed: 1.
    Work(Error),
    /// Something became slower than it may: 3.
    Slower(Error),
    /// The work failed, and every reason has been given already: 1.
    Told,
    /// Interrupted by Ctrl-C: 130.
    Interrupted,
}

/// What every command returns.
pub type Outcome = Result<(), Failure>;

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Work(error)
    }
}

impl Failure {
    /// Says what failed and returns the exit code.
    pub fn report(self) -> ExitCode {
        match self {
            Self::Usage(e) => {
                complain(&e);
                ExitCode::from(2)
            }
            Self::Work(e) => {
                complain(&e);
                ExitCode::from(1)
            }
            Self::Slower(e) => {
                complain(&e);
                ExitCode::from(3)
            }
            Self::Told => ExitCode::from(1),
            Self::Interrupted => ExitCode::from(130),
        }
    }
}

/// Prints `fullbore: message` on standard error; where that is closed nothing is left to tell.
pub fn complain(message: &(impl std::fmt::Display + ?Sized)) {
    let _ = writeln!(io::stderr(), "fullbore: {}", visible(&message.to_string()));
}

/// Prints a result on standard output. A reader that went away has seen what it wanted.
pub fn print_result(text: &str) -> Outcome {
    printed(io::stdout().write_all(text.as_bytes()))
}

/// Refuses to begin where standard input (0) or output (1) was closed: in its place is /dev/null, which takes and gives
/// without a word.
pub fn must_be_open(standard: u8) -> Outcome {
    if !start::was_closed(standard) {
        return Ok(());
    }
    let (name, way) = match standard {
        0 => ("standard input", "give it something to read"),
        _ => ("standard output", "send it somewhere"),
    };
    Err(Failure::Work(Error::system(name, Errno::BADF, way)))
}

/// What became of a result that was printed.
pub fn printed(result: io::Result<()>) -> Outcome {
    must_be_open(1)?;
    match result {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => Err(Failure::Work(Error::system(
            "the result cannot be printed",
            e,
            "send standard output somewhere else",
        ))),
        _ => Ok(()),
    }
}

/// Says in one line what is wrong with a command line (the command put in), or prints the help that was asked for.
pub fn explain_parsing(error: &clap::Error, typed: &[OsString]) -> ExitCode {
    use clap::error::ErrorKind::{DisplayHelp, DisplayVersion};
    if matches!(error.kind(), DisplayHelp | DisplayVersion) {
        return print_help(error);
    }
    if let Some(code) = crate::stand_in::explain_parsing(error) {
        return code;
    }
    let text = error.render().to_string();
    let message = one_line(&text);
    if crate::view::is_pv() {
        let words = crate::stand_in::getopt_words(error, "pv");
        return crate::view::misused_as_pv(&words.unwrap_or(message));
    }
    complain(&format!("{message}; see {}", crate::args::help_for(typed)));
    ExitCode::from(2)
}

/// Prints help, or the version. The reader may go away: `fullbore --help | head -1`.
fn print_help(help: &clap::Error) -> ExitCode {
    let voice = crate::stand_in::Voice::of_process();
    voice.take_signals();
    let result = if start::was_closed(1) {
        Err(Errno::BADF.into())
    } else {
        help.print().and_then(|()| io::stdout().flush())
    };
    let outcome = match result {
        Err(e) if !voice.is_own() => voice.output_failed("write error", &e),
        Err(e) if crate::view::is_pv() => return crate::view::failed_help_of_pv(e),
        other => printed(other),
    };
    outcome.map_or_else(Failure::report, |()| ExitCode::SUCCESS)
}

/// clap's message without its frame: the first line, and the indented items that belong to it.
fn one_line(text: &str) -> String {
    let text = text.strip_prefix("error: ").unwrap_or(text);
    let paragraph: Vec<_> = text
        .lines()
        .take_while(|line| !line.is_empty())
        .map(str::trim)
        .collect();
    let mut line = paragraph.join(" ");
    if let Some(tip) = text.lines().find_map(|l| l.trim().strip_prefix("tip: ")) {
        line = format!("{line}: {tip}");
    }
    // `what: why` also for messages that clap words as one clause.
    if line.contains(": ") {
        line
    } else {
        format!("command line: {line}")
    }
}

#[cfg(test)]
mod tests {
    use super::one_line;

    #[test]
    fn message_of_several_lines_becomes_one() {
        let text = "error: invalid value '12Q' for '--buf-size <SIZE>': unknown unit\n\nFor more information, try '--help'.\n";
        assert_eq!(
            one_line(text),
            "invalid value '12Q' for '--buf-size <SIZE>': unknown unit"
        );
        let text = "error: unexpected argument '--foo' found\n\nUsage: fullbore\n";
        assert_eq!(
            one_line(text),
            "command line: unexpected argument '--foo' found"
        );
    }
}
