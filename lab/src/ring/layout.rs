//! Which slots stand side by side in a picture.

use std::ops::Range;

use super::model::Pipe;

/// A line of a picture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Row {
    /// These places of the array, side by side.
    Slots(Range<usize>),
    /// These places hold nothing, and are only mentioned.
    Empty(Range<usize>),
}

/// A pipe as lines of at most `width` slots; where there are many, empty lines are only mentioned.
pub fn rows(pipe: &Pipe, width: usize) -> Vec<Row> {
    const FEW: usize = 2;
    let slots = pipe.slots();
    let is_many = slots.len() > width * FEW;
    let marks = [pipe.head(), pipe.tail()].map(|counter| counter as usize & (slots.len() - 1));
    let mut rows = Vec::new();
    for start in (0..slots.len()).step_by(width) {
        let range = start..(start + width).min(slots.len());
        let is_idle = slots[range.clone()].iter().all(Option::is_none)
            && !marks.iter().any(|mark| range.contains(mark));
        match rows.last_mut() {
            Some(Row::Empty(before)) if is_many && is_idle => before.end = range.end,
            _ if is_many && is_idle => rows.push(Row::Empty(range)),
            _ => rows.push(Row::Slots(range)),
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::Pipes;

    #[test]
    fn idle_parts_of_a_long_ring_are_mentioned_once() {
        let script = "write 40000".parse().unwrap();
        let results = Pipes::new(4096, 256).run(&script);
        let pipe = results[0].pipes.pipe(Default::default());
        assert_eq!(
            rows(pipe, 8),
            [Row::Slots(0..8), Row::Slots(8..16), Row::Empty(16..256)]
        );
    }

    #[test]
    fn short_rings_are_drawn_whole() {
        let results = Pipes::new(4096, 16).run(&"read 1".parse().unwrap());
        let pipe = results[0].pipes.pipe(Default::default());
        assert_eq!(rows(pipe, 8), [Row::Slots(0..8), Row::Slots(8..16)]);
        assert_eq!(rows(pipe, 32), [Row::Slots(0..16)]);
    }
}
