//! Text, plan and order, held to a model that formats every number.

use std::fmt::Write as _;
use std::ops::RangeInclusive;

use fullbore_sys::write::fresh::PIECE;
use proptest::prelude::*;

use super::lines::{self, Decimal, GROUP, NUMBERS, WIDEST, group_bytes};
use super::plan::{Piece, Plan};
use super::recycle::{buffer_bytes, thousands_in_buffer};
use super::sequencer::Sequencer;
use super::sink::thousands_in_block;
use super::thousands::{SLACK, Thousands, phase, width};
use super::vector::Vectors;

/// FizzBuzz as everybody writes it.
fn model(numbers: RangeInclusive<u64>) -> String {
    let mut text = String::new();
    for n in numbers {
        let _ = match (n % 3, n % 5) {
            (0, 0) => writeln!(text, "FizzBuzz"),
            (0, _) => writeln!(text, "Fizz"),
            (_, 0) => writeln!(text, "Buzz"),
            _ => writeln!(text, "{n}"),
        };
    }
    text
}

/// The ways that there are on this machine.
fn ways() -> Vec<Option<Vectors>> {
    let vectors = Vectors::detect();
    if vectors.is_none() {
        // Only the print macros are captured by the test harness.
        let _ = std::io::Write::write_all(
            &mut std::io::stderr(),
            b"SKIPPED text by AVX2: this CPU has none\n",
        );
    }
    let mut ways = vec![None];
    ways.extend(vectors.map(Some));
    ways
}

/// All text of a plan.
fn text_of(plan: Plan, vectors: Option<Vectors>) -> String {
    let mut text = Vec::new();
    for piece in plan {
        let before = text.len();
        match piece.clone() {
            Piece::Lines(numbers) => lines::append(numbers, &mut text),
            Piece::Thousands(heads) => {
                let mut thousands = Thousands::new(width(heads.start), vectors);
                let len = thousands.bytes(&heads);
                text.resize(before + len + SLACK, 0);
                assert_eq!(thousands.fill(heads, &mut text[before..]), len);
                text.truncate(before + len);
            }
        }
        let lines = text[before..].iter().filter(|&&b| b == b'\n').count();
        assert_eq!(lines as u64, piece.lines());
    }
    String::from_utf8(text).unwrap()
}

/// Numbers near which something changes, and numbers of all widths.
fn starts() -> impl Strategy<Value = u64> {
    let powers = (0..WIDEST as u32).prop_map(|e| 10u64.pow(e));
    let special = prop_oneof![
        powers,
        Just(1 << 32),
        Just(1_000_000_000_000_000_000),
        Just(u64::MAX)
    ];
    prop_oneof![
        (special, 0..6000u64).prop_map(|(near, back)| near.saturating_sub(back)),
        (any::<u64>(), 0..64u32).prop_map(|(n, shift)| n >> shift),
    ]
}

#[test]
fn a_group_has_eight_numbers_and_39_bytes_of_words() {
    for width in 1..=WIDEST {
        assert_eq!(group_bytes(GROUP, width), 8 * (width + 1) + 39);
    }
    let numbers: Vec<_> = (0..GROUP)
        .filter(|&line| lines::word(line as u64).is_none())
        .collect();
    assert_eq!(numbers, NUMBERS);
}

#[test]
fn the_last_line_is_that_of_the_largest_number() {
    let mut text = Vec::new();
    lines::append(u64::MAX - 1..=u64::MAX, &mut text);
    assert_eq!(text, b"18446744073709551614\nFizzBuzz\n");
    let plan = Plan::new(u64::MAX - 2_000_000..=u64::MAX, |_| 7);
    let lines: u64 = plan.map(|piece| piece.lines()).sum();
    assert_eq!(lines, 2_000_001);
}

#[test]
fn every_power_of_ten_is_passed_by_every_way() {
    for power in (1..WIDEST as u32).map(|e| 10u64.pow(e)) {
        let numbers = power.saturating_sub(4000)..=power + 4000;
        for vectors in ways() {
            let text = text_of(Plan::new(numbers.clone(), |_| 100), vectors);
            assert!(text == model(numbers.clone()), "{numbers:?}, {vectors:?}");
        }
    }
}

