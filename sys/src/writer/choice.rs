//! Which of the ways is the fastest one, here and now, and with how many pages: measured on the way, and again from time to time.
//!
//! Nothing is assumed of the machine. How long `fresh` should keep its pages, how large the pool of `cow` should be, and whether
//! filling ahead gains anything depends on the caches, on how far the CPUs are from each other, and on whether there are two of
//! them: each may be worth a factor of two here and cost a quarter there (`docs/results/2026-11-22-epyc-kvm-ahead.md`).

#[cfg(test)]
mod tests;

use std::time::Duration;

use super::Way;
use crate::write::Round;

const MIB: u64 = 1 << 20;
/// Bytes of a trial that count, at least. At 10 GiB/s this takes 0.8 ms.
const TRIAL: u64 = 8 * MIB;
/// Bytes of a stretch of the fastest one, which lies between two trials: some turns of a pool must be among them.
const STRETCH: u64 = 32 * MIB;
/// One byte in so many goes to trials of others than the fastest one, and so many may be saved up: those the first bytes go to,
/// and those that go to trials when the fastest one has suddenly become slow.
const BETWEEN: u64 = 50;
const SAVED_UP: i64 = 64 << 20;
/// So many times as fast as the fastest one and a candidate takes its place: in the first trials, after one, and as the mean of
/// several. A single millisecond may be anything on a busy machine.
const AT_FIRST: f64 = 1.1;
const AT_ONCE: f64 = 1.5;
const MEAN: f64 = 1.05;
/// Stretches of the fastest one whose median is its rate.
const RECENT: usize = 5;
/// Trials that the mean is of.
const REMEMBERED: usize = 4;
/// The fastest one has become slow when it has this part of the rate that it used to have.
const SLOW: f64 = 0.7;
/// Pools of `cow`. The first one stays in the cache, the second one needs fewer turns.
const POOLS: [usize; 2] = [16 << 20, 64 << 20];

/// What comes after the first trials, and what costs so much that it comes after that.
const LAST_RANK: u8 = 5;
const LATE: u8 = 6;

/// A way, in one of the forms in which it can be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Form {
    pub(super) way: Way,
    pub(super) round: Round,
}

impl Form {
    pub(super) const COPY: Self = Self {
        way: Way::Copy,
        round: Round {
            keep: false,
            pool: 0,
            ahead: 0,
        },
    };
}

/// What may be chosen from.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Limits {
    /// Bytes that may wait; 0 where none may.
    pub(super) ahead: usize,
    /// So many wait, whether that is faster or not.
    pub(super) ahead_is_given: bool,
    /// Bytes of the pool of `cow`, where they are given.
    pub(super) pool: Option<usize>,
}

/// Chooses among the ways that are ready.
#[derive(Debug)]
pub(super) struct Choice {
    limits: Limits,
    /// The fastest one first.
    candidates: Vec<Candidate>,
    /// Index of the one that is on trial.
    trying: Option<usize>,
    bytes: u64,
    time: Duration,
    /// Bytes of this stretch that are not counted yet.
    settling: u64,
    /// Bytes per second of the fastest one: in its last stretches, the median of these, and over a longer time.
    recent: Vec<f64>,
    rate: f64,
    usual: f64,
    /// Bytes that may go to trials now.
    saved_up: i64,
    /// Bytes that have gone to trials.
    tried: u64,
    /// Bytes since everything was tried anew.
    since_change: u64,
}

#[derive(Debug)]
struct Candidate {
    form: Form,
    /// What is to be tried before all else, in this order: now, and in the beginning and after a change. Else 0.
    rank: u8,
    first_rank: u8,
    /// Its rate as a multiple of that of the fastest one, in the last trials.
    ratios: Vec<f64>,
    /// Has moved bytes already, so that its pages are there.
    known: bool,
    /// When it is tried next, by the bytes that have gone to trials.
    due: u64,
}

impl Candidate {
    fn new(way: Way, round: Round, rank: u8) -> Self {
        Self {
            form: Form { way, round },
            rank,
            first_rank: rank,
            ratios: Vec::new(),
            known: false,
            due: 0,
        }
    }

    /// The geometric mean of what is remembered.
    fn mean(&self) -> f64 {
        let logs: f64 = self.ratios.iter().map(|r| r.ln()).sum();
        (logs / self.ratios.len().max(1) as f64).exp()
    }

    /// Bytes that it takes until its rate is what it will be: what waits must be there, and the pages of a pool once have come
    /// back, since new ones are dearer, and so are those that have left the cache.
    fn settling(&self) -> u64 {
        let round = self.form.round;
        let new = match self.form.way {
            Way::Cow => round.pool,
            Way::Fresh if !self.known => 2 * MIB as usize,
            _ => 0,
        };
        (round.ahead + new) as u64
    }

    /// Bytes that a trial costs: a slow one takes more time than its bytes say.
    fn cost(&self) -> u64 {
        let bytes = self.settling() + self.counted();
        (bytes as f64 / self.mean().clamp(0.05, 1.0)) as u64
    }

