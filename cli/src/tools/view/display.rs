//! One line of the display, out of a reading and the format. Pure.

use fullbore_lab::show::{escape::visible, wrap::columns};
use unicode_width::UnicodeWidthChar;

use super::amount::{Unit, amount, clock};
use super::bar::{self, Style};
use super::format::{FormatPiece, Part, colour_codes, parse};
use super::meter::Reading;

/// What is shown and how; the same at every update, unless another instance changes it.
#[derive(Clone, Debug)]
pub struct Form {
    pub pieces: Vec<FormatPiece>,
    pub unit: Unit,
    /// Bits instead of bytes.
    pub bits: bool,
    /// Bare numbers.
    pub numeric: bool,
    /// Without a size, the bar shows the rate against the highest one.
    pub gauge: bool,
    pub name: Option<String>,
    pub style: Style,
    pub utf8: bool,
    pub colour: bool,
}

/// What a line needs besides the reading.
#[derive(Clone, Debug, Default)]
pub struct Moment {
    pub size: Option<u64>,
    /// Columns of the terminal.
    pub width: usize,
    /// Of the transfer buffer; none where there is no buffer.
    pub buffer_percent: Option<f64>,
    pub last_written: Vec<u8>,
    pub previous_line: Vec<u8>,
    /// Local time at which the transfer ends, as text.
    pub finish_time: String,
}

/// Which parts are shown by default or by their switches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Switches {
    pub progress: bool,
    pub timer: bool,
    pub eta: bool,
    pub fineta: bool,
    pub rate: bool,
    pub average_rate: bool,
    pub bytes: bool,
    pub buffer_percent: bool,
    pub last_written: usize,
}

impl Switches {
    /// The format string that they stand for.
    pub fn format(self, named: bool, numeric: bool) -> String {
        let last_written = format!("%{}A", self.last_written);
        let parts: &[(bool, &str)] = if numeric {
            &[
                (self.timer, "%t"),
                (self.bytes, "%b"),
                (self.rate, "%r"),
                (!(self.bytes || self.rate), "%{progress-amount-only}"),
            ]
        } else {
            &[
                (named, "%N"),
                (self.bytes, "%b"),
                (self.buffer_percent, "%T"),
                (self.timer, "%t"),
                (self.rate, "%r"),
                (self.average_rate, "%a"),
                (self.progress, "%p"),
                (self.eta, "%e"),
                (self.fineta, "%I"),
                (self.last_written > 0, &last_written),
            ]
        };
        let shown: Vec<_> = parts.iter().filter(|p| p.0).map(|p| p.1).collect();
        shown.join(" ")
    }
}

impl Form {
    pub fn set_format(&mut self, format: &str) {
        self.pieces = parse(format);
    }

    /// Whether a part needs to see the bytes themselves.
    pub fn shows_data(&self) -> bool {
        self.parts().any(Part::shows_data)
    }

    fn parts(&self) -> impl Iterator<Item = &Part> {
        self.pieces.iter().filter_map(|piece| match piece {
            FormatPiece::Part(part, _) => Some(part),
            FormatPiece::Text(_) => None,
        })
    }

    /// The line, without what ends it.
    pub fn line(&self, reading: &Reading, at: &Moment) -> String {
        let of = |part: &Part, columns| self.part(part, columns, reading, at);
        let fills =
            |piece: &FormatPiece| matches!(piece, FormatPiece::Part(part, 0) if part.fills());
        let fixed: Vec<Option<String>> = self
            .pieces
            .iter()
            .map(|piece| match piece {
                _ if fills(piece) => None,
                FormatPiece::Text(text) => Some(text.clone()),
                FormatPiece::Part(part, columns) => Some(of(part, *columns)),
            })
            .collect();
        let taken: usize = fixed.iter().flatten().map(|text| columns(text)).sum();
        let filling = fixed.iter().filter(|text| text.is_none()).count();
        let room = at.width.saturating_sub(taken) / filling.max(1);
        let mut line = String::new();
        for (piece, fixed) in self.pieces.iter().zip(fixed) {
            match (fixed, piece) {
                (Some(text), _) => line.push_str(&text),
                (None, FormatPiece::Part(part, _)) => line.push_str(&of(part, room)),
                (None, FormatPiece::Text(_)) => {}
            }
        }
        // A line that wraps could not be written over.
        if !self.numeric && columns(&line) > at.width {
            line = cut(&line, at.width);
        }
        if self.colour && self.parts().any(|p| matches!(p, Part::Colour(_))) {
            line.push_str("\x1b[m");
        }
        line
    }

