//! The trials of a ladder as CSV: raw and mean.

use std::fmt::Write as _;

use fullbore_lab::ladder::run::Run;

use crate::output::csv::{conditions, number, rates};

/// Both tables, each with its kind: one line per trial, one line per rung and state.
pub fn tables(run: &Run) -> [(&'static str, String); 2] {
    let mut raw = String::from(
        "rung,round,state,gib_per_s,seconds,bytes,line_travel_before_ns,line_travel_after_ns,steal,\
         writer_cpu_s,writer_calls,writer_eagain,writer_switches,reader_cpu_s,reader_calls,reader_eagain,reader_switches\n",
    );
    let mut mean = String::from(
        "rung,state,trials,mean_gib_per_s,median_gib_per_s,ci95_low,ci95_high,ns_per_page,cpu_s_per_gib\n",
    );
    for result in run.rungs.iter().flat_map(|r| r.all()) {
        let id = &result.id;
        for s in &result.samples {
            let (f, round) = (&s.figures, s.round + 1);
            let (rate, reader) = (f.gib_per_s, &f.reader);
            let (seconds, bytes) = (reader.seconds, reader.bytes);
            let _ = write!(
                raw,
                "{id},{round},{},{rate},{seconds},{bytes},{}",
                s.state,
                conditions(s)
            );
            for side in [&f.writer, reader] {
                let switches = side.voluntary_switches + side.involuntary_switches;
                let (cpu, calls, eagain) = (side.cpu_s, side.calls, side.eagain);
                let _ = write!(raw, ",{cpu},{calls},{eagain},{switches}");
            }
            raw.push('\n');
        }
        if let (Some(state), Some(rate)) = (result.state, &result.gib_per_s) {
            let _ = writeln!(
                mean,
                "{id},{state},{},{},{}",
                rates(&result.samples, rate, |f| f.gib_per_s),
                number(result.ns_per_page),
                number(result.cpu_s_per_gib),
            );
        }
    }
    [("raw", raw), ("mean", mean)]
}
