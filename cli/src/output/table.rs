//! Tables for people: no lines, each column as wide as what stands in it. Cells may have styles.

use fullbore_lab::show::wrap::columns;

use super::style::{HEAD, paint};

/// Titles and rows. A row may end early: its last cell then reaches over the columns that are left.
#[derive(Clone, Debug)]
pub struct Table {
    titles: Vec<String>,
    is_right: Vec<bool>,
    rows: Vec<Vec<String>>,
    gap: usize,
}

impl Table {
    /// Columns by their titles; those whose titles begin with `>` are set to the right.
    pub fn new(titles: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let titles: Vec<String> = titles.into_iter().map(Into::into).collect();
        Self {
            is_right: titles.iter().map(|t| t.starts_with('>')).collect(),
            titles: titles
                .iter()
                .map(|t| t.strip_prefix('>').unwrap_or(t).to_owned())
                .collect(),
            rows: Vec::new(),
            gap: 2,
        }
    }

    /// So many blanks between columns, instead of two.
    pub fn gap(mut self, gap: usize) -> Self {
        self.gap = gap;
        self
    }

    pub fn row(&mut self, cells: impl IntoIterator<Item = impl Into<String>>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// Its lines.
    pub fn draw(&self) -> String {
        let titles: Vec<Vec<&str>> = self
            .titles
            .iter()
            .map(|t| t.split('\n').collect())
            .collect();
        let height = titles.iter().map(Vec::len).max().unwrap_or(0);
        let title = |line: usize| {
            let of = |t: &Vec<&str>| {
                (line + t.len())
                    .checked_sub(height)
                    .map_or("", |i| t[i])
                    .to_owned()
            };
            titles.iter().map(of).collect::<Vec<_>>()
        };
        let heads: Vec<Vec<String>> = (0..height).map(title).collect();
        let widths = self.widths(&heads);
        let mut out = String::new();
        for head in heads.iter().filter(|h| h.iter().any(|t| !t.is_empty())) {
            out += &paint(&self.line(head, &widths), HEAD);
            out.push('\n');
        }
        for row in &self.rows {
            out += &self.line(row, &widths);
            out.push('\n');
        }
        out
    }

    /// Drawn within so many columns of a terminal: with titles that are broken at their first blank, or on its side, where
    /// there is less room.
    pub fn draw_within(&self, width: usize) -> String {
        let widest = |text: &String| text.lines().map(columns).max().unwrap_or(0);
        let whole = self.draw();
        if widest(&whole) <= width {
            return whole;
        }
        let mut broken = self.clone().gap(1);
        for title in broken.titles.iter_mut().skip(1) {
            *title = title.replacen(' ', "\n", 1);
        }
        let broken = broken.draw();
        if widest(&broken) <= width {
            return broken;
        }
        let on_its_side = self.on_its_side().draw();
        [on_its_side, broken]
            .into_iter()
            .min_by_key(widest)
            .unwrap_or_default()
    }

    fn on_its_side(&self) -> Self {
        let labels = self.rows.iter().map(|row| {
            let label = anstream::adapter::strip_str(&row[0]).to_string();
            format!(">{}", label.trim())
        });
        let mut table = Self::new(self.titles.iter().take(1).cloned().chain(labels));
        for (i, title) in self.titles.iter().enumerate().skip(1) {
            let cells = self.rows.iter().map(|row| row[i].clone());
            table.row([title.clone()].into_iter().chain(cells));
        }
        table
    }

    fn widths(&self, heads: &[Vec<String>]) -> Vec<usize> {
        let mut widths = vec![0; self.titles.len()];
        for row in heads.iter().chain(&self.rows) {
            let own = row.len() - usize::from(row.len() < widths.len());
            for (width, cell) in widths.iter_mut().zip(&row[..own]) {
                *width = columns(cell).max(*width);
            }
        }
        widths
    }

    fn line(&self, row: &[String], widths: &[usize]) -> String {
        let mut line = String::new();
        let (mut column, mut taken) = (0, 0);
        for ((cell, width), is_right) in row.iter().zip(widths).zip(&self.is_right) {
            let wide = columns(cell);
            let before = if *is_right {
                width.saturating_sub(wide)
            } else {
                0
            };
            // Blanks are written only once something follows them.
            if wide > 0 {
                line += &" ".repeat((column + before).saturating_sub(taken));
                line += cell;
                taken = column + before + wide;
            }
            column += width + self.gap;
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(["MB/s", ">Pipe", ">File reread", ">fat"]);
        table.row(["2005", "738", "1110", ""]);
        table.row(["today", "3", "4", "5"]);
        table
    }

    fn plain(text: &str) -> Vec<String> {
        let plain = anstream::adapter::strip_str(text).to_string();
        plain.lines().map(str::to_owned).collect()
    }

    #[test]
    fn with_room_titles_stand_above() {
        let lines = [
            "MB/s   Pipe  File reread  fat",
            "2005    738         1110",
            "today     3            4    5",
        ];
        assert_eq!(plain(&table().draw_within(100)), lines);
    }

    #[test]
    fn with_less_room_they_are_broken() {
        let lines = [
            "             File",
            "MB/s  Pipe reread fat",
            "2005   738   1110",
            "today    3      4   5",
        ];
        assert_eq!(plain(&table().draw_within(24)), lines);
    }

    #[test]
    fn without_room_it_lies_on_its_side() {
        let mut tall = table();
        for _ in 0..9 {
            tall.titles.push("more".into());
            tall.is_right.push(true);
            for row in &mut tall.rows {
                row.push("9".into());
            }
        }
        let drawn = plain(&tall.draw_within(40));
        let lines = [
            "MB/s         2005  today",
            "Pipe          738      3",
            "File reread  1110      4",
            "fat                    5",
        ];
        assert_eq!(drawn[..4], lines);
    }

    #[test]
    fn width_is_that_of_a_terminal_and_the_last_of_a_short_row_takes_what_is_left() {
        let mut table = Table::new(["a", ">b", "c"]);
        table.row(["日本", "1", "x"]);
        table.row(["é", &paint("2", HEAD), "y"]);
        table.row(["z", "a note that is long"]);
        let lines = [
            "a     b  c",
            "日本  1  x",
            "é     2  y",
            "z     a note that is long",
        ];
        assert_eq!(plain(&table.draw()), lines);
    }
}