    /// Bytes that count in a trial: with a pool a whole round, in which there is one turn. Otherwise half as many the first time,
    /// to find out soon.
    fn counted(&self) -> u64 {
        match self.form.way {
            Way::Cow => TRIAL.next_multiple_of(self.form.round.pool.max(1) as u64),
            _ if self.known => TRIAL,
            _ => TRIAL / 2,
        }
    }
}

impl Choice {
    /// Starts with the first of `ways`.
    pub(super) fn new(ways: &[Way], limits: Limits) -> Self {
        let mut this = Self {
            limits,
            candidates: Vec::new(),
            trying: None,
            bytes: 0,
            time: Duration::ZERO,
            settling: 0,
            recent: Vec::new(),
            rate: 0.0,
            usual: 0.0,
            saved_up: SAVED_UP,
            tried: 0,
            since_change: 0,
        };
        for &way in ways {
            this.candidates.extend(candidates(way, limits));
        }
        this.start_stretch(None);
        this
    }

    /// The form to take next: where none is left, `write(2)`.
    pub(super) fn current(&self) -> Form {
        let current = self.candidates.get(self.trying.unwrap_or(0));
        current.map_or(Form::COPY, |c| c.form)
    }

    /// The ways that can be chosen.
    pub(super) fn ways(&self) -> Vec<Way> {
        let mut ways: Vec<Way> = Vec::new();
        for candidate in &self.candidates {
            if !ways.contains(&candidate.form.way) {
                ways.push(candidate.form.way);
            }
        }
        ways
    }

    /// Takes a way out of the choice.
    pub(super) fn remove(&mut self, way: Way) {
        self.candidates.retain(|c| c.form.way != way);
        self.start_stretch(None);
    }

    /// Puts a way into the choice that was not in it, and tries it now.
    pub(super) fn add(&mut self, way: Way) {
        let added = candidates(way, self.limits);
        if self.rate == 0.0 {
            // Nothing to compare with yet: it goes first.
            self.candidates.splice(0..0, added);
            return self.start_stretch(None);
        }
        let at = self.candidates.len();
        self.candidates.extend(added);
        self.start_stretch((at > 0).then_some(at));
    }

    /// From now on bytes may wait.
    pub(super) fn allow_ahead(&mut self, bytes: usize) {
        if self.limits.ahead > 0 {
            return;
        }
        self.limits.ahead = bytes;
        let added: Vec<_> = self
            .candidates
            .iter()
            .filter(|c| c.form.way != Way::Copy)
            .map(|c| {
                let round = Round {
                    ahead: bytes,
                    ..c.form.round
                };
                Candidate::new(c.form.way, round, c.first_rank)
            })
            .collect();
        self.candidates.extend(added);
    }

    fn start_stretch(&mut self, trying: Option<usize>) {
        let goes_on = trying.is_none() && self.trying.is_none() && self.bytes > 0;
        self.trying = trying;
        self.bytes = 0;
        self.time = Duration::ZERO;
        let current = self.candidates.get(trying.unwrap_or(0));
        self.settling = if goes_on {
            0
        } else {
            current.map_or(0, Candidate::settling)
        };
    }

    /// Learns how long a form took to move some bytes, waiting included. What it did before it had `settled` does not count.
    pub(super) fn record(&mut self, form: Form, bytes: usize, time: Duration, settled: bool) {
        if form != self.current() {
            return; // begun before a change
        }
        let bytes = bytes as u64;
        let spent = i64::try_from(bytes).unwrap_or(i64::MAX);
        self.saved_up = match self.trying {
            // A slow one costs more than its bytes.
            Some(_) => self.saved_up - spent.max((time.as_secs_f64() * self.usual) as i64),
            None => SAVED_UP.min(self.saved_up + spent / BETWEEN as i64),
        };
        self.since_change += bytes;
        if self.trying.is_some() {
            self.tried += bytes;
        }
        if self.settling > 0 || !settled {
            self.settling = self.settling.saturating_sub(bytes);
            return;
        }
        self.bytes += bytes;
        self.time += time;
        let Some(current) = self.candidates.get_mut(self.trying.unwrap_or(0)) else {
            return;
        };
        let enough = match self.trying {
            Some(_) => current.counted(),
            None if !current.known => current.counted(),
            None => STRETCH.max(current.counted()),
        };
        if self.bytes < enough {
            return;
        }
        current.known = true;
        let rate = self.bytes as f64 / self.time.as_secs_f64().max(1e-9);
        match self.trying {
            Some(tried) => self.judge(tried, rate),
            None => self.remember(rate),
        }
        let next = match self.trying {
            // In the beginning one trial follows the other; later a stretch of the fastest one lies between two.
            Some(_) if self.candidates.iter().all(|c| c.rank == 0) => None,
            _ => self.next_trial(),
        };
        self.start_stretch(next);
    }

