//! One picture: drawn for a wide and for a narrow place, shown in a page or saved as a file of its own.

use maud::{Markup, PreEscaped, html};

use super::font::Font;
use super::text::safe;

/// Colours and type of all charts, in light and dark. Plain rules without variables, so that every renderer follows them.
pub(super) const STYLE: &str = include_str!("chart.css");
/// The sizes and weights of type in it.
pub(super) const TEXT: Font = Font::regular(13.0);
pub(super) const STRONG: Font = Font::bold(13.0);
const HEAD: Font = Font::bold(16.0);

/// How much room there is. Type has the same size in both, so a chart is drawn anew rather than scaled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// A desktop, a sheet of paper: 720 units.
    Wide,
    /// A phone held upright: 342 units.
    Narrow,
}

impl Layout {
    pub(super) fn width(self) -> f64 {
        match self {
            Self::Wide => 720.0,
            Self::Narrow => 342.0,
        }
    }

    pub(super) fn is_narrow(self) -> bool {
        self == Self::Narrow
    }

    fn name(self) -> &'static str {
        match self {
            Self::Wide => "wide",
            Self::Narrow => "narrow",
        }
    }
}

/// A chart in both layouts, with the words that stand for it.
#[derive(Clone, Debug)]
pub struct Chart {
    /// What it shows, in a few words.
    pub title: String,
    /// On what and how it was measured: a line or two.
    pub caption: Vec<String>,
    /// What a person sees who cannot see it.
    pub description: String,
    pub(super) wide: Drawing,
    pub(super) narrow: Drawing,
}

/// What is drawn, and its height in units.
#[derive(Clone, Debug)]
pub(super) struct Drawing {
    pub height: f64,
    pub body: Markup,
}

impl Chart {
    /// Draws in both layouts.
    pub(super) fn new(
        title: impl Into<String>,
        caption: Vec<String>,
        description: String,
        draw: impl Fn(Layout) -> Drawing,
    ) -> Self {
        Self {
            title: title.into(),
            caption,
            description,
            wide: draw(Layout::Wide),
            narrow: draw(Layout::Narrow),
        }
    }

    /// Both layouts for a page, which shows the one that fits. `id` is unique in the page.
    pub(super) fn inline(&self, id: &str) -> Markup {
        html! {
            @for (layout, drawing) in [(Layout::Wide, &self.wide), (Layout::Narrow, &self.narrow)] {
                svg.chart.(layout.name()) viewBox=(format!("0 0 {} {}", layout.width(), drawing.height)) role="img"
                    aria-labelledby=(format!("{id}-{0}-t {id}-{0}-d", layout.name())) {
                    title id=(format!("{id}-{}-t", layout.name())) { (safe(&self.title)) }
                    desc id=(format!("{id}-{}-d", layout.name())) { (self.description) }
                    (drawing.body)
                }
            }
        }
    }

    /// A file of its own, with title and caption in the picture. It follows the reader's choice of light or dark.
    pub fn document(&self, layout: Layout) -> String {
        let drawing = match layout {
            Layout::Wide => &self.wide,
            Layout::Narrow => &self.narrow,
        };
        let margin = if layout.is_narrow() { 12.0 } else { 20.0 };
        let title = HEAD.lines(&safe(&self.title), layout.width());
        let lines: Vec<String> = self
            .caption
            .iter()
            .flat_map(|l| TEXT.lines(&safe(l), layout.width()))
            .collect();
        let under = 20.0 * title.len() as f64;
        let head = under + 14.0 + 18.0 * lines.len() as f64;
        let (width, height) = (
            layout.width() + 2.0 * margin,
            drawing.height + head + 2.0 * margin,
        );
        html! {
            (PreEscaped("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"))
            svg xmlns="http://www.w3.org/2000/svg" width=(width) height=(height) viewBox=(format!("0 0 {width} {height}"))
                role="img" aria-labelledby="t d" {
                title id="t" { (safe(&self.title)) }
                desc id="d" { (self.description) }
                style { (PreEscaped(STYLE)) }
                g.chart {
                    rect.ground width=(width) height=(height) rx="6" {}
                    g transform=(format!("translate({margin} {margin})")) {
                        @for (i, line) in title.iter().enumerate() {
                            text.head x="0" y=(16.0 + 20.0 * i as f64) { (line) }
                        }
                        @for (i, line) in lines.iter().enumerate() {
                            text.soft x="0" y=(under + 18.0 * (i + 1) as f64) { (line) }
                        }
                    }
                    g transform=(format!("translate({margin} {})", margin + head)) { (drawing.body) }
                }
            }
        }
        .into_string()
            + "\n"
    }
}

/// Things side by side, in as many lines as they need.
#[derive(Debug)]
pub(super) struct Flow {
    room: f64,
    /// Where the next thing goes.
    at: (f64, f64),
}

/// From line to line.
const LINE: f64 = 19.0;

impl Flow {
    pub fn new(room: f64, top: f64) -> Self {
        Self {
            room,
            at: (0.0, top),
        }
    }

    /// A place for a thing of this width, and a gap after it.
    pub fn place(&mut self, width: f64) -> (f64, f64) {
        if self.at.0 > 0.0 && self.at.0 + width > self.room {
            self.at = (0.0, self.at.1 + LINE);
        }
        let here = self.at;
        self.at.0 += width + 16.0;
        here
    }

