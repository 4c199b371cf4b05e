//! How results that are no measurements leave.

use std::io::{self, Write};
use std::path::Path;

use anstream::{AutoStream, ColorChoice};
use fullbore::Error;
use serde::Serialize;

use crate::args::Color;
use crate::failure::{Failure, Outcome, print_result, printed};

/// Prints a result as one JSON document.
pub fn print_json(result: &impl Serialize) -> Outcome {
    let text = serde_json::to_string(result)
        .map_err(|e| Error::system("the result cannot be printed", io::Error::from(e), ""))?;
    print_result(&format!("{text}\n"))
}

/// Prints text that may have colours.
pub fn print(text: &str, color: Color) -> Outcome {
    let choice = match color {
        Color::Always => ColorChoice::Always,
        Color::Never => ColorChoice::Never,
        Color::Auto => AutoStream::choice(&io::stdout()),
    };
    let mut out = AutoStream::new(io::stdout(), choice);
    printed(out.write_all(text.as_bytes()))
}

/// Writes a picture into a file, or to standard output where the file is `-`.
pub fn write_picture(file: &Path, picture: &str) -> Outcome {
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
