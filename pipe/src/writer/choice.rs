//! Which of the ways is the fastest one, here and now: measured on the way, and again from time to time.
//!
//! So is whether `fresh` keeps pages until the pipe has let go of them ([`Lend::turn`](crate::pages::Lend::turn)): while the
//! CPUs are near each other that doubles its rate, while they are far it costs a quarter.

use std::time::Duration;

use super::Way;

/// Bytes of each trial. Shorter ones would be ruled by chance; at 5 GiB/s this takes 6 ms.
const TRIAL: u64 = 32 << 20;
/// A way that lost is tried again once so many times as long as its trial took has passed: each of them gets at most
/// 1/64 of the time.
const BETWEEN: u32 = 64;
/// Another way must be faster by so much to be taken, so that chance alone does not decide.
const MARGIN: f64 = 1.1;
/// `write(2)` is the fastest only while the CPUs are far from each other, and a trial costs four times as long as the
/// same bytes by `Fresh`: short streams are spared it.
const FIRST_COPY: Duration = Duration::from_millis(500);

/// Chooses among the ways that are ready.
#[derive(Debug)]
pub(super) struct Choice {
    /// The fastest one first.
    ways: Vec<Candidate>,
    /// Index of the way that is on trial.
    trying: Option<usize>,
    bytes: u64,
    time: Duration,
    /// Time spent moving bytes, in all.
    spent: Duration,
    /// Bytes per second of the fastest one, over its last stretch.
    rate: f64,
}

#[derive(Debug)]
struct Candidate {
    way: Way,
    /// Whether pages are kept until the pipe has let go of them.
    keeps: bool,
    /// When it is tried next, by `spent`.
    due: Duration,
}

/// A way in each form in which it can be taken.
fn candidates(way: Way, due: Duration) -> impl Iterator<Item = Candidate> {
    let keeping: &[bool] = match way {
        Way::Copy | Way::Fat => &[false],
        Way::Fresh => &[true, false],
    };
    keeping
        .iter()
        .map(move |&keeps| Candidate { way, keeps, due })
}

impl Choice {
    /// Starts with the first of `ways`.
    pub(super) fn new(ways: &[Way]) -> Self {
        let candidates = |&way| {
            let due = match way {
                Way::Copy => FIRST_COPY,
                Way::Fat | Way::Fresh => Duration::ZERO,
            };
            candidates(way, due)
        };
        Self {
            ways: ways.iter().flat_map(candidates).collect(),
            trying: None,
            bytes: 0,
            time: Duration::ZERO,
            spent: Duration::ZERO,
            rate: 0.0,
        }
    }

    /// The way to take next: where none is left, `write(2)`.
    pub(super) fn current(&self) -> Way {
        self.ways
            .get(self.trying.unwrap_or(0))
            .map_or(Way::Copy, |c| c.way)
    }

    /// Whether that way is to keep pages until the pipe has let go of them.
    pub(super) fn keeps(&self) -> bool {
        let current = self.ways.get(self.trying.unwrap_or(0));
        current.is_some_and(|c| c.keeps)
    }

    /// Takes a way out of the choice.
    pub(super) fn remove(&mut self, way: Way) {
        self.ways.retain(|c| c.way != way);
        self.start_stretch(None);
    }

    /// Puts a way into the choice that was not in it, and tries it now.
    pub(super) fn add(&mut self, way: Way) {
        let added = candidates(way, self.spent);
        if self.rate == 0.0 {
            // Nothing to compare with yet: it goes first.
            self.ways.splice(0..0, added);
            return self.start_stretch(None);
        }
        let at = self.ways.len();
        self.ways.extend(added);
        self.start_stretch((at > 0).then_some(at));
    }

    fn start_stretch(&mut self, trying: Option<usize>) {
        self.trying = trying;
        self.bytes = 0;
        self.time = Duration::ZERO;
    }

