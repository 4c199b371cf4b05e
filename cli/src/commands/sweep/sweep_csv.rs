//! A sweep as tables.

use std::fmt::Write as _;

use fullbore_lab::sweep::Sweep;

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
    for cell in sweep.cells.iter().flat_map(|c| c.all()) {
        for s in &cell.samples {
            let trips = s.figures.round_trips;
            let _ = writeln!(
                csv,
                "{},{},{},{},{},{},{},{},{},{}",
                cell.buffer,
                cell.capacity,
                s.round + 1,
                s.state,
                s.figures.gib_per_s,
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
    for cell in sweep.cells.iter().flat_map(|c| c.all()) {
        let (Some(state), Some(e)) = (cell.state, cell.gib_per_s) else {
            continue;
        };
        let trials = cell.samples.len();
        let mean = cell
            .samples
            .iter()
            .map(|s| s.figures.gib_per_s)
            .sum::<f64>()
            / trials as f64;
        let _ = writeln!(
            csv,
            "{},{},{state},{trials},{mean},{},{},{},{},{}",
            cell.buffer,
            cell.capacity,
            e.median,
            e.ci95[0],
            e.ci95[1],
            number(cell.latency_us.map(|l| l.median)),
            number(cell.latency_us.map(|l| l.p99)),
        );
    }
    csv
}
