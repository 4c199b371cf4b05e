//! The lines of many numbers, a thousand at a time.
//!
//! The *head* of a number is all but its last three digits. 3000 lines are 200 whole groups, so the text of 3000 numbers
//! differs from that of the next 3000 by their heads only. It is made once for each width; from then on only heads are
//! put in, at places that are known.

use std::ops::Range;

use super::lines::{Decimal, GROUP, NUMBERS, group_bytes, word};
use super::vector::{self, VECTOR, Vectors};

/// Lines with the same head.
pub const THOUSAND: u64 = 1000;

/// Digits of a number that do not belong to its head.
const TAIL: usize = 3;

/// Thousands after which the words come in the same order again.
pub const PHASES: usize = 3;

/// Bytes behind the text that [`Thousands::fill`] may overwrite.
pub const SLACK: usize = VECTOR;

/// Makes the text of numbers of one width.
#[derive(Debug)]
pub struct Thousands {
    layout: Layout,
    /// 3000 lines from a multiple of 3000 on, and a vector more.
    text: Vec<u8>,
    /// Where in the text each thousand begins, and where the last one ends.
    bounds: [usize; PHASES + 1],
    way: Way,
}

/// How heads are put into a copy of the text.
#[derive(Debug)]
enum Way {
    /// While it is copied: the text has zeros for heads, and the map says for each byte which digit of the head it is.
    Vectors {
        vectors: Vectors,
        map: Vec<u8>,
        head: Decimal,
    },
    /// Before it is copied: the text's thousands have these heads now.
    Stores([Option<Decimal>; PHASES]),
}

/// Digits of the numbers that have this head, which is not 0.
pub fn width(head: u64) -> usize {
    head.ilog10() as usize + 1 + TAIL
}

/// Bytes of three thousands of lines.
pub const fn cycle_bytes(width: usize) -> usize {
    PHASES * THOUSAND as usize / GROUP * group_bytes(GROUP, width)
}

impl Thousands {
    /// For numbers of `width` digits, which are at least four; by vectors where there are any.
    pub fn new(width: usize, vectors: Option<Vectors>) -> Self {
        let zeros = vec![b'0'; width - TAIL];
        let (mut text, mut bounds) = (Vec::new(), [0; PHASES + 1]);
        for phase in 0..PHASES {
            for tail in 0..THOUSAND {
                match word(phase as u64 * THOUSAND + tail) {
                    Some(word) => text.extend_from_slice(word.as_bytes()),
                    None => {
                        text.extend_from_slice(&zeros);
                        text.extend_from_slice(format!("{tail:03}").as_bytes());
                    }
                }
                text.push(b'\n');
            }
            bounds[phase + 1] = text.len();
        }
        text.resize(text.len() + VECTOR, 0);
        let way = match vectors {
            Some(vectors) if width - TAIL <= vector::DIGITS => Way::Vectors {
                vectors,
                map: map(width),
                head: Decimal::new(0),
            },
            _ => Way::Stores([const { None }; PHASES]),
        };
        Self {
            layout: Layout::new(width),
            text,
            bounds,
            way,
        }
    }

    /// Digits of the numbers.
    pub fn width(&self) -> usize {
        self.layout.width
    }

    /// Bytes of the lines of these heads.
    pub fn bytes(&self, heads: &Range<u64>) -> usize {
        let count = (heads.end - heads.start) as usize;
        let rest = heads.end - (count % PHASES) as u64..heads.end;
        let rest: usize = rest.map(|head| self.bounds_of(head).len()).sum();
        count / PHASES * cycle_bytes(self.layout.width) + rest
    }

    /// Where in the text the lines of this head lie.
    fn bounds_of(&self, head: u64) -> Range<usize> {
        let phase = phase(head);
        self.bounds[phase]..self.bounds[phase + 1]
    }

    /// Writes the lines of these heads to the beginning of `out`, and returns how many bytes they are. `out` must have
    /// room for them and [`SLACK`] more.
    pub fn fill(&mut self, heads: Range<u64>, out: &mut [u8]) -> usize {
        let mut at = 0;
        for head in heads {
            let bounds = self.bounds_of(head);
            let len = bounds.len();
            match &mut self.way {
                Way::Vectors {
                    vectors,
                    map,
                    head: decimal,
                } => {
                    decimal.set(head);
                    let mut digits = [0; vector::DIGITS];
                    for (digit, text) in digits.iter_mut().zip(decimal.text()) {
                        *digit = text - b'0';
                    }
                    let whole = len.next_multiple_of(VECTOR);
                    let group = self.layout.group;
                    vectors.copy(
                        &mut out[at..][..whole],
                        &self.text[bounds.start..][..whole],
                        map,
                        bounds.start % group,
                        group * VECTOR,
                        &digits,
                    );
                }
                Way::Stores(heads) => {
                    let text = &mut self.text[bounds];
                    let phase = phase(head);
                    let shown = &mut heads[phase];
                    let head = Decimal::new(head);
                    self.layout.put(text, phase, shown.as_ref(), &head);
                    *shown = Some(head);
                    out[at..][..len].copy_from_slice(text);
                }
            }
            at += len;
        }
        at
    }

