//! A clock that no schedule outlives, and the seed on the terminal when one fails.

use std::io::Write;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What a schedule may take before it counts as hung. They take milliseconds; the rest is for loaded machines.
///
/// Counted in looks rather than by a clock, which would go on while this process is stopped.
const PATIENCE: u64 = 300;
const BETWEEN_LOOKS: Duration = Duration::from_millis(200);

/// How many seeds of each schedule are run at most: where a machine is emulated, they take a hundred times as long.
const MOST: &str = "FULLBORE_TEST_SEEDS";

/// Runs `schedule` with each seed; a failure or a hang names the seed.
pub fn for_each_seed(what: &str, mut seeds: Range<u64>, schedule: impl Fn(u64)) {
    if let Some(most) = std::env::var_os(MOST) {
        let most = most.to_str().and_then(|n| n.parse().ok());
        let most: u64 = most.expect("FULLBORE_TEST_SEEDS is a number");
        seeds.end = seeds.end.min(seeds.start + most);
    }
    let current = Arc::new((AtomicU64::new(seeds.start), AtomicU64::new(0)));
    let (watched, name) = (Arc::downgrade(&current), what.to_owned());
    std::thread::spawn(move || {
        while let Some(now) = watched.upgrade() {
            if now.1.fetch_add(1, Ordering::Relaxed) > PATIENCE {
                let seed = now.0.load(Ordering::Relaxed);
                shout(&format!("HUNG: {name}, seed {seed}"));
                std::process::abort();
            }
            drop(now);
            std::thread::sleep(BETWEEN_LOOKS);
        }
    });
    for seed in seeds {
        current.0.store(seed, Ordering::Relaxed);
        current.1.store(0, Ordering::Relaxed);
        let _named = Named(what, seed);
        schedule(seed);
    }
}

/// Names the schedule that panics.
struct Named<'a>(&'a str, u64);

impl Drop for Named<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            shout(&format!("FAILED: {}, seed {}", self.0, self.1));
        }
    }
}

/// Waits until a number, such as that of the bytes in a pipe, is at least one and stays the same from one look to the next.
pub fn until_it_stays(number: impl Fn() -> u64) {
    let mut before = 0;
    loop {
        let now = number();
        if now > 0 && now == before {
            return;
        }
        before = now;
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Says on the terminal that a test cannot show what it is for.
pub fn skip(test: &str, reason: impl std::fmt::Display) {
    shout(&format!("SKIPPED {test}: {reason}"));
}

/// Writes a line on the terminal, past the test harness's capture.
pub fn shout(line: &str) {
    // Only the print macros are captured; a write to the handle is not.
    let _ = std::io::stderr().write_all(format!("{line}\n").as_bytes());
}
