//! What the lines are, and where they lie in the text.
//!
//! Fifteen lines, of which the first number is a multiple of 15, make a *group*: eight numbers, and seven words of 39
//! bytes together. So a group of numbers with `w` digits has `8 (w + 1) + 39` bytes, and each of its lines always lies
//! at the same place in it.

use std::ops::{Range, RangeInclusive};

/// Lines in a group.
pub const GROUP: usize = 15;

/// The lines of a group that are numbers.
pub const NUMBERS: [usize; 8] = [1, 2, 4, 7, 8, 11, 13, 14];

/// Decimal digits of the largest number there is.
pub const WIDEST: usize = 20;

/// The word that stands for a line, `None` where it is the number. `line` is the number, or its place in a group.
pub const fn word(line: u64) -> Option<&'static str> {
    match (line.is_multiple_of(3), line.is_multiple_of(5)) {
        (true, true) => Some("FizzBuzz"),
        (true, false) => Some("Fizz"),
        (false, true) => Some("Buzz"),
        (false, false) => None,
    }
}

/// Bytes of a group's first `lines` lines, where numbers have `width` digits.
pub const fn group_bytes(lines: usize, width: usize) -> usize {
    let (mut bytes, mut line) = (0, 0);
    while line < lines {
        bytes += match word(line as u64) {
            Some(word) => word.len() + 1,
            None => width + 1,
        };
        line += 1;
    }
    bytes
}

/// Appends the lines of these numbers, one by one.
pub fn append(numbers: RangeInclusive<u64>, text: &mut Vec<u8>) {
    for number in numbers {
        match word(number) {
            Some(word) => text.extend_from_slice(word.as_bytes()),
            None => text.extend_from_slice(Decimal::new(number).text()),
        }
        text.push(b'\n');
    }
}

/// A number as text.
#[derive(Clone, Debug)]
pub struct Decimal {
    number: u64,
    digits: [u8; WIDEST],
    width: usize,
}

impl Decimal {
    pub fn new(number: u64) -> Self {
        let mut digits = [b'0'; WIDEST];
        let width = number.checked_ilog10().unwrap_or(0) as usize + 1;
        let mut rest = number;
        for digit in digits[..width].iter_mut().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        Self {
            number,
            digits,
            width,
        }
    }

    pub fn text(&self) -> &[u8] {
        &self.digits[..self.width]
    }

    /// Which digits differ from those of another number: all that lie from the first to the last one that does.
    pub fn differing(&self, other: &Self) -> Range<usize> {
        if self.width != other.width {
            return 0..self.width;
        }
        let (mut first, mut end) = (WIDEST, 0);
        // Four digits at a time.
        let words = self.digits.as_chunks::<4>().0.iter();
        for (i, (a, b)) in words.zip(other.digits.as_chunks::<4>().0).enumerate() {
            let differing = u32::from_be_bytes(*a) ^ u32::from_be_bytes(*b);
            if differing != 0 {
                first = first.min(4 * i + differing.leading_zeros() as usize / 8);
                end = 4 * i + 4 - differing.trailing_zeros() as usize / 8;
            }
        }
        first.min(end)..end
    }

    /// Becomes the next number, if there is one. This takes less than a division per digit, which would take a
    /// tenth of the time that the text of a thousand lines does.
    pub fn increment(&mut self) {
        self.number = self.number.wrapping_add(1);
        for digit in self.digits[..self.width].iter_mut().rev() {
            if *digit < b'9' {
                *digit += 1;
                return;
            }
            *digit = b'0';
        }
        *self = Self::new(self.number);
    }

    /// Becomes `number`.
    pub fn set(&mut self, number: u64) {
        if number == self.number.wrapping_add(1) {
            self.increment();
        } else if number != self.number {
            *self = Self::new(number);
        }
    }
}
