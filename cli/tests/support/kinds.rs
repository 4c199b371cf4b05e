//! Seeded data, and inputs and outputs of every kind that carry it.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::sync::OnceLock;
use std::thread::{self, JoinHandle};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};

pub const MIB: usize = 1 << 20;

/// What tools read from and write to.
pub const KINDS: [&str; 4] = ["pipe", "file", "unix socket", "tcp socket"];

/// 256 MiB of seeded data, the same in every run. It repeats after a number of bytes that has nothing to do with pages, and
/// every page begins with its number: so no two are alike, and what is at another place than its own is seen there.
pub fn seeded() -> &'static [u8] {
    static DATA: OnceLock<Vec<u8>> = OnceLock::new();
    DATA.get_or_init(|| {
        let len = 256 * MIB;
        let period = 1_000_003; // a prime
        let mut data = Vec::with_capacity(len);
        let mut state = 0x5EED_u64;
        while data.len() < period {
            state = state
                .wrapping_mul(0x5851_F42D_4C95_7F2D)
                .wrapping_add(0x1405_7B7E_F767_814F);
            data.extend((state ^ (state >> 29)).to_le_bytes());
        }
        data.truncate(period);
        while data.len() < len {
            data.extend_from_within(..data.len().min(len - data.len()));
        }
        for (i, page) in data.chunks_exact_mut(4096).enumerate() {
            page[..8].copy_from_slice(&(i as u64).to_le_bytes());
        }
        data
    })
}

/// Something to read `data` from; what does not hold it is filled by a thread.
pub fn source(kind: &str, data: &'static [u8]) -> OwnedFd {
    match kind {
        "pipe" => {
            let (theirs, ours) = super::pipe();
            feed(ours, data);
            theirs.into()
        }
        "file" if data.len() == seeded().len() => {
            // Written once, and opened again for each use: each has an offset of its own.
            static ALL: OnceLock<File> = OnceLock::new();
            let all = ALL.get_or_init(|| file_of(seeded()));
            let path = format!("/proc/self/fd/{}", all.as_raw_fd());
            File::open(path).expect("the same file").into()
        }
        "file" => file_of(data).into(),
        "unix socket" => {
            let (theirs, ours) = UnixStream::pair().expect("sockets");
            feed(ours, data);
            theirs.into()
        }
        "tcp socket" => {
            let (theirs, ours) = tcp_pair();
            feed(ours, data);
            theirs.into()
        }
        other => panic!("{other}"),
    }
}

/// Writes all of it on a thread. A reader that ends early is the test's business.
pub fn feed(mut to: impl Write + Send + 'static, data: &'static [u8]) -> JoinHandle<bool> {
    thread::spawn(move || to.write_all(data).is_ok())
}

fn tcp_pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let ours = TcpStream::connect(listener.local_addr().expect("it")).expect("a connection");
    (ours, listener.accept().expect("a connection").0)
}

/// Something to write to, of which every byte is compared with what is expected: when it arrives, or afterwards if it
/// is a file.
pub struct Sink {
    fd: OwnedFd,
    expected: &'static [u8],
    arrived: Option<JoinHandle<usize>>,
}

impl Sink {
    pub fn new(kind: &str, expected: &'static [u8]) -> Self {
        let (fd, arrived): (OwnedFd, _) = match kind {
            "pipe" => {
                let (ours, theirs) = super::pipe();
                (theirs.into(), Some(checker(ours, expected)))
            }
            "file" => (file_of(b"").into(), None),
            "file for appending" => {
                let file = file_of(b"");
                rustix::fs::fcntl_setfl(&file, rustix::fs::OFlags::APPEND).expect("appending");
                (file.into(), None)
            }
            "unix socket" => {
                let (ours, theirs) = UnixStream::pair().expect("sockets");
                (theirs.into(), Some(checker(ours, expected)))
            }
            "tcp socket" => {
                let (ours, theirs) = tcp_pair();
                (theirs.into(), Some(checker(ours, expected)))
            }
            other => panic!("{other}"),
        };
        Self {
            fd,
            expected,
            arrived,
        }
    }

    /// For a run to write to.
    pub fn stdio(&self) -> Stdio {
        self.fd.try_clone().expect("a copy").into()
    }

    /// By this name a run can open it that does not inherit it, unless it is a socket.
    pub fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.fd.as_raw_fd())
    }

    /// Asserts that everything has arrived, and nothing else. Call it when nobody else has it open any more.
    #[track_caller]
    pub fn check(self, what: &str) {
        let arrived = match self.arrived {
            Some(arrived) => {
                drop(self.fd);
                arrived
            }
            None => {
                let mut file = File::from(self.fd);
                file.rewind().expect("its beginning");
                checker(file, self.expected)
            }
        };
        let arrived = arrived
            .join()
            .unwrap_or_else(|_| panic!("{what}: other bytes, see above"));
        assert_eq!(arrived, self.expected.len(), "{what}");
    }
}

/// Compares what comes with what should, while it comes; returns how much it was.
pub fn checker(mut from: impl Read + Send + 'static, expected: &'static [u8]) -> JoinHandle<usize> {
    thread::spawn(move || {
        // What was read is compared while it lies in the cache.
        let mut buffer = vec![0; 256 << 10];
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
