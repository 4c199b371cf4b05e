//! `fullbore tee`: standard input into standard output and files, copied by nobody.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use clap::{ArgAction, Args};
use fullbore::moving::Fanout;
use fullbore_lab::sys::start;
use fullbore_sys::size::Size;

use super::fallbacks::refused;
use super::stand_in::Voice;
use crate::output::failure::{Failure, Outcome, complain};
use crate::output::quote::quoted;

/// Write standard input to standard output and to files.
#[derive(Args, Debug)]
#[command(
    infer_long_args = true,
    args_override_self = true,
    disable_version_flag = true,
    version = concat!(env!("CARGO_PKG_VERSION"), env!("FULLBORE_COMMIT")),
    after_help = "Examples:\n  \
        some-program | fullbore tee log | another-program\n  \
        some-program | fullbore tee -a log >(gzip > log.gz) | sha256sum\n  \
        some-program | fullbore tee --output-error=exit --explain one two > three"
)]
pub struct TeeArgs {
    /// Files to write; `-` is a file of that name
    #[arg(value_name = "FILE")]
    files: Vec<OsString>,
    /// Append to the files instead of overwriting them
    #[arg(short = 'a', long)]
    append: bool,
    /// Ignore Ctrl-C
    #[arg(short = 'i', long)]
    ignore_interrupts: bool,
    /// The same as --output-error=warn-nopipe
    #[arg(short = 'p', overrides_with = "output_error")]
    pipe_errors_do_not_matter: bool,
    /// What to do about an output that fails: warn, warn-nopipe, exit, exit-nopipe; the latter of each do not mind a pipe
    /// whose reader goes away [default: warn, and end with the first pipe whose reader goes away]
    #[arg(long, value_name = "MODE", num_args = 0..=1, require_equals = true,
        default_missing_value = "warn-nopipe", value_parser = mode, overrides_with = "pipe_errors_do_not_matter")]
    output_error: Option<Mode>,
    /// Say on standard error at the end which route the bytes took, and why
    #[arg(long)]
    explain: bool,
    /// Print version
    #[arg(long, action = ArgAction::Version)]
    version: Option<bool>,
}

/// What to do about an output that fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Mode {
    /// Warn; end with the first pipe whose reader goes away: called as `tee`, by SIGPIPE.
    #[default]
    Unsaid,
    Warn,
    WarnNopipe,
    Exit,
    ExitNopipe,
}

/// A mode by its name, or the beginning of no other's.
fn mode(text: &str) -> Result<Mode, &'static str> {
    let modes = [
        ("warn", Mode::Warn),
        ("warn-nopipe", Mode::WarnNopipe),
        ("exit", Mode::Exit),
        ("exit-nopipe", Mode::ExitNopipe),
    ];
    let exact = modes.iter().find(|(name, _)| *name == text);
    let mut longer = modes.iter().filter(|(name, _)| name.starts_with(text));
    match (exact, longer.next(), longer.next()) {
        (Some(found), ..) | (None, Some(found), None) => Ok(found.1),
        _ => Err("use warn, warn-nopipe, exit or exit-nopipe"),
    }
}

impl Mode {
    fn exits(self) -> bool {
        matches!(self, Self::Exit | Self::ExitNopipe)
    }

    /// Whether a pipe without reader is worth a word.
    fn minds_pipes(self) -> bool {
        matches!(self, Self::Exit | Self::Warn)
    }

    /// Whether the end of a reader is to be noticed while there is no input: the original looks out for it in these modes.
    fn watches(self) -> bool {
        matches!(self, Self::WarnNopipe | Self::ExitNopipe)
    }
}

pub fn run(args: &TeeArgs) -> Outcome {
    let voice = Voice::of_process();
    let mode = match (args.output_error, args.pipe_errors_do_not_matter) {
        (Some(mode), _) => mode,
        (None, true) => Mode::WarnNopipe,
        (None, false) => Mode::Unsaid,
    };
    if mode == Mode::Unsaid {
        voice.take_signals();
    }
    if args.ignore_interrupts {
        start::ignore_interrupts();
    }
    let mut tee = Tee {
        voice,
        mode,
        all_well: true,
        ended: false,
    };
    let mut files = Vec::new();
    for name in &args.files {
        let opened = File::options()
            .write(true)
            .create(true)
            .append(args.append)
            .truncate(!args.append)
            .open(name);
        match opened {
            Ok(file) => files.push((name.as_os_str(), file)),
            Err(e) => tee.output_failed(name, &e)?,
        }
    }
    tee.copy(&files, args.explain)?;
    if tee.all_well {
        Ok(())
    } else {
        Err(Failure::Reported)
    }
}

