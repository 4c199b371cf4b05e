//! Every trial of a run, as it was.

use maud::{Markup, html};

use super::sections::{table, travel};
use super::text::{bytes, safe};
use crate::bandwidth;
use crate::ladder::run::Run;
use crate::rounds::sample::Sample;
use crate::saved::load::Saved;
use crate::show::number::{count, maybe};
use crate::sweep::Sweep;
use crate::worker::side::Path;

/// More than this many rows are left to the saved file.
const MOST: usize = 20_000;

/// The samples of a run in a box that opens; nothing where it has none.
pub(super) fn samples(saved: &Saved) -> Markup {
    let (heads, rows): (Vec<&str>, Vec<Vec<String>>) = match saved {
        Saved::Ladder(run) => of_ladder(run),
        Saved::Sweep(run) => of_sweep(run),
        Saved::Bandwidth(run) => of_bandwidth(run),
        // A profile is one trial per rung; its samples are the flame graphs.
        Saved::Profile(_) => return html! {},
    };
    let shown = &rows[..rows.len().min(MOST)];
    html! {
        details {
            summary { "The raw samples: " (count(rows.len(), "trial")) }
            (table("Every trial, in full precision", &heads, shown))
            @if rows.len() > MOST { p.note { "… and " (rows.len() - MOST) " more in the saved file." } }
        }
    }
}

const STATE: [&str; 5] = [
    "round",
    "state",
    "GiB/s",
    "line before, ns",
    "line after, ns",
];

/// The figures that every trial has.
fn common<F>(name: &str, sample: &Sample<F>, rate: f64) -> Vec<String> {
    let [before, after] = travel(sample.line_travel_ns);
    vec![
        safe(name),
        (sample.round.saturating_add(1)).to_string(),
        sample.state.to_string(),
        exact(rate),
        before,
        after,
    ]
}

fn exact(value: f64) -> String {
    let text = value.to_string();
    if text.len() > 20 {
        format!("{value:e}")
    } else {
        text
    }
}

fn percent(share: Option<f64>) -> String {
    maybe(share.map(|s| s * 100.0))
}

fn of_ladder(run: &Run) -> (Vec<&'static str>, Vec<Vec<String>>) {
    let mut heads = vec!["rung"];
    heads.extend(STATE);
    heads.extend([
        "steal, %",
        "s",
        "bytes",
        "writer: CPU s",
        "calls",
        "EAGAIN",
        "switches",
        "reader: CPU s",
        "calls",
        "EAGAIN",
        "switches",
        "remark",
    ]);
    let results = run.rungs.iter().flat_map(|r| r.all());
    let rows = results
        .flat_map(|r| r.samples.iter().map(move |s| (r, s)))
        .map(|(r, s)| {
            let f = &s.figures;
            let mut row = common(&r.id, s, f.gib_per_s);
            row.push(percent(s.steal));
            row.push(exact(f.reader.seconds));
            row.push(f.reader.bytes.to_string());
            for side in [&f.writer, &f.reader] {
                row.push(exact(side.cpu_s));
                row.push(side.calls.to_string());
                row.push(side.eagain.to_string());
                row.push(
                    side.voluntary_switches
                        .saturating_add(side.involuntary_switches)
                        .to_string(),
                );
            }
            let note = |p: &Path| p.note.as_deref().map(safe);
            row.push(
                [note(&f.writer.path), note(&f.reader.path)]
                    .into_iter()
                    .flatten()
                    .collect::<Vec<_>>()
                    .join("; "),
            );
            row
        })
        .collect();
    (heads, rows)
}

fn of_sweep(run: &Sweep) -> (Vec<&'static str>, Vec<Vec<String>>) {
    let mut heads = vec!["capacity, buffer"];
    heads.extend(STATE);
    heads.extend(["round trip, µs", "99th percentile, µs"]);
    let cells = run
        .cells
        .iter()
        .flat_map(|c| c.all())
        .flat_map(|c| c.samples.iter().map(move |s| (c, s)));
    let rows = cells
        .map(|(c, s)| {
            let name = format!("{}, {}", bytes(c.capacity), bytes(c.buffer));
            let mut row = common(&name, s, s.figures.gib_per_s);
            row.push(maybe(s.figures.round_trips.map(|t| t.median_us)));
            row.push(maybe(s.figures.round_trips.map(|t| t.p99_us)));
            row
        })
        .collect();
    (heads, rows)
}

fn of_bandwidth(run: &bandwidth::result::BandwidthRun) -> (Vec<&'static str>, Vec<Vec<String>>) {
    let mut heads = vec!["what"];
    heads.extend(STATE);
    heads.extend([
        "steal, %",
        "CPU s/GiB",
        "round trip, µs",
        "99th percentile, µs",
    ]);
    let columns = run.columns.iter().flat_map(|c| c.all());
    let mut rows: Vec<_> = columns
        .flat_map(|c| c.samples.iter().map(move |s| (c, s)))
        .map(|(c, s)| {
            let name = super::bandwidth_chart::name(c);
            let mut row = common(name, s, s.figures.gib_per_s);
            row.extend([
                percent(s.steal),
                maybe(Some(s.figures.cpu_s_per_gib)),
                "–".into(),
                "–".into(),
            ]);
            row
        })
        .collect();
    let trips = run.latencies.iter().flat_map(|l| l.all());
    rows.extend(
        trips
            .flat_map(|l| l.samples.iter().map(move |s| (l, s)))
            .map(|(l, s)| {
                let name = format!("{}, round trips", l.title);
                let mut row = common(&name, s, f64::NAN);
                row[3] = "–".into();
                row.extend([
                    percent(s.steal),
                    "–".into(),
                    exact(s.figures.median_us),
                    exact(s.figures.p99_us),
                ]);
                row
            }),
    );
    (heads, rows)
}
