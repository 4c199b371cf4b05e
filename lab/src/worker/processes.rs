//! The processes of a trial: started fresh, released together, and gone at its end.

use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use fullbore_sys::{Error, Result};

use super::order::{Message, Order};
use super::outcome::Report;
use super::wire;

/// What one process gets.
pub(crate) struct Task {
    pub order: Order,
    pub descriptors: Vec<OwnedFd>,
}

/// Silence after which a trial is given up, beyond its own time: a trial at 10 MB/s still looks at its clock ten times a second.
const PATIENCE: Duration = Duration::from_secs(30);

/// The processes of one trial. None of them outlives this.
pub(crate) struct Processes {
    all: Vec<WorkerProcess>,
    patience: Duration,
}

impl Processes {
    /// Runs a trial; reports come in the order of the tasks.
    ///
    /// # Errors
    /// As [`Self::start`], [`Self::release`] and [`Self::reports`].
    pub(crate) fn run(program: &Path, tasks: Vec<Task>) -> Result<Vec<Report>> {
        let mut processes = Self::start(program, tasks)?;
        processes.release()?;
        processes.reports()
    }

    /// Starts them; all are ready then, and none has begun.
    ///
    /// # Errors
    /// A process could not be started, failed, or fell silent.
    pub(crate) fn start(program: &Path, tasks: Vec<Task>) -> Result<Self> {
        let times = tasks.iter().map(|t| t.order.time.longest());
        let patience = PATIENCE + times.max().unwrap_or_default();
        // A task's descriptors end with it: only those who use them hold them, so that an end is noticed.
        let start = |task| WorkerProcess::start(program, task);
        let mut all = tasks.into_iter().map(start).collect::<Result<Vec<_>>>()?;
        for process in &mut all {
            process.expect_ready()?;
        }
        Ok(Self { all, patience })
    }

    /// Their process IDs, in the order of the tasks.
    pub(crate) fn ids(&self) -> Vec<u32> {
        self.all.iter().map(|p| p.child.id()).collect()
    }

    /// Has all of them begin.
    ///
    /// # Errors
    /// A process is gone.
    pub(crate) fn release(&mut self) -> Result<()> {
        self.all.iter_mut().try_for_each(WorkerProcess::release)
    }

    /// What they say at their end, in the order of the tasks. Those that work until another one is gone come after it.
    ///
    /// # Errors
    /// A process failed or fell silent. The reason of one that failed goes before the silence of another one, and that before a
    /// process that measured nothing, because its partner was gone.
    pub(crate) fn reports(mut self) -> Result<Vec<Report>> {
        let (mut reports, mut silent) = (Vec::new(), None);
        let mut failed = None;
        for process in &mut self.all {
            match process.hear(self.patience) {
                Ok(Message::Report(report)) => {
                    let _ = process.child.wait(); // it has nothing left to do but to exit
                    reports.push(report);
                }
                Ok(Message::Failed(failure)) => failed = failed.or(Some(failure)),
                Ok(Message::Ready) => {
                    let lost = process.lost(io::ErrorKind::InvalidData.into());
                    silent = silent.or(Some(lost));
                }
                Err(e) => silent = silent.or(Some(e)),
            }
        }
        match failed.map(Error::from).or(silent) {
            Some(e) => Err(e),
            None if reports.iter().any(|r| matches!(r, Report::Nothing)) => Err(Error::new(
                "a trial measured nothing",
                "a process ended before its time",
                "run it again",
            )),
            None => Ok(reports),
        }
    }
}

/// A process, killed when dropped.
struct WorkerProcess {
    name: &'static str,
    child: Child,
    socket: BufReader<UnixStream>,
}

impl WorkerProcess {
    fn start(program: &Path, task: Task) -> Result<Self> {
        let failed = |e: io::Error| {
            Error::system(
                format!("{} cannot be started", program.display()),
                e,
                "the lab runs each side of a trial as a process of this program",
            )
        };
        let (ours, theirs) = UnixStream::pair().map_err(failed)?;
        let child = Command::new(program)
            .arg(super::COMMAND)
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .spawn()
            .map_err(failed)?;
        let process = Self {
            name: task.order.job.name(),
            child,
            socket: BufReader::new(ours),
        };
        let line = serde_json::to_string(&task.order).map_err(|e| failed(e.into()))?;
        let descriptors: Vec<_> = task.descriptors.iter().map(AsFd::as_fd).collect();
        let sent = wire::send(process.socket.get_ref(), &line, &descriptors);
        sent.map_err(|e| process.lost(e))?;
        Ok(process)
    }

    fn lost(&self, e: io::Error) -> Error {
        let what = format!("{} of a trial fell silent", self.name);
        Error::system(what, e, "run it again")
    }

    fn hear(&mut self, patience: Duration) -> Result<Message> {
        let timeout = self.socket.get_ref().set_read_timeout(Some(patience));
        timeout.map_err(|e| self.lost(e))?;
        let mut line = String::new();
        match self.socket.read_line(&mut line) {
            Ok(0) => Err(self.lost(io::ErrorKind::UnexpectedEof.into())),
            Ok(_) => serde_json::from_str(&line).map_err(|e| self.lost(e.into())),
            Err(e) => Err(self.lost(e)),
        }
    }

    fn expect_ready(&mut self) -> Result<()> {
        match self.hear(PATIENCE)? {
            Message::Ready => Ok(()),
            Message::Failed(failure) => Err(failure.into()),
            Message::Report(_) => Err(self.lost(io::ErrorKind::InvalidData.into())),
        }
    }

    fn release(&mut self) -> Result<()> {
        let went = self.socket.get_mut().write_all(b"!");
        went.map_err(|e| self.lost(e))
    }
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
