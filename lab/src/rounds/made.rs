//! How the trials of a run were made.

use serde::{Deserialize, Serialize};

use super::RunOptions;

/// What is the same for every run.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Made {
    /// CPUs of writer and reader, or of sender and receiver; what works alone runs on the first.
    pub cpus: [usize; 2],
    /// Rounds asked for. Each runs every case once, in an order of its own.
    pub rounds: usize,
    /// Rounds finished.
    pub rounds_done: usize,
    /// Seconds at the start of each trial that are not measured.
    pub warm_up_s: f64,
    /// Seed of the order of trials.
    pub seed: u64,
}

impl Made {
    pub(crate) fn new(options: &RunOptions, rounds_done: usize, warm_up_s: f64) -> Self {
        Self {
            cpus: [options.cpus.0, options.cpus.1],
            rounds: options.rounds,
            rounds_done,
            warm_up_s,
            seed: options.seed,
        }
    }
}
