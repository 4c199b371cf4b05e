//! Saved runs of older forms, made into what the newest one says.

use crate::bandwidth::result::BandwidthRun;
use crate::ladder::run::{self, Run};
use crate::ladder::rung::{Rung, ladder};
use crate::machine::state::State;
use crate::rounds::Measured;
use crate::rounds::by_state::prevailing;
use crate::rounds::sample::Sample;
use crate::sweep::{self, Sweep};

/// `fullbore.ladder/1` did not name the state that prevailed, nor series, and compared each rung with the one before, which may
/// have had nothing to do with it. Its trials are compared as those of today are.
pub(super) fn complete_ladder(run: &mut Run) {
    run.head.schema = run::SCHEMA.to_owned();
    run.prevailing = prevailing(seen(run.rungs.iter().flat_map(|r| r.all()), |r| &r.samples));
    let known = ladder();
    let of = |id: &str| {
        let (name, pairs) = id.split_once(" ×").unwrap_or((id, "1"));
        let at = known.iter().position(|r| r.id == name)?;
        match pairs.parse() {
            Ok(1) => Some((at, known[at].clone())),
            Ok(pairs) => Some((at, known[at].with_pairs(pairs))),
            Err(_) => None,
        }
    };
    run.rungs
        .sort_by_key(|r| of(&r.id).map_or(known.len(), |(at, _)| at));
    let climbed: Vec<Rung> = run
        .rungs
        .iter()
        .filter_map(|r| Some(of(&r.id)?.1))
        .collect();
    let samples: Vec<(String, Vec<_>)> = run
        .rungs
        .iter()
        .map(|r| {
            (
                r.id.clone(),
                r.all().flat_map(|r| r.samples.clone()).collect(),
            )
        })
        .collect();
    for result in run.rungs.iter_mut().flat_map(|r| r.all_mut()) {
        let rung = of(&result.id).map(|(_, rung)| rung);
        let baseline = rung.as_ref().and_then(|r| r.baseline_among(&climbed));
        let baseline = baseline.and_then(|b| samples.iter().find(|(id, _)| *id == climbed[b].id));
        result.series = rung.map(|r| r.series);
        result.compare(baseline.map(|(id, samples)| (&**id, &samples[..])));
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
    let measured: Vec<_> = sweep
        .cells
        .iter()
        .map(|cell| Measured {
            samples: cell.samples.clone(),
            failures: Vec::new(),
        })
        .collect();
    let refused: Vec<_> = sweep.cells.iter().map(|c| c.refused.clone()).collect();
    let warnings = sweep.warnings.clone();
    sweep.sum_up(measured.iter().enumerate());
    sweep.warnings = warnings;
    for (cell, refused) in sweep.cells.iter_mut().zip(refused) {
        cell.refused = refused;
    }
}
