//! `--rate-limit`: how much may be moved now. Pure.

use std::time::Duration;

/// A bucket that fills at the rate, and from which what was moved is taken.
#[derive(Clone, Debug, Default)]
pub struct Bucket {
    tokens: f64,
    filled_at: f64,
    empty: bool,
}

/// Once empty, it is waited for a tenth of a second's worth, so that a low rate does not mean a call per byte.
const GRAIN_S: f64 = 0.1;
/// A transfer that could not use its rate may catch up so many seconds of it.
const BURST_S: f64 = 5.0;

impl Bucket {
    /// How much may be moved at `now` (seconds, of any clock that goes forward) at `rate` a second, or how long to wait.
    pub fn allowed(&mut self, now: f64, rate: u64) -> Result<u64, Duration> {
        let rate = rate as f64;
        let since = (now - self.filled_at).max(0.0);
        self.filled_at = now;
        self.tokens = (self.tokens + since * rate).min((rate * BURST_S).max(1.0));
        let enough = if self.empty {
            (rate * GRAIN_S).max(1.0)
        } else {
            1.0
        };
        if self.tokens < enough {
            self.empty = true;
            let wait = (enough - self.tokens) / rate;
            // Looked at again soon: another instance may change the rate.
            return Err(Duration::from_secs_f64(wait.clamp(1e-4, GRAIN_S)));
        }
        self.empty = false;
        Ok(self.tokens as u64)
    }

    pub fn moved(&mut self, amount: u64) {
        self.tokens -= amount as f64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Moves what is allowed, at most `most` at a time, and returns how much in `seconds`.
    fn run(rate: u64, most: u64, seconds: f64) -> u64 {
        let (mut bucket, mut now, mut sum) = (Bucket::default(), 0.0, 0);
        while now < seconds {
            match bucket.allowed(now, rate) {
                Ok(n) => {
                    bucket.moved(n.min(most));
                    sum += n.min(most);
                }
                Err(wait) => now += wait.as_secs_f64(),
            }
        }
        sum
    }

    #[test]
    fn slow_rates_are_kept_by_whole_units() {
        assert_eq!(run(1, 100, 10.5), 10);
        assert_eq!(run(3, 1, 9.9), 29);
    }

    #[test]
    fn burst_after_a_pause_is_bounded() {
        let mut bucket = Bucket::default();
        assert!(bucket.allowed(0.0, 100).is_err());
        assert_eq!(bucket.allowed(1000.0, 100), Ok(500));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn rate_is_kept_and_never_passed(rate in 1..1_u64 << 40, most in 1..1_u64 << 30) {
            prop_assume!(rate / most < 1000);
            let moved = run(rate, most, 10.0) as f64;
            let full = 10.0 * rate as f64;
            prop_assert!(moved <= full + 1.0, "{} of {}", moved, full);
            prop_assert!(moved >= full * 0.97 - 2.0, "{} of {}", moved, full);
        }
    }
}
