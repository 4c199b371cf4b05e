//! The pair: both sides succeed, or the one that was refused something says so, and a reader that got less says that.

use std::process::{Command, Stdio};

use crate::support::fullbore;
use crate::support::kinds::contents;
use crate::{Extent, Refused, each, ended, ended_well};

/// Writer and reader, and which of both is refused something.
const JOBS: &[(&str, &str, Side)] = &[
    ("write", "read", Side::Writer),
    ("write --with vmsplice", "read", Side::Writer),
    ("write --with fresh", "read", Side::Writer),
    ("write --with cow", "read", Side::Writer),
    ("write --with auto", "read", Side::Writer),
    ("write --with fat", "read", Side::Writer),
    ("write --with reuse --ahead 4M", "read", Side::Writer),
    ("write --with fresh --ahead 300K", "read", Side::Writer),
    ("write --with cow --ahead 300K", "read", Side::Writer),
    ("write --with fat --ahead 300K", "read", Side::Writer),
    ("write --with tee", "read --write-with tee", Side::Writer),
    ("write --wait poll", "read", Side::Writer),
    ("write", "read", Side::Reader),
    ("write", "read --wait adaptive", Side::Reader),
    ("write", "read --with splice", Side::Reader),
    ("write", "read --with relay", Side::Reader),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Writer,
    Reader,
}

const BYTES: &str = "1M";

fn check(job: usize, refused: Refused) -> Result<(), String> {
    let (writer, reader, side) = JOBS[job];
    // Bytes that nobody copies cannot be verified.
    let verify = match reader.contains("--with splice") || reader.contains("--with relay") {
        true => "",
        false => "--verify",
    };
    let line = |side: &str| fullbore(&format!("{side} --bytes {BYTES} {verify}"));
    let (mut writes, mut reads) = (line(writer), line(reader));
    match side {
        Side::Writer => refused.apply(&mut writes),
        Side::Reader => refused.apply(&mut reads),
    }
    let (read_end, write_end) = std::io::pipe().expect("a pipe");
    let (mut reads, reader_said) = started(reads, read_end, Stdio::null());
    let (mut writes, writer_said) = started(writes, Stdio::null(), write_end);
    let result = |name: &str, child, said, is_refused: bool| {
        let status = ended(child);
        let said = String::from_utf8_lossy(&contents(said)).into_owned();
        ended_well(name, status, &said, is_refused && refused.is_mute())
    };
    let read = result(reader, &mut reads, reader_said, side == Side::Reader);
    let written = result(writer, &mut writes, writer_said, side == Side::Writer);
    match (written?, read?) {
        (true, true) | (false, false) => Ok(()),
        // A reader that goes away is no failure.
        (true, false) if side == Side::Reader => Ok(()),
        (writer_is_well, reader_is_well) => Err(format!(
            "{writer} | {reader}: well: {writer_is_well}, {reader_is_well}"
        )),
    }
}

fn started(
    mut command: Command,
    stdin: impl Into<Stdio>,
    stdout: impl Into<Stdio>,
) -> (std::process::Child, std::fs::File) {
    let said = tempfile::tempfile().expect("a file");
    command
        .stdin(stdin)
        .stdout(stdout)
        .stderr(said.try_clone().expect("a copy"));
    (command.spawn().expect("a child"), said)
}

#[test]
fn pairs_verify_or_say_why_not() {
    each(Extent::Some, JOBS.len(), check);
}

#[test]
#[ignore = "every errno: minutes"]
fn pairs_verify_or_say_why_not_whatever_the_errno() {
    each(Extent::All, JOBS.len(), check);
}
