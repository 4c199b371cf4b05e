//! How wide a text may become, whatever font it is drawn with.
//!
//! A picture names the fonts it would like; which of them are there, only its reader's machine knows. So pictures are laid
//! out for the widest of DejaVu, Liberation (as wide as Arial, Helvetica and Times) and Roboto, and for one whose
//! characters are all as wide as a typewriter's: what a machine with other fonts, or with few, has instead is not wider.

use crate::show::wrap::wrap_measured;

/// Thousandths of the type's size, from the blank to the tilde: the widest of DejaVu Sans and Serif, Liberation Sans and
/// Serif, and Roboto.
const REGULAR: [u16; 95] = [
    318, 402, 460, 838, 637, 951, 891, 275, 391, 391, 500, 838, 318, 361, 318, 413, 637, 637, 637,
    637, 637, 637, 637, 637, 637, 637, 337, 337, 838, 838, 838, 557, 1016, 723, 735, 766, 802, 730,
    694, 799, 873, 396, 552, 748, 665, 1024, 875, 820, 673, 820, 753, 686, 667, 843, 723, 1028,
    723, 723, 695, 391, 411, 391, 838, 557, 500, 613, 641, 561, 641, 616, 371, 641, 645, 320, 311,
    606, 320, 975, 645, 612, 641, 641, 479, 521, 402, 645, 592, 856, 592, 592, 527, 637, 337, 637,
    838,
];
const BOLD: [u16; 95] = [
    349, 457, 556, 838, 696, 1002, 903, 307, 474, 474, 523, 838, 380, 416, 380, 375, 696, 696, 696,
    696, 696, 696, 696, 696, 696, 696, 400, 400, 838, 838, 838, 611, 1000, 776, 846, 796, 868, 763,
    710, 855, 945, 468, 559, 870, 704, 1107, 915, 872, 752, 872, 832, 723, 745, 873, 776, 1124,
    776, 725, 730, 474, 423, 474, 838, 557, 500, 675, 716, 609, 716, 679, 436, 716, 728, 380, 362,
    693, 380, 1059, 728, 688, 716, 716, 527, 596, 479, 728, 652, 924, 646, 652, 583, 712, 366, 712,
    838,
];
/// Every character of a monospaced font.
const MONOSPACED: u16 = 603;

/// A size of type, in units of the picture, and a weight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Font {
    pub size: f64,
    pub bold: bool,
}

impl Font {
    pub const fn regular(size: f64) -> Self {
        Self { size, bold: false }
    }

    pub const fn bold(size: f64) -> Self {
        Self { size, bold: true }
    }

    /// The most room that the text takes.
    pub fn width(self, text: &str) -> f64 {
        let table = if self.bold { &BOLD } else { &REGULAR };
        let proportional = text.chars().map(|c| match c {
            ' '..='~' => table[c as usize - ' ' as usize],
            _ => advance(c, self.bold),
        });
        let proportional = proportional.map(f64::from).sum::<f64>();
        let monospaced = f64::from(MONOSPACED) * text.chars().count() as f64;
        proportional.max(monospaced) / 1000.0 * self.size
    }

    /// The text, cut so that it takes at most so much room.
    pub fn fitted(self, text: &str, room: f64) -> String {
        if self.width(text) <= room {
            return text.to_owned();
        }
        let mut cut = String::new();
        for c in text.chars() {
            cut.push(c);
            cut.push('…');
            let fits = self.width(&cut) <= room;
            cut.pop();
            if !fits {
                cut.pop();
                break;
            }
        }
        cut.push('…');
        cut
    }

    /// Lines that take at most so much room, broken at blanks; a word that is longer is cut.
    pub fn lines(self, text: &str, room: f64) -> Vec<String> {
        let words = text.split_whitespace().map(|w| self.fitted(w, room));
        wrap_measured(words, room, |text| self.width(text))
    }
}