#[test]
fn what_is_written_behind_the_text_lies_within_the_slack() {
    for vectors in ways() {
        let mut thousands = Thousands::new(9, vectors);
        for count in 1..7 {
            let heads = 123_456..123_456 + count;
            let len = thousands.bytes(&heads);
            let mut out = vec![7; len + SLACK + 100];
            thousands.fill(heads, &mut out);
            assert!(out[len + SLACK..].iter().all(|&b| b == 7));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn decimals_are_those_of_format(
        numbers in prop::collection::vec(any::<u64>(), 1..20),
        shift in 0..64u32,
    ) {
        let mut decimal = Decimal::new(numbers[0] >> shift);
        for number in numbers {
            for number in (number >> shift)..(number >> shift).saturating_add(25) {
                decimal.set(number);
                let text = number.to_string();
                prop_assert_eq!(decimal.text(), text.as_bytes());
            }
        }
    }

    #[test]
    fn text_is_that_of_the_model_in_pieces_of_any_size(
        start in starts(),
        count in 1..12_000u64,
        most in 1..9u64,
        in_phase: bool,
    ) {
        let numbers = start..=start.saturating_add(count - 1);
        let model = model(numbers.clone());
        for vectors in ways() {
            let mut plan = Plan::new(numbers.clone(), |_| most);
            if in_phase {
                plan = plan.in_phase();
            }
            prop_assert!(text_of(plan, vectors) == model, "{:?}", vectors);
        }
    }

    #[test]
    fn a_plan_has_every_number_once_in_order(
        start in starts(),
        count in 1..3_000_000u64,
        most in 1..400u64,
        in_phase: bool,
    ) {
        let last = start.saturating_add(count - 1);
        let mut plan = Plan::new(start..=last, |_| most);
        if in_phase {
            plan = plan.in_phase();
        }
        let mut next = u128::from(start);
        for piece in plan {
            let first = match &piece {
                Piece::Lines(numbers) => {
                    prop_assert!(piece.lines() <= 1000);
                    *numbers.start()
                }
                Piece::Thousands(heads) => {
                    let len = heads.end - heads.start;
                    prop_assert!(len <= most && heads.start > 0);
                    prop_assert_eq!(width(heads.start), width(heads.end - 1));
                    prop_assert!(!in_phase || len < 3 || phase(heads.start) == 0);
                    heads.start * 1000
                }
            };
            prop_assert_eq!(u128::from(first), next);
            next += u128::from(piece.lines());
        }
        prop_assert_eq!(next, u128::from(last) + 1);
    }

    #[test]
    fn text_that_is_changed_is_the_text_that_would_be_made(
        digits in 1..=17u32,
        from in any::<u64>(),
        ahead in prop_oneof![0..40u64, any::<u64>()],
        count in 1..20u64,
    ) {
        let (low, high) = (10u64.pow(digits - 1), 10u64.pow(digits).min(u64::MAX / 1000));
        let count = count.min((high - low) / 3);
        let room = high - low - count;
        let from = low + from % (room + 1);
        let to = from + ahead % (room - (from - low) + 1) / 3 * 3;
        let mut thousands = Thousands::new(width(from), None);
        let mut text = vec![0; thousands.bytes(&(from..from + count)) + SLACK];
        let len = thousands.fill(from..from + count, &mut text);
        thousands.update(from..from + count, to, &mut text[..len]);
        let numbers = to * 1000..=(to + count - 1) * 1000 + 999;
        prop_assert!(text[..len] == *model(numbers).as_bytes());
    }
}

#[test]
fn blocks_and_buffers_have_room_for_their_text() {
    for width in 4..=WIDEST {
        let low = 10u64.pow(width as u32 - 4);
        let thousands = Thousands::new(width, None);
        let bytes = |count: u64| thousands.bytes(&(low..low + count));
        assert!(bytes(thousands_in_block(width)) + SLACK <= PIECE);
        for capacity in [4096, 64 << 10, 512 << 10, 1 << 20] {
            let count = thousands_in_buffer(capacity, width);
            assert!(bytes(count) + SLACK <= buffer_bytes(capacity));
            assert!(bytes(count) <= capacity || count == 15);
            assert!((2 * count).is_multiple_of(30));
        }
    }
}

#[test]
fn turns_come_in_order_and_end_for_all() {
    let sequencer = Sequencer::default();
    let order = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for first in 0..3u64 {
            let (sequencer, order) = (&sequencer, &order);
            scope.spawn(move || {
                let mut piece = first;
                while sequencer.wait(piece) {
                    order.lock().unwrap().push(piece);
                    if piece == 1000 {
                        sequencer.end();
                    } else {
                        sequencer.pass(piece);
                    }
                    piece += 3;
                }
            });
        }
    });
    assert_eq!(order.into_inner().unwrap(), (0..=1000).collect::<Vec<_>>());
}