struct Tee {
    voice: Voice,
    mode: Mode,
    all_well: bool,
    /// A reader has gone, and with it the reason to go on.
    ended: bool,
}

impl Tee {
    fn copy(&mut self, files: &[(&OsStr, File)], explain: bool) -> Outcome {
        let mut closed = start::was_closed(1).then(|| OsStr::new("standard output"));
        let standard = (OsStr::new("standard output"), rustix::stdio::stdout());
        let outputs: Vec<(&OsStr, BorrowedFd<'_>)> = closed
            .is_none()
            .then_some(standard)
            .into_iter()
            .chain(files.iter().map(|(name, file)| (*name, file.as_fd())))
            .collect();
        if start::was_closed(0) {
            let closed = rustix::io::Errno::BADF.into();
            self.input_failed(&closed)?;
            if !self.voice.is_own() {
                self.voice.complain("standard input", &closed, "");
            }
            return Ok(());
        }
        let input = rustix::stdio::stdin();
        if outputs.is_empty() {
            // Only a closed standard output, which fails as soon as there is something to write.
            return match fullbore_sys::calls::read(input, &mut [0]) {
                Ok(0) => Ok(()),
                Ok(_) => self.output_failed(standard.0, &rustix::io::Errno::BADF.into()),
                Err(e) => self.input_failed(&e),
            };
        }
        let mut fanout = Fanout::new(input, outputs.iter().map(|(_, fd)| *fd));
        if self.mode.watches() {
            fanout = fanout.watching();
        }
        let mut bytes = 0;
        let done = loop {
            let step = match fanout.step(usize::MAX) {
                Ok(step) => step,
                Err(e) => break self.input_failed(&e),
            };
            bytes += step.bytes as u64;
            if step.bytes > 0
                && let Some(name) = closed.take()
            {
                self.output_failed(name, &rustix::io::Errno::BADF.into())?;
            }
            for failed in &step.failed {
                self.output_failed(outputs[failed.output].0, &failed.error)?;
            }
            let at_end = step.bytes == 0 && step.failed.is_empty();
            if at_end || self.ended || fanout.live() == 0 {
                break Ok(());
            }
        };
        if explain {
            for (i, (name, _)) in outputs.iter().enumerate() {
                let route = fanout.route(i);
                let refused = refused(fanout.fallbacks(i));
                let reason = refused.map(|r| format!(", {r}")).unwrap_or_default();
                let (name, bytes) = (quoted(name), Size(bytes));
                complain(&format!("tee: {name}: {bytes} by {route}{reason}"));
            }
        }
        done
    }

    /// The others go on, unless the mode says otherwise.
    fn output_failed(&mut self, name: &OsStr, error: &io::Error) -> Outcome {
        if error.kind() == io::ErrorKind::BrokenPipe && !self.mode.minds_pipes() {
            // SIGPIPE ends a stand-in, unless whoever started it has it ignored.
            self.ended |= self.mode == Mode::Unsaid && self.voice.is_own();
            return Ok(());
        }
        self.voice.complain_of_file(name, error);
        self.all_well = false;
        if self.mode.exits() {
            return Err(Failure::Reported);
        }
        Ok(())
    }

    fn input_failed(&mut self, error: &io::Error) -> Outcome {
        let what = "read error";
        self.voice
            .complain(what, error, "give it another standard input");
        self.all_well = false;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_may_be_shortened_as_long_as_they_are_clear() {
        assert_eq!(mode("warn"), Ok(Mode::Warn));
        assert_eq!(mode("warn-"), Ok(Mode::WarnNopipe));
        assert_eq!(mode("exit"), Ok(Mode::Exit));
        assert_eq!(mode("exit-nopipe"), Ok(Mode::ExitNopipe));
        assert!(mode("exi").is_err() && mode("").is_err() && mode("never").is_err());
    }
}
