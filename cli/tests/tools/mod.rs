//! What the tests of `cat`, `tee` and `yes` share: data, and inputs and outputs of every kind.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use crate::support::{BINARY, Links};

/// Seeded data of an odd period, in which every page also says where it belongs.
pub fn data(len: usize) -> Arc<Vec<u8>> {
    let mut state = 0x0123_4567_89AB_CDEF_u64;
    let mut bytes = Vec::with_capacity(len.max(1 << 20));
    while bytes.len() < len.min(1_000_003) {
        state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
        bytes.extend(state.to_be_bytes());
    }
    while bytes.len() < len {
        bytes.extend_from_within(..bytes.len().min(len - bytes.len()));
    }
    bytes.truncate(len);
    for (i, page) in bytes.chunks_exact_mut(4096).enumerate() {
        page[..8].copy_from_slice(&i.to_le_bytes());
    }
    Arc::new(bytes)
}

pub const KINDS: [&str; 4] = ["pipe", "file", "unix socket", "tcp socket"];

/// Something to read `data` from, fed by a thread where it does not hold it.
pub fn source(kind: &str, data: &Arc<Vec<u8>>) -> OwnedFd {
    let feed = |mut to: Box<dyn Write + Send>| {
        let data = data.clone();
        // A reader that ends early is the test's business.
        thread::spawn(move || drop(to.write_all(&data)));
    };
    match kind {
        "pipe" => {
            let (read_end, write_end) = crate::support::pipe();
            feed(Box::new(write_end));
            read_end.into()
        }
        "file" => {
            let mut file = tempfile::tempfile().expect("a file");
            file.write_all(data).expect("room for it");
            file.rewind().expect("its start");
            file.into()
        }
        "unix socket" => {
            let (ours, theirs) = UnixStream::pair().expect("sockets");
            feed(Box::new(ours));
            theirs.into()
        }
        "tcp socket" => {
            let (ours, theirs) = tcp_pair();
            feed(Box::new(ours));
            theirs.into()
        }
        other => panic!("{other}"),
    }
}

fn tcp_pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let ours = TcpStream::connect(listener.local_addr().expect("it")).expect("a connection");
    (ours, listener.accept().expect("a connection").0)
}

/// Something to write to, and a thread that compares what arrives with what is expected.
pub fn target(kind: &str, expected: &Arc<Vec<u8>>) -> (OwnedFd, JoinHandle<Result<(), String>>) {
    let compare = |from: Box<dyn Read + Send>| {
        let expected = expected.clone();
        thread::spawn(move || same(from, &expected))
    };
    match kind {
        "pipe" => {
            let (read_end, write_end) = crate::support::pipe();
            (write_end.into(), compare(Box::new(read_end)))
        }
        "unix socket" => {
            let (ours, theirs) = UnixStream::pair().expect("sockets");
            (theirs.into(), compare(Box::new(ours)))
        }
        "tcp socket" => {
            let (ours, theirs) = tcp_pair();
            (theirs.into(), compare(Box::new(ours)))
        }
        other => panic!("{other}"),
    }
}

/// Compares piece by piece, so that the first wrong bytes are named and little memory is used.
pub fn same(mut from: impl Read, expected: &[u8]) -> Result<(), String> {
    let mut buffer = vec![0; 256 << 10];
    let mut at = 0;
    loop {
        match from.read(&mut buffer) {
            Ok(0) if at == expected.len() => return Ok(()),
            Ok(0) => return Err(format!("{at} of {} bytes", expected.len())),
            Ok(n) if expected.get(at..at + n) == Some(&buffer[..n]) => at += n,
            Ok(n) => return Err(format!("wrong or too many bytes in {at}..{}", at + n)),
            Err(e) => return Err(format!("after {at} bytes: {e}")),
        }
    }
}

/// Asserts what a file holds.
pub fn check_file(path: &Path, expected: &[u8]) {
    let file = File::open(path).expect("the file");
    same(file, expected).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
}

/// A shell line with links of these names first in the path, or Debian's own programs.
pub fn shell(links: Option<&Links>, place: &Path, line: &str) -> (Vec<u8>, String, Option<i32>) {
    let path = match links {
        Some(links) => format!("{}:/usr/bin:/bin", links.path("").display()),
        None => "/usr/bin:/bin".to_owned(),
    };
    let done = Command::new("bash")
        .args(["-c", line])
        .current_dir(place)
        .env("PATH", path)
        .env("FULLBORE", BINARY)
        .env("LC_ALL", "C.UTF-8")
        .stdin(Stdio::null())
        .output()
        .expect("bash");
    (
        done.stdout,
        String::from_utf8_lossy(&done.stderr).into_owned(),
        done.status.code(),
    )
}

/// Asserts that the links do what the programs of the system do: output, messages, exit codes.
#[track_caller]
pub fn same_as_the_original(names: &[&str], lines: &[&str]) {
    let version = Command::new("cat").arg("--version").output();
    let gnu = version.is_ok_and(|v| v.stdout.starts_with(b"cat (GNU coreutils) 9."));
    if !gnu {
        crate::support::skip("the system's cat is not GNU's, version 9");
        return;
    }
    let links = Links::new(names);
    for line in lines {
        let place = || tempfile::tempdir().expect("a directory");
        let setup = "printf 'one\\n\\n\\n\\ttwo\\r\\n\\377\\001end' > f; mkdir d; ";
        let line = format!("{setup}{line}");
        let (here, there) = (place(), place());
        let ours = shell(Some(&links), here.path(), &line);
        let theirs = shell(None, there.path(), &line);
        assert_eq!(ours.1, theirs.1, "messages of: {line}");
        assert_eq!(ours.2, theirs.2, "exit code of: {line}");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(
            ours.0 == theirs.0,
            "output of: {line}\n{}\ninstead of\n{}",
            text(&ours.0),
            text(&theirs.0)
        );
    }
}
