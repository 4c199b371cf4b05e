//! Starts a writer and a reader as two fresh processes, releases them together, collects their reports.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use fullbore_sys::{Error, Result};
use serde::{Deserialize, Serialize};

use super::config::Config;
use super::trial::{Answer, Finished, Order, Role, SideReport, Until, send_order};
use crate::sys::SharedMemory;

/// One trial to run.
#[derive(Clone, Debug)]
pub struct Trial<'a> {
    /// The program that [`super::trial::serve`]s when it is called with `argument`: usually this very binary.
    pub program: PathBuf,
    /// Its argument.
    pub argument: &'a OsStr,
    /// What the pair does.
    pub config: &'a Config,
    /// CPUs of writer and reader.
    pub cpus: (usize, usize),
    /// Seconds that are not measured, at the start.
    pub warm_up_s: f64,
    /// End of the measured part.
    pub until: Until,
}

/// What both sides report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Reports {
    /// The writing side.
    pub writer: SideReport,
    /// The reading side, whose clock counts.
    pub reader: SideReport,
}

/// Silence after which a trial is given up: a trial at 10 MB/s still looks at its clock ten times a second.
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs one trial of several pairs at once; `trials` are not empty. Reports come in the same order.
///
/// # Errors
/// A side could not be started, failed, or fell silent. No process is left behind.
pub fn run(trials: &[Trial<'_>]) -> Result<Vec<Reports>> {
    let mut pairs = Vec::new();
    for trial in trials {
        pairs.push(Pair::start(trial)?);
    }
    // The writers set the capacities, so all must be ready before any begins.
    for pair in &mut pairs {
        pair.expect_ready()?;
    }
    for pair in &pairs {
        pair.go()?;
    }
    let both = pairs.iter_mut().map(|pair| {
        let [writer, reader] = pair.finished()?;
        Ok(Reports {
            writer: writer.report,
            reader: reader.report,
        })
    });
    both.collect()
}

/// Runs one trial of one pair. `observe` is given the process IDs of writer and reader when both are ready and have not
/// begun; what it returns is kept until both have ended, and handed back with what they say, writer first.
///
/// # Errors
/// As [`run`], and what `observe` says.
pub fn run_observed<O>(
    trial: &Trial<'_>,
    observe: impl FnOnce([u32; 2]) -> Result<O>,
) -> Result<([Finished; 2], O)> {
    let mut pair = Pair::start(trial)?;
    pair.expect_ready()?;
    let observer = observe([pair.writer.child.id(), pair.reader.child.id()])?;
    pair.go()?;
    Ok((pair.finished()?, observer))
}

fn failed(what: &str, e: std::io::Error) -> Error {
    Error::system(format!("a trial failed: {what}"), e, "run it again")
}

/// Both processes of a trial.
struct Pair {
    reader: Side,
    writer: Side,
    patience: Duration,
}

impl Pair {
    /// Starts both, and tells them what to do.
    fn start(trial: &Trial<'_>) -> Result<Self> {
        let (read_end, write_end) = fullbore_sys::calls::pipe().map_err(|e| failed("pipe", e))?;
        let shared = SharedMemory::create().map_err(|e| failed("shared memory", e))?;
        let mut reader = Side::start(trial, Role::Reader, read_end)?;
        let mut writer = Side::start(trial, Role::Writer, write_end)?;
        for side in [&mut reader, &mut writer] {
            side.order(trial, &shared)?;
        }
        let patience = match trial.until {
            Until::Seconds(s) => PATIENCE + Duration::from_secs_f64(s + trial.warm_up_s),
            Until::Bytes(n) => PATIENCE + Duration::from_secs(n >> 24), // 16 MiB/s
        };
        Ok(Self {
            reader,
            writer,
            patience,
        })
    }

    fn expect_ready(&mut self) -> Result<()> {
        self.reader.expect_ready()?;
        self.writer.expect_ready()
    }

    fn go(&self) -> Result<()> {
        for side in [&self.reader, &self.writer] {
            let went = side.socket.get_ref().write_all(b"!");
            went.map_err(|e| failed("start", e))?;
        }
        Ok(())
    }

    fn finished(&mut self) -> Result<[Finished; 2]> {
        let reader = self.reader.finished(self.patience);
        // A writer that failed explains why a reader measured nothing.
        let writer = self.writer.finished(PATIENCE)?;
        Ok([writer, reader?])
    }
}

/// A side's process, killed when dropped.
struct Side {
    role: Role,
    cpu: usize,
    child: Child,
    socket: BufReader<UnixStream>,
}

impl Side {
    fn start(trial: &Trial<'_>, role: Role, pipe: OwnedFd) -> Result<Self> {
        let failed = |e: std::io::Error| {
            Error::system(
                format!("{} cannot be started", trial.program.display()),
                e,
                "the lab runs each side of a trial as a process of this program",
            )
        };
        let (ours, theirs) = UnixStream::pair().map_err(failed)?;
        let theirs = OwnedFd::from(theirs);
        let (stdin, stdout) = match role {
            Role::Writer => (theirs, pipe),
            Role::Reader => (pipe, theirs),
        };
        let child = Command::new(&trial.program)
            .arg(trial.argument)
            .stdin(Stdio::from(stdin))
            .stdout(Stdio::from(stdout))
            .spawn()
            .map_err(failed)?;
        Ok(Self {
            role,
            cpu: match role {
                Role::Writer => trial.cpus.0,
                Role::Reader => trial.cpus.1,
            },
            child,
            socket: BufReader::new(ours),
        })
    }

    fn order(&mut self, trial: &Trial<'_>, shared: &SharedMemory) -> Result<()> {
        let order = Order {
            role: self.role,
            config: trial.config.clone(),
            cpu: self.cpu,
            warm_up_s: trial.warm_up_s,
            until: trial.until,
        };
        send_order(self.socket.get_ref(), &order, shared).map_err(|e| self.lost(e))
    }

    fn lost(&self, e: std::io::Error) -> Error {
        let who = match self.role {
            Role::Writer => "writer",
            Role::Reader => "reader",
        };
        Error::system(
            format!("the {who} of a trial fell silent"),
            e,
            "run it again",
        )
    }

    fn hear(&mut self, patience: Duration) -> Result<Answer> {
        let timeout = self.socket.get_ref().set_read_timeout(Some(patience));
        timeout.map_err(|e| self.lost(e))?;
        let mut line = String::new();
        match self.socket.read_line(&mut line) {
            Ok(0) => Err(self.lost(std::io::ErrorKind::UnexpectedEof.into())),
            Ok(_) => serde_json::from_str(&line).map_err(|e| self.lost(e.into())),
            Err(e) => Err(self.lost(e)),
        }
    }

    fn expect_ready(&mut self) -> Result<()> {
        match self.hear(PATIENCE)? {
            Answer::Ready => Ok(()),
            other => Err(self.unexpected(other)),
        }
    }

    fn finished(&mut self, patience: Duration) -> Result<Finished> {
        match self.hear(patience)? {
            Answer::Report(finished) => {
                let _ = self.child.wait(); // it has nothing left to do but to exit
                Ok(*finished)
            }
            other => Err(self.unexpected(other)),
        }
    }

    fn unexpected(&self, answer: Answer) -> Error {
        match answer {
            Answer::Failed(failure) => failure.into(),
            _ => self.lost(std::io::ErrorKind::InvalidData.into()),
        }
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
