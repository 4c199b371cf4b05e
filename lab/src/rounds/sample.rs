//! One trial: when, under which conditions, and its figures.

use serde::{Deserialize, Serialize};

use crate::machine::conditions::Conditions;
use crate::machine::state::{LineTravel, State};
use crate::stats;

/// More than this share of stolen or waited-for time is flagged.
pub(crate) const NOTICEABLE: f64 = 0.02;

/// One trial of one case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Sample<F> {
    /// Round, from 0.
    pub round: usize,
    /// State of the machine.
    pub state: State,
    /// Travel time of a cache line.
    #[serde(default)]
    pub line_travel_ns: LineTravel,
    /// Share of time that the hypervisor took from the CPUs, the larger of both.
    #[serde(default)]
    pub steal: Option<f64>,
    /// What was measured.
    #[serde(flatten)]
    pub figures: F,
}

impl<F> Sample<F> {
    pub(crate) fn new(round: usize, conditions: Conditions, figures: F) -> Self {
        Self {
            round,
            state: conditions.state,
            line_travel_ns: conditions.line_travel_ns,
            steal: conditions.larger_steal(),
            figures,
        }
    }

    /// The same trial with other figures.
    pub(crate) fn with<G>(&self, figures: G) -> Sample<G> {
        Sample {
            round: self.round,
            state: self.state,
            line_travel_ns: self.line_travel_ns,
            steal: self.steal,
            figures,
        }
    }
}

/// `what`, and in which of the trials, each given by its round, if in any.
pub(crate) fn in_rounds(trials: impl Iterator<Item = (usize, bool)>, what: &str) -> Option<String> {
    let rounds: Vec<_> = trials
        .filter(|(_, doubtful)| *doubtful)
        .map(|(round, _)| (round + 1).to_string())
        .collect();
    let noun = if rounds.len() == 1 { "round" } else { "rounds" };
    (!rounds.is_empty()).then(|| format!("{what} in {noun} {}", rounds.join(", ")))
}

/// What is doubtful about trials of one state: outliers, and time that the hypervisor took.
pub(crate) fn doubts<F>(samples: &[Sample<F>], value: impl Fn(&F) -> f64) -> Vec<String> {
    let named =
        |which: Vec<bool>, what| in_rounds(samples.iter().map(|s| s.round).zip(which), what);
    let values: Vec<_> = samples.iter().map(|s| value(&s.figures)).collect();
    let stolen = samples.iter().map(|s| s.steal.unwrap_or(0.0) > NOTICEABLE);
    let stolen = named(stolen.collect(), "time stolen by the hypervisor");
    let outliers = named(stats::outliers(&values), "outlier");
    outliers.into_iter().chain(stolen).collect()
}

/// Values of the same round under the same conditions: the one, the other. What runs on one CPU is compared whatever the
/// distance to the other CPU was.
pub(crate) fn pairs<F, G>(
    samples: &[Sample<F>],
    others: &[Sample<G>],
    value: impl Fn(&F) -> f64,
    other: impl Fn(&G) -> f64,
) -> Vec<(f64, f64)> {
    let one_cpu = |state| state == State::OneCpu;
    samples
        .iter()
        .filter_map(|s| {
            let same = others.iter().find(|o| {
                s.round == o.round && (s.state == o.state || one_cpu(s.state) || one_cpu(o.state))
            })?;
            Some((value(&s.figures), other(&same.figures)))
        })
        .collect()
}
