//! Signals: end the line and the process; do not count the time spent stopped.

use std::path::PathBuf;
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Instant;

use rustix::process::{Signal, getpid, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGTSTP};
use signal_hook::iterator::Signals;

use super::screen::Remote;
use super::terminal;
use super::voice::{Fault, Voice};

/// What has to be done when a signal ends the process.
#[derive(Debug)]
pub struct AtEnd {
    pub voice: Voice,
    pub screen: Option<Remote>,
    /// Whether a line has to be ended without a screen.
    pub line: bool,
    pub faults: Arc<AtomicU8>,
    pub pidfile: Option<PathBuf>,
}

/// Waits for signals in a thread of its own. Those that were ignored at the start stay so: `nohup`, and background jobs of
/// scripts, count on that.
pub fn watch(at_end: AtEnd) {
    let ignored = ignored();
    let mut wanted: Vec<_> = [SIGINT, SIGHUP, SIGTERM]
        .into_iter()
        .filter(|signal| ignored & (1 << (signal - 1)) == 0)
        .collect();
    if at_end.screen.is_some() && ignored & (1 << (SIGTSTP - 1)) == 0 {
        wanted.push(SIGTSTP);
    }
    let Ok(mut signals) = Signals::new(wanted) else {
        return; // then they do what they do by default
    };
    let _ = std::thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            for signal in signals.forever() {
                match signal {
                    SIGTSTP => at_end.stop(),
                    other => at_end.end(other),
                }
            }
        });
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
            Voice::Pv => {
                let faults = self.faults.load(Ordering::Relaxed) | Fault::Signal as u8;
                process::exit(faults.into());
            }
            Voice::Fullbore if signal == SIGINT => process::exit(130),
            Voice::Fullbore => {
                let _ = signal_hook::low_level::emulate_default_handler(signal);
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
