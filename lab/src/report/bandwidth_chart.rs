//! The bandwidth table and the round trips as bars.

use super::bars::{Bar, Bars, Trend, value_of};
use super::chart::Chart;
use super::ladder_chart::{description, in_words, labelled, machine_line};
use super::text::{bytes, drawable};
use crate::bandwidth::column::Group;
use crate::bandwidth::result::{BandwidthRun, ColumnResult, LatencyResult};
use crate::machine::state::State;
use crate::show::number::number;

/// Beyond this factor between the fastest and the slowest, bars from 0 would hide the slow ones.
const LINEAR_UP_TO: f64 = 60.0;

/// Rates of a run of bandwidth or of conduits.
pub fn bandwidth(run: &BandwidthRun) -> Chart {
    rates(run, "bandwidth")
}

/// Round trips of a run; `None` where it has none.
pub fn latency(run: &BandwidthRun) -> Option<Chart> {
    trips(run, "latency")
}

/// Whether it is a run of conduits, files and sockets joined by a pipe.
pub(super) fn is_of_conduits(run: &BandwidthRun) -> bool {
    run.latencies.is_empty() && run.columns.iter().all(|c| c.group == Group::Conduit)
}

/// What tells a column from all others: the titles of conduits repeat.
pub(super) fn name(column: &ColumnResult) -> &str {
    match column.group {
        Group::Conduit => &column.id,
        _ => &column.title,
    }
}

pub(super) fn rates(run: &BandwidthRun, id: &str) -> Chart {
    let bars: Vec<Bar> = run.columns.iter().map(|c| bar(c, run.prevailing)).collect();
    let drawn = || bars.iter().filter_map(|b| drawable(b.value.ok()?));
    let (low, high) = (
        drawn().fold(f64::INFINITY, f64::min),
        drawn().fold(0.0, f64::max),
    );
    let from = (high / low > LINEAR_UP_TO).then(|| drawn().next().unwrap_or(1.0));
    let scale = match from {
        Some(_) => {
            "GiB/s, logarithmic: bars begin at the first, so equal lengths are equal factors."
        }
        None => "GiB/s, from 0.",
    };
    let place = run
        .prevailing
        .map_or_else(String::new, |s| format!(", measured {}", in_words(s)));
    let bars = Bars {
        id: id.into(),
        unit: "GiB/s",
        note: if is_of_conduits(run) {
            "copies"
        } else {
            "MB/s"
        },
        from,
        interval: "95 % interval",
        bars,
    };
    Chart::new(
        if is_of_conduits(run) {
            "A pipe between files and sockets"
        } else {
            "Ways to move bytes"
        },
        vec![
            machine_line(&run.head.machine),
            format!(
                "Medians of up to {} trials, {} per call{place}.",
                run.method.made.rounds_done,
                bytes(run.method.message_bytes)
            ),
            scale.into(),
        ],
        description(&bars.bars),
        |layout| bars.draw(layout),
    )
}

fn bar(column: &ColumnResult, prevailing: Option<State>) -> Bar {
    let mb = column.mb_per_s.and_then(|e| drawable(e.median));
    Bar {
        heading: None,
        label: labelled(name(column), column.state, prevailing),
        value: value_of(column.gib_per_s.map(|e| e.median), &column.refused),
        interval: column
            .gib_per_s
            .filter(|_| column.samples.len() > 1)
            .map(|e| e.ci95),
        by_reference: !column.touches_data,
        note: match column.copies {
            Some(copies) => copies.to_string(),
            None => mb.map_or_else(String::new, number),
        },
        trend: Trend::None,
    }
}

pub(super) fn trips(run: &BandwidthRun, id: &str) -> Option<Chart> {
    if run.latencies.is_empty() {
        return None;
    }
    let bars = Bars {
        id: id.into(),
        unit: "µs",
        note: "p99, µs",
        from: None,
        interval: "median to 99th percentile",
        bars: run
            .latencies
            .iter()
            .map(|l| trip(l, run.prevailing))
            .collect(),
    };
    let place = run
        .prevailing
        .map_or_else(String::new, |s| format!(", measured {}", in_words(s)));
    Some(Chart::new(
        "A byte there and back",
        vec![
            machine_line(&run.head.machine),
            format!("Round trips of one byte, both sides blocking{place}. µs, from 0."),
        ],
        description(&bars.bars),
        |layout| bars.draw(layout),
    ))
}

fn trip(latency: &LatencyResult, prevailing: Option<State>) -> Bar {
    Bar {
        heading: None,
        label: labelled(&latency.title, latency.state, prevailing),
        value: value_of(latency.us.map(|us| us.median), &latency.refused),
        interval: latency.us.map(|us| [us.median, us.p99]),
        by_reference: false,
        note: latency.us.map_or_else(String::new, |us| number(us.p99)),
        trend: Trend::None,
    }
}
