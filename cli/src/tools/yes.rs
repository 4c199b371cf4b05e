//! `fullbore yes`: the same line for ever, by reference to pages that hold it many times.

use std::ffi::OsString;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;

use clap::{ArgAction, Args};
use fullbore::Constant;

use super::cat::write_all;
use super::stand_in::Voice;
use crate::output::failure::{Outcome, complain};

/// Print a line, or `y`, again and again until the reader goes away.
#[derive(Args, Debug)]
#[command(
    infer_long_args = true,
    args_override_self = true,
    disable_version_flag = true,
    version = concat!(env!("CARGO_PKG_VERSION"), env!("FULLBORE_COMMIT")),
    after_help = "Examples:\n  \
        fullbore yes | head -3\n  \
        fullbore yes 'a line' | head -c 1G > lines\n  \
        fullbore yes --explain | fullbore read --bytes 100G --read-with splice"
)]
pub struct YesArgs {
    /// Words of the line, put together with spaces [default: y]
    #[arg(value_name = "STRING")]
    words: Vec<OsString>,
    /// Say on standard error at the end which route the bytes took, and why
    #[arg(long)]
    explain: bool,
    /// Print version
    #[arg(long, action = ArgAction::Version)]
    version: Option<bool>,
}

/// Written by hand before anything is prepared: most readers want a line or two.
const BY_HAND: usize = 1 << 20;
/// Bytes of one write(2), at least, and a whole number of lines.
const PIECE: usize = 32 << 10;

pub fn run(args: &YesArgs) -> Outcome {
    let voice = Voice::of_process();
    voice.take_signals();
    let name = "standard output";
    voice.check_output(name)?;
    let line = line_of(&args.words);
    let mut constant = Constant::new(&line);
    let out = rustix::stdio::stdout();
    let mut way = "write, the reader wanted less than 1MiB".to_owned();
    let result = by_hand(&line, out).and_then(|()| {
        // This reader wants more. What the pipe holds is references to the same few pages, however much it is.
        if fullbore_sys::calls::is_pipe(out) {
            let _ = fullbore_sys::capacity::largest(out); // what is refused is not needed
        }
        let result = constant.write_all(out, u64::MAX);
        way = fullbore_lab::worker::writer::path_of(&constant);
        result
    });
    if args.explain {
        complain(&format!("yes: {way}"));
    }
    result.or_else(|e| voice.output_failed(name, &e))
}

fn line_of(words: &[OsString]) -> Vec<u8> {
    let mut line = match words {
        [] => b"y".to_vec(),
        words => words
            .iter()
            .map(|w| w.as_bytes())
            .collect::<Vec<_>>()
            .join(&b' '),
    };
    line.push(b'\n');
    line
}

/// Writes whole lines, so that a constant can begin after them.
fn by_hand(line: &[u8], out: BorrowedFd<'_>) -> std::io::Result<()> {
    let piece = line.repeat(PIECE.div_ceil(line.len()));
    let mut written = 0;
    while written < BY_HAND {
        write_all(out, &piece)?;
        written += piece.len();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_become_one_line() {
        let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        assert_eq!(line_of(&[]), b"y\n");
        assert_eq!(line_of(&words(&["a", "b c", ""])), b"a b c \n");
    }
}
