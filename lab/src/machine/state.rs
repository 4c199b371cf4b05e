//! How far the two CPUs were from each other during a trial, and what that means for a whole run. Pure.

use serde::{Deserialize, Serialize};

use super::travel::{Distance, distance};

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
    /// The state these two times stand for.
    #[must_use]
    pub fn state(&self) -> State {
        match (self.before.map(distance), self.after.map(distance)) {
            (Some(Distance::Near), Some(Distance::Near)) => State::Near,
            (Some(Distance::Far), Some(Distance::Far)) => State::Far,
            (Some(_), Some(_)) => State::Moved,
            _ => State::Unknown,
        }
    }
}

/// The states of some trials, each once.
pub(crate) fn states(seen: impl Iterator<Item = State>) -> Vec<State> {
    let mut states: Vec<_> = seen.collect();
    states.sort_unstable();
    states.dedup();
    states
}

/// The most frequent state of two CPUs.
pub(crate) fn prevailing(seen: impl Iterator<Item = State> + Clone) -> Option<State> {
    let count = |state| seen.clone().filter(|s| *s == state).count();
    [State::Unknown, State::Far, State::Moved, State::Near]
        .into_iter()
        .filter(|s| count(*s) > 0)
        .max_by_key(|s| count(*s))
}

/// What a reader should know of the states that were seen, each once; and what it means that the CPUs were far apart.
pub(crate) fn state_warnings(states: &[State], far: &str) -> Vec<String> {
    let seen: Vec<_> = states
        .iter()
        .copied()
        .filter(|s| *s != State::OneCpu)
        .collect();
    if seen.len() > 1 {
        let names: Vec<_> = seen.iter().map(State::to_string).collect();
        return vec![format!(
            "the two CPUs did not stay where they were ({}): trials of each state are shown apart and never pooled",
            names.join(", ")
        )];
    }
    if seen == [State::Far] {
        return vec![format!("the two CPUs are far from each other: {far}")];
    }
    Vec::new()
}
