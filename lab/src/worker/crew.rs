//! The processes of a trial: started fresh, released together, and gone at its end.

use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use fullbore_sys::{Error, Result};

use super::timing::{NOTHING, Report};
use super::wire;
use super::work::{Answer, Order};

/// What one process gets.
pub(crate) struct Member {
    pub order: Order,
    pub descriptors: Vec<OwnedFd>,
}

/// Silence after which a trial is given up, beyond its own time.
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs one trial. Reports come in the order of the members, of which those that work until another one is gone come
/// after it.
///
/// # Errors
/// A process could not be started, failed, or fell silent. None is left behind.
pub(crate) fn run(program: &Path, argument: &OsStr, members: Vec<Member>) -> Result<Vec<Report>> {
    let seconds = |o: &Order| o.time.warm_up_s + o.time.measured_s.unwrap_or(0.0);
    let longest = members
        .iter()
        .map(|m| seconds(&m.order))
        .fold(0.0, f64::max);
    let patience = PATIENCE + Duration::from_secs_f64(longest);
    let mut crew = Vec::new();
    for member in members {
        // The descriptors end here: only those who use them hold them, so that an end is noticed.
        crew.push(Process::start(program, argument, &member)?);
    }
    for process in &mut crew {
        process.expect_ready()?;
    }
    for process in &mut crew {
        process.go()?;
    }
    let reports: Vec<_> = crew.iter_mut().map(|p| p.report(patience)).collect();
    // Where one fails and the others only notice, its own reason counts.
    let (mut good, mut reasons) = (Vec::new(), Vec::new());
    for report in reports {
        match report {
            Ok(report) => good.push(report),
            Err(e) => reasons.push(e),
        }
    }
    if reasons.is_empty() {
        return Ok(good);
    }
    let own = |e: &Error| e.what() != NOTHING;
    let first = reasons.iter().position(own).unwrap_or(0);
    Err(reasons.swap_remove(first))
}

/// A process, killed when dropped.
struct Process {
    child: Child,
    socket: BufReader<UnixStream>,
}

impl Process {
    fn start(program: &Path, argument: &OsStr, member: &Member) -> Result<Self> {
        let failed = |e: io::Error| {
            Error::system(
                format!("{} cannot be started", program.display()),
                e,
                "the lab runs each side of a trial as a process of this program",
            )
        };
        let (ours, theirs) = UnixStream::pair().map_err(failed)?;
        let child = Command::new(program)
            .arg(argument)
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .spawn()
            .map_err(failed)?;
        let process = Self {
            child,
            socket: BufReader::new(ours),
        };
        let line = serde_json::to_string(&member.order).map_err(|e| failed(e.into()))?;
        let descriptors: Vec<_> = member.descriptors.iter().map(AsFd::as_fd).collect();
        wire::send(process.socket.get_ref(), &line, &descriptors).map_err(lost)?;
        Ok(process)
    }

    fn hear(&mut self, patience: Duration) -> Result<Answer> {
        let timeout = self.socket.get_ref().set_read_timeout(Some(patience));
        timeout.map_err(lost)?;
        let mut line = String::new();
        match self.socket.read_line(&mut line) {
            Ok(0) => Err(lost(io::ErrorKind::UnexpectedEof.into())),
            Ok(_) => match serde_json::from_str(&line).map_err(|e| lost(e.into()))? {
                Answer::Failed(failure) => Err(failure.into()),
                other => Ok(other),
            },
            Err(e) => Err(lost(e)),
        }
    }

    fn expect_ready(&mut self) -> Result<()> {
        match self.hear(PATIENCE)? {
            Answer::Ready => Ok(()),
            _ => Err(lost(io::ErrorKind::InvalidData.into())),
        }
    }

    fn go(&mut self) -> Result<()> {
        self.socket.get_mut().write_all(b"!").map_err(lost)
    }

    fn report(&mut self, patience: Duration) -> Result<Report> {
        match self.hear(patience)? {
            Answer::Report(report) => {
                let _ = self.child.wait(); // it has nothing left to do but to exit
                Ok(report)
            }
            _ => Err(lost(io::ErrorKind::InvalidData.into())),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn lost(e: io::Error) -> Error {
    Error::system("a process of a trial fell silent", e, "run it again")
}
