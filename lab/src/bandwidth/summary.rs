//! From trials to what they say. Pure.

use fullbore_sys::Error;

use super::column::{Column, Group};
use super::result::{ColumnResult, LatencyResult, LatencySample, Microseconds, Sample};
use crate::ladder::run::{self, NOTICEABLE, State, in_rounds};
use crate::stats::{self, Estimate};

/// MB (10⁶ bytes) per GiB (2³⁰ bytes).
const MB_PER_GIB: f64 = (1u64 << 30) as f64 / 1e6;

/// What has been measured of one column so far.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// Rates, for all but latencies.
    pub rates: Vec<Sample>,
    /// Round trips, for latencies.
    pub trips: Vec<LatencySample>,
    /// Why trials failed.
    pub failures: Vec<Error>,
}

/// Something that belongs to a state of the machine.
trait InState {
    fn state(&self) -> State;
}

impl InState for Sample {
    fn state(&self) -> State {
        self.state
    }
}

impl InState for LatencySample {
    fn state(&self) -> State {
        self.state
    }
}

/// The states of some trials, the one to show first: the prevailing one where it occurs.
fn states<S: InState>(samples: &[S], prevailing: Option<State>) -> Vec<State> {
    let mut states = run::states(samples.iter().map(S::state));
    states.sort_by_key(|s| Some(*s) != prevailing);
    states
}

/// The state of every trial.
fn all_states(measured: &[Measured]) -> impl Iterator<Item = State> + Clone {
    let rates = measured.iter().flat_map(|m| &m.rates).map(Sample::state);
    let trips = measured.iter().flat_map(|m| &m.trips);
    rates.chain(trips.map(LatencySample::state))
}

/// Sums up the columns that are no latencies. `measured[i]` belongs to `columns[i]`, here and below.
#[must_use]
pub fn rates(columns: &[Column], measured: &[Measured]) -> Vec<ColumnResult> {
    let main = run::prevailing(all_states(measured));
    let columns = columns.iter().zip(measured);
    columns
        .filter(|(column, _)| column.group != Group::Latency)
        .map(|(column, measured)| {
            let mut states = states(&measured.rates, main).into_iter();
            let mut result = rates_in(column, &measured.rates, states.next());
            result.apart = states
                .map(|state| rates_in(column, &measured.rates, Some(state)))
                .collect();
            match measured.failures.last() {
                Some(why) if result.samples.is_empty() => result.refused = Some(why.to_string()),
                Some(why) => result.warnings.push(format!(
                    "failed trials: {}, the last because {why}",
                    measured.failures.len()
                )),
                None => {}
            }
            result
        })
        .collect()
}

fn rates_in(column: &Column, samples: &[Sample], state: Option<State>) -> ColumnResult {
    let samples: Vec<_> = samples
        .iter()
        .filter(|s| Some(s.state) == state)
        .cloned()
        .collect();
    let rates: Vec<_> = samples.iter().map(|s| s.gib_per_s).collect();
    let gib_per_s = stats::estimate(&rates);
    let cpu: Vec<_> = samples.iter().map(|s| s.cpu_s_per_gib).collect();
    ColumnResult {
        id: column.id.into(),
        title: column.title.into(),
        what: column.what.into(),
        group: column.group,
        state,
        mb_per_s: gib_per_s.map(|e| Estimate {
            median: e.median * MB_PER_GIB,
            ci95: e.ci95.map(|end| end * MB_PER_GIB),
        }),
        gib_per_s,
        cpu_s_per_gib: stats::median(&cpu),
        copies: column.copies,
        touches_data: column.touches_data,
        warnings: doubts(&samples, &rates),
        samples,
        refused: None,
        apart: Vec::new(),
    }
}

