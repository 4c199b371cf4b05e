//! What saved runs of each kind measured, in one and the same form.

use fullbore_sys::size::Size;

use super::Unit;
use crate::bandwidth::result as bandwidth;
use crate::ladder::run::{self, State};
use crate::saved::load::Saved;
use crate::sweep::Sweep;

/// The trials of one thing in one state.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Series {
    pub id: String,
    pub unit: Unit,
    pub state: State,
    /// In that unit, one per trial.
    pub values: Vec<f64>,
    /// Ratio to the first rate of the run in the same round. Empty for that rate itself, and for times.
    pub to_first: Vec<f64>,
}

/// One trial, whatever it was.
#[derive(Clone, Copy, Debug)]
struct Trial {
    round: usize,
    state: State,
    value: f64,
}

fn trial(round: usize, state: State, value: f64) -> Trial {
    Trial {
        round,
        state,
        value,
    }
}

/// All trials of one thing.
struct Thing {
    id: String,
    unit: Unit,
    trials: Vec<Trial>,
}

/// Everything that a run measured, in its order. A profile measured nothing that could be compared.
pub(super) fn series(run: &Saved) -> Vec<Series> {
    let things = match run {
        Saved::Ladder(run) => ladder(run),
        Saved::Sweep(sweep) => cells(sweep),
        Saved::Bandwidth(run) => columns(run),
        Saved::Profile(_) => Vec::new(),
    };
    let first = things
        .iter()
        .position(|t| t.unit == Unit::GibPerS && !t.trials.is_empty());
    let mut all = Vec::new();
    for (i, thing) in things.iter().enumerate() {
        let states = run::states(thing.trials.iter().map(|t| t.state));
        let first = first.filter(|first| *first != i && thing.unit == Unit::GibPerS);
        for state in states {
            let of_state = || thing.trials.iter().filter(|t| t.state == state);
            let to_first = first.map_or(Vec::new(), |first| {
                let first = &things[first].trials;
                of_state().filter_map(|t| ratio(t, first)).collect()
            });
            all.push(Series {
                id: thing.id.clone(),
                unit: thing.unit,
                state,
                values: of_state().map(|t| t.value).collect(),
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
    let ratio = trial.value / first.iter().find(same)?.value;
    ratio.is_finite().then_some(ratio)
}

fn ladder(run: &run::Run) -> Vec<Thing> {
    let thing = |rung: &run::RungResult| {
        let all = std::iter::once(rung).chain(&rung.apart);
        let trials = all
            .flat_map(|r| &r.samples)
            .map(|s| trial(s.round, s.state, s.gib_per_s));
        Thing {
            id: rung.id.clone(),
            unit: Unit::GibPerS,
            trials: trials.collect(),
        }
    };
    run.rungs.iter().map(thing).collect()
}

/// Cells, then the round trips of every capacity, which the cells of one capacity repeat.
fn cells(sweep: &Sweep) -> Vec<Thing> {
    let rates = sweep.cells.iter().map(|cell| Thing {
        id: format!("{} into {}", Size(cell.buffer), Size(cell.capacity)),
        unit: Unit::GibPerS,
        trials: cell
            .samples
            .iter()
            .map(|s| trial(s.round, s.state, s.gib_per_s))
            .collect(),
    });
    let trips = sweep.cells.chunk_by(|a, b| a.capacity == b.capacity);
    let trips = trips.map(|row| Thing {
        id: format!("1 B through {}", Size(row[0].capacity)),
        unit: Unit::Us,
        trials: row
            .iter()
            .flat_map(|cell| &cell.samples)
            .filter_map(|s| Some(trial(s.round, s.state, s.round_trips?.median_us)))
            .collect(),
    });
    rates.chain(trips).collect()
}

/// Columns, then round trips.
fn columns(run: &bandwidth::Run) -> Vec<Thing> {
    let rates = run.columns.iter().map(|column| {
        let all = std::iter::once(column).chain(&column.apart);
        let trials = all
            .flat_map(|c| &c.samples)
            .map(|s| trial(s.round, s.state, s.gib_per_s));
        Thing {
            id: column.id.clone(),
            unit: Unit::GibPerS,
            trials: trials.collect(),
        }
    });
    let trips = run.latencies.iter().map(|latency| {
        let all = std::iter::once(latency).chain(&latency.apart);
        let trials = all
            .flat_map(|l| &l.samples)
            .map(|s| trial(s.round, s.state, s.median_us));
        Thing {
            id: latency.id.clone(),
            unit: Unit::Us,
            trials: trials.collect(),
        }
    });
    rates.chain(trips).collect()
}
