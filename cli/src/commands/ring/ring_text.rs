//! The rings in characters.

use std::fmt::Write;
use std::ops::Range;

use anstyle::{AnsiColor, Style};
use fullbore_lab::ring::{Pipe, Row, Slot, StepResult, Which, rows, state};

/// Slots beside each other, and characters inside each: 8 × 9 + 1 fit on a narrow terminal.
const BESIDE: usize = 8;
const INSIDE: usize = 8;

const CALL: Style = Style::new().bold();
const FAINT: Style = Style::new().dimmed();
const MARK: Style = AnsiColor::Red.on_default().bold();
const REFUSED: Style = AnsiColor::Yellow.on_default();
const PAGES: [Style; 6] = [
    AnsiColor::Blue.on_default(),
    AnsiColor::Yellow.on_default(),
    AnsiColor::Green.on_default(),
    AnsiColor::Magenta.on_default(),
    AnsiColor::Cyan.on_default(),
    AnsiColor::Red.on_default(),
];

/// Every step with the pipes as it left them, with ANSI styles that the caller may strip.
pub fn steps(steps: &[StepResult]) -> String {
    let mut out = String::new();
    let mut second_is_seen = false;
    for result in steps {
        let style = match result.outcome.refusal {
            Some(_) => REFUSED,
            None => Style::new(),
        };
        let (call, sentence) = (result.step, &result.sentence);
        let _ = writeln!(out, "{CALL}{call}{CALL:#}: {style}{sentence}{style:#}");
        second_is_seen |= result.needs_second();
        if second_is_seen {
            draw(&mut out, result.pipes.pipe(Which::First), "first pipe: ");
            draw(&mut out, result.pipes.pipe(Which::Second), "second pipe: ");
        } else {
            draw(&mut out, result.pipes.pipe(Which::First), "");
        }
        out.push('\n');
    }
    let _ = writeln!(
        out,
        "{FAINT}Each box is a slot: its page (+ a write may append) and where in it the bytes\n\
         begin; how many there are. The same letter is the same memory.\n\
         tail is read next, head is filled next.{FAINT:#}"
    );
    out
}

fn draw(out: &mut String, pipe: &Pipe, name: &str) {
    let _ = writeln!(out, "{FAINT}{name}{}{FAINT:#}", state(pipe));
    for row in rows(pipe, BESIDE) {
        match row {
            Row::Slots(range) => slots(out, pipe, range),
            Row::Empty(range) => {
                let (first, last) = (range.start, range.end - 1);
                let _ = writeln!(out, "{FAINT}   slots {first} to {last} are empty{FAINT:#}");
            }
        }
    }
}

fn slots(out: &mut String, pipe: &Pipe, range: Range<usize>) {
    let marks: String = range.clone().map(|place| mark(pipe, place)).collect();
    let marks = marks.trim_end();
    if !marks.is_empty() {
        let _ = writeln!(out, "{MARK}{marks}{MARK:#}");
    }
    line(out, range.clone(), ["┌", "┬", "┐"], |place| {
        format!("{:─<INSIDE$}", format!("─{place}"))
    });
    let texts: [fn(&Pipe, usize, &Slot) -> String; 3] = [
        page,
        |_, _, slot| slot.len.to_string(),
        |_, _, slot| bar(slot),
    ];
    for text in texts {
        line(out, range.clone(), ["│", "│", "│"], |place| {
            let Some(slot) = &pipe.slots()[place] else {
                return " ".repeat(INSIDE);
            };
            let style = PAGES[slot.page.0 as usize % PAGES.len()];
            format!("{style}{:<INSIDE$}{style:#}", text(pipe, place, slot))
        });
    }
    line(out, range, ["└", "┴", "┘"], |_| "─".repeat(INSIDE));
}

fn line(out: &mut String, range: Range<usize>, edges: [&str; 3], cell: impl Fn(usize) -> String) {
    let [left, between, right] = edges;
    let cells: Vec<String> = range.map(cell).collect();
    let _ = writeln!(out, "{left}{}{right}", cells.join(between));
}

/// What of head and tail points at a place, as wide as its box.
fn mark(pipe: &Pipe, place: usize) -> String {
    let at = |counter: u32| counter as usize & (pipe.slots().len() - 1) == place;
    let text = match (at(pipe.tail()), at(pipe.head())) {
        (true, true) => "▾tail+hd",
        (true, false) => "▾tail",
        (false, true) => "▾head",
        (false, false) => "",
    };
    format!(" {text:<INSIDE$}")
}

/// Page, whether a write may append to it, and where the bytes begin unless at the beginning.
fn page(pipe: &Pipe, place: usize, slot: &Slot) -> String {
    let merge = if pipe.may_be_appended_to(place) {
        "+"
    } else {
        ""
    };
    let offset = match slot.offset {
        0 => String::new(),
        offset => format!("@{offset}"),
    };
    let name = format!("{}{merge} ", slot.page);
    format!("{name}{offset:>0$}", INSIDE.saturating_sub(name.len()))
}

/// Where in the page the bytes lie, in eighths of the page: read or never there, there, not there yet.
fn bar(slot: &Slot) -> String {
    let unit = slot.room.div_ceil(INSIDE).max(1);
    let (start, end) = (slot.offset, slot.offset + slot.len);
    (0..INSIDE)
        .map(|i| {
            let (from, to) = (i * unit, (i + 1) * unit);
            let held = end.min(to).saturating_sub(start.max(from));
            match held {
                0 if to <= start => '░',
                0 => '·',
                n if n == unit => '█',
                _ if start > from => '▐',
                _ => '▌',
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fullbore_lab::ring::Pipes;

    fn plain(slots: usize, script: &str) -> String {
        let result = Pipes::new(4096, slots).run(&script.parse().unwrap());
        anstream::adapter::strip_str(&steps(&result)).to_string()
    }

    #[test]
    fn a_ring_of_eight_fits_into_80_columns() {
        let text = plain(
            8,
            "write 5000; read 1000; fat 1; vmsplice 100 at 1000; tee 9; second read 1",
        );
        let drawn = text.lines().filter(|l| l.starts_with(['┌', '│', '└', ' ']));
        for line in drawn {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }

    #[test]
    fn slots_show_page_extent_and_marks() {
        let text = plain(4, "write 5000; read 1000");
        let picture: Vec<_> = text.lines().skip(11).take(6).collect();
        assert_eq!(
            picture,
            [
                " ▾tail             ▾head",
                "┌─0──────┬─1──────┬─2──────┬─3──────┐",
                "│A  @1000│B+      │        │        │",
                "│3096    │904     │        │        │",
                "│░▐██████│█▌······│        │        │",
                "└────────┴────────┴────────┴────────┘",
            ],
            "{text}"
        );
    }
}
