//! What the tests share, those inside the library included.

use std::fmt;
use std::io::{self, Write};

/// Says on the terminal, past the test harness's capture, that a test cannot show what it is for.
pub fn skip(test: &str, reason: impl fmt::Display) {
    // Only the print macros are captured; a write to the handle is not.
    let _ = io::stderr().write_all(format!("SKIPPED {test}: {reason}\n").as_bytes());
}
