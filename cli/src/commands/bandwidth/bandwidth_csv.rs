//! The trials of a bandwidth run as CSV: raw and mean.

use std::fmt::Write as _;

use fullbore_lab::bandwidth::result::{BandwidthRun, ColumnResult, LatencyResult};

use crate::commands::ladder::ladder_csv::number;

/// Both tables, each with its kind.
pub fn tables(run: &BandwidthRun) -> [(&'static str, String); 2] {
    [("raw", raw(run)), ("mean", mean(run))]
}

fn rates(run: &BandwidthRun) -> impl Iterator<Item = &ColumnResult> {
    run.columns.iter().flat_map(|c| c.all())
}

fn latencies(run: &BandwidthRun) -> impl Iterator<Item = &LatencyResult> {
    run.latencies.iter().flat_map(|l| l.all())
}

/// One line per trial.
fn raw(run: &BandwidthRun) -> String {
    let mut csv = String::from(
        "group,column,round,state,gib_per_s,cpu_s_per_gib,median_us,p99_us,\
         line_travel_before_ns,line_travel_after_ns,steal\n",
    );
    for column in rates(run) {
        for s in &column.samples {
            let _ = writeln!(
                csv,
                "{},{},{},{},{},{},,,{},{},{}",
                column.group,
                column.id,
                s.round + 1,
                s.state,
                s.figures.gib_per_s,
                s.figures.cpu_s_per_gib,
                number(s.line_travel_ns.before),
                number(s.line_travel_ns.after),
                number(s.steal),
            );
        }
    }
    for latency in latencies(run) {
        for s in &latency.samples {
            let _ = writeln!(
                csv,
                "latency,{},{},{},,,{},{},{},{},{}",
                latency.id,
                s.round + 1,
                s.state,
                s.figures.median_us,
                s.figures.p99_us,
                number(s.line_travel_ns.before),
                number(s.line_travel_ns.after),
                number(s.steal),
            );
        }
    }
    csv
}

/// One line per column and state.
fn mean(run: &BandwidthRun) -> String {
    let mut csv = String::from(
        "group,column,state,trials,mean_gib_per_s,median_gib_per_s,ci95_low,ci95_high,median_mb_per_s,cpu_s_per_gib,\
         median_us,p99_us\n",
    );
    for column in rates(run) {
        let (Some(state), Some(gib), Some(mb)) = (column.state, column.gib_per_s, column.mb_per_s)
        else {
            continue;
        };
        let trials = column.samples.len();
        let mean = column
            .samples
            .iter()
            .map(|s| s.figures.gib_per_s)
            .sum::<f64>()
            / trials as f64;
        let _ = writeln!(
            csv,
            "{},{},{state},{trials},{mean},{},{},{},{},{},,",
            column.group,
            column.id,
            gib.median,
            gib.ci95[0],
            gib.ci95[1],
            mb.median,
            number(column.cpu_s_per_gib),
        );
    }
    for latency in latencies(run) {
        let (Some(state), Some(us)) = (latency.state, latency.us) else {
            continue;
        };
        let _ = writeln!(
            csv,
            "latency,{},{state},{},,,,,,,{},{}",
            latency.id,
            latency.samples.len(),
            us.median,
            us.p99,
        );
    }
    csv
}