/// The characters that our own words use have figures of their own; of others, what the widest of their script needs.
fn advance(c: char, bold: bool) -> u16 {
    match c {
        '…' | '→' => 1000,
        '×' | '≈' => 838,
        '–' | 'µ' | 'μ' | '²' | '³' | '⁹' | '·' | '’' | '▾' if bold => 736,
        '–' | 'µ' | 'μ' | '²' | '³' | '⁹' | '·' | '’' | '▾' => 657,
        // Latin, Greek and Cyrillic letters, with two of them in one.
        '\u{a0}'..='\u{45f}' => 1600,
        // Ideographs and emoji are squares, and few signs are wider than two.
        _ => 2000,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use proptest::prelude::*;
    use skrifa::{FontRef, MetadataProvider, instance::LocationRef, instance::Size};

    use super::*;

    const ROBOTO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../cli/fonts/Roboto");
    /// Where a system has them: a family, and the ends of its names for regular and bold.
    const INSTALLED: [(&str, [&str; 2]); 7] = [
        ("dejavu/DejaVuSans", ["", "-Bold"]),
        ("dejavu/DejaVuSerif", ["", "-Bold"]),
        ("dejavu/DejaVuSansMono", ["", "-Bold"]),
        ("liberation/LiberationSans", ["-Regular", "-Bold"]),
        ("liberation/LiberationSerif", ["-Regular", "-Bold"]),
        ("liberation/LiberationMono", ["-Regular", "-Bold"]),
        ("roboto/unhinted/RobotoTTF/Roboto", ["-Regular", "-Bold"]),
    ];

    /// No character of the file is wider than we think.
    fn is_not_wider(file: &Path, bold: bool) {
        let data = std::fs::read(file).unwrap();
        let font = FontRef::new(&data).unwrap();
        let advances = font.glyph_metrics(Size::new(1000.0), LocationRef::default());
        let type_ = Font { size: 1000.0, bold };
        let known = (' '..='\u{45f}').chain("…→×≈–µμ²³⁹·’▾".chars());
        let mut seen = 0;
        for c in known.filter(|c| !c.is_control()) {
            let Some(glyph) = font.charmap().map(c) else {
                continue;
            };
            let advance = f64::from(advances.advance_width(glyph).unwrap());
            let bound = type_.width(c.encode_utf8(&mut [0; 4]));
            assert!(
                advance <= bound,
                "{c} in {}: {advance} > {bound}",
                file.display()
            );
            seen += 1;
        }
        assert!(seen >= 95, "{}", file.display());
    }

    #[test]
    fn no_character_of_a_known_font_is_wider_than_its_bound() {
        for (end, bold) in [("-Regular.ttf", false), ("-Bold.ttf", true)] {
            is_not_wider(Path::new(&format!("{ROBOTO}{end}")), bold);
        }
        for (family, ends) in INSTALLED {
            for (end, bold) in ends.into_iter().zip([false, true]) {
                let file = format!("/usr/share/fonts/truetype/{family}{end}.ttf");
                if Path::new(&file).exists() {
                    is_not_wider(Path::new(&file), bold);
                } else {
                    let what = format!("the width of {family}{end}");
                    crate::testing::skip(&what, "it is not installed");
                }
            }
        }
    }

    #[test]
    fn a_text_is_as_wide_as_in_the_widest_kind_of_font() {
        let font = Font::regular(10.0);
        // Narrow letters are widest in a monospaced font, wide ones in a proportional one.
        assert_eq!(font.width("illi").round(), 24.0);
        assert_eq!(font.width("mmmm").round(), 39.0);
        assert!(Font::bold(10.0).width("mmmm") > font.width("mmmm"));
    }

    #[test]
    fn lines_break_between_words_and_long_words_are_cut() {
        let font = Font::regular(10.0);
        assert_eq!(font.lines("one two  three", 60.0), ["one two", "three"]);
        assert_eq!(font.lines("abcdefghij", 40.0), ["abcd…"]);
        assert!(font.lines(" ", 40.0).is_empty());
    }

    proptest! {
        #[test]
        fn what_is_fitted_fits(text in "\\PC{0,60}", room in 20.0_f64..400.0) {
            for font in [Font::regular(13.0), Font::bold(16.0)] {
                prop_assert!(font.width(&font.fitted(&text, room)) <= room);
                for line in font.lines(&text, room) {
                    prop_assert!(font.width(&line) <= room);
                }
            }
        }
    }
}
