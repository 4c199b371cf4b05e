//! How a command fails: on standard error one line, and an exit code.

use std::io::{self, Write};
use std::process::ExitCode;

use fullbore::Error;
use fullbore_lab::sys::start;
use rustix::io::Errno;

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
    let _ = writeln!(io::stderr(), "fullbore: {}", safe(&message.to_string()));
}

/// Names and values go into messages as they were given. What could move the cursor, or turn the direction of writing, is
/// shown as `\u{…}`.
fn safe(message: &str) -> String {
    let mut out = String::with_capacity(message.len());
    for c in message.chars() {
        match c {
            '\t' => out.push(c),
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => out.extend(c.escape_unicode()),
            c if c.is_control() => out.extend(c.escape_default()),
            c => out.push(c),
        }
    }
    out
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

/// Says in one line what is wrong with a command line, or prints the help that was asked for.
pub fn explain_parsing(error: &clap::Error) -> ExitCode {
    use clap::error::ErrorKind::{DisplayHelp, DisplayVersion};
    if matches!(error.kind(), DisplayHelp | DisplayVersion) {
        // The reader of the help may have gone away: `fullbore --help | head -1`.
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    if let Some(code) = crate::stand_in::explain_parsing(error) {
        return code;
    }
    let text = error.render().to_string();
    let message = one_line(&text);
    if crate::view::is_pv() {
        return crate::view::misused_as_pv(&message);
    }
    complain(&format!("{message}; see fullbore --help"));
    ExitCode::from(2)
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
    use super::{one_line, safe};

    #[test]
    fn message_cannot_move_the_cursor_or_turn_the_writing() {
        let text = "a\tb\u{1b}[2J\n\u{9b}1m\u{202e}ä";
        assert_eq!(safe(text), "a\tb\\u{1b}[2J\\n\\u{9b}1m\\u{202e}ä");
    }

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
