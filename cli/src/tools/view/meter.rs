//! Rates, percentages and the time that is left, out of what has been moved and when. Pure.

use std::collections::VecDeque;

/// What the display knows of a transfer at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    /// Seconds since the start, without those spent stopped.
    pub elapsed: f64,
    /// Bytes, or lines.
    pub transferred: u64,
    /// Per second, since the last update; at the end, over the whole transfer.
    pub rate: f64,
    /// Per second, over the window; at the end, over the whole transfer.
    pub average: f64,
    /// Of `size`; without a size, a value that runs from 0 to 200 and begins again while something moves.
    pub percentage: f64,
    /// Highest rate so far.
    pub rate_max: f64,
    /// Seconds that are left, where there is a size.
    pub left: Option<u64>,
    /// Seconds without a single byte, where there has been more than an update's time of that.
    pub stalled: Option<f64>,
    /// Whether this is the last one.
    pub last: bool,
}

/// Updates closer than this to the one before keep its rate.
const LEAST_INTERVAL_S: f64 = 0.01;

/// Remembers what is needed for the next [`Reading`].
#[derive(Clone, Debug)]
pub struct Meter {
    /// What had been transferred when the transfer was first looked at.
    initial: u64,
    previous: (f64, u64),
    rate: f64,
    average: f64,
    percentage: f64,
    /// Seconds and amounts, one an `every`.
    history: VecDeque<(f64, u64)>,
    longest: usize,
    every: f64,
    moved_at: f64,
    seen: u64,
    pub rates: Rates,
}

/// The rates of all updates: for `--stats`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    pub count: u64,
    pub min: f64,
    pub max: f64,
    sum: f64,
    squares: f64,
}

impl Rates {
    fn add(&mut self, rate: f64) {
        self.min = if self.count == 0 {
            rate
        } else {
            self.min.min(rate)
        };
        self.max = self.max.max(rate);
        self.sum += rate;
        self.squares += rate * rate;
        self.count += 1;
    }

    pub fn mean(&self) -> f64 {
        self.sum / self.count.max(1) as f64
    }

    pub fn deviation(&self) -> f64 {
        let mean = self.mean();
        let variance = self.squares / self.count.max(1) as f64 - mean * mean;
        variance.max(0.0).sqrt() // rounding may leave less than nothing
    }
}

impl Meter {
    /// A meter whose average looks back over so many seconds. `initial` was there before, and counts for no rate.
    pub fn new(window_s: u32, initial: u64) -> Self {
        let window = window_s.max(1);
        // Long windows are kept in steps of 5 s.
        let every = if window >= 20 { 5 } else { 1 };
        Self {
            initial,
            previous: (0.0, initial),
            rate: 0.0,
            average: 0.0,
            percentage: 0.0,
            history: VecDeque::new(),
            longest: (window / every + 1) as usize,
            every: every.into(),
            moved_at: 0.0,
            seen: initial,
            rates: Rates::default(),
        }
    }

    /// The reading of now.
    pub fn update(
        &mut self,
        elapsed: f64,
        transferred: u64,
        size: Option<u64>,
        last: bool,
    ) -> Reading {
        let since = elapsed - self.previous.0;
        if since > LEAST_INTERVAL_S {
            // What the output holds back counts as not transferred, so that it may become less for a moment.
            self.rate = (transferred as f64 - self.previous.1 as f64) / since;
            self.previous = (elapsed, transferred);
            self.rates.add(self.rate);
        }
        if transferred != self.seen {
            (self.seen, self.moved_at) = (transferred, elapsed);
        }
        self.look_back(elapsed, transferred);
        let (mut rate, mut average) = (self.rate, self.average);
        if last {
            let all = transferred.saturating_sub(self.initial) as f64;
            rate = all / elapsed.max(1e-6);
            average = rate;
        }
        let size = size.filter(|&s| s > 0);
        match size {
            Some(size) => self.percentage = 100.0 * transferred as f64 / size as f64,
            None => {
                if rate > 0.0 {
                    self.percentage += 2.0;
                }
                if self.percentage > 199.0 {
                    self.percentage = 0.0;
                }
            }
        }
        let left = size.map(|size| {
            seconds_left(
                self.seen - self.initial.min(self.seen),
                size.saturating_sub(transferred),
                self.average,
            )
        });
        let stalled = elapsed - self.moved_at;
        Reading {
            elapsed,
            transferred,
            rate,
            average,
            percentage: self.percentage.clamp(0.0, 100_000.0),
            rate_max: self.rates.max,
            left,
            stalled: (!last && stalled > since.max(LEAST_INTERVAL_S)).then_some(stalled),
            last,
        }
    }

