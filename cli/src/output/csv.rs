//! What the tables of trials as CSV have in common.

use fullbore_lab::rounds::sample::Sample;
use fullbore_lab::stats::Estimate;

/// A number, or nothing where there is none.
pub fn number(value: Option<f64>) -> String {
    value.map_or(String::new(), |v| v.to_string())
}

/// `line_travel_before_ns,line_travel_after_ns,steal` of a trial.
pub fn conditions<F>(sample: &Sample<F>) -> String {
    let line = sample.line_travel_ns;
    [line.before, line.after, sample.steal]
        .map(number)
        .join(",")
}

/// `trials,mean_gib_per_s,median_gib_per_s,ci95_low,ci95_high` of trials.
pub fn rates<F>(samples: &[Sample<F>], estimate: &Estimate, rate: impl Fn(&F) -> f64) -> String {
    let trials = samples.len();
    let mean = samples.iter().map(|s| rate(&s.figures)).sum::<f64>() / trials as f64;
    let [low, high] = estimate.ci95;
    format!("{trials},{mean},{},{low},{high}", estimate.median)
}
