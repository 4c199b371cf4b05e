//! Seeded data, its check, files and terminals.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::thread::{self, JoinHandle};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};

use crate::support::{Links, Run, To, command, fullbore, start};

pub const MIB: usize = 1 << 20;

/// 256 MiB that do not repeat, the same in every run.
pub fn seeded() -> &'static [u8] {
    static DATA: OnceLock<Vec<u8>> = OnceLock::new();
    DATA.get_or_init(|| {
        let mut data = vec![0; 256 * MIB];
        let mut state = 0x5EED_u64;
        for word in data.chunks_exact_mut(8) {
            state = state
                .wrapping_mul(0x5851_F42D_4C95_7F2D)
                .wrapping_add(0x1405_7B7E_F767_814F);
            word.copy_from_slice(&(state ^ (state >> 29)).to_le_bytes());
        }
        data
    })
}

/// Compares what comes with what should, while it comes; returns how much it was.
pub fn checker(mut from: impl Read + Send + 'static, expected: &'static [u8]) -> JoinHandle<usize> {
    thread::spawn(move || {
        let mut buffer = vec![0; MIB];
        let mut at = 0;
        loop {
            // A terminal whose other side is gone reports EIO.
            let n = from.read(&mut buffer).unwrap_or(0);
            if n == 0 {
                return at;
            }
            assert!(
                at + n <= expected.len(),
                "too much: {} of {}",
                at + n,
                expected.len()
            );
            assert!(
                buffer[..n] == expected[at..at + n],
                "other bytes between {at} and {}",
                at + n
            );
            at += n;
        }
    })
}

/// A file without a name that holds `data`.
pub fn file_of(data: &[u8]) -> File {
    let mut file = tempfile::tempfile().expect("a file");
    file.write_all(data).expect("its data");
    file.rewind().expect("its beginning");
    file
}

pub fn contents(mut file: File) -> Vec<u8> {
    let mut got = Vec::new();
    file.rewind()
        .and_then(|()| file.read_to_end(&mut got))
        .expect("its contents");
    got
}

/// Both sides of a terminal that changes no byte.
pub fn raw_terminal() -> (File, File) {
    let (ours, theirs) = terminal();
    let mut modes = tcgetattr(&theirs).expect("its modes");
    modes.make_raw();
    tcsetattr(&theirs, OptionalActions::Now, &modes).expect("raw mode");
    (ours, theirs)
}

/// Both sides of a terminal as a person has it.
pub fn terminal() -> (File, File) {
    let ours =
        openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).expect("a terminal");
    grantpt(&ours).expect("its owner");
    unlockpt(&ours).expect("its other side");
    let name = ptsname(&ours, Vec::new()).expect("its name");
    let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY | rustix::fs::OFlags::CLOEXEC;
    let theirs = rustix::fs::open(name, flags, rustix::fs::Mode::empty()).expect("its other side");
    (File::from(ours), File::from(theirs))
}

/// All that is written to a terminal until its other side is closed.
pub fn screen(mut ours: File) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut shown = Vec::new();
        let mut buffer = [0; 4096];
        while let Ok(n @ 1..) = ours.read(&mut buffer) {
            shown.extend(&buffer[..n]);
        }
        String::from_utf8_lossy(&shown).into_owned()
    })
}

/// Through a link named `pv`.
pub fn as_pv(line: &str) -> Run {
    let links = Links::new(&["pv"]);
    start(command(links.path("pv"), line), Stdio::null(), To::Captured).finish()
}

pub fn view(line: &str) -> Command {
    fullbore(&format!("view {line}"))
}

/// Runs `view` from this to that and asserts success.
#[track_caller]
pub fn move_all(line: &str, from: impl Into<Stdio>, to: impl Into<OwnedFd>) -> Run {
    start(view(line), from, Stdio::from(to.into())).finish()
}

/// Debian's pv, if it is here.
pub fn debian_pv() -> Result<(), String> {
    match Command::new("pv").arg("--version").output() {
        Ok(out) if out.stdout.starts_with(b"pv ") => Ok(()),
        Ok(_) => Err("the pv of this machine is not Debian's".into()),
        Err(why) => Err(format!("pv does not run: {why}")),
    }
}
