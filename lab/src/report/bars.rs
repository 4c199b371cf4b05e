//! Horizontal bars with intervals.

use maud::{Markup, html};

use super::chart::{Axis, Drawing, Flow, Layout, STRONG, TEXT, px};
use super::text::{drawable, safe};
use crate::show::number::number;

/// One bar.
#[derive(Clone, Debug)]
pub struct Bar {
    /// What stands above this bar and those after it.
    pub heading: Option<String>,
    pub label: String,
    /// Why there is no bar, where there is none.
    pub value: Result<f64, &'static str>,
    pub interval: Option<[f64; 2]>,
    /// Whether it is a rate of references, of bytes that no CPU touches.
    pub by_reference: bool,
    /// What stands beside the value, and whether that is good (up), bad (down) or neither.
    pub note: String,
    pub trend: Trend,
}

impl Bar {
    /// What the mark takes.
    fn mark(&self) -> f64 {
        match self.trend {
            Trend::None => 0.0,
            _ => MARK,
        }
    }
}

/// The value of a bar, or why there is none.
pub fn value_of(median: Option<f64>, refused: &Option<String>) -> Result<f64, &'static str> {
    median.ok_or(match refused {
        Some(_) => "refused",
        None => "not measured",
    })
}

/// The mark beside a ratio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trend {
    Up,
    Down,
    Same,
    None,
}

/// What the bars have in common.
#[derive(Clone, Debug)]
pub struct Bars {
    /// Unique in the page.
    pub id: String,
    /// Head of the values.
    pub unit: &'static str,
    /// Head of the notes; empty where there are none.
    pub note: &'static str,
    /// Bars begin at this value and grow by factors; without it they begin at 0.
    pub from: Option<f64>,
    /// What the interval is.
    pub interval: &'static str,
    /// More than this many are not drawn.
    pub bars: Vec<Bar>,
}

const MOST: usize = 120;

/// What stands beside a note: a mark and the gap before it.
const MARK: f64 = 16.0;
/// Height of a heading.
const HEADING: f64 = 21.0;
/// Between columns.
const GAP: f64 = 12.0;

/// Where the columns are. In a narrow picture labels, values and notes stand above the bars.
struct BarColumns {
    /// The axis.
    left: f64,
    right: f64,
    /// Ends of the values and of the notes.
    value: f64,
    note: f64,
}

impl Bars {
    fn columns(&self, bars: &[Bar], layout: Layout) -> BarColumns {
        let narrow = layout.is_narrow();
        let note = layout.width();
        let notes = bars.iter().map(|b| TEXT.width(&b.note) + b.mark());
        let head = if narrow { 0.0 } else { TEXT.width(self.note) };
        let value = (note - notes.fold(head, f64::max) - GAP).floor();
        if narrow {
            return BarColumns {
                left: 0.0,
                right: note,
                value,
                note,
            };
        }
        let values = bars.iter().filter_map(|b| b.value.ok());
        let values = values.map(|v| STRONG.width(&number(v)));
        let labels = bars.iter().map(|b| TEXT.width(&safe(&b.label)) + GAP);
        BarColumns {
            left: labels.fold(0.0, f64::max).min(240.0).ceil(),
            right: (value - values.fold(TEXT.width(self.unit), f64::max) - GAP).floor(),
            value,
            note,
        }
    }

