//! What the integration tests share: the binary under test, real pipes between runs of it, and a
//! clock that no run outlives.

#![allow(
    dead_code,
    reason = "every test file compiles its own copy and uses a part of it"
)]

pub mod kinds;
pub mod seccomp;
pub mod state;

use std::fmt;
use std::fs::{File, Permissions};
use std::io::{self, PipeReader, PipeWriter, Read, Seek, Write};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::panic::Location;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use tempfile::TempDir;

/// The binary that Cargo built for this test.
pub const BINARY: &str = env!("CARGO_BIN_EXE_fullbore");

/// What a run may take before it counts as hung. Runs take milliseconds; the rest is for loaded machines.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Says on the terminal, past the test harness's capture, that a test cannot run here.
#[track_caller]
pub fn skip(reason: impl fmt::Display) {
    let thread = thread::current();
    // With one test thread the harness runs every test on the main thread.
    let test = match thread.name() {
        Some(name) if name != "main" => name.to_owned(),
        _ => Location::caller().to_string(),
    };
    // Only the print macros are captured; a write to the handle is not.
    let line = format!("SKIPPED {test}: {}\n", reason.to_string().trim_end());
    let _ = io::stderr().write_all(line.as_bytes());
}

/// `fullbore` with the words of `line` as its arguments.
pub fn fullbore(line: &str) -> Command {
    command(BINARY, line)
}

/// `program` with the words of `line` as its arguments.
pub fn command(program: impl AsRef<Path>, line: &str) -> Command {
    let mut command = Command::new(program.as_ref());
    command.args(line.split_whitespace());
    without_tastes(&mut command);
    command
}

/// Whoever runs the tests may like colours, a language, a width of terminal or a place of their own: runs do not see it.
fn without_tastes(command: &mut Command) {
    for setting in [
        "NO_COLOR",
        "CLICOLOR",
        "CLICOLOR_FORCE",
        "COLORTERM",
        "COLUMNS",
        "LINES",
        "LANG",
        "LANGUAGE",
        "LC_ALL",
        "LC_CTYPE",
        "LC_MESSAGES",
        "POSIXLY_CORRECT",
        "TMUX",
        "XDG_RUNTIME_DIR",
        "XDG_STATE_HOME",
    ] {
        command.env_remove(setting);
    }
}

/// A run that has ended, with all it said.
#[derive(Debug)]
pub struct Run {
    pub what: String,
    pub status: ExitStatus,
    pub out: String,
    pub err: String,
}

impl Run {
    /// Asserts exit code 0 and nothing on standard error.
    #[track_caller]
    pub fn quiet_success(&self) -> &Self {
        assert_eq!(self.status.code(), Some(0), "{self}");
        assert_eq!(self.err, "", "{self}");
        self
    }

    /// Asserts one of `codes` and one line of the form `fullbore: what: why; what to do`.
    #[track_caller]
    pub fn complains(&self, codes: &[i32]) -> &Self {
        let code = self.status.code();
        assert!(
            code.is_some_and(|code| codes.contains(&code)),
            "expected exit code {codes:?}: {self}"
        );
        assert_eq!(self.err.lines().count(), 1, "one line: {self}");
        assert!(self.err.starts_with("fullbore: "), "{self}");
        assert!(self.err.matches(": ").count() >= 2, "why? {self}");
        assert!(self.err.contains("; "), "what to do? {self}");
        self
    }

    /// Standard output as the one JSON document it must be.
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        match serde_json::from_str(&self.out) {
            Ok(value) => value,
            Err(why) => panic!("standard output is not one JSON document: {why}: {self}"),
        }
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            what,
            status,
            out,
            err,
        } = self;
        write!(f, "{what}\n{status}\nstdout: {out:?}\nstderr: {err:?}")
    }
}

/// A run that goes on. Dropping it kills it, so that a failed assertion leaves nothing spinning.
pub struct Running {
    what: String,
    child: Child,
    started: Instant,
    /// Absent when the caller placed standard output.
    out: Option<File>,
    err: File,
}

/// Where standard output goes.
pub enum To {
    Captured,
    Given(Stdio),
}

impl<T: Into<Stdio>> From<T> for To {
    fn from(end: T) -> Self {
        Self::Given(end.into())
    }
}

/// Starts `command`. What it says is captured in files, so that nothing can block on it.
pub fn start(mut command: Command, stdin: impl Into<Stdio>, stdout: impl Into<To>) -> Running {
    let what = format!("{command:?}");
    let err = tempfile::tempfile().expect("a file for standard error");
    let (stdout, out) = match stdout.into() {
        To::Given(end) => (end, None),
        To::Captured => {
            let file = tempfile::tempfile().expect("a file for standard output");
            let theirs = file.try_clone().expect("a copy of its descriptor");
            (theirs.into(), Some(file))
        }
    };
    let child = command
        .stdin(stdin)
        .stdout(stdout)
        .stderr(err.try_clone().expect("a copy of its descriptor"))
        .spawn()
        .unwrap_or_else(|why| panic!("{what}: {why}"));
    Running {
        what,
        child,
        started: Instant::now(),
        out,
        err,
    }
}