    /// Turns the text of some heads into that of as many from `to` on, by storing the digits that differ. Both must begin
    /// with the same phase. Quickest where both have the same last digit, which then stays.
    pub fn update(&self, from: Range<u64>, to: u64, text: &mut [u8]) {
        let ahead = to - from.start;
        // Heads that share all digits but the last are changed together.
        let together = if ahead.is_multiple_of(10) { 10 } else { 1 };
        let (mut at, mut head) = (0, from.start);
        let (mut old, mut new) = (Decimal::new(head / together), Decimal::new(to / together));
        while head < from.end {
            old.set(head / together);
            new.set((head + ahead) / together);
            let next = ((head / together + 1) * together).min(from.end);
            let len = self.bytes(&(head..next));
            let text = &mut text[at..][..len];
            self.layout.put(text, phase(head), Some(&old), &new);
            at += len;
            head = next;
        }
    }
}

/// Which of three thousands a head's lines are: in which order the words come.
pub fn phase(head: u64) -> usize {
    (head % PHASES as u64) as usize
}

/// For vectors: which digit of the head each byte of the text is. Repeats after [`VECTOR`] groups; one vector more.
fn map(width: usize) -> Vec<u8> {
    let group = group_bytes(GROUP, width);
    let mut map = vec![vector::LITERAL; group * (VECTOR + 1)];
    for group in map.chunks_exact_mut(group) {
        for line in NUMBERS {
            let at = group_bytes(line, width);
            for (digit, byte) in group[at..][..width - TAIL].iter_mut().enumerate() {
                *byte = digit as u8;
            }
        }
    }
    map
}

/// Where the lines of a group lie that are numbers.
#[derive(Debug)]
struct Layout {
    width: usize,
    /// Bytes of a group.
    group: usize,
    /// Where in a group each number begins.
    numbers: [usize; NUMBERS.len()],
    /// Bytes of the lines of a group before the one with which a thousand begins, by phase.
    skipped: [usize; PHASES],
}

impl Layout {
    fn new(width: usize) -> Self {
        Self {
            width,
            group: group_bytes(GROUP, width),
            numbers: NUMBERS.map(|line| group_bytes(line, width)),
            skipped: std::array::from_fn(|phase| {
                group_bytes(phase * THOUSAND as usize % GROUP, width)
            }),
        }
    }

    /// Puts a head, or its first digits, into whole thousands of lines that share it and begin with this phase. They show
    /// `shown` there, if anything that is known.
    fn put(&self, text: &mut [u8], phase: usize, shown: Option<&Decimal>, head: &Decimal) {
        let differing = match shown {
            Some(shown) => head.differing(shown),
            None => 0..head.text().len(),
        };
        let first = differing.start;
        // Nearly always one or two digits change. The fewer bytes a store has, the fewer stores cross a cache line.
        match head.text()[differing] {
            [] => {}
            [a] => self.store(text, phase, first, [a]),
            [a, b] => self.store(text, phase, first, [a, b]),
            [a, b, c] => self.store(text, phase, first, [a, b, c]),
            [a, b, c, d] => self.store(text, phase, first, [a, b, c, d]),
            ref digits => {
                for (at, &digit) in digits.iter().enumerate() {
                    self.store(text, phase, first + at, [digit]);
                }
            }
        }
    }

    /// Stores digits into each number of whole thousands of lines, `at` bytes behind its beginning.
    ///
    /// One store for each number is as fast as vectors are, which have to load and to store all the text.
    fn store<const N: usize>(&self, text: &mut [u8], phase: usize, at: usize, digits: [u8; N]) {
        let places = self.numbers.map(|number| number + at);
        let put = |text: &mut [u8], place: usize| text[place..][..N].copy_from_slice(&digits);
        // A thousand begins with the last lines of a group, or with a whole one.
        let skipped = self.skipped[phase];
        let (before, text) = text.split_at_mut((self.group - skipped) % self.group);
        if !before.is_empty() {
            for place in places.into_iter().filter(|&place| place >= skipped) {
                put(before, place - skipped);
            }
        }
        let mut groups = text.chunks_exact_mut(self.group);
        for group in &mut groups {
            for place in places {
                put(group, place);
            }
        }
        let after = groups.into_remainder();
        for place in places {
            if place < after.len() {
                put(after, place);
            }
        }
    }
}
