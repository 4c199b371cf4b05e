//! A sweep as a heat map in the terminal: shades that need no colour, colours that need no shades, figures in both.

use std::fmt::Write;

use anstream::ColorChoice;
use anstyle::{Ansi256Color, AnsiColor, Color as Ink, RgbColor, Style};
use fullbore_lab::report::machine_line;
use fullbore_lab::show::number::number;
use fullbore_lab::show::shade::cividis;
use fullbore_lab::sweep::{Cell, Sweep};
use fullbore_sys::size::Size;

use crate::args::values::Color;
use crate::output::conditions::{INTERVAL_FROM, place};
use crate::output::style::{paint, warnings};
use crate::output::table::Table;

/// How fast cells are distinguished from slow ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shades {
    /// By characters.
    Characters,
    /// By 256 colours.
    Indexed,
    /// By any colour.
    True,
}

/// The shades that this terminal can show.
pub fn shades(asked: Color) -> Shades {
    let of = |name| std::env::var(name).unwrap_or_default();
    let (colorterm, term) = (of("COLORTERM"), of("TERM"));
    if crate::args::rungs::colour(asked) == ColorChoice::Never {
        Shades::Characters
    } else if matches!(&*colorterm, "truecolor" | "24bit") {
        Shades::True
    } else if term.contains("256color") || asked == Color::Always {
        Shades::Indexed
    } else {
        Shades::Characters // 8 or 16 colours are no scale
    }
}

/// Draws a sweep, with ANSI styles that the caller may strip.
pub fn draw(sweep: &Sweep, shades: Shades) -> String {
    let mut out = format!("{}\n\n", headline(sweep));
    let scale = Scale::of(sweep);
    let main = sweep.state();
    let mut reasons = Vec::new();
    let buffers = sweep.buffers.iter().map(|b| format!(">{}", Size(*b)));
    let titles = ["capacity".to_owned()].into_iter().chain(buffers);
    let mut table = Table::new(titles.chain(["  buffer".into()])).gap(1);
    for row in sweep.cells.chunk_by(|a, b| a.capacity == b.capacity) {
        let cells = row.iter().map(|cell| {
            let doubt = match cell.gib_per_s {
                Some(_) if cell.state != main => '*',
                Some(rate) if is_wide(rate) => '~',
                _ => ' ',
            };
            draw_cell(cell, doubt, &scale, shades, &mut reasons)
        });
        let capacity = [Size(row[0].capacity).to_string()].into_iter();
        table.row(capacity.chain(cells).chain([String::new()]));
    }
    let _ = writeln!(out, "{}\n{}", table.draw(), legend(sweep, &scale, shades));
    for (why, mark) in reasons.iter().zip('a'..='z') {
        let _ = writeln!(out, "{mark}: {why}");
    }
    out + &warnings(&sweep.warnings)
}

/// Machine, ways and method.
pub fn headline(sweep: &Sweep) -> String {
    let method = &sweep.method;
    let main = sweep.state();
    let travel = sweep.cells.iter().find_map(|cell| {
        let sample = cell.samples.iter().find(|s| Some(s.state) == main)?;
        Some((sample.line_travel_ns.before?, sample.state))
    });
    format!(
        "{}\n{}\n{} → {}, {} pages, {}; {} of {} rounds, {:.2} s a trial",
        machine_line(&sweep.head.machine),
        place(method.made.cpus, travel),
        method.write_with,
        method.read_with,
        method.pages,
        method.wait,
        method.made.rounds_done,
        method.made.rounds,
        method.seconds,
    )
}

/// Equal steps of it are equal factors.
struct Scale {
    slowest: f64,
    fastest: f64,
}

impl Scale {
    fn of(sweep: &Sweep) -> Self {
        let rates = || sweep.cells.iter().filter_map(|c| Some(c.gib_per_s?.median));
        Self {
            slowest: rates().fold(f64::INFINITY, f64::min),
            fastest: rates().fold(0.0, f64::max),
        }
    }

