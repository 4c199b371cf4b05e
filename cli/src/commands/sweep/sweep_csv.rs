//! A sweep as tables.

use std::fmt::Write as _;

use fullbore_lab::stats;
use fullbore_lab::sweep::{Cell, Sweep};

use crate::commands::ladder::ladder_csv::number;

/// The raw trials, and what they say per cell and state.
pub fn tables(sweep: &Sweep) -> [(&'static str, String); 2] {
    [("raw", raw(sweep)), ("mean", mean(sweep))]
}

/// One line per trial.
fn raw(sweep: &Sweep) -> String {
    let mut csv = String::from(
        "buffer,capacity,round,state,gib_per_s,line_travel_before_ns,line_travel_after_ns,round_trips,round_trip_median_us,round_trip_p99_us\n",
    );
    for cell in &sweep.cells {
        for s in &cell.samples {
            let trips = s.round_trips;
            let _ = writeln!(
                csv,
                "{},{},{},{},{},{},{},{},{},{}",
                cell.buffer,
                cell.capacity,
                s.round + 1,
                s.state,
                s.gib_per_s,
                number(s.line_travel_ns.before),
                number(s.line_travel_ns.after),
                trips.map_or(String::new(), |t| t.count.to_string()),
                number(trips.map(|t| t.median_us)),
                number(trips.map(|t| t.p99_us)),
            );
        }
    }
    csv
}

/// One line per cell and state.
fn mean(sweep: &Sweep) -> String {
    let mut csv = String::from(
        "buffer,capacity,state,trials,mean_gib_per_s,median_gib_per_s,ci95_low,ci95_high,latency_median_us,latency_p99_us\n",
    );
    for cell in &sweep.cells {
        let apart = cell.apart.iter().map(|a| a.state);
        for state in cell.state.into_iter().chain(apart) {
            line(&mut csv, cell, state);
        }
    }
    csv
}

fn line(csv: &mut String, cell: &Cell, state: fullbore_lab::ladder::run::State) {
    let of_state = cell.samples.iter().filter(|s| s.state == state);
    let rates: Vec<_> = of_state.map(|s| s.gib_per_s).collect();
    let Some(e) = stats::estimate(&rates) else {
        return;
    };
    let mean = rates.iter().sum::<f64>() / rates.len() as f64;
    let latency = cell.latency_us.filter(|_| cell.state == Some(state));
    let _ = writeln!(
        csv,
        "{},{},{state},{},{mean},{},{},{},{},{}",
        cell.buffer,
        cell.capacity,
        rates.len(),
        e.median,
        e.ci95[0],
        e.ci95[1],
        number(latency.map(|l| l.median)),
        number(latency.map(|l| l.p99)),
    );
}
