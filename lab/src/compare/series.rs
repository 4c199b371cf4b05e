//! What saved runs of each kind measured, in one and the same form.

use crate::load::Saved;
use crate::run::State;

/// The trials of one thing in one state.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Series {
    pub id: String,
    pub state: State,
    /// GiB/s, one per trial.
    pub rates: Vec<f64>,
    /// Ratio to the first thing of the run in the same round. Empty for that thing itself.
    pub to_first: Vec<f64>,
}

/// One trial, whatever it was.
#[derive(Clone, Copy, Debug)]
struct Trial {
    round: usize,
    state: State,
    rate: f64,
}

/// Everything that a run measured. A profile measured nothing that could be compared.
pub(super) fn series(run: &Saved) -> Vec<Series> {
    let trials: Vec<(String, Vec<Trial>)> = match run {
        Saved::Ladder(run) => run
            .rungs
            .iter()
            .map(|rung| {
                let all = std::iter::once(rung).chain(&rung.apart);
                let samples = all.flat_map(|r| &r.samples);
                let trial = |s: &crate::run::Sample| Trial {
                    round: s.round,
                    state: s.state,
                    rate: s.gib_per_s,
                };
                (rung.id.clone(), samples.map(trial).collect())
            })
            .collect(),
        Saved::Sweep(sweep) => sweep
            .cells
            .iter()
            .map(|cell| {
                let trial = |s: &crate::sweep::Sample| Trial {
                    round: s.round,
                    state: s.state,
                    rate: s.gib_per_s,
                };
                let name = super::cell_name(cell.buffer, cell.capacity);
                (name, cell.samples.iter().map(trial).collect())
            })
            .collect(),
        Saved::Profile(_) => Vec::new(),
    };
    let first = trials.iter().position(|(_, trials)| !trials.is_empty());
    let mut all = Vec::new();
    for (i, (id, mine)) in trials.iter().enumerate() {
        let mut states: Vec<_> = mine.iter().map(|t| t.state).collect();
        states.sort_unstable();
        states.dedup();
        for state in states {
            let of_state = || mine.iter().filter(|t| t.state == state);
            let to_first = match first {
                Some(first) if first != i => of_state()
                    .filter_map(|t| ratio(t, &trials[first].1))
                    .collect(),
                _ => Vec::new(),
            };
            all.push(Series {
                id: id.clone(),
                state,
                rates: of_state().map(|t| t.rate).collect(),
                to_first,
            });
        }
    }
    all
}

/// A trial on one CPU is compared whatever the distance to the other CPU was.
fn ratio(trial: &Trial, first: &[Trial]) -> Option<f64> {
    let either_is_one_cpu =
        |other: &Trial| trial.state == State::OneCpu || other.state == State::OneCpu;
    let same = |other: &&Trial| {
        other.round == trial.round && (other.state == trial.state || either_is_one_cpu(other))
    };
    let ratio = trial.rate / first.iter().find(same)?.rate;
    ratio.is_finite().then_some(ratio)
}