    /// From 0, the slowest, to 1, the fastest.
    fn place(&self, rate: f64) -> f64 {
        let span = (self.fastest / self.slowest).ln();
        if span > 0.0 {
            ((rate / self.slowest).ln() / span).clamp(0.0, 1.0)
        } else {
            1.0
        }
    }
}

const CHARACTERS: [char; 4] = ['░', '▒', '▓', '█'];

/// At most nine columns.
fn draw_cell(
    cell: &Cell,
    doubt: char,
    scale: &Scale,
    shades: Shades,
    reasons: &mut Vec<String>,
) -> String {
    let Some(rate) = cell.gib_per_s else {
        return match &cell.refused {
            Some(why) => format!("– {}", mark_of(why, reasons)),
            None => "not yet".into(),
        };
    };
    let place = scale.place(rate.median);
    let text = format!("{:>5}{doubt}", number(rate.median));
    let shade = cividis(place);
    let ground: Ink = match shades {
        Shades::Characters => {
            let step = ((place * CHARACTERS.len() as f64) as usize).min(CHARACTERS.len() - 1);
            let shade = CHARACTERS[step];
            return format!("{shade}{shade} {text}");
        }
        Shades::True => RgbColor(shade.rgb.0, shade.rgb.1, shade.rgb.2).into(),
        Shades::Indexed => Ansi256Color(shade.indexed).into(),
    };
    let ink = match shade.is_light {
        true => AnsiColor::Black,
        false => AnsiColor::BrightWhite,
    };
    let style = Style::new()
        .bg_color(Some(ground))
        .fg_color(Some(ink.into()));
    paint(&format!("   {text}"), style)
}

/// Whether the interval reaches further than a tenth from the median.
fn is_wide(rate: fullbore_lab::stats::Estimate) -> bool {
    let [low, high] = rate.ci95;
    low < 0.9 * rate.median || high > 1.1 * rate.median
}

/// The letter of a reason in the list below the map.
fn mark_of(why: &str, reasons: &mut Vec<String>) -> char {
    let known = reasons.iter().position(|r| r == why);
    let index = known.unwrap_or_else(|| {
        reasons.push(why.to_owned());
        reasons.len() - 1
    });
    ('a'..='z').nth(index).unwrap_or('*')
}

fn legend(sweep: &Sweep, scale: &Scale, shades: Shades) -> String {
    let mut text = String::from("GiB/s, medians");
    if scale.fastest > 0.0 {
        let key: String = match shades {
            Shades::Characters => CHARACTERS.into_iter().collect(),
            _ => "dark to bright".into(),
        };
        let _ = write!(
            text,
            "; {key} from {} to {}, each step the same factor",
            number(scale.slowest),
            number(scale.fastest)
        );
    }
    let wide = |c: &Cell| c.gib_per_s.is_some_and(is_wide);
    if sweep.cells.iter().any(|c| wide(c)) {
        text.push_str(".\n~ the 95 % interval reaches further than a tenth from the median");
    }
    if !sweep.method.read_with.touches_data() {
        text.push_str(".\nThe reader does not touch the data: GiB/s is a rate of references");
    }
    if sweep
        .cells
        .iter()
        .any(|c| c.state.is_some() && c.state != sweep.state())
    {
        text.push_str(".\n* never measured in the state that prevailed: not to be compared with its neighbours");
    }
    let best = sweep.cells.iter().max_by(|a, b| {
        let rate = |c: &Cell| c.gib_per_s.map_or(0.0, |e| e.median);
        rate(a).total_cmp(&rate(b))
    });
    if let Some((best, rate)) = best.and_then(|c| Some((c, c.gib_per_s?))) {
        let _ = write!(
            text,
            ".\nFastest: {} GiB/s{} with a buffer of {} and a capacity of {}",
            number(rate.median),
            match best.samples.len() {
                n if n < INTERVAL_FROM => String::new(),
                _ => format!(" ({}–{})", number(rate.ci95[0]), number(rate.ci95[1])),
            },
            Size(best.buffer),
            Size(best.capacity),
        );
    }
    text + "."
}
