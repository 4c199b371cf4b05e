//! Progress bars: a known size, or an indicator that moves back and forth. Pure.

/// How a bar looks. All but `Plain` need UTF-8.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    #[default]
    Plain,
    Block,
    Granular,
    Shaded,
}

impl Style {
    /// The style of that name.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "plain" => Self::Plain,
            "block" => Self::Block,
            "granular" => Self::Granular,
            "shaded" => Self::Shaded,
            _ => return None,
        })
    }

    /// Cells from empty to full.
    fn cells(self) -> &'static [char] {
        match self {
            Self::Plain => &[' ', '='],
            Self::Block => &[' ', '█'],
            Self::Granular => &[' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'],
            Self::Shaded => &['░', '▒', '▓', '█'],
        }
    }

    fn indicator(self) -> &'static str {
        match self {
            Self::Plain => "<=>",
            Self::Block | Self::Granular => "◀▶",
            Self::Shaded => "▒▓▒",
        }
    }
}

/// A bar of `width` columns, filled to so many percent.
pub fn filled(style: Style, width: usize, percentage: f64) -> String {
    let cells = style.cells();
    let full = cells[cells.len() - 1];
    let exact = width as f64 * percentage.max(0.0) / 100.0;
    let mut whole = (exact as usize).min(width);
    let mut bar = String::new();
    if style == Style::Plain {
        // The last full cell is the tip.
        whole = whole.saturating_sub(1);
        bar.extend(std::iter::repeat_n(full, whole));
        if whole < width {
            bar.push('>');
            whole += 1;
        }
    } else {
        bar.extend(std::iter::repeat_n(full, whole));
        if cells.len() > 2 && whole < width {
            let steps = (cells.len() - 1) as f64;
            let part = (exact - whole as f64) * steps;
            bar.push(cells[(part as usize).min(cells.len() - 1)]);
            whole += 1;
        }
    }
    bar.extend(std::iter::repeat_n(cells[0], width - whole));
    bar
}

/// An indicator that runs to the right as `position` goes from 0 to 100, and back as it goes on to 200. Nothing where it
/// does not fit.
pub fn moving(style: Style, width: usize, position: f64) -> String {
    let indicator = style.indicator();
    let Some(room) = width.checked_sub(indicator.chars().count()) else {
        return String::new();
    };
    let position = position.max(0.0) % 200.01;
    let position = if position > 100.0 {
        (200.0 - position).max(0.0)
    } else {
        position
    };
    let before = ((room as f64 * position / 100.0) as usize).min(room);
    let empty = style.cells()[0];
    let blank = |n| std::iter::repeat_n(empty, n);
    blank(before)
        .chain(indicator.chars())
        .chain(blank(room - before))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn plain_bars_are_pv_s() {
        assert_eq!(filled(Style::Plain, 10, 0.0), ">         ");
        assert_eq!(filled(Style::Plain, 10, 10.0), ">         ");
        assert_eq!(filled(Style::Plain, 10, 50.0), "====>     ");
        assert_eq!(filled(Style::Plain, 10, 100.0), "=========>");
        assert_eq!(filled(Style::Plain, 10, 250.0), "=========>");
        assert_eq!(moving(Style::Plain, 8, 0.0), "<=>     ");
        assert_eq!(moving(Style::Plain, 8, 100.0), "     <=>");
        assert_eq!(moving(Style::Plain, 8, 150.0), "  <=>   ");
        assert_eq!(moving(Style::Plain, 2, 0.0), "");
    }

    #[test]
    fn other_styles_fill_parts_of_a_cell() {
        assert_eq!(filled(Style::Block, 4, 50.0), "██  ");
        assert_eq!(filled(Style::Granular, 4, 37.5), "█▌  ");
        assert_eq!(filled(Style::Shaded, 2, 70.0), "█▒");
        assert_eq!(filled(Style::Shaded, 2, 100.0), "██");
    }

    proptest! {
        #[test]
        fn every_bar_is_as_wide_as_asked(width in 0..300_usize, percentage in -5.0..300.0_f64) {
            for style in [Style::Plain, Style::Block, Style::Granular, Style::Shaded] {
                prop_assert_eq!(filled(style, width, percentage).chars().count(), width);
                let moving = moving(style, width, percentage).chars().count();
                prop_assert!(moving == width || moving == 0);
            }
        }
    }
}
