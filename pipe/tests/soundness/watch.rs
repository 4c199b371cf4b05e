//! A clock that no schedule outlives, and the seed on the terminal when one fails.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// What a schedule may take before it counts as hung. They take milliseconds; the rest is for loaded machines.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs `schedule` with each seed; a failure or a hang names the seed.
pub fn for_each_seed(what: &str, seeds: std::ops::Range<u64>, schedule: impl Fn(u64)) {
    let current = Arc::new(Mutex::new((seeds.start, Instant::now())));
    let watched = Arc::downgrade(&current);
    let name = what.to_owned();
    std::thread::spawn(move || {
        while let Some(current) = watched.upgrade() {
            let (seed, since) = *current.lock().expect("not poisoned");
            drop(current);
            if since.elapsed() > PATIENCE {
                shout(&format!("HUNG: {name}, seed {seed}"));
                std::process::abort();
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    });
    let failed = AtFailure(what);
    for seed in seeds {
        *current.lock().expect("not poisoned") = (seed, Instant::now());
        failed.guard(seed, &schedule);
    }
}

struct AtFailure<'a>(&'a str);

impl AtFailure<'_> {
    fn guard(&self, seed: u64, schedule: impl Fn(u64)) {
        struct Shout<'a>(&'a str, u64);
        impl Drop for Shout<'_> {
            fn drop(&mut self) {
                if std::thread::panicking() {
                    shout(&format!("FAILED: {}, seed {}", self.0, self.1));
                }
            }
        }
        let _shout = Shout(self.0, seed);
        schedule(seed);
    }
}

/// Writes a line on the terminal, past the test harness's capture.
pub fn shout(line: &str) {
    use std::io::Write;
    // Only the print macros are captured; a write to the handle is not.
    let _ = std::io::stderr().write_all(format!("{line}\n").as_bytes());
}
