//! What a page says about one run: charts, the tables behind them, and what is doubtful.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use maud::{Markup, html};

use super::bandwidth_chart;
use super::causes;
use super::chart::Chart;
use super::heat;
use super::ladder_chart;
use super::ladder_chart::{by_state, in_words};
use super::text::{bytes, remarks, safe};
use crate::bandwidth::result::{self as rates, ColumnResult, LatencyResult};
use crate::ladder::run::{Run, RungResult};
use crate::machine::state::{LineTravel, State};
use crate::profile::explain;
use crate::profile::flame;
use crate::profile::profiled::{Profile, SideProfile};
use crate::show::number::{count, maybe, number};
use crate::stats::Estimate;
use crate::sweep::Sweep;

/// A chart with its caption.
pub(super) fn figure(chart: &Chart, id: &str) -> Markup {
    html! {
        figure {
            (chart.inline(id))
            // The first line names the machine, which the page has said above.
            figcaption { @for line in chart.caption.iter().skip(1) { (safe(line)) " " } }
        }
    }
}

/// A table in a box that scrolls by itself.
pub(super) fn table(caption: &str, heads: &[&str], rows: &[Vec<String>]) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label=(caption) {
            table {
                caption { (caption) }
                thead { tr { @for head in heads { th scope="col" { (head) } } } }
                tbody {
                    @for row in rows {
                        tr {
                            @for (i, cell) in row.iter().enumerate() {
                                @if i == 0 { th scope="row" { (cell) } } @else { td { (cell) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn interval(e: Option<Estimate>, trials: usize) -> String {
    match e {
        Some(e) if trials > 1 => format!("{} to {}", number(e.ci95[0]), number(e.ci95[1])),
        Some(_) => "1 trial".into(),
        None => "–".into(),
    }
}

pub(super) fn of_ladder(run: &Run, id: &str) -> Markup {
    html! {
        @for (i, (state, results)) in by_state(run).into_iter().enumerate() {
            @let id = format!("{id}-{i}");
            @if let Some(state) = state {
                details.apart {
                    summary { "Apart, never pooled with the above: trials " (in_words(state)) }
                    (figure(&ladder_chart::of_state(run, Some(state), &results, &id), &id))
                    (ladder_table(&results, state))
                }
            } @else {
                @let state = run.prevailing;
                (figure(&ladder_chart::of_state(run, state, &results, &id), &id))
                p.note {
                    "A reader that does not touch the data passes references on: its GiB/s is a rate of references, not of bytes touched. "
                    @if let Some(m) = run.memory {
                        "For scale: one CPU here reads memory at " (number(m.read)) " GiB/s and copies it at " (number(m.copy)) " GiB/s. "
                    }
                    "≈ marks a ratio that cannot be distinguished from 1 by these trials."
                }
                (ladder_table(&results, state.unwrap_or(State::Unknown)))
            }
        }
        @let doubts: Vec<String> = run.rungs.iter().flat_map(|r| {
            r.refused.iter().chain(&r.warnings).map(move |w| format!("{}: {w}", r.id))
        }).collect();
        (remarks(run.warnings.iter().chain(&doubts)))
    }
}

fn ladder_table(results: &[&RungResult], state: State) -> Markup {
    let rows: Vec<_> = results
        .iter()
        .map(|r| {
            let path = r.path.as_ref().map_or_else(String::new, |p| {
                format!(
                    "{} ({}) → {} ({})",
                    safe(&p.writer.way),
                    safe(&p.writer.wait),
                    safe(&p.reader.way),
                    safe(&p.reader.wait)
                )
            });
            vec![
                safe(&r.id),
                maybe(r.gib_per_s.map(|e| e.median)),
                interval(r.gib_per_s, r.samples.len()),
                r.samples.len().to_string(),
                maybe(r.ns_per_page),
                r.baseline.as_deref().map_or_else(|| "–".into(), safe),
                r.ratio_to_baseline
                    .map_or_else(|| "–".into(), |e| format!("× {}", number(e.median))),
                interval(r.ratio_to_baseline, r.samples.len()),
                r.verdict.map_or_else(|| "–".into(), |v| v.to_string()),
                maybe(r.ratio_to_first.map(|e| e.median)),
                maybe(r.cpu_s_per_gib),
                if r.touches_data { "yes" } else { "no" }.into(),
                if r.sound { "yes" } else { "no" }.into(),
                path,
            ]
        })
        .collect();
    table(
        &format!("The ladder, measured {}", in_words(state)),
        &[
            "rung",
            "GiB/s",
            "95 % interval",
            "trials",
            "ns/page",
            "baseline",
            "ratio to it",
            "95 % interval",
            "verdict",
            "ratio to first",
            "CPU s/GiB",
            "data touched",
            "sound",
            "path",
        ],
        &rows,
    )
}

pub(super) fn of_profile(profile: &Profile, id: &str) -> Markup {
    let rows: Vec<_> = profile
        .rungs
        .iter()
        .flat_map(|rung| rung.sides.iter().map(move |side| (rung, side)))
        .flat_map(|(rung, side)| {
            causes::parts(side).into_iter().map(move |(part, ns)| {
                let top = side
                    .causes
                    .iter()
                    .find(|c| causes::Part::Cpu(c.cause) == part);
                let top = top.map_or_else(String::new, |c| {
                    let names = c.top.iter().take(3);
                    names
                        .map(|s| format!("{} {} %", safe(&s.symbol), number(s.share * 100.0)))
                        .collect::<Vec<_>>()
                        .join(", ")
                });
                vec![
                    safe(&rung.id),
                    explain::name(side.side).into(),
                    part.title().into(),
                    number(ns),
                    top,
                ]
            })
        })
        .collect();
    html! {
        (figure(&causes::of(profile, id), id))
        @for rung in &profile.rungs {
            @if !rung.sentence.is_empty() { p { strong { (safe(&rung.id)) } ": " (safe(&rung.sentence)) } }
        }
        (table(
            &format!("ns per page by cause; {} samples asked for per second of CPU time", profile.method.frequency_hz),
            &["rung", "side", "cause", "ns/page", "functions, by share of the side’s CPU time"],
            &rows,
        ))
        @for rung in &profile.rungs {
            @for side in &rung.sides { (flame_graph(&rung.id, side)) }
        }
        @let doubts: Vec<String> = profile.rungs.iter().flat_map(|r| {
            r.refused.iter().chain(&r.warnings).map(move |w| format!("{}: {w}", r.id))
        }).collect();
        (remarks(profile.warnings.iter().chain(&doubts)))
    }
}

/// The call chains as a picture can hold them: a file may say anything.
fn drawable_stacks(side: &SideProfile) -> Vec<(String, u64)> {
    const DEEPEST: usize = 200;
    const LARGEST: u64 = 1 << 40;
    side.folded
        .iter()
        .filter(|(stack, n)| *n < LARGEST && stack.split(';').count() <= DEEPEST)
        .take(20_000)
        .map(|(stack, n)| {
            let frames: Vec<_> = stack.split(';').map(safe).collect();
            (frames.join(";"), *n)
        })
        .collect()
}

/// The flame graph of one side, as an image: nothing in it can run, and nothing is loaded for it.
fn flame_graph(rung: &str, side: &SideProfile) -> Markup {
    let who = explain::name(side.side);
    let title = format!("Flame graph: {}, {who}", safe(rung));
    // A side that hardly ran has nothing to draw.
    let Ok(svg) = flame::still(&drawable_stacks(side), &title) else {
        return html! {};
    };
    let source = format!("data:image/svg+xml;base64,{}", STANDARD.encode(svg));
    html! {
        figure.flame {
            figcaption { (title) ", " (count(side.samples as usize, "sample")) }
            div.scroll tabindex="0" role="region" aria-label=(title) {
                img src=(source) alt=(format!("{title}. The table above has the functions that take most."));
            }
        }
    }
}

pub(super) fn of_sweep(sweep: &Sweep, id: &str) -> Markup {
    let main = sweep.state();
    let latencies = sweep.cells.iter().any(|c| c.latency_us.is_some());
    let mut heads = vec![
        "capacity",
        "buffer",
        "GiB/s",
        "95 % interval",
        "trials",
        "state",
    ];
    if latencies {
        heads.extend(["round trip, µs", "99th percentile, µs"]);
    }
    heads.push("remark");
    let rows: Vec<_> = sweep
        .cells
        .iter()
        .map(|cell| {
            let trials = cell.samples.len();
            let mut row = vec![
                bytes(cell.capacity),
                bytes(cell.buffer),
                maybe(cell.gib_per_s.map(|e| e.median)),
                interval(cell.gib_per_s, trials),
                trials.to_string(),
                cell.state.map_or_else(|| "–".into(), |s| s.to_string()),
            ];
            if latencies {
                row.push(maybe(cell.latency_us.map(|l| l.median)));
                row.push(maybe(cell.latency_us.map(|l| l.p99)));
            }
            let apart = cell.apart.iter().filter_map(|a| {
                let rate = number(a.gib_per_s?.median);
                Some(format!("{}: {rate} GiB/s", a.state?))
            });
            row.push(
                cell.refused
                    .iter()
                    .map(|r| safe(r))
                    .chain(apart)
                    .collect::<Vec<_>>()
                    .join("; "),
            );
            row
        })
        .collect();
    html! {
        (figure(&heat::of(sweep, id), id))
        details {
            summary { "All " (count(sweep.cells.len(), "cell")) " as a table" }
            (table(
                &format!("The sweep{}", main.map_or_else(String::new, |s| format!(", measured {}", in_words(s)))),
                &heads,
                &rows,
            ))
        }
        (remarks(sweep.warnings.iter()))
    }
}

pub(super) fn of_bandwidth(run: &rates::BandwidthRun, id: &str) -> Markup {
    let conduits = bandwidth_chart::is_of_conduits(run);
    let heads = [
        "what",
        "MB/s",
        "GiB/s",
        "95 % interval",
        "trials",
        "state",
        "CPU s/GiB",
        "copies",
        "measured",
    ];
    let columns = run.columns.iter().flat_map(|c| c.all());
    let rows: Vec<_> = columns.map(rate_row).collect();
    let mut lines = Vec::new();
    if let Some(then) = &run.row_2005 {
        for (name, values) in [
            ("January 2005, before", &then.before),
            ("January 2005, after", &then.after),
        ] {
            let mut line = vec![name.to_owned()];
            line.extend(run.columns.iter().map(|c| {
                let at = then.columns.iter().position(|id| *id == c.id);
                maybe(at.and_then(|i| values.get(i).copied()))
            }));
            lines.push(line);
        }
    }
    let mut today = vec!["this machine".to_owned()];
    today.extend(
        run.columns
            .iter()
            .map(|c| maybe(c.mb_per_s.map(|e| e.median))),
    );
    lines.push(today);
    let titles: Vec<String> = run.columns.iter().map(|c| safe(&c.title)).collect();
    let line_heads: Vec<&str> = std::iter::once("MB/s")
        .chain(titles.iter().map(String::as_str))
        .collect();
    html! {
        (figure(&bandwidth_chart::rates(run, id), id))
        @if !conduits { (table("lmbench’s columns, in MB/s (10⁶ bytes per second)", &line_heads, &lines)) }
        @if let Some(then) = &run.row_2005 {
            p.note { "For scale, 2005: " (safe(&then.machine)) "; " (safe(&then.source)) "." }
        }
        (table("Rates", &heads, &rows))
        @let trips_id = format!("{id}-trips");
        @if let Some(chart) = bandwidth_chart::trips(run, &trips_id) {
            h4 { (chart.title) }
            (figure(&chart, &trips_id))
            (table(
                "Round trips of one byte",
                &["what", "median, µs", "95 % interval", "99th percentile, µs", "trials", "state", "remark"],
                &run.latencies.iter().flat_map(|l| l.all()).map(trip_row).collect::<Vec<_>>(),
            ))
        }
        @let doubts: Vec<String> = run.columns.iter().flat_map(|c| {
            c.refused.iter().chain(&c.warnings).map(move |w| format!("{}: {w}", bandwidth_chart::name(c)))
        }).collect();
        (remarks(run.warnings.iter().chain(&doubts)))
    }
}

fn rate_row(c: &ColumnResult) -> Vec<String> {
    vec![
        safe(bandwidth_chart::name(c)),
        maybe(c.mb_per_s.map(|e| e.median)),
        maybe(c.gib_per_s.map(|e| e.median)),
        interval(c.gib_per_s, c.samples.len()),
        c.samples.len().to_string(),
        c.state.map_or_else(|| "–".into(), |s| s.to_string()),
        maybe(c.cpu_s_per_gib),
        c.copies.map_or_else(|| "–".into(), |n| n.to_string()),
        safe(&c.what),
    ]
}

fn trip_row(l: &LatencyResult) -> Vec<String> {
    vec![
        safe(&l.title),
        maybe(l.us.map(|us| us.median)),
        l.us.map_or_else(
            || "–".into(),
            |us| format!("{} to {}", number(us.ci95[0]), number(us.ci95[1])),
        ),
        maybe(l.us.map(|us| us.p99)),
        l.samples.len().to_string(),
        l.state.map_or_else(|| "–".into(), |s| s.to_string()),
        l.refused.as_deref().map_or_else(String::new, safe),
    ]
}

/// Travel time before and after a trial.
pub(super) fn travel(t: LineTravel) -> [String; 2] {
    [maybe(t.before), maybe(t.after)]
}
