//! The ladder as bars.

use super::bars::{Bar, Bars, Trend, value_of};
use super::chart::Chart;
use super::text::{drawable, safe};
use crate::ladder::run::{Run, RungResult};
use crate::machine::Machine;
use crate::machine::state::State;
use crate::show::number::number;
use crate::stats::Verdict;

/// The results of a run by state of the machine: first those that prevailed, then each other state by itself.
pub(super) fn by_state(run: &Run) -> Vec<(Option<State>, Vec<&RungResult>)> {
    let main = (None, run.rungs.iter().map(|r| &r.main).collect());
    let apart = run.apart().into_iter().map(|(s, of)| (Some(s), of));
    std::iter::once(main).chain(apart).collect()
}

/// The state in words that go after "measured".
pub fn in_words(state: State) -> &'static str {
    match state {
        State::Near => "while the two CPUs were near each other",
        State::Far => "while the two CPUs were far from each other",
        State::Moved => "while the two CPUs moved",
        State::OneCpu => "on one CPU",
        State::Unknown => "at an unknown distance of the CPUs",
    }
}

/// The machine in one line.
pub fn machine_line(machine: &Machine) -> String {
    format!(
        "{}, Linux {}",
        safe(machine.cpu_model.as_deref().unwrap_or("unknown CPU")),
        safe(machine.kernel.as_deref().unwrap_or("of unknown release"))
    )
}

/// The ladder as a bar chart with 95 % intervals: the trials of the state that prevailed.
pub fn ladder(run: &Run) -> Chart {
    let results: Vec<_> = run.rungs.iter().map(|r| &r.main).collect();
    of_state(run, run.prevailing, &results, "ladder")
}

/// The same for some results of one state. `id` is unique in the page.
pub(super) fn of_state(
    run: &Run,
    state: Option<State>,
    results: &[&RungResult],
    id: &str,
) -> Chart {
    let series = results.iter().map(|r| r.series);
    let above = std::iter::once(None).chain(series);
    let bars = results.iter().zip(above).map(|(result, above)| Bar {
        heading: result
            .series
            .filter(|series| above != Some(*series))
            .map(|series| series.to_string()),
        ..bar(result, state)
    });
    let bars: Vec<Bar> = bars.collect();
    let rates = bars.iter().filter_map(|b| drawable(b.value.ok()?));
    let from = rates.clone().next().unwrap_or(1.0);
    let bars = Bars {
        id: id.into(),
        unit: "GiB/s",
        note: "× baseline",
        from: Some(from),
        interval: "95 % interval",
        bars,
    };
    let travel = results
        .iter()
        .filter(|r| r.state != Some(State::OneCpu))
        .find_map(|r| drawable(r.line_travel_ns.before?))
        .map_or_else(String::new, |ns| {
            format!(" (a cache line travels {} ns)", number(ns))
        });
    let place = state.map_or_else(String::new, |s| format!(" {}{travel}", in_words(s)));
    let trials = results.iter().map(|r| r.samples.len());
    let (least, most) = (trials.clone().min().unwrap_or(0), trials.max().unwrap_or(0));
    let trials = if least == most {
        format!("{most}")
    } else {
        format!("{least} to {most}")
    };
    Chart::new(
        "Through a pipe, rung by rung",
        vec![
            machine_line(&run.head.machine),
            format!("Medians of {trials} trials each, measured{place}."),
            "GiB/s, logarithmic: bars begin at the first rung, so equal lengths are equal factors. ×\u{a0}baseline: ratio to the rung that this one changes, which the table names."
                .into(),
        ],
        description(&bars.bars),
        |layout| bars.draw(layout),
    )
}

/// The name, and the state where it is not the one that all the others were measured in.
pub(super) fn labelled(name: &str, state: Option<State>, prevailing: Option<State>) -> String {
    match state {
        Some(state) if Some(state) != prevailing && state != State::OneCpu => {
            format!("{name} ({state})")
        }
        _ => name.to_owned(),
    }
}

fn bar(result: &RungResult, prevailing: Option<State>) -> Bar {
    let ratio = result
        .ratio_to_baseline
        .filter(|r| drawable(r.median).is_some());
    Bar {
        heading: None,
        label: labelled(&result.id, result.state, prevailing),
        value: value_of(result.gib_per_s.map(|e| e.median), &result.refused),
        interval: result
            .gib_per_s
            .filter(|_| result.samples.len() > 1)
            .map(|e| e.ci95),
        by_reference: !result.touches_data,
        note: ratio.map_or_else(String::new, |r| format!("× {}", number(r.median))),
        trend: match result.verdict {
            _ if ratio.is_none() => Trend::None,
            Some(Verdict::Faster) => Trend::Up,
            Some(Verdict::Slower) => Trend::Down,
            Some(Verdict::NotDistinguishable) => Trend::Same,
            None => Trend::None,
        },
    }
}

/// The bars in a sentence: the table says the rest.
pub(super) fn description(bars: &[Bar]) -> String {
    let drawn: Vec<_> = bars
        .iter()
        .filter_map(|b| Some((&b.label, drawable(b.value.ok()?)?)))
        .collect();
    let words = |(label, value): &(&String, f64)| format!("{} {}", safe(label), number(*value));
    let least = drawn.iter().min_by(|a, b| a.1.total_cmp(&b.1));
    let most = drawn.iter().max_by(|a, b| a.1.total_cmp(&b.1));
    match (least, most) {
        (Some(least), Some(most)) => format!(
            "Bar chart of {} values, from {} to {}. The table below has every value with its interval.",
            drawn.len(),
            words(least),
            words(most),
        ),
        _ => "No value can be drawn.".into(),
    }
}
