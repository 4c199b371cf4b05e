//! What trials say, apart for each state of the machine: figures of different states are never pooled.

use serde::{Deserialize, Serialize};

use super::Measured;
use super::sample::Sample;
use crate::machine::state::State;

/// What the trials of one case say: in the state that prevailed in the run, where it occurs, and apart from that in the
/// others. Reads as the former.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(bound(deserialize = "T: Deserialize<'de>"))]
pub struct ByState<T> {
    /// In the prevailing state, or in the first one that there is.
    #[serde(flatten)]
    pub main: T,
    /// In other states.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub apart: Vec<T>,
}

impl<T> std::ops::Deref for ByState<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.main
    }
}

impl<T> std::ops::DerefMut for ByState<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.main
    }
}

impl<T> ByState<T> {
    /// Sums up trials for each state that they were made in; for none where there are no trials.
    pub(crate) fn of<F: Clone>(
        samples: &[Sample<F>],
        prevailing: Option<State>,
        mut sum_up: impl FnMut(Option<State>, Vec<Sample<F>>) -> T,
    ) -> Self {
        let mut states = states(samples.iter().map(|s| s.state));
        states.sort_by_key(|s| Some(*s) != prevailing);
        let mut of = |state: Option<State>| {
            let mine = samples.iter().filter(|s| Some(s.state) == state);
            sum_up(state, mine.cloned().collect())
        };
        Self {
            main: of(states.first().copied()),
            apart: states.iter().skip(1).map(|s| of(Some(*s))).collect(),
        }
    }

    /// In every state, the main one first.
    pub fn all(&self) -> impl Iterator<Item = &T> + Clone {
        std::iter::once(&self.main).chain(&self.apart)
    }

    pub(crate) fn all_mut(&mut self) -> impl Iterator<Item = &mut T> {
        std::iter::once(&mut self.main).chain(&mut self.apart)
    }
}

/// The states of some trials, each once.
pub(crate) fn states(seen: impl Iterator<Item = State>) -> Vec<State> {
    let mut states: Vec<_> = seen.collect();
    states.sort_unstable();
    states.dedup();
    states
}

/// The state of every trial.
pub(crate) fn seen<F>(measured: &[Measured<F>]) -> impl Iterator<Item = State> + Clone {
    measured.iter().flat_map(|m| &m.samples).map(|s| s.state)
}

/// The most frequent state of two CPUs.
pub(crate) fn prevailing(seen: impl Iterator<Item = State> + Clone) -> Option<State> {
    let count = |state| seen.clone().filter(|s| *s == state).count();
    [State::Unknown, State::Far, State::Moved, State::Near]
        .into_iter()
        .filter(|s| count(*s) > 0)
        .max_by_key(|s| count(*s))
}

/// What a reader should know of the states that were seen; and what it means that the CPUs were far apart.
pub(crate) fn state_warnings(seen: impl Iterator<Item = State>, far: &str) -> Vec<String> {
    let seen: Vec<_> = states(seen.filter(|s| *s != State::OneCpu));
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
