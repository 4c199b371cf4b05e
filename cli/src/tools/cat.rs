//! `fullbore cat`: files after one another into standard output, by the way that copies least.

mod formatter;
#[cfg(test)]
mod tests;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, BorrowedFd};

use clap::{ArgAction, Args};
use fullbore::moving::{Pump, Side};
use fullbore_lab::sys::start;
use fullbore_sys::calls::{self, End};
use fullbore_sys::size::Size;
use fullbore_sys::wait::{Wait, Waiter};
use rustix::fs::{Advice, FileType, Stat};

use super::fallbacks::refused;
use super::stand_in::Voice;
use crate::output::failure::{Failure, Outcome, complain};
use crate::output::quote::quoted;
use formatter::{Format, Formatter, Number};

/// Write files, or standard input, one after another to standard output.
#[derive(Args, Debug)]
#[command(
    infer_long_args = true,
    args_override_self = true,
    disable_version_flag = true,
    version = concat!(env!("CARGO_PKG_VERSION"), env!("FULLBORE_COMMIT")),
    after_help = "Examples:\n  \
        fullbore cat one two > both\n  \
        some-program | fullbore cat --explain header - | another-program\n  \
        fullbore cat -A file"
)]
#[allow(clippy::struct_excessive_bools)]
pub struct CatArgs {
    /// Files; `-`, or none at all, is standard input
    #[arg(value_name = "FILE")]
    files: Vec<OsString>,
    /// The same as -vET
    #[arg(short = 'A', long)]
    show_all: bool,
    /// Number the lines that are not empty, whatever -n says
    #[arg(short = 'b', long)]
    number_nonblank: bool,
    /// The same as -vE
    #[arg(short = 'e')]
    show_ends_and_nonprinting: bool,
    /// Show $ at the end of each line
    #[arg(short = 'E', long)]
    show_ends: bool,
    /// Number all lines
    #[arg(short = 'n', long)]
    number: bool,
    /// Write one empty line for several in a row
    #[arg(short = 's', long)]
    squeeze_blank: bool,
    /// The same as -vT
    #[arg(short = 't')]
    show_tabs_and_nonprinting: bool,
    /// Show tabs as ^I
    #[arg(short = 'T', long)]
    show_tabs: bool,
    /// Nothing is ever held back, so this changes nothing
    #[arg(short = 'u')]
    unbuffered: bool,
    /// Show what cannot be printed with ^ and M-, except for line feed and tab
    #[arg(short = 'v', long)]
    show_nonprinting: bool,
    /// Say on standard error at the end which route each file took, and why
    #[arg(long)]
    explain: bool,
    /// Print version
    #[arg(long, action = ArgAction::Version)]
    version: Option<bool>,
}

impl CatArgs {
    fn format(&self) -> Format {
        let visible = [
            self.show_all,
            self.show_ends_and_nonprinting,
            self.show_tabs_and_nonprinting,
            self.show_nonprinting,
        ];
        Format {
            number: match (self.number_nonblank, self.number) {
                (true, _) => Number::NonBlank,
                (_, true) => Number::All,
                _ => Number::None,
            },
            show_ends: self.show_all || self.show_ends_and_nonprinting || self.show_ends,
            show_tabs: self.show_all || self.show_tabs_and_nonprinting || self.show_tabs,
            show_nonprinting: visible.contains(&true),
            squeeze_blank: self.squeeze_blank,
        }
    }
}

pub fn run(args: &CatArgs) -> Outcome {
    let voice = Voice::of_process();
    // Not SIGPIPE yet: splice raises it at the end of the input, too, when all has been delivered.
    voice.check_output("standard output")?;
    let out = rustix::stdio::stdout();
    let format = args.format();
    let mut cat = Cat {
        voice,
        out,
        regular_output: rustix::fs::fstat(out).ok().filter(is_regular),
        formatter: (!format.changes_nothing()).then(|| Formatter::new(format)),
        all_well: true,
        ways: Vec::new(),
    };
    let standard_input = ["-".into()];
    let files = if args.files.is_empty() {
        &standard_input
    } else {
        &args.files[..]
    };
    let written = files.iter().try_for_each(|name| cat.file(name));
    let written = written.and_then(|()| cat.finish());
    if args.explain {
        for way in &cat.ways {
            complain(&format!("cat: {way}"));
        }
    }
    if let Err(e) = written {
        voice.output_failed("write error", &e)?;
    }
    if start::was_closed(0) && !voice.is_own() && files.iter().any(|name| name == "-") {
        let closed = rustix::io::Errno::BADF.into();
        voice.complain("closing standard input", &closed, "");
    }
    if cat.all_well {
        Ok(())
    } else {
        Err(Failure::Reported)
    }
}

struct Cat {
    voice: Voice,
    out: BorrowedFd<'static>,
    regular_output: Option<Stat>,
    formatter: Option<Formatter>,
    /// No input has failed yet.
    all_well: bool,
    /// How each file went, for people.
    ways: Vec<String>,
}

/// Bytes read at a time where they are looked at, or where there are few.
const PIECE: usize = 128 << 10;
/// A file of at most so many bytes is read and written: nothing is cheaper.
const SMALL: u64 = 64 << 10;

