//! What the doctor found, for people.

use anstyle::Style;
use fullbore_lab::doctor::{Check, CheckState, DoctorReport};
use fullbore_lab::report::machine_line;
use fullbore_lab::show::wrap::wrap;

use crate::output::style::{BAD, FAINT, GOOD, HEAD, WARNING, paint};
use crate::output::table::Table;

/// Columns of the text behind state and name.
const WIDTH: usize = 64;

/// Draws a report, with ANSI styles that the caller may strip.
pub fn draw(report: &DoctorReport) -> String {
    let mut table = Table::new(["", "", ""]);
    for group in &report.groups {
        table.row([""]);
        table.row([paint(group.title, HEAD)]);
        for check in &group.checks {
            draw_check(&mut table, check);
        }
    }
    let counts: Vec<_> = CheckState::ALL
        .into_iter()
        .map(|state| (state, report.checks().filter(|c| c.state == state).count()))
        .filter(|&(_, count)| count > 0)
        .map(|(state, count)| format!("{count} {}", state.word()))
        .collect();
    let verdict = if report.is_usable {
        "Fullbore works here."
    } else {
        "Fullbore cannot work here."
    };
    format!(
        "{}\n{}\n{}. {verdict}\n",
        machine_line(&report.head.machine),
        table.draw(),
        counts.join(", ")
    )
}

fn style(state: CheckState) -> Style {
    match state {
        CheckState::Ok => GOOD,
        CheckState::Costs => WARNING,
        CheckState::Missing => BAD,
        CheckState::Unknown => FAINT,
    }
}

fn draw_check(table: &mut Table, check: &Check) {
    let state = format!("  {}", paint(check.state.word(), style(check.state)));
    let more = [("costs: ", &check.costs), ("change: ", &check.change)];
    let more = more.into_iter().filter_map(|(label, text)| {
        let text = format!("{}{}", paint(label, FAINT), text.as_ref()?);
        Some(wrap(&text, WIDTH, [""; 2]))
    });
    let mut lead = [state, check.id.to_string()];
    for line in wrap(&check.found, WIDTH, [""; 2])
        .into_iter()
        .chain(more.flatten())
    {
        table.row(std::mem::take(&mut lead).into_iter().chain([line]));
    }
}
