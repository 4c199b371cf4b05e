//! The cost of get_user_pages as a table, for people.

use std::fmt::Write;

use fullbore_lab::gup::{Gup, GupRow, GupSource, Ratio};
use fullbore_lab::report::machine_line;
use fullbore_lab::show::number::{maybe, number};
use fullbore_lab::stats::Estimate;
use fullbore_sys::size::Size;

use crate::output::style::warnings;
use crate::output::table::Table;

/// In place of a figure that this method cannot tell from nothing.
const BELOW: &str = "below resolution";

pub fn draw(gup: &Gup) -> String {
    let source = gup.method.source;
    let mut titles = vec!["pages", "touched", ">ns/page", "95 % interval"];
    titles.extend(match source {
        GupSource::Estimate => &[">less tee", "95 % interval", ">vmsplice", ">tee", ">splice"][..],
        GupSource::GupTest => &[">put", "95 % interval"],
    });
    let mut table = Table::new(titles);
    for row in &gup.rows {
        table.row(cells(row, source));
    }
    let mut out = format!("{}\n{}", headline(gup), table.draw());
    if gup.rows.iter().any(GupRow::is_below_resolution) {
        let _ = writeln!(out, "{BELOW}: below what this method can see");
    }
    for refusal in refusals(&gup.rows) {
        let _ = writeln!(out, "{refusal}");
    }
    let _ = writeln!(out, "\n{}", footnote(gup));
    if let Some(text) = gup.small_to_huge.as_ref().and_then(comparison) {
        let _ = writeln!(out, "{text}");
    }
    out + &warnings(&gup.warnings)
}

/// Each kind of pages that was refused, once.
fn refusals(rows: &[GupRow]) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for row in rows {
        if let Some(why) = &row.refused {
            let line = format!("{}: {why}", row.pages);
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
    }
    lines
}

fn headline(gup: &Gup) -> String {
    let method = &gup.method;
    let source = match (method.source, &method.no_gup_test) {
        (GupSource::GupTest, _) => format!(
            "Measured by the kernel itself: gup_test, in its form of {} bytes",
            method.request_bytes.unwrap_or_default()
        ),
        (GupSource::Estimate, why) => format!(
            "An estimate from the outside: vmsplice against splice and tee of the same slots\n({})",
            why.as_deref().unwrap_or("no gup_test")
        ),
    };
    let cpu = method
        .cpu
        .map_or("any CPU".to_owned(), |cpu| format!("CPU {cpu}"));
    format!(
        "{}\n{source}\n{cpu}, {} pages a call; {} of {} rounds, {} s each\n",
        machine_line(&gup.head.machine),
        method.pages_per_call,
        method.rounds_done,
        method.rounds,
        method.seconds,
    )
}

fn cells(row: &GupRow, source: GupSource) -> Vec<String> {
    let name = row.page_bytes.map_or(row.pages.to_string(), |bytes| {
        format!("{} ({})", row.pages, Size(bytes as u64))
    });
    let mut cells = vec![name, if row.touched { "yes" } else { "no" }.into()];
    let Some(cost) = row.costs.ns_per_page else {
        let why = match row.refused {
            Some(_) => "refused: see below",
            None => "not measured yet",
        };
        cells.extend(["–".into(), why.into()]);
        return cells;
    };
    cells.extend(match row.is_below_resolution() {
        true => ["–".into(), BELOW.into()],
        false => with_interval(Some(cost)),
    });
    match source {
        GupSource::Estimate => {
            cells.extend(with_interval(row.costs.beyond_tee_ns_per_page));
            let calls = [
                row.costs.vmsplice_ns_per_page,
                row.costs.tee_ns_per_page,
                row.costs.splice_ns_per_page,
            ];
            cells.extend(calls.map(middle));
        }
        GupSource::GupTest => cells.extend(with_interval(row.costs.put_ns_per_page)),
    }
    cells
}

fn middle(estimate: Option<Estimate>) -> String {
    maybe(estimate.map(|e| e.median))
}

fn with_interval(estimate: Option<Estimate>) -> [String; 2] {
    let interval = estimate.map(|e| e.ci95.map(number));
    let interval = interval.map(|[low, high]| format!("{low} to {high}"));
    [middle(estimate), interval.unwrap_or_default()]
}

fn footnote(gup: &Gup) -> String {
    let unit = Size(gup.method.page_bytes as u64);
    let what = match gup.method.source {
        GupSource::Estimate => {
            "Medians, for each slot of UNIT. ns/page: vmsplice less splice, which moves the same slots: finding a page by its\n\
             address and taking a reference. less tee: vmsplice less tee, which takes a reference, too, but slot by slot, where\n\
             vmsplice takes all 16 to one huge page at once (hence figures below zero). Pages that were not touched are faulted\n\
             in at their first use: small and huge ones as zeroes that all share, hugetlb ones as pages of their own."
        }
        GupSource::GupTest => {
            "Medians, for each UNIT. ns/page: finding a page by its address and taking a reference (get_user_pages_fast);\n\
             put: giving it back."
        }
    };
    what.replace("UNIT", &unit.to_string())
}

