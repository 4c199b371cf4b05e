//! The lines of a comparison: what there is to compare, and what two groups say of one thing. Pure.

use super::ComparedRow;
use super::Figure;
use super::Unit;
use super::series::ComparedSeries;
use crate::machine::state::State;
use crate::stats;

/// One row to be.
pub(super) struct Key {
    pub(super) id: String,
    pub(super) unit: Unit,
    pub(super) state: State,
    pub(super) in_both: bool,
}

/// What either group measured, in the order of the base, each in every state that can be compared.
pub(super) fn keys(base: &[Vec<ComparedSeries>], other: &[Vec<ComparedSeries>]) -> Vec<Key> {
    let has = |side: &[Vec<ComparedSeries>], id: &str, state| {
        side.iter()
            .flatten()
            .any(|s| s.id == id && s.state == state)
    };
    let mut ids: Vec<(&str, Unit)> = Vec::new();
    for series in base.iter().chain(other).flatten() {
        if ids.iter().all(|(id, _)| *id != series.id) {
            ids.push((&series.id, series.unit));
        }
    }
    let mut keys = Vec::new();
    for (id, unit) in ids {
        // In the other states one does not know what is compared.
        for state in [State::Near, State::Far, State::OneCpu] {
            let (in_base, in_other) = (has(base, id, state), has(other, id, state));
            if in_base || in_other {
                keys.push(Key {
                    id: id.to_owned(),
                    unit,
                    state,
                    in_both: in_base && in_other,
                });
            }
        }
    }
    keys
}

/// The samples of one row, run by run.
fn of<'a>(side: &'a [Vec<ComparedSeries>], key: &Key) -> Vec<&'a ComparedSeries> {
    let mine =
        |run: &'a Vec<ComparedSeries>| run.iter().find(|s| s.id == key.id && s.state == key.state);
    side.iter().filter_map(mine).collect()
}

/// What both groups say of it.
pub(super) fn row(
    key: &Key,
    base: &[Vec<ComparedSeries>],
    other: &[Vec<ComparedSeries>],
    together: usize,
) -> ComparedRow {
    let (a, b) = (of(base, key), of(other, key));
    let judged = |which: fn(&ComparedSeries) -> &[f64]| {
        let side = |series: &[&ComparedSeries]| -> Option<Vec<Vec<f64>>> {
            let runs: Vec<_> = series.iter().map(|s| which(s).to_vec()).collect();
            (!runs.is_empty() && runs.iter().all(|r| !r.is_empty())).then_some(runs)
        };
        let (a, b) = (side(&a)?, side(&b)?);
        let ratio = match key.unit {
            Unit::GibPerS => stats::ratio_of_medians(&slices_of(&b), &slices_of(&a), together)?,
            Unit::Us => stats::ratio_of_medians(&slices_of(&a), &slices_of(&b), together)?,
        };
        Some((
            ratio,
            stats::unpaired_verdict(&ratio, samples(&a, &b), together),
        ))
    };
    let absolute = judged(|s| &s.values);
    let inside = judged(|s| &s.to_first);
    ComparedRow {
        id: key.id.clone(),
        unit: key.unit,
        state: key.state,
        base: figure(&a),
        other: figure(&b),
        ratio: absolute.map(|(ratio, _)| ratio),
        verdict: absolute.map(|(_, verdict)| verdict),
        ratio_of_ratios: inside.map(|(ratio, _)| ratio),
        verdict_inside: inside.map(|(_, verdict)| verdict),
    }
}

fn slices_of(runs: &[Vec<f64>]) -> Vec<&[f64]> {
    runs.iter().map(Vec::as_slice).collect()
}

/// What counts as a sample: a trial where one run meets one run; a run where several stand for a kind of machine, of
/// which many trials on one host say little.
fn samples(a: &[Vec<f64>], b: &[Vec<f64>]) -> [usize; 2] {
    match (a, b) {
        ([a], [b]) => [a.len(), b.len()],
        _ => [a.len(), b.len()],
    }
}

fn figure(series: &[&ComparedSeries]) -> Option<Figure> {
    let estimate = |which: fn(&ComparedSeries) -> &[f64]| match series {
        [one] => stats::estimate(which(one)),
        many => {
            let medians: Option<Vec<_>> = many.iter().map(|s| stats::median(which(s))).collect();
            stats::estimate(&medians?)
        }
    };
    Some(Figure {
        value: estimate(|s| &s.values)?,
        trials: series.iter().map(|s| s.values.len()).sum(),
        runs: series.len(),
        to_first: estimate(|s| &s.to_first),
    })
}
