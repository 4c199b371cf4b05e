//! A bandwidth run as tables, for people.

use std::collections::BTreeSet;
use std::fmt::Write;

use anstyle::{AnsiColor, Style};
use fullbore::size::Size;
use fullbore_lab::bandwidth::result::{ColumnResult, LatencyResult, Run};
use fullbore_lab::run::State;

use super::sheet::{Row, Sheet};
use crate::table::{short, told};

const PLAIN: Style = Style::new();
const TODAY: Style = Style::new().bold();
const SCALE: Style = Style::new().dimmed();
const WARNING: Style = AnsiColor::Yellow.on_default();

/// Draws a run within so many characters a line, with ANSI styles that the caller may strip.
pub fn draw(run: &Run, width: usize) -> String {
    let mut out = headline(run) + "\n\n";
    let columns: Vec<_> = run.columns.iter().map(Some).collect();
    let latencies: Vec<_> = run.latencies.iter().map(Some).collect();
    tables(&mut out, run, &columns, &latencies, width, true);
    out += &footnote(run);
    for state in apart(run) {
        let _ = writeln!(
            out,
            "\n{SCALE}Apart, never pooled with the above: {}{SCALE:#}",
            told(state)
        );
        let of_state = |c: &'_ &ColumnResult| c.state == Some(state);
        let columns: Vec<_> = run
            .columns
            .iter()
            .map(|c| c.apart.iter().find(of_state))
            .collect();
        let of_state = |l: &'_ &LatencyResult| l.state == Some(state);
        let latencies: Vec<_> = run
            .latencies
            .iter()
            .map(|l| l.apart.iter().find(of_state))
            .collect();
        tables(&mut out, run, &columns, &latencies, width, false);
    }
    warnings(&mut out, run);
    out
}

/// The tables of one state; what was not measured in it is absent.
fn tables(
    out: &mut String,
    run: &Run,
    columns: &[Option<&ColumnResult>],
    latencies: &[Option<&LatencyResult>],
    width: usize,
    with_2005: bool,
) {
    if columns.iter().any(Option::is_some) {
        let sheet = match run.columns.iter().all(|c| c.copies.is_some()) {
            true => conduits(run, columns),
            false => bandwidth(run, columns, with_2005),
        };
        *out += &sheet.draw(width);
    }
    if latencies.iter().any(Option::is_some) {
        *out += "\n";
        *out += &round_trips(run, latencies).draw(width);
    }
}

fn bandwidth(run: &Run, columns: &[Option<&ColumnResult>], with_2005: bool) -> Sheet {
    let mut rows = Vec::new();
    if let Some(row) = run.row_2005.as_ref().filter(|_| with_2005) {
        let figures = |figures: &[f64]| {
            let of = |id: &String| row.columns.iter().position(|c| c == id);
            let cell = |c: &ColumnResult| of(&c.id).and_then(|i| figures.get(i));
            run.columns
                .iter()
                .map(|c| cell(c).map_or(String::new(), |v| short(*v)))
                .collect()
        };
        for (label, all) in [
            ("2005, 1 page", &row.before),
            ("2005, 16 pages", &row.after),
        ] {
            rows.push(Row {
                label,
                style: SCALE,
                cells: figures(all),
            });
        }
    }
    rows.extend(rates("today", columns));
    Sheet {
        corner: "MB/s",
        titles: run.columns.iter().map(|c| c.title.clone()).collect(),
        rows,
    }
}

/// Rate, interval, and the rate in GiB/s.
fn rates(label: &'static str, columns: &[Option<&ColumnResult>]) -> Vec<Row> {
    let row = |label, style, cell: &dyn Fn(&ColumnResult) -> Option<f64>| Row {
        label,
        style,
        cells: columns
            .iter()
            .map(|column| match column {
                None => String::new(),
                Some(c) => cell(c).map_or("–".into(), short),
            })
            .collect(),
    };
    vec![
        row(label, TODAY, &|c| Some(c.mb_per_s?.median)),
        row("  95 % from", PLAIN, &|c| Some(c.mb_per_s?.ci95[0])),
        row("  95 % to", PLAIN, &|c| Some(c.mb_per_s?.ci95[1])),
        row("  GiB/s", PLAIN, &|c| Some(c.gib_per_s?.median)),
    ]
}

/// One column per purpose, its two ways one above the other.
fn conduits(run: &Run, columns: &[Option<&ColumnResult>]) -> Sheet {
    let mut titles: Vec<String> = Vec::new();
    for column in &run.columns {
        if !titles.contains(&column.title) {
            titles.push(column.title.clone());
        }
    }
    let mut rows = Vec::new();
    for (label, suffix) in [("by reference", "-splice"), ("by copying", "-copy")] {
        let is_it = |c: &ColumnResult, title: &String| c.title == *title && c.id.ends_with(suffix);
        let of_way: Vec<_> = titles
            .iter()
            .map(|t| columns.iter().copied().flatten().find(|c| is_it(c, t)))
            .collect();
        rows.extend(rates(label, &of_way));
        let cells = |cell: &dyn Fn(&ColumnResult) -> Option<String>| {
            let text = |c: &Option<&ColumnResult>| c.and_then(cell).unwrap_or_default();
            of_way.iter().map(text).collect()
        };
        rows.push(Row {
            label: "  CPU s/GiB",
            style: PLAIN,
            cells: cells(&|c| Some(format!("{:.3}", c.cpu_s_per_gib?))),
        });
        rows.push(Row {
            label: "  copies",
            style: PLAIN,
            cells: cells(&|c| Some(c.copies?.to_string())),
        });
    }
    Sheet {
        corner: "MB/s",
        titles,
        rows,
    }
}

