//! What `write` and `read` say, and when they end.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use fullbore_lab::worker::config::Config;
use fullbore_lab::worker::side::{Counters, Path};
use fullbore_lab::worker::sizes::PipeSize;
use fullbore_sys::size::Size;
use fullbore_sys::{Error, Result};

use crate::output::failure::complain;

/// The end of a run that is limited by time.
pub struct Deadline {
    end: Instant,
    look_at: u64,
}

/// The clock is read once per so many bytes, which costs nothing at 100 GiB/s and still reacts within milliseconds at
/// 100 MiB/s.
const BYTES_PER_LOOK: u64 = 1 << 20;

impl Deadline {
    pub fn new(seconds: f64) -> Self {
        Self {
            end: Instant::now() + Duration::from_secs_f64(seconds),
            look_at: 0,
        }
    }

    /// Whether time is over. A call that moved nothing also counts as a reason to look.
    pub fn is_over(&mut self, counters: &Counters, now: impl Fn() -> Instant) -> bool {
        let progress = counters.bytes + counters.calls * 4096;
        if progress < self.look_at {
            return false;
        }
        self.look_at = progress + BYTES_PER_LOOK;
        now() >= self.end
    }
}

/// Grace for a side to notice by itself that its time is over.
const GRACE: Duration = Duration::from_millis(100);

/// Ends the process some moments after `seconds`, with what `last_words` returns: for a side that sleeps in a call and
/// cannot look at the clock.
///
/// # Errors
/// There is no thread available.
pub fn end_when_stuck(
    seconds: f64,
    last_words: impl FnOnce() -> ExitCode + Send + 'static,
) -> Result<()> {
    let ended = std::thread::Builder::new().spawn(move || {
        std::thread::sleep(Duration::from_secs_f64(seconds) + GRACE);
        let code = last_words();
        std::process::exit(i32::from(code != ExitCode::SUCCESS));
    });
    ended
        .map(drop)
        .map_err(|e| Error::system("no thread", e, "raise the limit (ulimit -u)"))
}

/// Says with `--verbose` what is about to be done.
pub fn describe(side: &str, config: &Config, path: &Path) {
    let capacity = path
        .capacity
        .map_or("not a pipe".to_owned(), |c| Size(c).to_string());
    complain(&format!(
        "{side}: {}, wait {}, buffer {}, pipe {capacity}{}",
        path.way,
        path.wait,
        config.buf_size,
        match config.pipe_size {
            PipeSize::Exactly(_) => " (as asked)",
            PipeSize::Leave | PipeSize::Largest => "",
        },
    ));
    let on: Vec<_> = [
        (config.gift, "gift"),
        (config.lock_memory, "lock-memory"),
        (config.dont_touch_pages, "dont-touch-pages"),
        (config.same_buffer, "same-buffer"),
        (config.check_huge_page, "check-huge-page"),
        (config.verify, "verify"),
    ]
    .into_iter()
    .filter_map(|(set, name)| set.then_some(name))
    .collect();
    if !on.is_empty() {
        complain(&format!("{side}: with {}", on.join(", ")));
    }
    if let Some(note) = &path.note {
        complain(&format!("{side}: {note}"));
    }
}
