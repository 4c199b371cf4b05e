//! How far the two CPUs were from each other during a trial, and what that means for a whole run. Pure.

use serde::{Deserialize, Serialize};

use super::travel::{Distance, distance};
use crate::stats;

/// Travel time of a cache line between the two CPUs, in ns, one way. Absent where both sides share a CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LineTravel {
    /// Just before the trial.
    pub before: Option<f64>,
    /// Just after it.
    pub after: Option<f64>,
}

/// State of the machine during a trial. Trials of different states are never pooled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// The two CPUs were near each other.
    Near,
    /// They were far from each other.
    Far,
    /// They moved during the trial.
    Moved,
    /// Both sides shared one CPU.
    OneCpu,
    /// The travel time could not be measured.
    Unknown,
}

impl std::fmt::Display for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Near => "near",
            Self::Far => "far",
            Self::Moved => "moved",
            Self::OneCpu => "one-cpu",
            Self::Unknown => "unknown",
        })
    }
}

impl LineTravel {
    /// Medians of several.
    pub(crate) fn medians<'a>(all: impl Iterator<Item = &'a Self> + Clone) -> Self {
        let median = |which: fn(&Self) -> Option<f64>| {
            stats::median(&all.clone().filter_map(which).collect::<Vec<_>>())
        };
        Self {
            before: median(|t| t.before),
            after: median(|t| t.after),
        }
    }

    /// The state these two times stand for.
    pub fn state(&self) -> State {
        match (self.before.map(distance), self.after.map(distance)) {
            (Some(Distance::Near), Some(Distance::Near)) => State::Near,
            (Some(Distance::Far), Some(Distance::Far)) => State::Far,
            (Some(_), Some(_)) => State::Moved,
            _ => State::Unknown,
        }
    }
}
