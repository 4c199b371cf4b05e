//! How a command fails: on standard error one line, and an exit code.

use std::io::{self, Write};
use std::process::ExitCode;

use fullbore_lab::sys::start;
use fullbore_sys::Error;
use rustix::io::Errno;

use fullbore_lab::show::escape::visible;

/// A failure, by exit code.
#[derive(Debug)]
pub enum Failure {
    /// The command line is wrong: 2.
    Usage(Error),
    /// The work failed: 1.
    Work(Error),
    /// Something became slower than it may: 3.
    Slower(Error),
    /// The work was done, and nothing can be judged by it: 4.
    Unjudged(Error),
    /// The work failed, and every reason has been given already: 1.
    Reported,
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
        let (error, code) = match self {
            Self::Work(e) => (Some(e), 1),
            Self::Usage(e) => (Some(e), 2),
            Self::Slower(e) => (Some(e), 3),
            Self::Unjudged(e) => (Some(e), 4),
            Self::Reported => (None, 1),
            Self::Interrupted => (None, 130),
        };
        if let Some(error) = error {
            complain(&error);
        }
        ExitCode::from(code)
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
