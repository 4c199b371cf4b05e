//! The sweep as a heat map: buffers across, capacities down.

use maud::{Markup, html};

use super::chart::{Chart, Drawing, Layout, TEXT, px};
use super::ladder_chart::{in_words, machine_line};
use super::text::{bytes, drawable};
use crate::machine::state::State;
use crate::show::number::{number, two_digits, typed_size};
use crate::show::shade::cividis;
use crate::sweep::{Cell, Sweep};

/// A grid of more columns or rows is left to the table.
const MOST: usize = 40;

/// Rates by buffer size and capacity.
pub fn sweep(sweep: &Sweep) -> Chart {
    of(sweep, "sweep")
}

/// The same; `id` is unique in the page.
pub(super) fn of(sweep: &Sweep, id: &str) -> Chart {
    let grid = Grid::new(sweep);
    let state = grid
        .state
        .map_or_else(String::new, |s| format!(", measured {}", in_words(s)));
    let best = grid.best();
    Chart::new(
        "Buffer size and capacity",
        vec![
            machine_line(&sweep.head.machine),
            format!(
                "{} to {}, {}: medians in GiB/s{state}. Equal steps of colour are equal factors.{}",
                sweep.method.write_with,
                sweep.method.read_with,
                sweep.method.wait,
                if grid.apart { " * is of another state." } else { "" },
            ),
        ],
        best.map_or_else(
            || "No value can be drawn.".into(),
            |(cell, rate)| {
                format!(
                    "Heat map of {} cells; the fastest, {} GiB/s, is a buffer of {} with a capacity of {}. The table below has every value.",
                    sweep.cells.len(), number(rate), bytes(cell.buffer), bytes(cell.capacity)
                )
            },
        ),
        |layout| grid.draw(layout, id),
    )
}

struct Grid<'a> {
    buffers: Vec<u64>,
    capacities: Vec<u64>,
    cells: Vec<&'a Cell>,
    state: Option<State>,
    /// Whether some cells are of another state than the rest.
    apart: bool,
    low: f64,
    high: f64,
}

impl<'a> Grid<'a> {
    fn new(sweep: &'a Sweep) -> Self {
        // The cells say what there is; a list beside them might not agree.
        let sorted = |of: fn(&Cell) -> u64| {
            let mut all: Vec<_> = sweep.cells.iter().map(|c| of(c)).collect();
            all.sort_unstable();
            all.dedup();
            all
        };
        let rates: Vec<f64> = sweep.cells.iter().filter_map(|c| rate(c)).collect();
        let state = sweep.state();
        Self {
            buffers: sorted(|c| c.buffer),
            capacities: sorted(|c| c.capacity),
            cells: sweep.cells.iter().map(|c| &c.main).collect(),
            state,
            apart: sweep
                .cells
                .iter()
                .any(|c| rate(c).is_some() && c.state != state),
            low: rates.iter().copied().fold(f64::INFINITY, f64::min),
            high: rates.iter().copied().fold(0.0, f64::max),
        }
    }

    fn best(&self) -> Option<(&Cell, f64)> {
        self.cells
            .iter()
            .filter_map(|c| Some((*c, rate(c)?)))
            .max_by(|a, b| a.1.total_cmp(&b.1))
    }