impl Running {
    /// Whether it has ended. Panics when it has been running for too long.
    #[track_caller]
    pub fn done(&mut self) -> bool {
        self.done_within(PATIENCE)
    }

    #[track_caller]
    fn done_within(&mut self, patience: Duration) -> bool {
        let done = self.child.try_wait().expect("its status").is_some();
        assert!(
            done || self.started.elapsed() < patience,
            "still running after {patience:?}: {}",
            self.what
        );
        done
    }

    /// Waits for its end and collects what it said.
    #[track_caller]
    pub fn finish(self) -> Run {
        self.finish_within(PATIENCE)
    }

    /// The same for a run that may take so long.
    #[track_caller]
    pub fn finish_within(mut self, patience: Duration) -> Run {
        while !self.done_within(patience) {
            thread::sleep(Duration::from_millis(1));
        }
        let out = self.out.take();
        Run {
            what: self.what.clone(),
            status: self.child.wait().expect("its status"),
            out: out.map_or_else(String::new, contents),
            err: but_for_cpus(contents(
                self.err.try_clone().expect("a copy of the descriptor"),
            )),
        }
    }

    /// Ends it as no handler can prevent, and waits until it is gone.
    pub fn kill(mut self) {
        self.end();
    }

    /// What it has said on standard error so far.
    pub fn said(&self) -> String {
        // At an offset of its own: that of the descriptor is the process's, too.
        let mut said = vec![0; self.err.metadata().expect("its length").len() as usize];
        self.err
            .read_exact_at(&mut said, 0)
            .expect("the captured output");
        String::from_utf8_lossy(&said).into_owned()
    }

    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Sends what Ctrl-C sends.
    pub fn interrupt(&self) {
        rustix::process::kill_process(self.pid(), Signal::INT).expect("a signal");
    }

    fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

fn contents(mut file: File) -> String {
    let mut bytes = Vec::new();
    file.rewind()
        .and_then(|()| file.read_to_end(&mut bytes))
        .expect("the captured output");
    String::from_utf8_lossy(&bytes).into_owned()
}

/// What was said, without the lack of a second CPU where there is none: that is no finding of a test.
fn but_for_cpus(said: String) -> String {
    let allowed = rustix::thread::sched_getaffinity(None).expect("the CPUs of this process");
    if allowed.count() > 1 {
        return said;
    }
    let lines = said.split_inclusive('\n');
    lines.filter(|l| !l.contains("only one CPU")).collect()
}

/// A writer and a reader that were connected by a pipe, both at their end.
pub struct Pair {
    pub writer: Run,
    pub reader: Run,
}

impl Pair {
    /// Asserts that both ended with 0 and said nothing on standard error.
    #[track_caller]
    pub fn quiet_success(&self) -> &Self {
        // The reader first: a writer seldom fails by itself without the reader's noticing.
        self.reader.quiet_success();
        self.writer.quiet_success();
        self
    }
}

/// `fullbore WRITER | fullbore READER`.
#[track_caller]
pub fn pair(writer: &str, reader: &str) -> Pair {
    pair_of(fullbore(writer), fullbore(reader))
}

/// `writer | reader`.
#[track_caller]
pub fn pair_of(writer: Command, reader: Command) -> Pair {
    let (read_end, write_end) = pipe();
    let reader = start(reader, read_end, To::Captured);
    let writer = start(writer, Stdio::null(), write_end);
    let reader = reader.finish();
    let writer = writer.finish();
    Pair { writer, reader }
}

/// Runs `reader` on a pipe that the test fills with `data` and closes.
#[track_caller]
pub fn feed(reader: Command, data: Vec<u8>) -> Run {
    let (read_end, mut write_end) = pipe();
    let reader = start(reader, read_end, To::Captured);
    // On its own thread: more than the pipe holds blocks until the reader takes some or goes away.
    thread::spawn(move || write_end.write_all(&data));
    reader.finish()
}

/// Runs `writer` into a pipe that the test reads to its end.
#[track_caller]
pub fn collect(writer: Command) -> (Run, Vec<u8>) {
    let (mut read_end, write_end) = pipe();
    let writer = start(writer, Stdio::null(), write_end);
    let (done, data) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = read_end.read_to_end(&mut bytes);
        done.send(bytes)
    });
    let run = writer.finish();
    let bytes = data.recv_timeout(PATIENCE).expect("the end of the data");
    (run, bytes)
}

/// Runs `command` with a standard input at its end and a standard output that nobody reads: where
/// it should have refused and works instead, it stops at once.
#[track_caller]
pub fn refused(command: Command) -> Run {
    let (read_end, write_end) = pipe();
    drop(read_end);
    start(command, Stdio::null(), write_end).finish()
}

