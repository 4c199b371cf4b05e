//! Signals: end the line and the process; do not count the time spent stopped.

use std::io::{self, Read};
use std::path::PathBuf;
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::Instant;

use rustix::process::{Signal, getpid, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGTSTP};
use signal_hook::{flag, low_level};

use super::screen::Remote;
use super::terminal;
use super::voice::{Fault, ViewVoice};

/// What has to be done when a signal ends the process.
#[derive(Debug)]
pub struct AtEnd {
    pub voice: ViewVoice,
    pub screen: Option<Remote>,
    /// Whether a line has to be ended without a screen.
    pub line: bool,
    pub faults: Arc<AtomicU8>,
    pub pidfile: Option<PathBuf>,
}

/// Waits for signals in a thread of its own. Those that were ignored at the start stay so: `nohup`, and background jobs of
/// scripts, count on that. Where there is no thread to wait, or no more, signals do what they do by default.
pub fn watch(at_end: AtEnd) {
    let ignored = ignored();
    let mut wanted: Vec<_> = [SIGINT, SIGHUP, SIGTERM]
        .into_iter()
        .filter(|signal| ignored & (1 << (signal - 1)) == 0)
        .collect();
    if at_end.screen.is_some() && ignored & (1 << (SIGTSTP - 1)) == 0 {
        wanted.push(SIGTSTP);
    }
    let unattended = Arc::new(AtomicBool::new(true));
    let Ok((mut woken, came)) = caught(&wanted, &unattended) else {
        return;
    };
    let attended = unattended.clone();
    let _ = std::thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            attended.store(false, Ordering::Relaxed);
            while woken.read_exact(&mut [0]).is_ok() {
                for (signal, came) in &came {
                    match (came.swap(false, Ordering::Relaxed), *signal) {
                        (false, _) => {}
                        (true, SIGTSTP) => at_end.stop(),
                        (true, other) => at_end.end(other),
                    }
                }
            }
            attended.store(true, Ordering::Relaxed);
        });
}

/// Signals, each with a flag that says whether it has come.
type Came = Vec<(i32, Arc<AtomicBool>)>;

/// Has each of these signals raise a flag and write a byte into a pipe, of which the end to read from is returned; or do
/// what it does by default, while `unattended`.
///
/// A pipe, since a sandbox that allows this program anything allows reading one. (An iterator of `signal_hook` needs
/// sockets, and panics where they are refused.)
fn caught(wanted: &[i32], unattended: &Arc<AtomicBool>) -> io::Result<(io::PipeReader, Came)> {
    let (woken, wake) = io::pipe()?;
    let mut came = Vec::new();
    for &signal in wanted {
        let flag = Arc::new(AtomicBool::new(false));
        flag::register_conditional_default(signal, unattended.clone())?;
        // In this order: who is woken finds the flag raised.
        flag::register(signal, flag.clone())?;
        low_level::pipe::register(signal, wake.try_clone()?)?;
        came.push((signal, flag));
    }
    Ok((woken, came))
}

impl AtEnd {
    /// Stops the process as the terminal wants it, and tells the display for how long.
    fn stop(&self) {
        let since = Instant::now();
        let _ = kill_process(getpid(), Signal::STOP);
        if let Some(screen) = &self.screen {
            screen.stopped(since.elapsed());
        }
    }

    fn end(&self, signal: i32) {
        if let Some(screen) = &self.screen {
            screen.abort();
        }
        if self.line {
            terminal::print("\n");
        }
        if let Some(file) = &self.pidfile {
            let _ = std::fs::remove_file(file);
        }
        match self.voice {
            ViewVoice::Pv => {
                let faults = self.faults.load(Ordering::Relaxed) | Fault::Signal as u8;
                process::exit(faults.into());
            }
            ViewVoice::Fullbore if signal == SIGINT => process::exit(130),
            ViewVoice::Fullbore => {
                let _ = low_level::emulate_default_handler(signal);
                process::exit(128 + signal);
            }
        }
    }
}

/// Signals that are ignored now, as bits from 1 on. None where /proc does not say.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("SigIgn:"));
    line.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok())
        .unwrap_or(0)
}