    /// The fastest one has had a rate again.
    fn remember(&mut self, rate: f64) {
        if self.recent.len() == RECENT {
            self.recent.remove(0);
        }
        self.recent.push(rate);
        self.rate = median(&self.recent);
        if self.usual == 0.0 {
            self.usual = self.rate;
        } else if self.rate < self.usual * SLOW {
            // The machine has changed, or the reader: everything is tried anew.
            self.recent = vec![rate];
            self.rate = rate;
            self.usual = rate;
            if self.since_change > SAVED_UP.unsigned_abs() * BETWEEN {
                self.saved_up = SAVED_UP;
                self.since_change = 0;
            }
            for c in &mut self.candidates[1..] {
                c.ratios.clear();
                c.due = self.tried;
                c.rank = c.first_rank;
            }
        } else {
            self.usual += (self.rate - self.usual) / 8.0;
        }
        if let Some(first) = self.candidates.first_mut() {
            first.rank = 0;
        }
    }

    /// A candidate has been tried.
    fn judge(&mut self, tried: usize, rate: f64) {
        let (now, count) = (self.tried, self.candidates.len() as u64);
        let fastest = self.rate;
        let candidate = &mut self.candidates[tried];
        let enough = if candidate.rank > 0 && candidate.rank == candidate.first_rank {
            AT_FIRST
        } else {
            AT_ONCE
        };
        candidate.rank = 0;
        if candidate.ratios.len() == REMEMBERED {
            candidate.ratios.remove(0);
        }
        let ratio = (rate / fastest.max(1.0)).max(1e-3);
        candidate.ratios.push(ratio);
        let mean = candidate.mean();
        // Those that have nearly won come round four times as often as the others; those that cost more, seldom.
        let pause = if mean > 0.8 { 1 } else { 4 };
        let due = now + pause * count * candidate.cost().min(4 * TRIAL);
        candidate.due = due;
        let several = candidate.ratios.len() > 1;
        if !(ratio > enough && mean > 1.0 || several && mean > MEAN) {
            if ratio > MEAN && !several {
                candidate.rank = LAST_RANK; // once more, to be sure
            }
            return;
        }
        self.rate = rate;
        self.usual = rate;
        self.recent = vec![rate];
        self.candidates.swap(0, tried);
        let way = self.candidates[0].form.way;
        for (i, c) in self.candidates.iter_mut().enumerate() {
            for ratio in &mut c.ratios {
                *ratio /= mean;
            }
            if i == tried {
                c.ratios = vec![1.0 / mean];
                c.due = due;
                c.rank = LAST_RANK; // once more, to be sure
            }
            // Its other forms are worth a trial now.
            if i > 0 && c.form.way == way && c.ratios.is_empty() && c.rank == 0 {
                c.rank = LAST_RANK;
            }
        }
        self.candidates[0].ratios.clear();
    }

    /// What is tried next, if it may be tried now.
    fn next_trial(&self) -> Option<usize> {
        let others = || self.candidates.iter().enumerate().skip(1);
        let ranked = others().filter(|(_, c)| c.rank > 0);
        let ranked = ranked.min_by_key(|(_, c)| c.rank);
        let (at, candidate) = ranked.or_else(|| others().min_by_key(|(_, c)| c.due))?;
        let cost = i64::try_from(candidate.cost()).unwrap_or(i64::MAX);
        (self.saved_up >= SAVED_UP.min(cost)).then_some(at)
    }
}

fn median(rates: &[f64]) -> f64 {
    let mut sorted = rates.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(0.0)
}

/// Which of the forms is tried first, if any: together these are some 64 MiB. Others follow when their way is the fastest one, or
/// by and by.
fn first_rank(form: Form) -> u8 {
    match form.way {
        Way::Cow if form.round.pool <= POOLS[0] => 1,
        Way::Fresh => 2,
        Way::Fat => 3,
        Way::Copy => 4,
        Way::Cow => LATE,
    }
}

/// A way in each form in which it can be taken.
fn candidates(way: Way, limits: Limits) -> Vec<Candidate> {
    let none = Form::COPY.round;
    let pools = match limits.pool {
        Some(ref given) => std::slice::from_ref(given),
        None => &POOLS[..],
    };
    let rounds: Vec<Round> = match way {
        Way::Copy => return vec![Candidate::new(way, none, first_rank(Form::COPY))],
        Way::Fat => vec![none],
        Way::Fresh => vec![Round { keep: true, ..none }, none],
        Way::Cow => pools.iter().map(|&pool| Round { pool, ..none }).collect(),
    };
    let aheads: &[usize] = match limits.ahead {
        0 => &[0],
        _ if limits.ahead_is_given => &[limits.ahead],
        _ => &[limits.ahead, 0],
    };
    let mut forms = Vec::new();
    for &ahead in aheads {
        for &round in &rounds {
            let round = Round { ahead, ..round };
            // The first trials are of filling ahead, where that may be.
            let rank = if ahead == aheads[0] {
                first_rank(Form { way, round })
            } else {
                0
            };
            forms.push(Candidate::new(way, round, rank));
        }
    }
    forms
}
