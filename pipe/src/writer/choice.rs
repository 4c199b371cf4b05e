//! Which of two ways is the faster one, here and now: measured on the way, and again from time to time.

use std::time::Duration;

use super::Way;

/// Bytes of each trial. Shorter ones would be ruled by chance; at 5 GiB/s this takes 6 ms.
const TRIAL: u64 = 32 << 20;
/// Bytes between trials of the way that was slower: 1/64 of the bytes are spent on trials.
const BETWEEN: u64 = 64 * TRIAL;
/// The other way must be faster by so much to be taken, so that chance alone does not decide.
const MARGIN: f64 = 1.1;

/// Chooses between `Fresh`, which is mostly the faster one where CPUs are near, and `Fat`.
#[derive(Debug)]
pub(super) struct Choice {
    better: Way,
    /// A trial of the other way is under way.
    trying: bool,
    bytes: u64,
    time: Duration,
    /// Bytes until the next trial.
    until_trial: u64,
    /// Bytes per second of the better way, over the last stretch.
    rate: f64,
}

impl Default for Choice {
    fn default() -> Self {
        Self {
            better: Way::Fresh,
            trying: false,
            bytes: 0,
            time: Duration::ZERO,
            until_trial: TRIAL,
            rate: 0.0,
        }
    }
}

fn other(way: Way) -> Way {
    match way {
        Way::Fresh => Way::Fat,
        _ => Way::Fresh,
    }
}

impl Choice {
    /// The way to take next.
    pub(super) fn current(&self) -> Way {
        if self.trying {
            other(self.better)
        } else {
            self.better
        }
    }

    /// Learns how long a way took to move some bytes, waiting included.
    pub(super) fn record(&mut self, way: Way, bytes: usize, time: Duration) {
        if way != self.current() {
            return; // small writes, and what was begun before a change
        }
        self.bytes += bytes as u64;
        self.time += time;
        let end = if self.trying {
            TRIAL
        } else {
            TRIAL.min(self.until_trial)
        };
        if self.bytes < end {
            return;
        }
        let rate = self.bytes as f64 / self.time.as_secs_f64().max(1e-9);
        if self.trying {
            if rate > self.rate * MARGIN {
                self.better = other(self.better);
                self.rate = rate;
            }
            self.trying = false;
            self.until_trial = BETWEEN;
        } else {
            self.rate = rate;
            self.until_trial = self.until_trial.saturating_sub(self.bytes);
            self.trying = self.until_trial == 0;
        }
        self.bytes = 0;
        self.time = Duration::ZERO;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes `total` bytes in pieces of 1 MiB; returns how many went by `Fat`.
    fn spend(choice: &mut Choice, total: u64, fresh_us: u64, fat_us: u64) -> u64 {
        let mut fat = 0;
        for _ in 0..total >> 20 {
            let way = choice.current();
            let us = if way == Way::Fat { fat_us } else { fresh_us };
            fat += u64::from(way == Way::Fat) << 20;
            choice.record(way, 1 << 20, Duration::from_micros(us));
        }
        fat
    }

    #[test]
    fn the_faster_way_gets_nearly_all_bytes() {
        let total = 20 << 30;
        let fat = spend(&mut Choice::default(), total, 100, 200);
        assert!(fat > 0 && fat < total / 40, "{fat}");
        let fat = spend(&mut Choice::default(), total, 200, 100);
        assert!(fat > total - total / 20, "{fat}");
    }

    #[test]
    fn equal_ways_do_not_alternate() {
        let total = 20 << 30;
        let fat = spend(&mut Choice::default(), total, 100, 98);
        assert!(fat < total / 40, "{fat}");
    }

    #[test]
    fn a_change_of_the_machine_is_noticed() {
        let mut choice = Choice::default();
        spend(&mut choice, 1 << 30, 100, 150);
        assert_eq!(choice.better, Way::Fresh);
        spend(&mut choice, 5 << 30, 500, 150);
        assert_eq!(choice.better, Way::Fat);
        spend(&mut choice, 5 << 30, 100, 150);
        assert_eq!(choice.better, Way::Fresh);
    }
}