/// A pipe whose ends no other run inherits.
pub fn pipe() -> (PipeReader, PipeWriter) {
    io::pipe().expect("a pipe")
}

/// Waits until `condition` holds.
#[track_caller]
pub fn until(what: &str, condition: impl Fn() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < PATIENCE, "waited too long for: {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// The bytes of `--verify` from offset 0: each 8-byte word is its own offset, little-endian.
pub fn sequence(bytes: usize) -> Vec<u8> {
    (0..bytes as u64)
        .step_by(8)
        .flat_map(u64::to_le_bytes)
        .take(bytes)
        .collect()
}

/// A user without privileges, and a copy of the binary that this user can reach.
pub struct Stranger {
    /// Holds the copy, and the user's number; absent where the test itself runs without privileges.
    place: Option<(TempDir, u32)>,
}

impl Stranger {
    /// The reason is one to skip with.
    pub fn new() -> Result<Self, String> {
        if !rustix::process::geteuid().is_root() {
            return Ok(Self { place: None });
        }
        let place = tempfile::tempdir().expect("a directory");
        std::fs::set_permissions(place.path(), Permissions::from_mode(0o755))
            .expect("a directory for all");
        // A child copies: a descriptor open for writing here could be inherited by another test's
        // child for a moment, and the copy could then not be executed.
        let copied = Command::new("cp").arg(BINARY).arg(place.path()).status();
        assert!(copied.is_ok_and(|status| status.success()), "a copy");
        let binary = place.path().join("fullbore");
        for user in users() {
            let reached = setpriv(user, Path::new("test"))
                .arg("-x")
                .arg(&binary)
                .stderr(Stdio::null())
                .status();
            match reached {
                Ok(status) if status.success() => {
                    let place = Some((place, user));
                    return Ok(Self { place });
                }
                Ok(_) => {}
                Err(why) => return Err(format!("setpriv does not run: {why}")),
            }
        }
        Err(format!(
            "no other user can be set, or it cannot reach {}",
            binary.display()
        ))
    }

    /// Whether this user differs from the one who makes the pipes.
    pub fn is_another_user(&self) -> bool {
        self.place.is_some()
    }

    pub fn fullbore(&self, line: &str) -> Command {
        match &self.place {
            None => fullbore(line),
            Some((place, user)) => {
                let mut command = setpriv(*user, &place.path().join("fullbore"));
                command.args(line.split_whitespace());
                command
            }
        }
    }
}

/// Users that nobody is, the first one at a time: what one user has in pipes and processes, others cannot use up. Where
/// a user namespace knows only the numbers below 65536, the last one is there.
pub fn users() -> [u32; 2] {
    static STRANGERS: AtomicU32 = AtomicU32::new(0);
    // Numbers of processes have 22 bits.
    let own = (std::process::id() << 5) | (STRANGERS.fetch_add(1, Ordering::Relaxed) % 32);
    [0x7000_0000 | own, 65534]
}

/// `program` as a user without privileges.
pub fn setpriv(user: u32, program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    without_tastes(&mut command);
    command
        .arg(format!("--reuid={user}"))
        .arg(format!("--regid={user}"))
        .arg("--clear-groups")
        .arg(program);
    command
}

/// A directory of links to the binary.
pub struct Links(TempDir);

impl Links {
    pub fn new(names: &[&str]) -> Self {
        let place = tempfile::tempdir().expect("a directory");
        for name in names {
            std::os::unix::fs::symlink(BINARY, place.path().join(name)).expect("a link");
        }
        Self(place)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

/// What the C library that this was built with calls an error: `Out of memory`, or `Cannot allocate memory`.
pub fn words(errno: rustix::io::Errno) -> String {
    let text = io::Error::from(errno).to_string();
    text.split(" (os error").next().unwrap_or_default().into()
}

/// A setting or counter of the kernel, or an empty string where it has none.
pub fn kernel(file: &str) -> String {
    std::fs::read_to_string(file).unwrap_or_default()
}

/// Whether SIGINT is ignored here, as it is for a shell's background jobs, and so for whatever is started from here.
pub fn ctrl_c_is_ignored() -> bool {
    let status = kernel("/proc/self/status");
    let ignored = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_none_or(|mask| mask & (1 << 1) != 0)
}

/// Whether memory marked for transparent huge pages gets them.
pub fn has_transparent_huge_pages() -> bool {
    let enabled = kernel("/sys/kernel/mm/transparent_hugepage/enabled");
    enabled.contains("[always]") || enabled.contains("[madvise]")
}

/// Whether `--lock-memory` can be had for the buffers of these tests, huge ones included.
pub fn can_lock_memory() -> bool {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Memlock);
    rustix::process::geteuid().is_root() || limit.current.is_none_or(|bytes| bytes >= 8 << 20)
}
