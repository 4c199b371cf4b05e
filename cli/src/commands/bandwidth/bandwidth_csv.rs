//! The trials of a bandwidth run as CSV: raw and mean.

use std::fmt::Write as _;

use fullbore_lab::bandwidth::result::BandwidthRun;

use crate::output::csv::{conditions, number, rates};

/// Both tables, each with its kind: one line per trial, one line per column and state.
pub fn tables(run: &BandwidthRun) -> [(&'static str, String); 2] {
    let mut raw = String::from(
        "group,column,round,state,gib_per_s,cpu_s_per_gib,median_us,p99_us,\
         line_travel_before_ns,line_travel_after_ns,steal\n",
    );
    let mut mean = String::from(
        "group,column,state,trials,mean_gib_per_s,median_gib_per_s,ci95_low,ci95_high,median_mb_per_s,cpu_s_per_gib,\
         median_us,p99_us\n",
    );
    for column in run.columns.iter().flat_map(|c| c.all()) {
        let name = format!("{},{}", column.group, column.id);
        for s in &column.samples {
            let (round, state, f) = (s.round + 1, s.state, &s.figures);
            let (rate, cpu) = (f.gib_per_s, f.cpu_s_per_gib);
            let conditions = conditions(s);
            let _ = writeln!(raw, "{name},{round},{state},{rate},{cpu},,,{conditions}");
        }
        if let (Some(state), Some(rate)) = (column.state, &column.gib_per_s) {
            let _ = writeln!(
                mean,
                "{name},{state},{},{},{},,",
                rates(&column.samples, rate, |f| f.gib_per_s),
                number(column.mb_per_s.map(|e| e.median)),
                number(column.cpu_s_per_gib),
            );
        }
    }
    for latency in run.latencies.iter().flat_map(|l| l.all()) {
        let name = format!("latency,{}", latency.id);
        for s in &latency.samples {
            let (round, state, f) = (s.round + 1, s.state, &s.figures);
            let (median, p99) = (f.median_us, f.p99_us);
            let conditions = conditions(s);
            let _ = writeln!(raw, "{name},{round},{state},,,{median},{p99},{conditions}");
        }
        if let (Some(state), Some(us)) = (latency.state, latency.us) {
            let trials = latency.samples.len();
            let (median, p99) = (us.median, us.p99);
            let _ = writeln!(mean, "{name},{state},{trials},,,,,,,{median},{p99}");
        }
    }
    [("raw", raw), ("mean", mean)]
}
