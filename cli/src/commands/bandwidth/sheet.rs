//! A table that is drawn one way where there is room, and on its side where there is not.

use std::fmt::Write;

use anstyle::Style;

const HEAD: Style = Style::new().bold();

/// Titles across, rows down. An empty cell is one that does not apply.
#[derive(Debug, Default)]
pub struct Sheet {
    /// Above the labels.
    pub corner: &'static str,
    /// One per column; broken at its first blank.
    pub titles: Vec<String>,
    /// The rows, each with as many cells as there are titles.
    pub rows: Vec<Row>,
}

#[derive(Debug)]
pub struct Row {
    pub label: &'static str,
    pub style: Style,
    pub cells: Vec<String>,
}

impl Sheet {
    /// Draws it within so many characters, if it can be.
    pub fn draw(&self, width: usize) -> String {
        let unbroken = self.upright(false);
        let fits = |text: &str| widest_line(text) <= width;
        if fits(&unbroken) {
            return unbroken;
        }
        let broken = self.upright(true);
        if fits(&broken) {
            return broken;
        }
        let on_its_side = self.on_its_side();
        [on_its_side, broken]
            .into_iter()
            .min_by_key(|text| widest_line(text))
            .unwrap_or_default()
    }

    fn upright(&self, broken: bool) -> String {
        let labels = self.rows.iter().map(|r| r.label).chain([self.corner]);
        let label = labels.map(wide).max().unwrap_or(0);
        let heads: Vec<_> = self
            .titles
            .iter()
            .map(|t| match t.split_once(' ') {
                Some(parts) if broken => parts,
                _ => ("", t.as_str()),
            })
            .collect();
        let widths: Vec<_> = heads
            .iter()
            .enumerate()
            .map(|(i, (above, below))| {
                let cells = self.rows.iter().map(|r| wide(&r.cells[i]));
                let widest = cells.chain([wide(above), wide(below)]).max();
                // Without a line break titles run into each other unless they are well apart.
                widest.unwrap_or(0) + if broken { 1 } else { 2 }
            })
            .collect();
        let mut out = String::new();
        let line = |out: &mut String, first: &str, cells: Vec<&str>, style: Style| {
            let mut text = pad_right(first, label);
            for (cell, width) in cells.into_iter().zip(&widths) {
                text += &pad_left(cell, *width);
            }
            let _ = writeln!(out, "{style}{}{style:#}", text.trim_end());
        };
        if heads.iter().any(|h| !h.0.is_empty()) {
            line(&mut out, "", heads.iter().map(|h| h.0).collect(), HEAD);
        }
        line(
            &mut out,
            self.corner,
            heads.iter().map(|h| h.1).collect(),
            HEAD,
        );
        for row in &self.rows {
            let cells = row.cells.iter().map(String::as_str).collect();
            line(&mut out, row.label, cells, row.style);
        }
        out
    }

    fn on_its_side(&self) -> String {
        let titles = self
            .titles
            .iter()
            .map(|t| wide(t))
            .chain([wide(self.corner)]);
        let title = titles.max().unwrap_or(0);
        let width = |row: &Row| {
            let cells = row.cells.iter().map(|c| wide(c));
            cells.chain([wide(row.label.trim())]).max().unwrap_or(0) + 2
        };
        let mut out = String::new();
        let mut head = pad_right(self.corner, title);
        for row in &self.rows {
            head += &pad_left(row.label.trim(), width(row));
        }
        let _ = writeln!(out, "{HEAD}{head}{HEAD:#}");
        for (i, name) in self.titles.iter().enumerate() {
            let mut text = pad_right(name, title);
            for row in &self.rows {
                let style = row.style;
                let cell = pad_left(&row.cells[i], width(row));
                let _ = write!(text, "{style}{cell}{style:#}");
            }
            let _ = writeln!(out, "{}", text.trim_end());
        }
        out
    }
}

fn widest_line(text: &str) -> usize {
    let plain = anstream::adapter::strip_str(text).to_string();
    plain.lines().map(wide).max().unwrap_or(0)
}

fn wide(text: &str) -> usize {
    text.chars().count()
}

fn pad_left(text: &str, width: usize) -> String {
    format!("{text:>width$}")
}

fn pad_right(text: &str, width: usize) -> String {
    format!("{text:<width$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sheet() -> Sheet {
        let row = |label, cells: [&str; 3]| Row {
            label,
            style: Style::new(),
            cells: cells.map(String::from).into(),
        };
        Sheet {
            corner: "MB/s",
            titles: ["Pipe", "File reread", "fat"].map(String::from).into(),
            rows: vec![
                row("2005", ["738", "1110", ""]),
                row("today", ["3", "4", "5"]),
            ],
        }
    }

    #[track_caller]
    fn assert_drawn(width: usize, lines: [&str; 4]) {
        let plain = anstream::adapter::strip_str(&sheet().draw(width)).to_string();
        let drawn: Vec<_> = plain.lines().filter(|l| !l.is_empty()).collect();
        assert_eq!(drawn, lines);
    }

    #[test]
    fn with_room_titles_stand_above() {
        let plain = anstream::adapter::strip_str(&sheet().draw(100)).to_string();
        let drawn: Vec<_> = plain.lines().collect();
        assert_eq!(
            drawn,
            [
                "MB/s   Pipe  File reread  fat",
                "2005    738         1110",
                "today     3            4    5",
            ]
        );
    }

    #[test]
    fn with_less_room_they_are_broken() {
        assert_drawn(
            24,
            [
                "             File",
                "MB/s  Pipe reread fat",
                "2005   738   1110",
                "today    3      4   5",
            ],
        );
    }

    #[test]
    fn without_room_it_lies_on_its_side() {
        let mut tall = sheet();
        for _ in 0..9 {
            tall.titles.push("more".into());
            for row in &mut tall.rows {
                row.cells.push("9".into());
            }
        }
        let plain = anstream::adapter::strip_str(&tall.draw(40)).to_string();
        assert!(
            plain.starts_with("MB/s         2005  today\nPipe          738      3\nFile reread  1110      4\nfat                    5\nmore "),
            "{plain}"
        );
    }
}
