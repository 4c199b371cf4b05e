//! What saved runs of each kind measured, in one and the same form.

use fullbore_sys::size::Size;

use super::Unit;
use crate::bandwidth::result::BandwidthRun;
use crate::ladder::run::{Run, RungResult};
use crate::machine::state::State;
use crate::rounds::by_state::{ByState, states};
use crate::rounds::sample::{Sample, pairs};
use crate::saved::load::Saved;
use crate::sweep::Sweep;

/// The trials of one thing in one state.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ComparedSeries {
    pub id: String,
    pub unit: Unit,
    pub state: State,
    /// In that unit, one per trial.
    pub values: Vec<f64>,
    /// Ratio to the first rate of the run in the same round. Empty for that rate itself, and for times.
    pub to_first: Vec<f64>,
}

/// All trials of one thing, in the unit's values.
struct Thing {
    id: String,
    unit: Unit,
    trials: Vec<Sample<f64>>,
}

impl Thing {
    fn new<'a, F: 'a>(
        id: impl Into<String>,
        unit: Unit,
        samples: impl Iterator<Item = &'a Sample<F>>,
        value: impl Fn(&F) -> Option<f64>,
    ) -> Self {
        Self {
            id: id.into(),
            unit,
            trials: samples
                .filter_map(|s| Some(s.with(value(&s.figures)?)))
                .collect(),
        }
    }
}

/// Everything that a run measured, in its order. A profile measured nothing that could be compared.
pub(super) fn series(run: &Saved) -> Vec<ComparedSeries> {
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
        let first = first.filter(|first| *first != i && thing.unit == Unit::GibPerS);
        for state in states(thing.trials.iter().map(|t| t.state)) {
            let of_state = thing.trials.iter().filter(|t| t.state == state);
            let of_state: Vec<_> = of_state.cloned().collect();
            let to_first = first.map_or(Vec::new(), |first| {
                let pairs = pairs(&of_state, &things[first].trials, |v| *v, |v| *v);
                let ratios = pairs.into_iter().map(|(value, first)| value / first);
                ratios.filter(|ratio| ratio.is_finite()).collect()
            });
            all.push(ComparedSeries {
                id: thing.id.clone(),
                unit: thing.unit,
                state,
                values: of_state.iter().map(|t| t.figures).collect(),
                to_first,
            });
        }
    }
    all
}

fn ladder(run: &Run) -> Vec<Thing> {
    let thing = |rung: &ByState<RungResult>| {
        let samples = rung.all().flat_map(|r| &r.samples);
        Thing::new(&rung.id, Unit::GibPerS, samples, |f| Some(f.gib_per_s))
    };
    run.rungs.iter().map(thing).collect()
}

/// Cells, then the round trips of every capacity, which the cells of one capacity repeat.
fn cells(sweep: &Sweep) -> Vec<Thing> {
    let rates = sweep.cells.iter().map(|cell| {
        let id = format!("{} into {}", Size(cell.buffer), Size(cell.capacity));
        let samples = cell.all().flat_map(|c| &c.samples);
        Thing::new(id, Unit::GibPerS, samples, |f| Some(f.gib_per_s))
    });
    let trips = sweep.cells.chunk_by(|a, b| a.capacity == b.capacity);
    let trips = trips.map(|row| {
        let id = format!("1 B through {}", Size(row[0].capacity));
        let samples = row.iter().flat_map(|c| c.all()).flat_map(|c| &c.samples);
        Thing::new(id, Unit::Us, samples, |f| Some(f.round_trips?.median_us))
    });
    rates.chain(trips).collect()
}

/// Columns, then round trips.
fn columns(run: &BandwidthRun) -> Vec<Thing> {
    let rates = run.columns.iter().map(|column| {
        let samples = column.all().flat_map(|c| &c.samples);
        Thing::new(&column.id, Unit::GibPerS, samples, |f| Some(f.gib_per_s))
    });
    let trips = run.latencies.iter().map(|latency| {
        let samples = latency.all().flat_map(|l| &l.samples);
        Thing::new(&latency.id, Unit::Us, samples, |f| Some(f.median_us))
    });
    rates.chain(trips).collect()
}
