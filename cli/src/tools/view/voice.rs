//! Who speaks: `fullbore view`, or `pv` where it is called through a link of that name.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use fullbore_sys::Error;

use fullbore_lab::show::escape::visible;

/// What may go wrong, as pv's exit code counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Remote control, or the file for the process ID.
    Remote = 1,
    /// A file could not be opened.
    Access = 2,
    /// An input is the output.
    Ouroboros = 4,
    /// Reading or writing failed.
    Transfer = 16,
    /// Ended by a signal.
    Signal = 32,
    /// The command line is wrong; pv calls that memory.
    Usage = 64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViewVoice {
    Fullbore,
    Pv,
}

/// A complaint: what, why, and what to do about it (which pv does not say).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complaint {
    pub fault: Fault,
    what: String,
    why: String,
    what_to_do: String,
}

impl Complaint {
    pub fn new(
        fault: Fault,
        what: impl Into<String>,
        why: impl Into<String>,
        what_to_do: impl Into<String>,
    ) -> Self {
        Self {
            fault,
            what: what.into(),
            why: why.into(),
            what_to_do: what_to_do.into(),
        }
    }

    pub fn usage(
        what: impl Into<String>,
        why: impl Into<String>,
        what_to_do: impl Into<String>,
    ) -> Self {
        Self::new(Fault::Usage, what, why, what_to_do)
    }

    pub fn system(
        fault: Fault,
        what: impl Into<String>,
        error: impl Into<io::Error>,
        what_to_do: impl Into<String>,
    ) -> Self {
        let text = Error::system("", error, "").to_string();
        let why = text.trim_start_matches(": ").to_owned();
        Self::new(fault, what, why, what_to_do)
    }
}

impl ViewVoice {
    /// By the name that the program was called by.
    pub fn of_this_process() -> Self {
        let name = std::env::args_os().next().unwrap_or_default();
        match Path::new(&name).file_name() {
            Some(name) if name == OsStr::new("pv") => Self::Pv,
            _ => Self::Fullbore,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Fullbore => "fullbore",
            Self::Pv => "pv",
        }
    }

    /// The line, without its end.
    pub fn line(self, complaint: &Complaint) -> String {
        let Complaint {
            what,
            why,
            what_to_do,
            ..
        } = complaint;
        let line = match self {
            Self::Fullbore if !what_to_do.is_empty() => {
                format!("fullbore: {what}: {why}; {what_to_do}")
            }
            _ => format!("{}: {what}: {why}", self.name()),
        };
        visible(&line).into_owned()
    }

    /// The exit code for the faults (their sum).
    pub fn exit_code(self, faults: u8) -> ExitCode {
        ExitCode::from(match self {
            Self::Pv => faults,
            Self::Fullbore if faults & Fault::Usage as u8 != 0 => 2,
            Self::Fullbore => u8::from(faults != 0),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pv_is_brief_and_fullbore_says_what_to_do() {
        let e = io::Error::from_raw_os_error(2);
        let complaint = Complaint::system(Fault::Access, "failed to read file: x", e, "check it");
        assert_eq!(
            ViewVoice::Pv.line(&complaint),
            "pv: failed to read file: x: No such file or directory"
        );
        assert_eq!(
            ViewVoice::Fullbore.line(&complaint),
            "fullbore: failed to read file: x: No such file or directory; check it"
        );
    }

    #[test]
    fn exit_codes_are_pv_s_or_ours() {
        let faults = Fault::Access as u8 | Fault::Transfer as u8;
        assert_eq!(ViewVoice::Pv.exit_code(faults), ExitCode::from(18));
        assert_eq!(ViewVoice::Fullbore.exit_code(faults), ExitCode::from(1));
        assert_eq!(
            ViewVoice::Fullbore.exit_code(Fault::Usage as u8),
            ExitCode::from(2)
        );
        assert_eq!(ViewVoice::Fullbore.exit_code(0), ExitCode::SUCCESS);
    }
}