    /// Learns how long a way took to move some bytes, waiting included.
    pub(super) fn record(&mut self, way: Way, bytes: usize, time: Duration) {
        if way != self.current() {
            return; // begun before a change
        }
        self.bytes += bytes as u64;
        self.time += time;
        self.spent += time;
        if self.bytes < TRIAL {
            return;
        }
        let rate = self.bytes as f64 / self.time.as_secs_f64().max(1e-9);
        let next = if let Some(tried) = self.trying {
            if rate > self.rate * MARGIN {
                self.rate = rate;
                self.ways.swap(0, tried);
            }
            self.ways[tried].due = self.spent + self.time * BETWEEN; // the slower one of the two lies there
            None // a stretch of the best one lies between two trials
        } else {
            self.rate = rate;
            let due = |c: &Candidate| c.due <= self.spent;
            self.ways.iter().skip(1).position(due).map(|i| i + 1)
        };
        self.start_stretch(next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Way; 3] = [Way::Fresh, Way::Fat, Way::Copy];

    fn choice() -> Choice {
        Choice::new(&ALL)
    }

    /// Writes `total` bytes in pieces of 1 MiB, each taking so many µs by fresh, fat and write; returns how many bytes
    /// went by each.
    fn spend(choice: &mut Choice, total: u64, us: [u64; 3]) -> [u64; 3] {
        let mut bytes = [0; 3];
        for _ in 0..total >> 20 {
            let way = choice.current();
            for (i, us) in us.into_iter().enumerate() {
                if ALL[i] == way {
                    bytes[i] += 1 << 20;
                    choice.record(way, 1 << 20, Duration::from_micros(us));
                    break;
                }
            }
        }
        bytes
    }

    #[test]
    fn the_fastest_way_gets_nearly_all_bytes_and_every_other_is_tried() {
        let total = 40 << 30;
        for best in 0..3 {
            let mut us = [200, 210, 400];
            us[best] = 100;
            let bytes = spend(&mut choice(), total, us);
            for (i, bytes) in bytes.into_iter().enumerate() {
                let enough = if i == best {
                    bytes > total / 10 * 8
                } else {
                    bytes > 0 && bytes < total / 10
                };
                assert!(enough, "{best} is best: {bytes} bytes by {i}");
            }
        }
    }

    #[test]
    fn pages_are_kept_while_that_is_faster() {
        let mut choice = Choice::new(&[Way::Fresh]);
        for (kept, given_away) in [(100, 200), (300, 200), (100, 200)] {
            for _ in 0..40 << 10 {
                let us = if choice.keeps() { kept } else { given_away };
                choice.record(Way::Fresh, 1 << 20, Duration::from_micros(us));
            }
            assert_eq!(choice.ways[0].keeps, kept < given_away);
        }
    }

    #[test]
    fn a_way_that_comes_back_is_tried_at_once_and_taken_while_it_is_faster() {
        let mut choice = choice();
        choice.remove(Way::Fresh);
        spend(&mut choice, 1 << 30, [100, 150, 300]);
        choice.add(Way::Fresh);
        assert_eq!(choice.current(), Way::Fresh);
        spend(&mut choice, 1 << 30, [100, 150, 300]);
        assert_eq!(choice.ways[0].way, Way::Fresh);
        let mut early = Choice::new(&[Way::Copy]);
        early.add(Way::Fresh);
        assert_eq!(early.current(), Way::Fresh);
        let mut only = Choice::new(&[Way::Fresh]);
        only.remove(Way::Fresh);
        only.add(Way::Fresh);
        assert_eq!(only.current(), Way::Fresh);
    }

    #[test]
    fn trials_of_a_slow_way_cost_little_time() {
        let us = [100, 150, 5000];
        let bytes = spend(&mut choice(), 400 << 30, us);
        let time: Vec<_> = (0..3).map(|i| (bytes[i] >> 20) * us[i]).collect();
        let all: u64 = time.iter().sum();
        assert!(bytes[2] > 0 && time[2] < all / 32, "{time:?}");
    }

    #[test]
    fn equal_ways_do_not_alternate() {
        let total = 20 << 30;
        let bytes = spend(&mut choice(), total, [100, 98, 97]);
        assert!(bytes[0] > total / 10 * 9, "{bytes:?}");
    }

    #[test]
    fn a_change_of_the_machine_is_noticed() {
        let mut choice = choice();
        spend(&mut choice, 10 << 30, [100, 150, 300]);
        assert_eq!(choice.ways[0].way, Way::Fresh);
        spend(&mut choice, 20 << 30, [500, 150, 300]);
        assert_eq!(choice.ways[0].way, Way::Fat);
        spend(&mut choice, 40 << 30, [500, 450, 200]);
        assert_eq!(choice.ways[0].way, Way::Copy);
        spend(&mut choice, 40 << 30, [100, 150, 300]);
        assert_eq!(choice.ways[0].way, Way::Fresh);
    }

    #[test]
    fn a_way_that_was_refused_is_not_tried_and_without_any_it_is_write() {
        let mut choice = choice();
        choice.remove(Way::Fresh);
        assert_eq!(choice.current(), Way::Fat);
        let bytes = spend(&mut choice, 10 << 30, [1, 100, 150]);
        assert_eq!(bytes[0], 0);
        choice.remove(Way::Fat);
        choice.remove(Way::Copy);
        assert_eq!(choice.current(), Way::Copy);
        spend(&mut choice, 1 << 30, [1, 1, 1]);
    }
}
