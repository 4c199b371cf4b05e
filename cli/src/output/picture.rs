//! Where a picture goes.

use std::path::Path;

use fullbore_lab::sys::start;
use fullbore_sys::Error;

use super::failure::{Failure, Outcome, print_result};
use super::saved;

/// Writes a picture into a file, or to standard output where the file is `-`. Where that fails, an older picture stays.
pub fn write(file: &Path, picture: &str) -> Outcome {
    if file.as_os_str() == "-" {
        return print_result(picture);
    }
    start::ignore_file_size_signal();
    saved::write(file, picture).map_err(|e| {
        Failure::Work(Error::system(
            format!("{} cannot be written", file.display()),
            e,
            "name a file that can, or - for standard output",
        ))
    })
}
