//! From trials to what they say. Pure.

use super::column::{Column, Group};
use super::result::{ColumnFigures, ColumnResult, LatencyResult, Microseconds, TripFigures};
use crate::machine::state::State;
use crate::rounds::Measured;
use crate::rounds::by_state::{ByState, prevailing, seen};
use crate::rounds::sample::{Sample, doubts};
use crate::stats::{self, Estimate};

/// MB (10⁶ bytes) per GiB (2³⁰ bytes).
const MB_PER_GIB: f64 = (1u64 << 30) as f64 / 1e6;

/// What one trial gave.
#[derive(Clone, Debug)]
pub(super) enum TrialFigures {
    Rate(ColumnFigures),
    Trips(TripFigures),
}

/// What has been measured, summed up.
pub(super) struct Summary {
    pub prevailing: Option<State>,
    pub columns: Vec<ByState<ColumnResult>>,
    pub latencies: Vec<ByState<LatencyResult>>,
}

/// Sums up: `measured[i]` belongs to `columns[i]`.
pub(super) fn sum_up(columns: &[Column], measured: &[Measured<TrialFigures>]) -> Summary {
    let prevailing = prevailing(seen(measured));
    let mut summary = Summary {
        prevailing,
        columns: Vec::new(),
        latencies: Vec::new(),
    };
    for (column, measured) in columns.iter().zip(measured) {
        if column.group == Group::Latency {
            let trips = kept(measured, |figures| match figures {
                TrialFigures::Trips(trips) => Some(trips.clone()),
                TrialFigures::Rate(_) => None,
            });
            let mut result = ByState::of(&trips, prevailing, |state, samples| {
                trips_in(column, state, samples)
            });
            result.refused = measured.refused();
            summary.latencies.push(result);
        } else {
            let rates = kept(measured, |figures| match figures {
                TrialFigures::Rate(rate) => Some(rate.clone()),
                TrialFigures::Trips(_) => None,
            });
            let mut result = ByState::of(&rates, prevailing, |state, samples| {
                rates_in(column, state, samples)
            });
            result.refused = measured.refused();
            result.main.warnings.extend(measured.doubt());
            summary.columns.push(result);
        }
    }
    summary
}

/// The trials that gave figures of one kind.
fn kept<F>(
    measured: &Measured<TrialFigures>,
    of: fn(&TrialFigures) -> Option<F>,
) -> Vec<Sample<F>> {
    let samples = measured.samples.iter();
    samples
        .filter_map(|s| Some(s.with(of(&s.figures)?)))
        .collect()
}

fn rates_in(
    column: &Column,
    state: Option<State>,
    samples: Vec<Sample<ColumnFigures>>,
) -> ColumnResult {
    let all = |which: fn(&ColumnFigures) -> f64| -> Vec<_> {
        samples.iter().map(|s| which(&s.figures)).collect()
    };
    let gib_per_s = stats::estimate(&all(|f| f.gib_per_s));
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
        cpu_s_per_gib: stats::median(&all(|f| f.cpu_s_per_gib)),
        copies: column.copies,
        touches_data: column.touches_data,
        warnings: doubts(&samples, |f| f.gib_per_s),
        samples,
        refused: None,
    }
}

fn trips_in(
    column: &Column,
    state: Option<State>,
    samples: Vec<Sample<TripFigures>>,
) -> LatencyResult {
    let all = |which: fn(&TripFigures) -> f64| -> Vec<_> {
        samples.iter().map(|s| which(&s.figures)).collect()
    };
    let medians = stats::estimate(&all(|f| f.median_us));
    let p99 = stats::median(&all(|f| f.p99_us));
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
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bandwidth::column::columns;
    use crate::machine::conditions::Conditions;
    use crate::machine::state::LineTravel;
    use fullbore_sys::Error;

    fn sample(round: usize, state: State, figures: TrialFigures) -> Sample<TrialFigures> {
        let conditions = Conditions {
            state,
            line_travel_ns: LineTravel::default(),
            steal: [Some(0.0); 2],
        };
        Sample::new(round, conditions, figures)
    }

    fn rate(round: usize, gib_per_s: f64, state: State) -> Sample<TrialFigures> {
        let figures = ColumnFigures {
            gib_per_s,
            cpu_s_per_gib: 0.5,
        };
        sample(round, state, TrialFigures::Rate(figures))
    }

    fn trip(round: usize, us: f64, state: State) -> Sample<TrialFigures> {
        let figures = TripFigures {
            median_us: us,
            p99_us: us * 2.0,
        };
        sample(round, state, TrialFigures::Trips(figures))
    }

    fn nothing(columns: &[Column]) -> Vec<Measured<TrialFigures>> {
        columns.iter().map(|_| Measured::default()).collect()
    }

    #[test]
    fn states_are_never_pooled_and_the_prevailing_one_comes_first() {
        let columns = columns(false);
        let mut measured = nothing(&columns);
        for round in 0..9 {
            let (value, state) = if round < 3 {
                (4.0, State::Near)
            } else {
                (1.0, State::Far)
            };
            measured[0].samples.push(rate(round, value, state));
            measured[3].samples.push(rate(round, 9.0, State::OneCpu));
            measured[12].samples.push(trip(round, 10.0 / value, state));
        }
        let Summary {
            columns: results,
            latencies: trips,
            prevailing,
        } = sum_up(&columns, &measured);
        assert_eq!(results.len(), 12);
        assert_eq!(
            (results[0].state, results[0].samples.len()),
            (Some(State::Far), 6)
        );
        assert_eq!(results[0].gib_per_s.unwrap().median, 1.0);
        assert!((results[0].mb_per_s.unwrap().median - 1_073.741_824).abs() < 1e-9);
        assert_eq!(results[0].apart[0].gib_per_s.unwrap().median, 4.0);
        assert!(results[3].apart.is_empty());
        assert_eq!((trips.len(), prevailing), (3, Some(State::Far)));
        let far = trips[0].us.unwrap();
        assert_eq!((far.median, far.p99), (10.0, 20.0));
        assert_eq!(trips[0].apart[0].us.unwrap().median, 2.5);
    }

    #[test]
    fn what_failed_is_refused_with_its_reason_and_the_rest_stays() {
        let columns = columns(false);
        let mut measured = nothing(&columns);
        measured[2]
            .failures
            .push(Error::new("no TCP", "reason", ""));
        measured[14]
            .failures
            .push(Error::new("no TCP", "reason", ""));
        measured[1].samples.push(rate(1, 2.0, State::Near));
        measured[1].failures.push(Error::new("once", "reason", ""));
        let Summary {
            columns: results,
            latencies: trips,
            ..
        } = sum_up(&columns, &measured);
        assert_eq!(results[2].refused.as_deref(), Some("no TCP: reason"));
        assert!(results[1].refused.is_none());
        assert!(results[1].warnings[0].starts_with("failed trials: 1"));
        assert_eq!(trips[2].refused.as_deref(), Some("no TCP: reason"));
        assert!(trips[0].refused.is_none() && trips[0].us.is_none());
    }

    #[test]
    fn doubtful_trials_are_flagged_and_stay() {
        let columns = columns(true);
        let mut measured = nothing(&columns);
        for round in 0..7 {
            let value = if round == 4 {
                40.0
            } else {
                4.0 + 0.01 * round as f64
            };
            measured[0].samples.push(rate(round, value, State::OneCpu));
        }
        measured[0].samples[2].steal = Some(0.5);
        let result = &sum_up(&columns, &measured).columns[0];
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