    pub fn draw(&self, layout: Layout) -> Drawing {
        let bars = &self.bars[..self.bars.len().min(MOST)];
        let narrow = layout.is_narrow();
        let columns = self.columns(bars, layout);
        let (left, right) = (columns.left, columns.right);
        let axis = self.axis(bars, left + 4.0, right - left - 8.0);
        let pitch = if narrow { 42.0 } else { 25.0 };
        let legend = self.legend(layout);
        let top = legend.height + if narrow { 24.0 } else { 26.0 };
        let mut y = top;
        let mut rows = Vec::new();
        for (i, bar) in bars.iter().enumerate() {
            if bar.heading.is_some() {
                y += if i > 0 { HEADING + 5.0 } else { HEADING };
            } else if i > 0 && bars[i - 1].by_reference != bar.by_reference {
                y += 9.0;
            }
            rows.push((y, bar));
            y += pitch;
        }
        let bottom = y;
        // Under narrow rows' labels a line would only make them hard to read.
        let bands: Vec<(f64, f64)> = if narrow {
            rows.iter().map(|(y, _)| (y + 19.0, y + 35.0)).collect()
        } else {
            vec![(top - 4.0, bottom)]
        };
        let body = html! {
            (legend.body)
            defs {
                pattern id=(self.pattern(layout)) width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)" {
                    path.hatch d="M0 0V5" {}
                }
            }
            @for mark in axis.marks() {
                path.grid d=(grid(axis.at(mark), &bands)) {}
            }
            @for (middle, words) in axis.labels(4.0) {
                text.soft.mid x=(middle) y=(top - 9.0) { (words) }
            }
            @if let Some(from) = self.from {
                path.base d=(grid(axis.at(from), &bands)) {}
            }
            @if !narrow {
                text.soft.end x=(columns.value) y=(top - 9.0) { (self.unit) }
                text.soft.end x=(columns.note) y=(top - 9.0) { (self.note) }
            }
            @for (y, bar) in rows {
                (self.row(bar, y, &axis, &columns, layout))
            }
            @if self.bars.len() > MOST {
                text.soft x="0" y=(bottom + 14.0) { "… and " (self.bars.len() - MOST) " more in the table" }
            }
        };
        let more = if self.bars.len() > MOST { 24.0 } else { 4.0 };
        Drawing {
            height: bottom + more,
            body,
        }
    }

    fn pattern(&self, layout: Layout) -> String {
        format!("{}-{}", self.id, if layout.is_narrow() { "n" } else { "w" })
    }

    fn axis(&self, bars: &[Bar], left: f64, width: f64) -> Axis {
        let drawn: Vec<f64> = bars
            .iter()
            .filter_map(|b| Some((b.value.ok()?, b.interval)))
            .flat_map(|(v, interval)| [v].into_iter().chain(interval.into_iter().flatten()))
            .filter_map(drawable)
            .chain(self.from)
            .collect();
        let low = drawn.iter().copied().fold(f64::INFINITY, f64::min);
        let high = drawn.iter().copied().fold(0.0, f64::max);
        match self.from {
            Some(_) => Axis::log(low, high, left, width),
            None => Axis::linear(high, left, width),
        }
    }

    /// What the fills and the lines mean.
    fn legend(&self, layout: Layout) -> Drawing {
        let narrow = layout.is_narrow();
        let touched = self.bars.iter().any(|b| !b.by_reference);
        let referred = self.bars.iter().any(|b| b.by_reference);
        let mut entries: Vec<(Markup, &str)> = Vec::new();
        if touched && referred {
            entries.push((
                html! { rect.touched x="0.5" y="-10" width="18" height="11" rx="2" {} },
                "reader’s CPU touches the data",
            ));
        }
        if referred {
            let hatch = if narrow { "n" } else { "w" };
            entries.push((
                html! {
                    rect.referred x="0.5" y="-10" width="18" height="11" rx="2" {}
                    rect x="0.5" y="-10" width="18" height="11" rx="2" fill=(format!("url(#{}-{hatch})", self.id)) {}
                },
                "references, data not touched",
            ));
        }
        entries.push((
            html! { path.whisker d="M1 -5H18M1 -9V-1M18 -9V-1" {} },
            self.interval,
        ));
        let mut flow = Flow::new(layout.width(), 12.0);
        let body = html! {
            @for (mark, words) in entries {
                @let here = flow.place(25.0 + TEXT.width(words));
                g transform=(format!("translate({} {})", px(here.0), here.1)) {
                    (mark)
                    text.soft x="25" y="0" { (words) }
                }
            }
            @if narrow {
                @for line in TEXT.lines(&self.scale_in_words(), layout.width()) {
                    text.soft x="0" y=(flow.new_line().1) { (line) }
                }
            }
        };
        Drawing {
            height: flow.bottom() + 12.0,
            body,
        }
    }

    fn scale_in_words(&self) -> String {
        match self.note {
            "" => format!("bold: {}", self.unit),
            note => format!("bold: {}; beside it: {note}", self.unit),
        }
    }

    fn row(&self, bar: &Bar, y: f64, axis: &Axis, columns: &BarColumns, layout: Layout) -> Markup {
        let narrow = layout.is_narrow();
        let (text_y, middle, height) = if narrow {
            (y + 14.0, y + 27.0, 13.0)
        } else {
            (y + 17.0, y + 12.5, 14.0)
        };
        let value = bar.value.and_then(|v| drawable(v).ok_or("cannot be drawn"));
        let words = match value {
            Ok(value) => number(value),
            Err(why) => why.to_owned(),
        };
        let room = match value {
            _ if !narrow => columns.left - GAP,
            Ok(_) => columns.value - STRONG.width(&words) - GAP,
            Err(_) => columns.note - TEXT.width(&words) - GAP,
        };
        html! {
            g {
                @if let Some(heading) = &bar.heading {
                    text.strong x="0" y=(text_y - HEADING) { (safe(heading)) }
                }
                text x="0" y=(text_y) { (TEXT.fitted(&safe(&bar.label), room)) }
                @match value {
                    Err(_) => {
                        text.soft.(if narrow { "end" } else { "" }) x=(if narrow { columns.note } else { columns.left + 4.0 }) y=(text_y) { (words) }
                    }
                    Ok(value) => {
                        (self.body(bar, value, middle, height, axis, layout))
                        text.strong.end x=(columns.value) y=(text_y) { (words) }
                        (trend(bar.trend, columns.note - 6.0, text_y))
                        text.soft.end x=(columns.note - bar.mark()) y=(text_y) { (bar.note) }
                    }
                }
            }
        }
    }

    fn body(
        &self,
        bar: &Bar,
        value: f64,
        middle: f64,
        height: f64,
        axis: &Axis,
        layout: Layout,
    ) -> Markup {
        let from = self.from.map_or(axis.at(0.0), |f| axis.at(f));
        let (a, b) = (from.min(axis.at(value)), from.max(axis.at(value)));
        // A bar without length would not be seen: its end is marked.
        let width = (b - a).max(2.0);
        let top = middle - height / 2.0;
        let whisker = bar
            .interval
            .and_then(|[l, h]| Some((axis.at(drawable(l)?), axis.at(drawable(h)?))));
        html! {
            @if bar.by_reference {
                rect.referred x=(px(a)) y=(top) width=(px(width)) height=(height) rx="2" {}
                rect x=(px(a)) y=(top) width=(px(width)) height=(height) rx="2" fill=(format!("url(#{})", self.pattern(layout))) {}
            } @else {
                rect.touched x=(px(a)) y=(top) width=(px(width)) height=(height) rx="2" {}
            }
            @if let Some((l, h)) = whisker {
                path.whisker d=(format!("M{l} {middle}H{h}M{l} {0}V{1}M{h} {0}V{1}", middle - 4.0, middle + 4.0)) {}
            }
        }
    }
}

/// Vertical lines in some bands.
fn grid(x: f64, bands: &[(f64, f64)]) -> String {
    bands.iter().map(|(a, b)| format!("M{x} {a}V{b}")).collect()
}

fn trend(trend: Trend, x: f64, y: f64) -> Markup {
    html! {
        @match trend {
            Trend::Up => { path.up d=(format!("M{} {}h8l-4 -8z", x - 4.0, y - 0.5)) {} }
            Trend::Down => { path.down d=(format!("M{} {}h8l-4 8z", x - 4.0, y - 8.5)) {} }
            Trend::Same => { text.soft.mid x=(x) y=(y) { "≈" } }
            Trend::None => {}
        }
    }
}
