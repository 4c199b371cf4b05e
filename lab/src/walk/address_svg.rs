//! The walk as a picture: self-contained, readable on light and on dark ground.

use std::fmt::Write;

use super::address::{Decoded, Place, verdict};
use crate::report::font::Font;

const STYLE: &str = "\
svg{background:#fff}text{font:13px system-ui,sans-serif;fill:#1b1f24;text-anchor:middle}.b{font:600 13px ui-monospace,monospace}\
.d{font:11px ui-monospace,monospace;fill:#57606a}.l{text-anchor:start}.c{fill:none;stroke:#8c959f}.e{fill:#54aeff}.a{fill:none;stroke:#cf222e;stroke-width:1.5}\
.m{fill:#cf222e}.above{fill:#eaeef2}.f0{fill:#ddf4ff}.f1{fill:#dafbe1}.o{fill:#fff8c5}\
@media(prefers-color-scheme:dark){svg{background:#0d1117}text{fill:#e6edf3}.d{fill:#9198a1}.c{stroke:#656c76}.e{fill:#1f6feb}.a{stroke:#ff7b72}\
.m{fill:#ff7b72}.above{fill:#262c36}.f0{fill:#0c2d6b}.f1{fill:#0f5323}.o{fill:#693e00}}";

/// Width of a digit of the address, and of a table.
const DIGIT: u32 = 14;
const LEFT: u32 = 20;
const BITS_Y: u32 = 60;
const TABLES_Y: u32 = 200;
const TABLE: [u32; 2] = [96, 128];
/// The size of type in the style.
const TEXT: Font = Font::regular(13.0);

/// Draws the bits of the address, and below them the tables that they lead through.
pub fn draw(decoded: &Decoded) -> String {
    let mut body = String::new();
    let title = format!("{:#018x}", decoded.address);
    text(&mut body, "b l", LEFT, 26, &title);
    let indexes: Vec<_> = decoded.indexes().collect();
    let columns = indexes.len() as u32 + 1;
    let width = 2 * LEFT + 64 * DIGIT;
    let step = (width - 2 * LEFT - TABLE[0]) / (columns - 1).max(1);
    let table_x = |i: u32| LEFT + i * step;
    for (i, field) in decoded.fields.iter().enumerate() {
        let x = LEFT + (63 - field.high) * DIGIT;
        let bits = (field.high - field.low + 1) * DIGIT;
        let class = match field.name {
            "above" => "above",
            "offset" => "o",
            _ => ["f0", "f1"][i % 2],
        };
        let _ = writeln!(
            body,
            "<rect class=\"{class}\" x=\"{x}\" y=\"{BITS_Y}\" width=\"{bits}\" height=\"26\"/>\
             <rect class=\"c\" x=\"{x}\" y=\"{BITS_Y}\" width=\"{bits}\" height=\"26\"/>"
        );
        for (n, digit) in (0..).zip(field.binary().chars()) {
            let at = x + n * DIGIT + DIGIT / 2;
            text(&mut body, "b", at, BITS_Y + 18, &digit.to_string());
        }
        let middle = x + bits / 2;
        let range = format!("{}–{}", field.high, field.low);
        text(&mut body, "d", middle, BITS_Y - 5, &range);
        if field.name == "above" {
            text(&mut body, "d", middle, BITS_Y + 42, "no information");
            continue;
        }
        let value = format!("{} {}", field.name, field.value);
        text(&mut body, "", middle, BITS_Y + 43, &value);
        let to = table_x(i as u32 - 1) + TABLE[0] / 2;
        let (from_y, to_y) = (BITS_Y + 50, TABLES_Y - 22);
        let _ = writeln!(
            body,
            "<path class=\"c\" d=\"M{middle} {from_y}C{middle} {} {to} {} {to} {to_y}\"/>",
            from_y + 40,
            to_y - 40
        );
    }
    for (i, field) in (0..).zip(&indexes) {
        let entry = (field.value, 511);
        table(
            &mut body,
            table_x(i),
            field.name,
            entry,
            Some(table_x(i + 1)),
        );
    }
    let byte = (decoded.offset(), (1 << decoded.leaf.bits()) - 1);
    let name = format!("page, {}", decoded.leaf.size());
    table(&mut body, table_x(columns - 1), &name, byte, None);

    let class = match decoded.place() {
        Place::NotCanonical => "l m",
        _ => "l",
    };
    let mut height = TABLES_Y + TABLE[1] + 10;
    for line in TEXT.lines(&verdict(decoded.address), f64::from(width - 2 * LEFT)) {
        height += 18;
        text(&mut body, class, LEFT, height, &line);
    }
    height += 16;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" role=\"img\">\n\
         <title>{title}: the walk through the page table</title>\n<desc>{}</desc>\n<style>{STYLE}</style>\n{body}</svg>\n",
        description(decoded)
    )
}

fn description(decoded: &Decoded) -> String {
    let mut out = String::new();
    for field in decoded.indexes() {
        let _ = write!(out, "{} {}, ", field.name, field.value);
    }
    let (offset, size) = (decoded.offset(), decoded.leaf.size());
    let _ = write!(out, "byte {offset} of a page of {size}; ");
    out + &verdict(decoded.address)
}

/// A table with the entry in use, and an arrow from there to what it refers to.
fn table(out: &mut String, x: u32, name: &str, (value, most): (u64, u64), next: Option<u32>) {
    let [width, height] = TABLE;
    text(out, "", x + width / 2, TABLES_Y - 7, name);
    let entry = TABLES_Y + (value * u64::from(height - 16) / most) as u32;
    let _ = writeln!(
        out,
        "<rect class=\"e\" x=\"{x}\" y=\"{entry}\" width=\"{width}\" height=\"16\"/>\
         <rect class=\"c\" x=\"{x}\" y=\"{TABLES_Y}\" width=\"{width}\" height=\"{height}\"/>"
    );
    text(out, "b", x + width / 2, entry + 13, &value.to_string());
    if let Some(next) = next {
        let (from, y) = (x + width, entry + 8);
        let middle = (from + next) / 2;
        let _ = writeln!(
            out,
            "<path class=\"a\" d=\"M{from} {y}C{middle} {y} {middle} {TABLES_Y} {next} {TABLES_Y}m-6 -4l6 4l-7 3\"/>"
        );
    }
}

fn text(out: &mut String, class: &str, x: u32, y: u32, text: &str) {
    let _ = writeln!(
        out,
        "<text class=\"{class}\" x=\"{x}\" y=\"{y}\">{text}</text>"
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::walk::{Leaf, Levels};

    #[test]
    fn type_is_as_large_as_the_layout_takes_it_to_be() {
        assert!(STYLE.contains(&format!("text{{font:{}px ", TEXT.size)));
    }

    #[test]
    fn every_walk_has_a_picture_that_says_what_it_shows() {
        for levels in [Levels::Four, Levels::Five] {
            for leaf in [Leaf::Small, Leaf::Huge, Leaf::Gigantic] {
                for address in [0, u64::MAX, 0x0000_f270_5af9_53c0] {
                    let svg = draw(&Decoded::of(address, levels, leaf));
                    assert!(svg.starts_with("<svg xmlns=") && svg.ends_with("</svg>\n"));
                    assert!(svg.contains("<title>0x") && svg.contains("<desc>PGD "));
                    assert_eq!(svg.matches("<text").count(), svg.matches("</text>").count());
                }
            }
        }
    }
}
