//! What cat's options do to the bytes: numbers, ends of lines, tabs and what cannot be printed. Pure.

use memchr::memchr;

/// What to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Format {
    /// Number lines.
    pub number: Number,
    /// `$` at the end of each line.
    pub show_ends: bool,
    /// `^I` for tabs.
    pub show_tabs: bool,
    /// `^` and `M-` notation, except for line feed and tab.
    pub show_nonprinting: bool,
    /// One empty line for several in a row.
    pub squeeze_blank: bool,
}

/// Which lines are numbered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Number {
    #[default]
    None,
    All,
    NonBlank,
}

impl Format {
    pub fn changes_nothing(&self) -> bool {
        *self == Self::default()
    }
}

/// Where the last byte has left us; goes on from file to file.
#[derive(Debug)]
pub struct Formatter {
    format: Format,
    line: u64,
    /// Empty lines in a row before this one; at most two matter. `None` in the middle of a line.
    empty_before: Option<u8>,
    /// With `show_ends`, a carriage return is shown as `^M` where a line feed follows, which may be in the next piece.
    pending_cr: bool,
}

impl Formatter {
    pub fn new(format: Format) -> Self {
        Self {
            format,
            line: 0,
            empty_before: Some(0),
            pending_cr: false,
        }
    }

    /// Appends to `out` what `input` becomes.
    pub fn push(&mut self, mut input: &[u8], out: &mut Vec<u8>) {
        while let Some(&first) = input.first() {
            if first == b'\n' {
                self.end_line(out);
                input = &input[1..];
                continue;
            }
            if std::mem::take(&mut self.pending_cr) {
                out.push(b'\r');
            }
            if self.empty_before.take().is_some() && self.format.number != Number::None {
                self.print_number(out);
            }
            let end = memchr(b'\n', input).unwrap_or(input.len());
            let (mut text, rest) = input.split_at(end);
            if self.format.show_ends
                && !self.format.show_nonprinting
                && let Some(without) = text.strip_suffix(b"\r")
            {
                self.pending_cr = true;
                text = without;
            }
            self.push_text(text, out);
            input = rest;
        }
    }

    /// Appends what was held back.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        if std::mem::take(&mut self.pending_cr) {
            out.push(b'\r');
        }
    }

    fn end_line(&mut self, out: &mut Vec<u8>) {
        if let Some(empty) = self.empty_before {
            self.empty_before = Some(empty.saturating_add(1));
            // A carriage return held back belongs to a line that is not empty.
            if self.format.squeeze_blank && empty >= 1 {
                return;
            }
            if self.format.number == Number::All {
                self.print_number(out);
            }
        } else {
            self.empty_before = Some(0);
        }
        if self.format.show_ends {
            if std::mem::take(&mut self.pending_cr) {
                out.extend(b"^M");
            }
            out.push(b'$');
        }
        out.push(b'\n');
    }

    fn print_number(&mut self, out: &mut Vec<u8>) {
        self.line += 1;
        // The digits, from the last on, in at least six columns.
        let mut digits = [b' '; 20];
        let (mut n, mut at) = (self.line, digits.len());
        while n > 0 {
            at -= 1;
            digits[at] = b'0' + (n % 10) as u8;
            n /= 10;
        }
        out.extend(&digits[at.min(digits.len() - 6)..]);
        out.push(b'\t');
    }

    /// A part of a line, without its end.
    fn push_text(&self, mut text: &[u8], out: &mut Vec<u8>) {
        if self.format.show_nonprinting {
            let show_tabs = self.format.show_tabs;
            for &byte in text {
                match byte {
                    b' '..=b'~' => out.push(byte),
                    b'\t' if !show_tabs => out.push(byte),
                    _ => push_visible(byte, out),
                }
            }
        } else if self.format.show_tabs {
            while let Some(at) = memchr(b'\t', text) {
                out.extend(&text[..at]);
                out.extend(b"^I");
                text = &text[at + 1..];
            }
            out.extend(text);
        } else {
            out.extend(text);
        }
    }
}

/// `^A` for control characters, `M-` before what lies above 127.
fn push_visible(byte: u8, out: &mut Vec<u8>) {
    let low = byte & 0x7f;
    if byte >= 128 {
        out.extend(b"M-");
    }
    match low {
        127 => out.extend(b"^?"),
        0..32 => out.extend([b'^', low + 64]),
        _ => out.push(low),
    }
}
