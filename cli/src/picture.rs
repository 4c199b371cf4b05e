//! Where a picture goes.

use std::path::Path;

use fullbore::Error;

use crate::failure::{Failure, Outcome, print_result};

/// Writes a picture into a file, or to standard output where the file is `-`.
pub fn write(file: &Path, picture: &str) -> Outcome {
    if file.as_os_str() == "-" {
        return print_result(picture);
    }
    std::fs::write(file, picture).map_err(|e| {
        Failure::Work(Error::system(
            format!("{} cannot be written", file.display()),
            e,
            "name a file that can, or - for standard output",
        ))
    })
}
