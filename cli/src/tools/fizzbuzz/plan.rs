//! Which numbers come next, and how their lines are made.

use std::ops::{Range, RangeInclusive};

use super::lines::WIDEST;
use super::thousands::{THOUSAND, phase, width};

/// Numbers whose lines are made in one go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// A few numbers, fewer than a thousand.
    Lines(RangeInclusive<u64>),
    /// All numbers with these heads, which are of one width.
    Thousands(Range<u64>),
}

impl Piece {
    /// How many lines these are.
    pub fn lines(&self) -> u64 {
        match self {
            Self::Lines(numbers) => numbers.end() - numbers.start() + 1,
            Self::Thousands(heads) => (heads.end - heads.start) * THOUSAND,
        }
    }
}

/// All numbers that are to come.
#[derive(Clone, Debug)]
pub struct Plan {
    left: Option<RangeInclusive<u64>>,
    /// How many thousands a piece may have, by the width of its numbers.
    most: [u64; WIDEST + 1],
    /// Whether all pieces of the most thousands begin with the same phase.
    in_phase: bool,
}

impl Plan {
    /// These numbers in pieces of at most `most` thousands, which depends on the width of the numbers.
    pub fn new(numbers: RangeInclusive<u64>, most: impl Fn(usize) -> u64) -> Self {
        Self {
            left: Some(numbers),
            most: std::array::from_fn(|width| most(width).max(1)),
            in_phase: false,
        }
    }

    /// Has every piece that is as long as it may be begin with a head that is a multiple of three.
    pub fn in_phase(mut self) -> Self {
        self.in_phase = true;
        self
    }
}

impl Iterator for Plan {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        let left = self.left.take()?;
        let (next, last) = (*left.start(), *left.end());
        if next > last {
            return None;
        }
        let head = next / THOUSAND;
        // The first head whose lines are not all to come. The largest number is no end of a thousand.
        let end = last / THOUSAND + u64::from(last % THOUSAND == THOUSAND - 1);
        if head == 0 || !next.is_multiple_of(THOUSAND) || head >= end {
            let until = (next - next % THOUSAND).saturating_add(THOUSAND - 1);
            let until = until.min(last);
            self.left = until.checked_add(1).map(|next| next..=last);
            return Some(Piece::Lines(next..=until));
        }
        let width = width(head);
        let widest = 10u64.pow(width as u32 - THOUSAND.ilog10());
        let mut count = self.most[width].min(end - head).min(widest - head);
        if self.in_phase && phase(head) > 0 {
            count = count.min((3 - phase(head)) as u64);
        }
        self.left = Some((head + count) * THOUSAND..=last);
        Some(Piece::Thousands(head..head + count))
    }
}
