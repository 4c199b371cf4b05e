//! The steps as one picture: self-contained, readable on light and on dark ground.

use std::fmt::Write;

use super::layout::{Row, rows};
use super::model::{Pipe, Slot};
use super::script::Which;
use super::step_result::{StepResult, state};
use crate::report::font::Font;

const WIDTH: usize = 8;
/// A slot is at least so wide, and so high.
const CELL: [usize; 2] = [92, 64];
const LEFT: usize = 16;
const LINE: usize = 18;
/// The sizes and weights of type in the style.
const TEXT: Font = Font::regular(13.0);
const STEP: Font = Font::bold(15.0);
const SMALL: Font = Font::regular(11.0);

const STYLE: &str = "\
svg{background:#fff}text{font:13px system-ui,sans-serif;fill:#1b1f24}.do{font:600 15px ui-monospace,monospace}\
.n,.d{font:11px ui-monospace,monospace}.d{fill:#57606a}.c{fill:none;stroke:#8c959f}.room{fill:#eaeef2}.m{fill:#cf222e;font-weight:600}\
.p0{fill:#54aeff}.p1{fill:#f2a65a}.p2{fill:#6fdd8b}.p3{fill:#ff8182}.p4{fill:#c297ff}.p5{fill:#e3b341}.p6{fill:#5fd3d3}.p7{fill:#ffadda}\
@media(prefers-color-scheme:dark){svg{background:#0d1117}text{fill:#e6edf3}.d{fill:#9198a1}.c{stroke:#656c76}.room{fill:#262c36}.m{fill:#ff7b72}\
.p0{fill:#1f6feb}.p1{fill:#bd561d}.p2{fill:#238636}.p3{fill:#b62324}.p4{fill:#8957e5}.p5{fill:#9e6a03}.p6{fill:#1b7c83}.p7{fill:#bf4b8a}}";

/// Draws the steps below each other.
pub fn draw(steps: &[StepResult]) -> String {
    let mut body = String::new();
    let cell = cell_width(steps);
    let inside = WIDTH * cell;
    let mut y = 16;
    let mut second_is_seen = false;
    for (i, result) in steps.iter().enumerate() {
        let step = format!("{}. {}", i + 1, result.step);
        lines(&mut body, &mut y, "do", STEP.lines(&step, inside as f64));
        lines(
            &mut body,
            &mut y,
            "",
            TEXT.lines(&result.sentence, inside as f64),
        );
        second_is_seen |= result.needs_second();
        pipe(
            &mut body,
            &mut y,
            result.pipes.pipe(Which::First),
            second_is_seen.then_some("first pipe: "),
            cell,
        );
        if second_is_seen {
            pipe(
                &mut body,
                &mut y,
                result.pipes.pipe(Which::Second),
                Some("second pipe: "),
                cell,
            );
        }
        y += LINE;
    }
    let width = 2 * LEFT + inside;
    let what = steps
        .iter()
        .map(|t| format!("{}: {}.", t.step, t.sentence))
        .collect::<Vec<_>>()
        .join(" ");
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {y}\" width=\"{width}\" height=\"{y}\" role=\"img\">\n\
         <title>A pipe's ring, step by step</title>\n<desc>{}</desc>\n<style>{STYLE}</style>\n{body}</svg>\n",
        escape(&what)
    )
}

/// How wide a slot is drawn: all the same, and wide enough for what stands in any of them.
fn cell_width(steps: &[StepResult]) -> usize {
    let pipes = steps
        .iter()
        .flat_map(|result| [Which::First, Which::Second].map(|which| result.pipes.pipe(which)));
    let widths = pipes.flat_map(|pipe| {
        let slots = pipe.slots().iter().enumerate();
        slots.filter_map(|(place, slot)| {
            let name = SMALL.width(&page(pipe, place, slot.as_ref()?));
            let name = beside_place(place) as f64 + name;
            Some(name.max(5.0 + SMALL.width(&extent(slot.as_ref()?))) + 3.0)
        })
    });
    widths.fold(CELL[0] as f64, f64::max).ceil() as usize
}

/// Where the page's name begins, right of the number of the slot.
fn beside_place(place: usize) -> usize {
    26.max(9 + SMALL.width(&place.to_string()).ceil() as usize)
}

fn page(pipe: &Pipe, place: usize, slot: &Slot) -> String {
    let merge = if pipe.may_be_appended_to(place) {
        " +"
    } else {
        ""
    };
    format!("page {}{merge}", slot.page)
}