fn round_trips(run: &Run, latencies: &[Option<&LatencyResult>]) -> Sheet {
    let row = |label, style, cell: &dyn Fn(&LatencyResult) -> Option<f64>| Row {
        label,
        style,
        cells: latencies
            .iter()
            .map(|latency| match latency {
                None => String::new(),
                Some(l) => cell(l).map_or("–".into(), short),
            })
            .collect(),
    };
    Sheet {
        corner: "µs, 1 byte there and back",
        titles: run.latencies.iter().map(|l| l.title.clone()).collect(),
        rows: vec![
            row("median", TODAY, &|l| Some(l.us?.median)),
            row("  95 % from", PLAIN, &|l| Some(l.us?.ci95[0])),
            row("  95 % to", PLAIN, &|l| Some(l.us?.ci95[1])),
            row("99th percentile", PLAIN, &|l| Some(l.us?.p99)),
        ],
    }
}

fn headline(run: &Run) -> String {
    let (machine, method) = (&run.machine, &run.method);
    let [sender, receiver] = method.cpus;
    let cpu = machine.cpu_model.as_deref().unwrap_or("unknown CPU");
    let kernel = machine.kernel.as_deref().unwrap_or("of unknown release");
    let travel = |c: &ColumnResult| {
        let sample = c
            .samples
            .iter()
            .find(|s| s.line_travel_ns.before.is_some())?;
        Some((sample.line_travel_ns.before?, sample.state))
    };
    let distance = run
        .columns
        .iter()
        .find_map(travel)
        .map_or(String::new(), |(ns, state)| {
            format!(" ({state}: a cache line travels {ns:.0} ns)")
        });
    let place = match sender == receiver {
        true => format!("everything on CPU {sender}"),
        false => format!(
            "sender, and what works alone, on CPU {sender}, receiver on CPU {receiver}{distance}"
        ),
    };
    let files = method
        .file_system
        .as_ref()
        .map_or(String::new(), |fs| format!(", files on {fs}, cached"));
    format!(
        "{cpu}, Linux {kernel}\n{place}\n{} of {} rounds, {:.2} s a trial; messages of {}, buffers of {}{files}",
        method.rounds_done,
        method.rounds,
        method.seconds,
        Size(method.message_bytes),
        Size(method.memory_bytes),
    )
}

fn footnote(run: &Run) -> String {
    let mut text = String::from("\nMedians; MB is 10⁶ bytes, GiB 2³⁰. ");
    match &run.row_2005 {
        Some(row) => {
            let _ = write!(
                text,
                "2005: lmbench on a {},\nbefore and after its pipe became a ring; medians of four runs each, from\n{}",
                row.machine,
                row.source.rsplit(", ").next().unwrap_or_default()
            );
        }
        None => {
            text += "copies: how often a byte is copied between file and end.\n\
                     tee: rates of the input; the outputs go to /dev/null unread, so by reference they are rates of references.";
        }
    }
    text + "\n"
}

/// States in which something was measured that is not shown first.
fn apart(run: &Run) -> BTreeSet<State> {
    let rates = run
        .columns
        .iter()
        .flat_map(|c| &c.apart)
        .filter_map(|c| c.state);
    let trips = run.latencies.iter().flat_map(|l| &l.apart);
    rates.chain(trips.filter_map(|l| l.state)).collect()
}

fn warnings(out: &mut String, run: &Run) {
    let rates = run.columns.iter().flat_map(|c| {
        let why = c.refused.iter().map(|why| format!("refused: {why}"));
        let why = why.chain(c.warnings.iter().cloned());
        why.map(move |w| format!("{}: {w}", name(c)))
    });
    let trips = run.latencies.iter().flat_map(|l| {
        let why = l.refused.iter();
        why.map(move |w| format!("{}, round trip: refused: {w}", l.title))
    });
    let all: Vec<_> = run
        .warnings
        .iter()
        .cloned()
        .chain(rates)
        .chain(trips)
        .collect();
    if !all.is_empty() {
        out.push('\n');
    }
    for warning in all {
        let _ = writeln!(out, "{WARNING}warning:{WARNING:#} {warning}");
    }
}

/// Two conduits share a title.
fn name(column: &ColumnResult) -> &str {
    match column.copies {
        Some(_) => &column.id,
        None => &column.title,
    }
}