/// Nothing where there is no ratio.
fn comparison(ratio: &Ratio) -> Option<String> {
    let times = ratio.ratio?;
    let [low, high] = times.ci95.map(number);
    let times = format!("×{} (95 %: {low} to {high})", number(times.median));
    let verdict = if ratio.is_apart {
        "the intervals do not overlap"
    } else {
        "the intervals overlap, so these rounds do not tell them apart"
    };
    Some(format!(
        "A touched small page costs, against a huge one: {times}; {verdict}."
    ))
}

#[cfg(test)]
mod tests {
    use super::super::judged;
    use super::*;
    use crate::output::failure::Failure;
    use fullbore_lab::gup::{Costs, GupMethod};
    use fullbore_lab::machine::Machine;
    use fullbore_lab::saved::head::Head;
    use fullbore_sys::pages::PageKind;

    fn gup(source: GupSource) -> Gup {
        let known = |median| {
            Some(Estimate {
                median,
                ci95: [median - 0.5, median + 0.5],
            })
        };
        let is_inside = source == GupSource::GupTest;
        let outside = |median| known(median).filter(|_| !is_inside);
        let row = |pages, refused: Option<&str>| GupRow {
            pages,
            page_bytes: Some(4096),
            touched: true,
            costs: Costs {
                ns_per_page: known(40.0).filter(|_| refused.is_none()),
                beyond_tee_ns_per_page: outside(-4.5),
                vmsplice_ns_per_page: outside(73.0),
                tee_ns_per_page: outside(48.0),
                splice_ns_per_page: outside(33.0),
                put_ns_per_page: known(11.0).filter(|_| is_inside),
            },
            samples: Vec::new(),
            refused: refused.map(str::to_owned),
        };
        Gup {
            head: Head::new("fullbore.gup/1", None, Machine::detect()),
            method: GupMethod {
                source,
                request_bytes: is_inside.then_some(80),
                no_gup_test: (!is_inside).then(|| "no gup_test: not here".to_owned()),
                cpu: Some(0),
                rounds: 9,
                rounds_done: 9,
                seconds: 0.1,
                seed: 1,
                pages_per_call: 16,
                page_bytes: 4096,
            },
            rows: vec![
                row(PageKind::Small, None),
                row(PageKind::Hugetlb, Some("none reserved")),
                row(PageKind::Hugetlb, Some("none reserved")),
            ],
            small_to_huge: Some(Ratio {
                ratio: known(4.0),
                is_apart: true,
            }),
            warnings: Vec::new(),
        }
    }

    #[test]
    fn table_says_which_of_the_two_it_was() {
        let inside = draw(&gup(GupSource::GupTest));
        assert!(
            inside.contains("Measured by the kernel itself: gup_test, in its form of 80 bytes")
        );
        assert!(
            inside.contains("put") && !inside.contains("tee"),
            "{inside}"
        );
        assert!(inside.contains("11.0"), "{inside}");
        let outside = draw(&gup(GupSource::Estimate));
        assert!(
            outside.contains("An estimate from the outside"),
            "{outside}"
        );
        assert!(outside.contains("no gup_test: not here"), "{outside}");
        assert!(
            outside.contains("-4.50") && outside.contains("73.0"),
            "{outside}"
        );
    }

    #[test]
    fn cost_that_cannot_be_is_no_figure_and_nothing_is_compared_with_it() {
        let mut gup = gup(GupSource::Estimate);
        gup.rows[0].costs.ns_per_page = Some(Estimate {
            median: -0.94,
            ci95: [-1.88, -0.78],
        });
        gup.small_to_huge = Some(Ratio {
            ratio: None,
            is_apart: false,
        });
        assert!(matches!(judged(&gup), Err(Failure::Unjudged(_))));
        let text = draw(&gup);
        assert!(text.contains("below what this method can see"), "{text}");
        assert!(!text.contains("-0.94") && !text.contains("against a huge one"));
    }

    #[test]
    fn a_refusal_is_told_once_below_and_the_comparison_last() {
        let gup = gup(GupSource::Estimate);
        judged(&gup).unwrap();
        let text = draw(&gup);
        assert_eq!(text.matches("hugetlb: none reserved").count(), 1, "{text}");
        assert_eq!(text.matches("refused: see below").count(), 2, "{text}");
        assert!(text.contains("×4.00 (95 %: 3.50 to 4.50); the intervals do not overlap."));
    }
}
