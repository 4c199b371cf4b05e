//! When each trial runs, and what is kept of it: every case once per round, in an order of its own each time.

pub mod by_state;
pub mod made;
pub mod plan;
pub mod sample;

use std::ops::ControlFlow;
use std::path::PathBuf;

use fullbore_sys::{Error, Result};

use crate::machine::conditions::Conditions;
use crate::worker::failure::because_of;
use sample::Sample;

/// A case whose trials failed so often is not tried again.
const FAILURES_ALLOWED: usize = 2;

/// What every run of rounds is told.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// Rounds.
    pub rounds: usize,
    /// CPUs of writer and reader, or of sender and receiver; what works alone runs on the first.
    pub cpus: (usize, usize),
    /// Seed of the order of trials.
    pub seed: u64,
    /// What the owner wants to say about the machine.
    pub label: Option<String>,
    /// The program whose processes work, see [`crate::worker::COMMAND`].
    pub program: PathBuf,
}

/// What happens on the way.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a, R> {
    /// A trial begins.
    Trial {
        /// Trials done so far, those left out included.
        done: usize,
        /// Trials planned.
        of: usize,
        /// Number of the case, from 0.
        case: usize,
    },
    /// A round is finished; the run holds all that was measured so far.
    Round(&'a R),
}

/// All that was measured of one case.
#[derive(Clone, Debug)]
pub struct Measured<F> {
    /// One for each trial that succeeded.
    pub samples: Vec<Sample<F>>,
    /// Why the others failed.
    pub failures: Vec<Error>,
}

impl<F> Default for Measured<F> {
    fn default() -> Self {
        Self {
            samples: Vec::new(),
            failures: Vec::new(),
        }
    }
}

impl<F> Measured<F> {
    /// Why there is nothing: the last failure, where no trial succeeded.
    pub fn refused(&self) -> Option<String> {
        let last = self.failures.last().filter(|_| self.samples.is_empty())?;
        Some(last.to_string())
    }

    /// What to say of trials that failed where others succeeded.
    pub fn doubt(&self) -> Option<String> {
        let why = self.failures.last().filter(|_| !self.samples.is_empty())?;
        let n = self.failures.len();
        Some(format!("failed trials: {n}, the last because {why}"))
    }
}

/// Something that is measured in trials.
pub trait Measurement {
    /// What one trial gives.
    type Figures;
    /// What is saved.
    type Run;

    /// What is said where no trial of any case succeeded, and what to do then.
    const NOTHING: (&'static str, &'static str);

    /// Makes one trial of this case.
    ///
    /// # Errors
    /// Why it failed; the other cases go on.
    fn trial(&mut self, case: usize) -> Result<(Self::Figures, Conditions)>;

    /// What was measured in so many rounds, summed up; one for each case.
    fn run(&self, rounds_done: usize, measured: &[Measured<Self::Figures>]) -> Self::Run;
}

/// Measures every case once per round. After each event `on_event` decides whether to go on; the run so far is returned either
/// way.
///
/// # Errors
/// Every trial of every case failed.
pub fn measure<M: Measurement>(
    measurement: &mut M,
    cases: usize,
    options: &RunOptions,
    mut on_event: impl FnMut(Event<'_, M::Run>) -> ControlFlow<()>,
) -> Result<M::Run> {
    let mut measured: Vec<Measured<M::Figures>> = Vec::new();
    measured.resize_with(cases, Measured::default);
    let (mut done, mut rounds_done) = (0, 0);
    // Of all that was measured so far, while nothing was measured since.
    let mut run = None;
    let of = cases * options.rounds;
    let rounds = plan::rounds(cases, options.rounds, options.seed);
    'rounds: for (round, order) in rounds.into_iter().enumerate() {
        for case in order {
            let at = done;
            done += 1;
            if measured[case].failures.len() >= FAILURES_ALLOWED {
                continue;
            }
            let mut ends = || {
                let event = Event::Trial { done: at, of, case };
                on_event(event).is_break()
            };
            if ends() {
                break 'rounds;
            }
            run = None;
            match measurement.trial(case) {
                Ok((figures, conditions)) => {
                    let sample = Sample::new(round, conditions, figures);
                    measured[case].samples.push(sample);
                }
                // Ctrl-C reaches the processes of a trial, too; then its failure is no news.
                Err(_) if ends() => break 'rounds,
                // Perhaps this machine cannot do this (no huge pages, say); the others go on.
                Err(e) => measured[case].failures.push(e),
            }
        }
        rounds_done = round + 1;
        let so_far = run.insert(measurement.run(rounds_done, &measured));
        if on_event(Event::Round(so_far)).is_break() {
            break;
        }
    }
    let nothing = measured.iter().all(|m| m.samples.is_empty());
    match measured.iter().find_map(|m| m.failures.last()) {
        Some(e) if nothing => Err(because_of(M::NOTHING.0, e, M::NOTHING.1)),
        _ => Ok(run.unwrap_or_else(|| measurement.run(rounds_done, &measured))),
    }
}

#[cfg(test)]
mod tests;
