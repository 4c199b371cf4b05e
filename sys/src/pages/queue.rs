//! What has been written to lendable memory and waits to be lent: bookkeeping only.

use std::collections::VecDeque;
use std::ops::Range;

/// Pieces of numbered pages, in the order in which they are to be lent. Page numbers never fall.
#[derive(Debug, Default)]
pub(super) struct Queue {
    pieces: VecDeque<Piece>,
    bytes: usize,
}

/// A part of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) page: u64,
    pub(super) bytes: Range<usize>,
}

impl Queue {
    /// Bytes that wait.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// What is lent next.
    pub(super) fn first(&self) -> Option<Piece> {
        self.pieces.front().cloned()
    }

    /// Adds a piece behind all others. What follows the last one in the same page becomes one piece with it.
    pub(super) fn put(&mut self, page: u64, bytes: Range<usize>) {
        debug_assert!(self.pieces.back().is_none_or(|last| last.page <= page));
        self.bytes += bytes.len();
        match self.pieces.back_mut() {
            Some(last) if last.page == page && last.bytes.end == bytes.start => {
                last.bytes.end = bytes.end;
            }
            _ if bytes.is_empty() => {}
            _ => self.pieces.push_back(Piece { page, bytes }),
        }
    }

    /// Forgets the first `len` bytes of the first piece, which have been sent.
    pub(super) fn take(&mut self, len: usize) {
        let Some(first) = self.pieces.front_mut() else {
            return;
        };
        let len = len.min(first.bytes.len());
        first.bytes.start += len;
        self.bytes -= len;
        if first.bytes.is_empty() {
            self.pieces.pop_front();
        }
    }

    /// Whether a part of this page waits.
    pub(super) fn holds(&self, page: u64) -> bool {
        self.pieces.iter().any(|p| p.page == page)
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        Put(usize),
        Leave(usize),
        Turn,
        Take(usize),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            (0..50usize).prop_map(Step::Put),
            (1..5usize).prop_map(Step::Leave),
            Just(Step::Turn),
            (0..80usize).prop_map(Step::Take),
        ];
        // Miri takes a thousand times as long.
        let most = if cfg!(miri) { 12 } else { 60 };
        proptest::collection::vec(step, 0..most)
    }

    proptest! {
        /// Against a list of single bytes.
        #[test]
        fn every_byte_comes_once_and_in_order(steps in steps()) {
            let (mut queue, mut model) = (Queue::default(), VecDeque::new());
            let (mut page, mut at) = (0, 0);
            for step in steps {
                match step {
                    Step::Put(len) => {
                        queue.put(page, at..at + len);
                        model.extend((at..at + len).map(|at| (page, at)));
                        at += len;
                    }
                    Step::Leave(len) => at += len,
                    Step::Turn => (page, at) = (page + 1, 0),
                    Step::Take(len) => {
                        let first = queue.first();
                        let whole = first.as_ref().map_or(0, |f| f.bytes.len());
                        let got: Vec<_> = first.into_iter()
                            .flat_map(|f| f.bytes.map(move |at| (f.page, at)))
                            .take(len)
                            .collect();
                        queue.take(len);
                        let expected: Vec<_> = model.drain(..len.min(whole)).collect();
                        prop_assert_eq!(got, expected);
                    }
                }
                prop_assert_eq!(queue.bytes(), model.len());
                prop_assert_eq!(queue.first().is_none(), model.is_empty());
                for page in 0..=page {
                    prop_assert_eq!(queue.holds(page), model.iter().any(|(p, _)| *p == page));
                }
            }
        }
    }
}