    fn draw(&self, layout: Layout, id: &str) -> Drawing {
        let (columns, rows) = (self.buffers.len(), self.capacities.len());
        if columns > MOST || rows > MOST || columns * rows == 0 {
            return Drawing {
                height: 24.0,
                body: html! { text.soft x="0" y="16" {
                    @if columns * rows == 0 { "Nothing was measured." } @else { "Too many sizes to draw: see the table." }
                } },
            };
        }
        let pattern = format!("{id}-{}", if layout.is_narrow() { "n" } else { "w" });
        let widest = |sizes: &[u64]| {
            let widths = sizes.iter().map(|n| TEXT.width(&typed_size(*n)));
            widths.fold(0.0, f64::max)
        };
        let left = px(widest(&self.capacities).max(TEXT.width("capacity")) + 7.0);
        let width = ((layout.width() - left) / columns as f64).min(72.0);
        let height = 28.0;
        let top = 70.0;
        let heads = widest(&self.buffers);
        let every = ((heads + 6.0) / width).ceil() as usize;
        // Heads may be wider than their columns, and must not leave the picture; sizes in a file may be any.
        let middle = |i: usize| {
            let middle = left + (i as f64 + 0.5) * width;
            let half = heads / 2.0;
            px(middle.max(left + half).min(layout.width() - half))
        };
        let body = html! {
            defs {
                pattern id=(pattern) width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)" {
                    path.idle-line d="M0 0V5" {}
                }
            }
            (self.key(layout))
            text.soft x=(left) y="44" { "buffer" }
            text.soft x="0" y=(top - 8.0) { "capacity" }
            @for (i, buffer) in self.buffers.iter().enumerate() {
                @if i % every == 0 {
                    text.mid x=(middle(i)) y=(top - 8.0) { (typed_size(*buffer)) }
                }
            }
            @for (j, capacity) in self.capacities.iter().enumerate() {
                @let y = top + j as f64 * height;
                text.end x=(left - 7.0) y=(y + 18.5) { (typed_size(*capacity)) }
            }
            @for cell in &self.cells {
                @if let (Ok(i), Ok(j)) = (self.buffers.binary_search(&cell.buffer), self.capacities.binary_search(&cell.capacity)) {
                    (self.cell(cell, left + i as f64 * width, top + j as f64 * height, width, height, &pattern))
                }
            }
        };
        Drawing {
            height: top + rows as f64 * height + 4.0,
            body,
        }
    }

    /// The scale of colours.
    fn key(&self, layout: Layout) -> Markup {
        let (low, high) = (number(self.low), number(self.high) + " GiB/s");
        let left = px(TEXT.width(&low) + 8.0);
        let most: f64 = if layout.is_narrow() { 200.0 } else { 260.0 };
        let width = most.min(layout.width() - left - 8.0 - TEXT.width(&high));
        let step = width / 24.0;
        html! {
            @if self.high > 0.0 {
                text.end x=(left - 8.0) y="14" { (low) }
                @for i in 0..24 {
                    rect x=(px(left + f64::from(i) * step)) y="3" width=(px(step + 0.5)) height="13" fill=(color(f64::from(i) / 23.0).0) {}
                }
                text x=(px(left + width + 8.0)) y="14" { (high) }
            }
        }
    }

    fn cell(&self, cell: &Cell, x: f64, y: f64, width: f64, height: f64, pattern: &str) -> Markup {
        let sizes = format!(
            "buffer {}, capacity {}",
            bytes(cell.buffer),
            bytes(cell.capacity)
        );
        html! {
            @match rate(cell) {
                Some(rate) => {
                    @let (fill, text) = color(self.share(rate));
                    @let star = if cell.state == self.state { "" } else { "*" };
                    rect.gap x=(px(x)) y=(y) width=(px(width)) height=(height) fill=(fill) {
                        title { (sizes) ": " (number(rate)) " GiB/s" }
                    }
                    @let words = two_digits(rate) + star;
                    @if TEXT.width(&words) + 1.0 <= width {
                        text.mid.(text) x=(px(x + width / 2.0)) y=(y + 18.5) { (words) }
                    }
                }
                None => {
                    rect.idle x=(px(x + 0.5)) y=(y + 0.5) width=(px(width - 1.0)) height=(height - 1.0) { title { (sizes) ": nothing" } }
                    rect x=(px(x)) y=(y) width=(px(width)) height=(height) fill=(format!("url(#{pattern})")) {}
                }
            }
        }
    }

    /// Where a rate stands between the lowest and the highest: by factors, since a sweep may span two decades.
    fn share(&self, rate: f64) -> f64 {
        if self.high > self.low {
            ((rate / self.low).ln() / (self.high / self.low).ln()).clamp(0.0, 1.0)
        } else {
            1.0
        }
    }
}

fn rate(cell: &Cell) -> Option<f64> {
    drawable(cell.gib_per_s?.median)
}

/// Colour, and class of text upon it.
fn color(share: f64) -> (String, &'static str) {
    let shade = cividis(share);
    let (r, g, b) = shade.rgb;
    let text = if shade.is_light {
        "on-light"
    } else {
        "on-dark"
    };
    (format!("#{r:02x}{g:02x}{b:02x}"), text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::saved::load::{Saved, load};

    #[test]
    fn sizes_of_any_length_are_drawn() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../cli/tests/data/sweep.json");
        let text = std::fs::read_to_string(file).unwrap();
        let Ok(Saved::Sweep(mut run)) = load(&text) else {
            panic!("not a sweep");
        };
        for (n, cell) in (0..).zip(&mut run.cells) {
            (cell.main.buffer, cell.main.capacity) = (u64::MAX - 2 * n, u64::MAX);
        }
        let chart = sweep(&run);
        for layout in [Layout::Wide, Layout::Narrow] {
            assert!(chart.document(layout).contains(&u64::MAX.to_string()));
        }
    }
}
