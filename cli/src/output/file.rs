//! Where a picture or a page goes.

use std::io::{self, Write};
use std::path::Path;

use fullbore_lab::sys::start;
use fullbore_sys::Error;

use super::failure::{Failure, Outcome, printed};
use super::saved;

/// The name of standard output where a file may be named.
pub const STDOUT: &str = "-";

/// Writes into a file, or to standard output where the file is `-`. Where that fails, an older file stays.
pub fn write(file: &Path, content: impl AsRef<[u8]>) -> Outcome {
    if file.as_os_str() == STDOUT {
        let mut out = io::stdout().lock();
        return printed(out.write_all(content.as_ref()).and_then(|()| out.flush()));
    }
    start::ignore_file_size_signal();
    saved::write(file, content).map_err(|e| {
        Failure::Work(Error::system(
            format!("{} cannot be written", file.display()),
            e,
            "name a file in a directory you may write, or - for standard output",
        ))
    })
}