fn extent(slot: &Slot) -> String {
    format!("{} at {}", slot.len, slot.offset)
}

fn pipe(out: &mut String, y: &mut usize, pipe: &Pipe, name: Option<&str>, width: usize) {
    let line = format!("{}{}", name.unwrap_or_default(), state(pipe));
    lines(out, y, "d", SMALL.lines(&line, (WIDTH * width) as f64));
    for row in rows(pipe, WIDTH) {
        match row {
            Row::Empty(range) => {
                *y += LINE;
                let slots = format!("slots {} to {} are empty", range.start, range.end - 1);
                text(out, "d", LEFT, *y, &slots);
            }
            Row::Slots(range) => {
                *y += LINE + 4;
                for (column, place) in range.enumerate() {
                    let x = LEFT + column * width;
                    let mark = mark(pipe, place);
                    if !mark.is_empty() {
                        text(out, "n m", x + 2, *y - 4, &format!("▾ {mark}"));
                    }
                    cell(out, [x, *y], width, pipe, place);
                }
                *y += CELL[1] + 4;
            }
        }
    }
}

/// What of head and tail points at a place.
fn mark(pipe: &Pipe, place: usize) -> &'static str {
    let at = |counter: u32| counter as usize & (pipe.slots().len() - 1) == place;
    match (at(pipe.tail()), at(pipe.head())) {
        (true, true) => "tail, head",
        (true, false) => "tail",
        (false, true) => "head",
        (false, false) => "",
    }
}

fn cell(out: &mut String, [x, y]: [usize; 2], width: usize, pipe: &Pipe, place: usize) {
    let height = CELL[1];
    if let Some(slot) = &pipe.slots()[place] {
        let inside = width - 8;
        let scale = |bytes: usize| (bytes * inside).div_ceil(slot.room);
        let (from, len) = (scale(slot.offset).min(inside - 1), scale(slot.len).max(1));
        let (left, top, color) = (x + 4, y + height - 16, slot.page.0 % 8);
        let _ = writeln!(
            out,
            "<rect class=\"room\" x=\"{left}\" y=\"{top}\" width=\"{inside}\" height=\"12\"/>\
             <rect class=\"p{color}\" x=\"{}\" y=\"{top}\" width=\"{}\" height=\"12\"/>",
            left + from,
            len.min(inside - from),
        );
        let page = page(pipe, place, slot);
        text(out, "n", x + beside_place(place), y + 15, &page);
        text(out, "n", x + 5, y + 33, &extent(slot));
    }
    text(out, "d", x + 5, y + 15, &place.to_string());
    let _ = writeln!(
        out,
        "<rect class=\"c\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\"/>"
    );
}

/// Lines below each other.
fn lines(out: &mut String, y: &mut usize, class: &str, lines: Vec<String>) {
    for line in lines {
        *y += LINE;
        text(out, class, LEFT, *y, &line);
    }
}

fn text(out: &mut String, class: &str, x: usize, y: usize, text: &str) {
    let text = escape(text);
    let _ = writeln!(
        out,
        "<text class=\"{class}\" x=\"{x}\" y=\"{y}\">{text}</text>"
    );
}

fn escape(text: &str) -> String {
    maud::html! { (text) }.into_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::Pipes;

    #[test]
    fn type_is_as_large_as_the_layout_takes_it_to_be() {
        for (rule, font) in [
            ("text{font:", TEXT),
            (".do{font:600 ", STEP),
            (".n,.d{font:", SMALL),
        ] {
            assert!(STYLE.contains(&format!("{rule}{}px ", font.size)), "{rule}");
        }
    }

    #[test]
    fn picture_is_well_formed_and_says_what_it_shows() {
        let script = "write 5000; fat 2; tee 1; splice 100B; second resize 512K; read 1";
        let svg = draw(&Pipes::new(4096, 8).run(&script.parse().unwrap()));
        assert!(svg.starts_with("<svg xmlns="));
        assert!(svg.ends_with("</svg>\n"));
        for tag in ["title", "desc", "style", "text", "svg"] {
            let opened = svg.matches(&format!("<{tag}")).count();
            assert_eq!(opened, svg.matches(&format!("</{tag}>")).count(), "{tag}");
        }
        assert!(svg.contains("prefers-color-scheme:dark"));
        assert!(svg.contains("<title>") && svg.contains("<desc>"));
        assert!(!svg.contains("http://www.w3.org/1999"), "self-contained");
    }
}