    fn look_back(&mut self, elapsed: f64, transferred: u64) {
        if let Some(&(newest, _)) = self.history.back()
            && elapsed < newest + self.every
        {
            return;
        }
        self.history.push_back((elapsed, transferred));
        if self.history.len() > self.longest {
            self.history.pop_front();
        }
        let oldest = self.history[0];
        self.average = if self.history.len() == 1 {
            self.rate
        } else {
            (transferred as f64 - oldest.1 as f64) / (elapsed - oldest.0).max(1e-6)
        };
    }
}

fn seconds_left(so_far: u64, rest: u64, rate: f64) -> u64 {
    if so_far == 0 || rate < 0.001 {
        return 0;
    }
    ((rest as f64 / rate) as u64).min(360_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rate_is_of_the_last_interval_and_at_the_end_of_all() {
        let mut meter = Meter::new(30, 0);
        assert_eq!(meter.update(1.0, 100, Some(1000), false).rate, 100.0);
        let second = meter.update(2.0, 400, Some(1000), false);
        assert_eq!((second.rate, second.percentage), (300.0, 40.0));
        let last = meter.update(4.0, 1000, Some(1000), true);
        assert_eq!(
            (last.rate, last.average, last.percentage),
            (250.0, 250.0, 100.0)
        );
        assert_eq!(meter.rates.count, 3);
        assert_eq!((meter.rates.min, meter.rates.max), (100.0, 300.0));
    }

    #[test]
    fn average_looks_back_over_its_window_only() {
        let mut meter = Meter::new(3, 0);
        for s in 1..=10 {
            meter.update(f64::from(s), 1000, None, false);
        }
        assert_eq!(meter.update(11.0, 1000, None, false).average, 0.0);
        let at = |s: u32| u64::from(s) * 50;
        for s in 12..=20 {
            meter.update(f64::from(s), at(s), None, false);
        }
        assert_eq!(meter.update(21.0, at(21), None, false).average, 50.0);
    }

    #[test]
    fn stall_is_told_with_its_length_and_rate_is_zero() {
        let mut meter = Meter::new(30, 0);
        assert_eq!(meter.update(1.0, 500, None, false).stalled, None);
        meter.update(2.0, 500, None, false);
        let stalled = meter.update(3.0, 500, None, false);
        assert_eq!((stalled.rate, stalled.stalled), (0.0, Some(2.0)));
        assert_eq!(meter.update(4.0, 501, None, false).stalled, None);
    }

    #[test]
    fn time_left_is_what_the_average_needs() {
        let mut meter = Meter::new(30, 0);
        let reading = meter.update(1.0, 100, Some(1100), false);
        assert_eq!(reading.left, Some(10));
        assert_eq!(meter.update(2.0, 100, None, false).left, None);
    }

    #[test]
    fn without_a_size_the_percentage_runs_while_something_moves() {
        let mut meter = Meter::new(30, 0);
        let mut highest = 0.0_f64;
        for s in 1..=300_u32 {
            highest = highest.max(meter.update(s.into(), s.into(), None, false).percentage);
        }
        assert_eq!(highest, 198.0);
        let before = meter.update(301.0, 301, None, false).percentage;
        assert_eq!(meter.update(302.0, 301, None, false).percentage, before);
    }

    proptest! {
        #[test]
        fn readings_are_finite_whatever_happens(
            steps in proptest::collection::vec((0.0..3.0_f64, 0..1_u64 << 40), 1..50),
            window: u32,
            size in proptest::option::of(0..1_u64 << 41),
        ) {
            let mut meter = Meter::new(window, 0);
            let mut now = 0.0;
            for (pause, transferred) in steps {
                now += pause;
                let r = meter.update(now, transferred, size, false);
                prop_assert!(r.rate.is_finite() && r.average.is_finite() && r.percentage.is_finite());
            }
        }
    }
}