fn doubts(samples: &[Sample], rates: &[f64]) -> Vec<String> {
    let named =
        |which: Vec<bool>, what| in_rounds(samples.iter().map(|s| s.round).zip(which), what);
    let stolen = samples.iter().map(|s| s.steal.unwrap_or(0.0) > NOTICEABLE);
    [
        named(stats::outliers(rates), "outlier"),
        named(stolen.collect(), "time stolen by the hypervisor"),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Sums up the latencies.
#[must_use]
pub fn latencies(columns: &[Column], measured: &[Measured]) -> Vec<LatencyResult> {
    let main = run::prevailing(all_states(measured));
    let columns = columns.iter().zip(measured);
    columns
        .filter(|(column, _)| column.group == Group::Latency)
        .map(|(column, measured)| {
            let mut states = states(&measured.trips, main).into_iter();
            let mut result = trips_in(column, &measured.trips, states.next());
            result.apart = states
                .map(|state| trips_in(column, &measured.trips, Some(state)))
                .collect();
            if result.samples.is_empty() {
                result.refused = measured.failures.last().map(Error::to_string);
            }
            result
        })
        .collect()
}

fn trips_in(column: &Column, samples: &[LatencySample], state: Option<State>) -> LatencyResult {
    let samples: Vec<_> = samples
        .iter()
        .filter(|s| Some(s.state) == state)
        .cloned()
        .collect();
    let all = |which: fn(&LatencySample) -> f64| samples.iter().map(which).collect::<Vec<_>>();
    let medians = stats::estimate(&all(|s| s.median_us));
    let p99 = stats::median(&all(|s| s.p99_us));
    LatencyResult {
        id: column.id.into(),
        title: column.title.into(),
        state,
        us: medians.zip(p99).map(|(e, p99)| Microseconds {
            median: e.median,
            ci95: e.ci95,
            p99,
        }),
        samples,
        refused: None,
        apart: Vec::new(),
    }
}

/// What a reader of the whole run should know about the machine's states.
#[must_use]
pub fn warnings(measured: &[Measured]) -> Vec<String> {
    let states = run::states(all_states(measured));
    run::state_warnings(
        &states,
        "figures of two processes would be better on near ones",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bandwidth::column::columns;
    use crate::ladder::run::LineTravel;

    fn sample(round: usize, gib_per_s: f64, state: State) -> Sample {
        Sample {
            round,
            gib_per_s,
            cpu_s_per_gib: 0.5,
            state,
            line_travel_ns: LineTravel::default(),
            steal: Some(0.0),
        }
    }

    fn trip(round: usize, us: f64, state: State) -> LatencySample {
        LatencySample {
            round,
            median_us: us,
            p99_us: us * 2.0,
            state,
            line_travel_ns: LineTravel::default(),
            steal: None,
        }
    }

    #[test]
    fn states_are_never_pooled_and_the_prevailing_one_comes_first() {
        let columns = columns(false);
        let mut measured = vec![Measured::default(); columns.len()];
        for round in 0..9 {
            let (rate, state) = if round < 3 {
                (4.0, State::Near)
            } else {
                (1.0, State::Far)
            };
            measured[0].rates.push(sample(round, rate, state));
            measured[3].rates.push(sample(round, 9.0, State::OneCpu));
            measured[12].trips.push(trip(round, 10.0 / rate, state));
        }
        let results = rates(&columns, &measured);
        assert_eq!(results.len(), 12);
        assert_eq!(
            (results[0].state, results[0].samples.len()),
            (Some(State::Far), 6)
        );
        assert_eq!(results[0].gib_per_s.unwrap().median, 1.0);
        assert!((results[0].mb_per_s.unwrap().median - 1_073.741_824).abs() < 1e-9);
        assert_eq!(results[0].apart[0].gib_per_s.unwrap().median, 4.0);
        assert!(results[3].apart.is_empty());
        let trips = latencies(&columns, &measured);
        assert_eq!(trips.len(), 3);
        let far = trips[0].us.unwrap();
        assert_eq!((far.median, far.p99), (10.0, 20.0));
        assert_eq!(trips[0].apart[0].us.unwrap().median, 2.5);
        assert!(warnings(&measured)[0].contains("near, far"));
    }

    #[test]
    fn what_failed_is_refused_with_its_reason_and_the_rest_stays() {
        let columns = columns(false);
        let mut measured = vec![Measured::default(); columns.len()];
        measured[2]
            .failures
            .push(Error::new("no TCP", "reason", ""));
        measured[14]
            .failures
            .push(Error::new("no TCP", "reason", ""));
        measured[1].rates.push(sample(1, 2.0, State::Near));
        measured[1].failures.push(Error::new("once", "reason", ""));
        let results = rates(&columns, &measured);
        assert_eq!(results[2].refused.as_deref(), Some("no TCP: reason"));
        assert!(results[1].refused.is_none());
        assert!(results[1].warnings[0].starts_with("failed trials: 1"));
        let trips = latencies(&columns, &measured);
        assert_eq!(trips[2].refused.as_deref(), Some("no TCP: reason"));
        assert!(trips[0].refused.is_none() && trips[0].us.is_none());
    }

    #[test]
    fn doubtful_trials_are_flagged_and_stay() {
        let columns = columns(true);
        let mut measured = vec![Measured::default(); columns.len()];
        for round in 0..7 {
            let rate = if round == 4 {
                40.0
            } else {
                4.0 + 0.01 * round as f64
            };
            measured[0].rates.push(sample(round, rate, State::OneCpu));
        }
        measured[0].rates[2].steal = Some(0.5);
        let result = &rates(&columns, &measured)[0];
        assert_eq!(result.samples.len(), 7);
        assert_eq!(
            result.warnings,
            [
                "outlier in round 5",
                "time stolen by the hypervisor in round 3"
            ]
        );
    }
}
