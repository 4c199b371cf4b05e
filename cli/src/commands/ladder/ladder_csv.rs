//! The trials of a ladder as CSV: raw and mean.

use std::fmt::Write as _;

use fullbore_lab::ladder::run::Run;

/// Both tables, each with its kind.
pub fn tables(run: &Run) -> [(&'static str, String); 2] {
    [("raw", raw_csv(run)), ("mean", mean_csv(run))]
}

/// A number, or nothing where there is none.
pub fn number(value: Option<f64>) -> String {
    value.map_or(String::new(), |v| v.to_string())
}

/// One line per trial.
fn raw_csv(run: &Run) -> String {
    let mut csv = String::from(
        "rung,round,state,gib_per_s,seconds,bytes,line_travel_before_ns,line_travel_after_ns,steal,\
         writer_cpu_s,writer_calls,writer_eagain,writer_switches,reader_cpu_s,reader_calls,reader_eagain,reader_switches\n",
    );
    for result in run.rungs.iter().flat_map(|r| r.all()) {
        for s in &result.samples {
            let _ = write!(
                csv,
                "{},{},{},{},{},{},{},{},{}",
                result.id,
                s.round + 1,
                s.state,
                s.figures.gib_per_s,
                s.figures.reader.seconds,
                s.figures.reader.bytes,
                number(s.line_travel_ns.before),
                number(s.line_travel_ns.after),
                number(s.steal),
            );
            for side in [&s.figures.writer, &s.figures.reader] {
                let switches = side.voluntary_switches + side.involuntary_switches;
                let _ = write!(
                    csv,
                    ",{},{},{},{switches}",
                    side.cpu_s, side.calls, side.eagain
                );
            }
            csv.push('\n');
        }
    }
    csv
}

/// One line per rung and state.
fn mean_csv(run: &Run) -> String {
    let mut csv = String::from(
        "rung,state,trials,mean_gib_per_s,median_gib_per_s,ci95_low,ci95_high,ns_per_page,cpu_s_per_gib\n",
    );
    for result in run.rungs.iter().flat_map(|r| r.all()) {
        let (Some(state), Some(e)) = (result.state, result.gib_per_s) else {
            continue;
        };
        let trials = result.samples.len();
        let mean = result
            .samples
            .iter()
            .map(|s| s.figures.gib_per_s)
            .sum::<f64>()
            / trials as f64;
        let _ = writeln!(
            csv,
            "{},{state},{trials},{mean},{},{},{},{},{}",
            result.id,
            e.median,
            e.ci95[0],
            e.ci95[1],
            number(result.ns_per_page),
            number(result.cpu_s_per_gib),
        );
    }
    csv
}
