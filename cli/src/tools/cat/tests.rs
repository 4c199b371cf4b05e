//! The formatter against a model that follows cat's manual byte by byte and line by line.

use proptest::prelude::*;

use super::formatter::{Format, Formatter, Number};

fn formatted(format: Format, pieces: &[&[u8]]) -> Vec<u8> {
    let mut formatter = Formatter::new(format);
    let mut out = Vec::new();
    for piece in pieces {
        formatter.push(piece, &mut out);
    }
    formatter.finish(&mut out);
    out
}

/// Whole lines at once, with nothing kept between them.
fn model(format: Format, input: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let (mut number, mut last_was_empty) = (0, false);
    for line in input.split_inclusive(|&b| b == b'\n') {
        let ended = line.ends_with(b"\n");
        let text = line.strip_suffix(b"\n").unwrap_or(line);
        if format.squeeze_blank && text.is_empty() && last_was_empty {
            continue;
        }
        last_was_empty = text.is_empty();
        let counts = match format.number {
            Number::None => false,
            Number::All => true,
            Number::NonBlank => !text.is_empty(),
        };
        if counts {
            number += 1;
            out.extend(format!("{number:6}\t").bytes());
        }
        for (i, &byte) in text.iter().enumerate() {
            let is_last = ended && i + 1 == text.len();
            let cr_at_end = byte == b'\r' && is_last && format.show_ends;
            let tab = byte == b'\t';
            if cr_at_end || (tab && format.show_tabs) {
                out.extend([b'^', byte + 64]);
            } else if !format.show_nonprinting || tab {
                out.push(byte);
            } else {
                match byte {
                    32..127 => out.push(byte),
                    127 => out.extend(b"^?"),
                    0..32 => out.extend([b'^', byte + 64]),
                    128..160 => out.extend([b'M', b'-', b'^', byte - 64]),
                    255 => out.extend(b"M-^?"),
                    160.. => out.extend([b'M', b'-', byte - 128]),
                }
            }
        }
        if ended {
            out.extend(if format.show_ends { &b"$\n"[..] } else { b"\n" });
        }
    }
    out
}

fn formats() -> impl Strategy<Value = Format> {
    let number = prop_oneof![
        Just(Number::None),
        Just(Number::All),
        Just(Number::NonBlank)
    ];
    (number, any::<[bool; 4]>()).prop_map(|(number, [a, b, c, d])| Format {
        number,
        show_ends: a,
        show_tabs: b,
        show_nonprinting: c,
        squeeze_blank: d,
    })
}

proptest! {
    #[test]
    fn any_format_of_any_bytes_in_any_pieces_is_as_the_manual_says(
        format in formats(),
        bytes in proptest::collection::vec(
            prop_oneof![3 => Just(b'\n'), 2 => Just(b'\r'), 2 => Just(b'\t'), 3 => any::<u8>()],
            0..200,
        ),
        cuts in proptest::collection::vec(1..20_usize, 1..30),
    ) {
        let mut pieces = Vec::new();
        let mut rest = &bytes[..];
        for cut in cuts.into_iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (piece, more) = rest.split_at(cut.min(rest.len()));
            pieces.push(piece);
            rest = more;
        }
        let got = formatted(format, &pieces);
        let expected = model(format, &bytes);
        prop_assert_eq!(
            String::from_utf8_lossy(&got), String::from_utf8_lossy(&expected), "{:?}", format
        );
    }
}

#[test]
fn numbers_grow_beyond_six_columns() {
    let format = Format {
        number: Number::All,
        ..Format::default()
    };
    let out = formatted(format, &[&b"\n".repeat(1_000_001)]);
    assert!(out.ends_with(b"\n999999\t\n1000000\t\n1000001\t\n"));
}