impl Cat {
    /// Writes one file. An input that fails is reported and passed over; the error is one of the output.
    fn file(&mut self, name: &OsStr) -> io::Result<()> {
        let opened;
        let input = if name == "-" {
            if start::was_closed(0) {
                self.input_failed(name, &rustix::io::Errno::BADF.into());
                return Ok(());
            }
            rustix::stdio::stdin()
        } else {
            match File::open(name) {
                Ok(file) => {
                    opened = file;
                    opened.as_fd()
                }
                Err(e) => {
                    self.input_failed(name, &e);
                    return Ok(());
                }
            }
        };
        let stat = match rustix::fs::fstat(input) {
            Ok(stat) => stat,
            Err(e) => {
                self.input_failed(name, &e.into());
                return Ok(());
            }
        };
        if self.is_output(input, &stat) {
            let message = format!("{}: input file is output file", quoted(name));
            self.voice.say(&message, "write to another file");
            self.all_well = false;
            return Ok(());
        }
        if is_regular(&stat) {
            let _ = rustix::fs::fadvise(input, 0, None, Advice::Sequential); // only a hint
        }
        match self.formatter.take() {
            None => self.copy(name, input, &stat),
            Some(mut formatter) => {
                let done = self.format(name, input, &mut formatter);
                self.formatter = Some(formatter);
                done
            }
        }
    }

    /// Whether writing would feed what is still to be read, without end.
    fn is_output(&self, input: BorrowedFd<'_>, stat: &Stat) -> bool {
        self.regular_output.as_ref().is_some_and(|out| {
            (out.st_dev, out.st_ino) == (stat.st_dev, stat.st_ino)
                && rustix::fs::tell(input).is_ok_and(|at| at < stat.st_size as u64)
        })
    }

    fn copy(&mut self, name: &OsStr, input: BorrowedFd<'_>, stat: &Stat) -> io::Result<()> {
        let (mut pump, reason) = self.pump(input, stat);
        let mut bytes = 0;
        let done = loop {
            match pump.step(1 << 30) {
                Ok(0) => break Ok(()),
                Ok(n) => bytes += n as u64,
                Err(e) => break Err(e),
            }
        };
        let why = match (refused(pump.fallbacks()), reason) {
            (Some(refused), _) => format!(", {refused}"),
            (None, Some(reason)) => format!(", {reason}"),
            (None, None) => String::new(),
        };
        let way = format!("{}: {} by {}{why}", quoted(name), Size(bytes), pump.route());
        self.ways.push(way);
        match done {
            Err(e) if pump.blame() == Side::Input => {
                self.input_failed(name, &e);
                Ok(())
            }
            other => other,
        }
    }

    fn pump<'fd>(
        &self,
        input: BorrowedFd<'fd>,
        stat: &Stat,
    ) -> (
        Pump<BorrowedFd<'fd>, BorrowedFd<'static>>,
        Option<&'static str>,
    ) {
        // To move nothing but what was typed, splice would have pages ready for all that fits into a pipe.
        let copying = if input.is_terminal() {
            Some("a terminal")
        } else if is_regular(stat) && (1..=SMALL).contains(&(stat.st_size as u64)) {
            Some("a small file")
        } else {
            None
        };
        match copying {
            Some(_) => (Pump::copying(input, self.out, SMALL as usize), copying),
            None => (Pump::new(input, self.out), None),
        }
    }

    fn format(
        &mut self,
        name: &OsStr,
        input: BorrowedFd<'_>,
        formatter: &mut Formatter,
    ) -> io::Result<()> {
        let mut waiter = Waiter::new(Wait::Block, End::Read);
        let mut buffer = vec![0; PIECE];
        let mut out = Vec::with_capacity(PIECE);
        let mut bytes = 0;
        loop {
            match waiter.until_ready(input, || calls::read(input, &mut buffer)) {
                Ok(0) => break,
                Ok(n) => {
                    formatter.push(&buffer[..n], &mut out);
                    // All of it, so that nobody waits for what was typed.
                    write_all(self.out, &out)?;
                    out.clear();
                    bytes += n as u64;
                }
                Err(e) => {
                    self.input_failed(name, &e);
                    break;
                }
            }
        }
        let way = "read and write, an option changes the bytes";
        self.ways
            .push(format!("{}: {} by {way}", quoted(name), Size(bytes)));
        Ok(())
    }

    fn input_failed(&mut self, name: &OsStr, error: &io::Error) {
        self.voice.complain_of_file(name, error);
        self.all_well = false;
    }

    /// Writes what was held back.
    fn finish(&mut self) -> io::Result<()> {
        let mut rest = Vec::new();
        if let Some(formatter) = &mut self.formatter {
            formatter.finish(&mut rest);
        }
        write_all(self.out, &rest)
    }
}

fn is_regular(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
}

/// Writes all bytes with write(2). A descriptor that is non-blocking, because others who share it made it so, is waited
/// for.
pub fn write_all(out: BorrowedFd<'_>, mut bytes: &[u8]) -> io::Result<()> {
    let mut waiter = Waiter::new(Wait::Block, End::Write);
    while !bytes.is_empty() {
        match waiter.until_ready(out, || calls::write(out, bytes))? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            n => bytes = &bytes[n..],
        }
    }
    Ok(())
}
