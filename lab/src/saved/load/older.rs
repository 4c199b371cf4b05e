//! Saved runs of older forms, made into what the newest one says.

use crate::bandwidth::result::BandwidthRun;
use crate::ladder::run::{self, Run};
use crate::machine::state::State;
use crate::rounds::Measured;
use crate::rounds::by_state::prevailing;
use crate::rounds::sample::Sample;
use crate::sweep::{self, Sweep};

/// `fullbore.ladder/1` did not name the state that prevailed, and compared each rung with the one before.
pub(super) fn complete_ladder(run: &mut Run) {
    run.head.schema = run::SCHEMA.to_owned();
    if run.prevailing.is_none() {
        run.prevailing = prevailing(seen(run.rungs.iter().flat_map(|r| r.all()), |r| &r.samples));
    }
    let mut previous: Option<String> = None;
    for rung in &mut run.rungs {
        let id = rung.id.clone();
        for result in std::iter::once(&mut rung.main).chain(&mut rung.apart) {
            if result.ratio_to_baseline.is_some() && result.baseline.is_none() {
                result.baseline.clone_from(&previous);
            }
        }
        previous = Some(id);
    }
}

/// Older runs did not name the state that prevailed.
pub(super) fn complete_bandwidth(run: &mut BandwidthRun) {
    if run.prevailing.is_none() {
        let rates = seen(run.columns.iter().flat_map(|c| c.all()), |c| &c.samples);
        let trips = seen(run.latencies.iter().flat_map(|l| l.all()), |l| &l.samples);
        run.prevailing = prevailing(rates.chain(trips));
    }
}

/// The state of every trial.
fn seen<'a, T: 'a, F: 'a>(
    results: impl Iterator<Item = &'a T> + Clone,
    samples: fn(&T) -> &Vec<Sample<F>>,
) -> impl Iterator<Item = State> + Clone {
    results.flat_map(samples).map(|s| s.state)
}

/// `fullbore.sweep/1` had the samples of all states together, and beside them rates of other states.
pub(super) fn without_apart(text: &[u8]) -> serde_json::Result<Vec<u8>> {
    let mut value: serde_json::Value = serde_json::from_slice(text)?;
    let cells = value.get_mut("cells").and_then(|c| c.as_array_mut());
    for cell in cells.into_iter().flatten() {
        if let Some(cell) = cell.as_object_mut() {
            cell.remove("apart");
        }
    }
    serde_json::to_vec(&value)
}

/// Parts the samples by state.
pub(super) fn sum_up_sweep(sweep: &mut Sweep) {
    sweep.head.schema = sweep::SCHEMA.to_owned();
    let cells = std::mem::take(&mut sweep.cells);
    let measured: Vec<_> = cells
        .iter()
        .map(|cell| Measured {
            samples: cell.samples.clone(),
            failures: Vec::new(),
        })
        .collect();
    let refused: Vec<_> = cells.iter().map(|cell| cell.refused.clone()).collect();
    let warnings = std::mem::take(&mut sweep.warnings);
    sweep.cells = cells;
    sweep.sum_up(measured.iter().enumerate());
    sweep.warnings = warnings;
    for (cell, refused) in sweep.cells.iter_mut().zip(refused) {
        cell.refused = refused;
    }
}
