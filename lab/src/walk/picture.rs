//! An address in characters: its bits in groups, and the tables that they lead through.

use std::fmt::Write;

use super::address::{Decoded, Place, verdict};
use crate::show::wrap::wrap;

/// Draws the walk; lines of at most 100 characters.
pub fn draw(decoded: &Decoded) -> String {
    let mut out = format!("{:#018x}\n\n", decoded.address);
    bits(&mut out, decoded);
    out.push('\n');
    for line in wrap(&verdict(decoded.address), 96, [""; 2]) {
        let _ = writeln!(out, "{line}");
    }
    if decoded.place() == Place::NotCanonical {
        out.push_str("Were it one, this would be the walk:\n");
    }
    out.push('\n');
    tables(&mut out, decoded);
    out
}

/// Digits, brackets under them, and under those what they mean.
fn bits(out: &mut String, decoded: &Decoded) {
    let mut lines = [const { String::new() }; 5];
    for field in &decoded.fields {
        let digits = field.binary();
        let width = digits.len().max(field.name.len());
        let name = if field.name == "above" {
            ""
        } else {
            field.name
        };
        let value = if name.is_empty() {
            String::new()
        } else {
            field.value.to_string()
        };
        let range = format!("{}–{}", field.high, field.low);
        let middle = width / 2;
        let bracket: String = (0..width)
            .map(|i| match i {
                0 => '└',
                i if i == width - 1 => '┘',
                i if i == middle => '┬',
                _ => '─',
            })
            .collect();
        let texts = [&digits, &bracket, name, &value, &range];
        for (line, text) in lines.iter_mut().zip(texts) {
            let _ = write!(line, " {text:^width$}");
        }
    }
    for line in lines {
        let _ = writeln!(out, "{}", line.trim_end());
    }
}

/// The tables from left to right, each with the entry that leads to the next.
fn tables(out: &mut String, decoded: &Decoded) {
    const BOX: usize = 7;
    let indexes: Vec<_> = decoded.indexes().collect();
    let mut lines = [const { String::new() }; 5];
    for (i, field) in indexes.iter().enumerate() {
        let is_last = i + 1 == indexes.len();
        let (edge, dots) = ("─".repeat(BOX), format!("{:^BOX$}", "⋮"));
        let lead = if i == 0 { "CR3 ───" } else { "───" };
        let lead = format!("{lead}{:─>4}▸", format!(" {}", field.value));
        let pad = " ".repeat(lead.chars().count());
        let name = if is_last && field.name != "PTE" {
            format!("{}, leaf", field.name)
        } else {
            field.name.to_owned()
        };
        let texts = [
            format!("{pad} {name:<0$} ", BOX),
            format!("{pad}┌{edge}┐"),
            format!("{pad}│{dots}│"),
            format!("{lead}│{:^BOX$}├", "●"),
            format!("{pad}└{edge}┘"),
        ];
        for (line, text) in lines.iter_mut().zip(texts) {
            line.push_str(&text);
        }
    }
    let (offset, size) = (decoded.offset(), decoded.leaf.size());
    let lead = format!("─── {offset}▸");
    let pad = " ".repeat(lead.chars().count());
    let texts = [
        format!("{pad} page of {size}"),
        format!("{pad}┌─────────────┐"),
        format!("{pad}│             │"),
        format!("{lead}│ ▒ the byte  │"),
        format!("{pad}└─────────────┘"),
    ];
    for (line, text) in lines.iter_mut().zip(texts) {
        line.push_str(&text);
    }
    for line in lines {
        let _ = writeln!(out, "{}", line.trim_end());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::walk::{Leaf, Levels};

    #[test]
    fn bits_stand_in_groups_above_their_names() {
        let decoded = Decoded::of(0x0000_f270_5af9_53c0, Levels::Four, Leaf::Small);
        let text = draw(&decoded);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], "0x0000f2705af953c0");
        assert_eq!(
            lines[2..7],
            [
                " 0000000000000000 111100100 111000001 011010111 110010101 001111000000",
                " └───────┬──────┘ └───┬───┘ └───┬───┘ └───┬───┘ └───┬───┘ └─────┬────┘",
                "                     PGD       PUD       PMD       PTE       offset",
                "                     484       449       215       405        960",
                "      63–48         47–39     38–30     29–21     20–12       11–0",
            ],
            "{text}"
        );
        assert!(text.contains("not canonical with 4 levels"), "{text}");
        assert!(text.contains("page of 4 KiB"), "{text}");
    }

    #[test]
    fn no_picture_is_wider_than_a_wide_terminal() {
        for levels in [Levels::Four, Levels::Five] {
            for leaf in [Leaf::Small, Leaf::Huge, Leaf::Gigantic] {
                let text = draw(&Decoded::of(u64::MAX, levels, leaf));
                for line in text.lines() {
                    assert!(line.chars().count() <= 120, "{line}");
                }
            }
        }
    }
}