    /// A place at the beginning of a line.
    pub fn new_line(&mut self) -> (f64, f64) {
        self.place(self.room)
    }

    /// Where the last line is.
    pub fn bottom(&self) -> f64 {
        self.at.1
    }
}

/// A coordinate, to a hundredth of a unit.
pub(super) fn px(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

/// Where a value stands on an axis.
#[derive(Clone, Copy, Debug)]
pub(super) struct Axis {
    low: f64,
    high: f64,
    log: bool,
    left: f64,
    width: f64,
}

impl Axis {
    /// From 0 to the largest value.
    pub fn linear(largest: f64, left: f64, width: f64) -> Self {
        Self {
            low: 0.0,
            high: largest.max(1e-9) * 1.02,
            log: false,
            left,
            width,
        }
    }

    /// Between two values above 0, and at least over a factor of 10, so that there are marks to read it by.
    pub fn log(low: f64, high: f64, left: f64, width: f64) -> Self {
        let (low, high) = (low / 1.12, high * 1.06);
        Self {
            low,
            high: high.max(low * 10.0),
            log: true,
            left,
            width,
        }
    }

    pub fn at(&self, value: f64) -> f64 {
        let share = if self.log {
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        px(self.left + share.clamp(0.0, 1.0) * self.width)
    }

    /// The words under the marks, each with the middle of its place: within the axis and a margin, and none over another.
    pub fn labels(&self, margin: f64) -> Vec<(f64, String)> {
        let (from, to) = (self.left - margin, self.left + self.width + margin);
        let mut free = from;
        let mut labels = Vec::new();
        for mark in self.marks() {
            let words = number_of_axis(mark);
            let half = TEXT.width(&words) / 2.0;
            let middle = self
                .at(mark)
                .clamp(from + half, (to - half).max(from + half));
            if middle - half >= free {
                free = middle + half + 6.0;
                labels.push((px(middle), words));
            }
        }
        labels
    }

    /// Values at which the axis is marked: round ones, and not so many that they run into each other.
    pub fn marks(&self) -> Vec<f64> {
        if !self.log {
            let step = round_step(self.high / (self.width / 80.0).clamp(2.0, 6.0));
            return (0..=20)
                .map(|i| f64::from(i) * step)
                .take_while(|v| *v <= self.high)
                .collect();
        }
        let decades = (self.high / self.low).log10();
        let digits: &[f64] = match self.width / decades {
            each if each > 200.0 => &[1.0, 2.0, 5.0],
            each if each > 110.0 => &[1.0, 3.0],
            _ => &[1.0],
        };
        // With many decades not each is marked.
        let stride = (decades / (self.width / 60.0)).ceil().max(1.0) as i32;
        let first = self.low.log10().floor() as i32;
        let last = self.high.log10().ceil() as i32;
        (first..=last)
            .filter(|power| power.rem_euclid(stride) == 0)
            .flat_map(|power| digits.iter().map(move |d| d * 10f64.powi(power)))
            .filter(|v| (self.low..=self.high).contains(v))
            .collect()
    }
}

fn number_of_axis(value: f64) -> String {
    if (0.01..1e6).contains(&value) || value == 0.0 {
        // Rounded to hide what binary fractions add: 0.30000000000000004.
        format!("{}", (value * 1000.0).round() / 1000.0)
    } else {
        format!("{value:.0e}")
    }
}

/// The next of 1, 2, 5 times a power of ten.
fn round_step(at_least: f64) -> f64 {
    let power = 10f64.powf(at_least.log10().floor());
    let digit = [1.0, 2.0, 5.0].into_iter().find(|d| d * power >= at_least);
    digit.unwrap_or(10.0) * power
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn marks_are_round_and_apart() {
        let marks = Axis::log(0.65, 620.0, 0.0, 340.0).marks();
        assert_eq!(marks, [1.0, 3.0, 10.0, 30.0, 100.0, 300.0]);
        let marks = Axis::linear(87.0, 0.0, 400.0).marks();
        assert_eq!(marks, [0.0, 20.0, 40.0, 60.0, 80.0]);
    }

    #[test]
    fn type_is_as_large_as_the_layout_takes_it_to_be() {
        assert!(STYLE.contains(&format!("font:400 {}px ", TEXT.size)));
        assert!(STYLE.contains(".strong{font-weight:700}") && STRONG.size == TEXT.size);
        assert!(STYLE.contains(&format!(
            ".head{{font-size:{}px;font-weight:700}}",
            HEAD.size
        )));
    }

    proptest! {
        #[test]
        fn values_stay_on_the_axis_and_marks_are_few(low in 1e-9_f64..1e11, factor in 1.0_f64..1e9, value in 1e-9_f64..1e12) {
            for axis in [Axis::log(low, low * factor, 10.0, 300.0), Axis::linear(low * factor, 10.0, 300.0)] {
                prop_assert!((10.0..=310.0).contains(&axis.at(value)));
                prop_assert!((1..=21).contains(&axis.marks().len()));
                let mut free = 0.0;
                for (middle, words) in axis.labels(10.0) {
                    let half = TEXT.width(&words) / 2.0;
                    prop_assert!(middle - half > free - 0.01 && middle + half < 320.01, "{words} at {middle}");
                    free = middle + half;
                }
            }
        }
    }
}
