//! A sweep as tables.

use std::fmt::Write as _;

use fullbore_lab::sweep::Sweep;

use crate::output::csv::{conditions, number, rates};

/// Both tables, each with its kind: one line per trial, one line per cell and state.
pub fn tables(sweep: &Sweep) -> [(&'static str, String); 2] {
    let mut raw = String::from(
        "buffer,capacity,round,state,gib_per_s,line_travel_before_ns,line_travel_after_ns,steal,round_trips,round_trip_median_us,round_trip_p99_us\n",
    );
    let mut mean = String::from(
        "buffer,capacity,state,trials,mean_gib_per_s,median_gib_per_s,ci95_low,ci95_high,latency_median_us,latency_p99_us\n",
    );
    for cell in sweep.cells.iter().flat_map(|c| c.all()) {
        let sizes = format!("{},{}", cell.buffer, cell.capacity);
        for s in &cell.samples {
            let trips = s.figures.round_trips;
            let _ = writeln!(
                raw,
                "{sizes},{},{},{},{},{},{},{}",
                s.round + 1,
                s.state,
                s.figures.gib_per_s,
                conditions(s),
                trips.map_or(String::new(), |t| t.count.to_string()),
                number(trips.map(|t| t.median_us)),
                number(trips.map(|t| t.p99_us)),
            );
        }
        if let (Some(state), Some(rate)) = (cell.state, &cell.gib_per_s) {
            let _ = writeln!(
                mean,
                "{sizes},{state},{},{},{}",
                rates(&cell.samples, rate, |f| f.gib_per_s),
                number(cell.latency_us.map(|l| l.median)),
                number(cell.latency_us.map(|l| l.p99)),
            );
        }
    }
    [("raw", raw), ("mean", mean)]
}