    fn part(&self, part: &Part, columns: usize, reading: &Reading, at: &Moment) -> String {
        match part {
            Part::Progress => self.progress(self.style, columns, reading, at),
            Part::Amount if self.numeric => format!("{:.0}", reading.percentage),
            Part::Amount => self.after_bar(reading, at).chars().skip(1).collect(),
            Part::Bar(style) => self.bar(style.unwrap_or(self.style), columns, reading, at),
            Part::Timer if self.numeric => format!("{:.4}", reading.elapsed),
            Part::Timer => clock(reading.elapsed),
            Part::Eta => self.eta(reading),
            Part::FinishTime if at.size.is_none_or(|s| s == 0) => String::new(),
            Part::FinishTime => format!("FIN {}", at.finish_time),
            Part::Rate => self.rate(reading.rate, '[', ']'),
            Part::AverageRate => self.rate(reading.average, '(', ')'),
            Part::Bytes => self.bytes(reading.transferred),
            Part::Ratio => "-:-".into(),
            Part::BufferPercent => match at.buffer_percent {
                Some(percent) => format!("{{{percent:3.0}%}}"),
                None => "{----}".into(),
            },
            Part::LastWritten => {
                let missing = columns.saturating_sub(at.last_written.len());
                let from = at.last_written.len().saturating_sub(columns);
                let dots = std::iter::repeat_n('.', missing);
                dots.chain(printable(&at.last_written[from..], '.'))
                    .collect()
            }
            Part::PreviousLine => {
                let shown = at.previous_line.len().min(columns);
                let blank = std::iter::repeat_n(' ', columns - shown);
                printable(&at.previous_line[..shown], ' ')
                    .chain(blank)
                    .collect()
            }
            Part::Name => self.name.as_ref().map_or_else(String::new, |name| {
                let wide = if columns == 0 { 9 } else { columns.min(500) };
                let name: String = visible(name).chars().take(500).collect();
                format!("{name:>wide$}:")
            }),
            Part::Colour(list) if self.colour => colour_codes(list),
            Part::Colour(_) => String::new(),
        }
    }

    fn style(&self, style: Style) -> Style {
        if self.utf8 { style } else { Style::Plain }
    }

    /// What the bar shows: percent of the size, or of the highest rate; or nothing that ends.
    fn share(&self, reading: &Reading, at: &Moment) -> Option<f64> {
        match at.size {
            Some(size) if size > 0 => Some(reading.percentage),
            _ if !self.gauge => None,
            _ if reading.rate_max > 0.0 => Some(100.0 * reading.rate / reading.rate_max),
            _ => Some(0.0),
        }
    }

    /// What stands behind the bar: ` 42%` of a size, or `/1.00MiB/s`, the highest rate.
    fn after_bar(&self, reading: &Reading, at: &Moment) -> String {
        match at.size {
            Some(size) if size > 0 => format!(" {:3}%", reading.percentage as u64),
            _ if self.gauge => format!("/{}", self.per_second(reading.rate_max)),
            _ => String::new(),
        }
    }

    fn progress(&self, style: Style, columns: usize, reading: &Reading, at: &Moment) -> String {
        let style = self.style(style);
        let after = self.after_bar(reading, at);
        let Some(room) = columns.checked_sub(after.chars().count() + 2) else {
            return String::new();
        };
        match self.share(reading, at) {
            Some(share) => format!("[{}]{after}", bar::filled(style, room, share)),
            None => match bar::moving(style, room, reading.percentage) {
                bar if bar.is_empty() => bar,
                bar => format!("[{bar}]"),
            },
        }
    }

    fn bar(&self, style: Style, columns: usize, reading: &Reading, at: &Moment) -> String {
        let style = self.style(style);
        match self.share(reading, at) {
            Some(share) => bar::filled(style, columns, share),
            None => bar::moving(style, columns, reading.percentage),
        }
    }

    fn eta(&self, reading: &Reading) -> String {
        let Some(left) = reading.left else {
            return String::new();
        };
        let text = format!("ETA {}", clock(left as f64));
        // At the end, blanks in its place.
        if reading.last {
            " ".repeat(text.len())
        } else {
            text
        }
    }

    fn per_second(&self, rate: f64) -> String {
        if self.bits && self.unit != Unit::Lines {
            amount(8.0 * rate, self.unit, "", "b/s")
        } else {
            amount(rate, self.unit, "/s", "B/s")
        }
    }

    fn rate(&self, rate: f64, open: char, close: char) -> String {
        if self.numeric {
            let rate = if self.bits { 8.0 * rate } else { rate };
            return format!("{rate:.4}");
        }
        format!("{open}{}{close}", self.per_second(rate))
    }

    fn bytes(&self, transferred: u64) -> String {
        let bits = self.bits && (self.numeric || self.unit != Unit::Lines);
        let count = if bits {
            transferred.saturating_mul(8)
        } else {
            transferred
        };
        if self.numeric {
            return count.to_string();
        }
        amount(count as f64, self.unit, "", if bits { "b" } else { "B" })
    }
}

/// As much of a text as fits into so many columns, and all its colour codes.
fn cut(text: &str, width: usize) -> String {
    let (mut taken, mut in_code) = (0, false);
    let fits = |c: &char| {
        if in_code || *c == '\x1b' {
            in_code = !c.is_ascii_alphabetic();
            return true;
        }
        taken += c.width().unwrap_or(0);
        taken <= width
    };
    text.chars().filter(fits).collect()
}

fn printable(bytes: &[u8], other: char) -> impl Iterator<Item = char> {
    bytes.iter().map(move |&b| match b {
        b' '..=b'~' => char::from(b),
        _ => other,
    })
}

#[cfg(test)]
mod tests;
