//! What the transfer tells and the display reads: written without waiting for anyone.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Instant;

/// Bytes of the last written that are kept, and of a line.
const LAST_KEPT: usize = 256;
const LINE_KEPT: usize = 1024;

#[derive(Debug, Default)]
pub struct Counters {
    bytes: AtomicU64,
    lines: AtomicU64,
    /// Bytes in the transfer buffer.
    buffered: AtomicU64,
    /// Bytes or lines a second; 0: as fast as it goes.
    pub rate_limit: AtomicU64,
    first: OnceLock<Instant>,
    tail: Mutex<Tail>,
}

/// The data that was written last.
#[derive(Clone, Debug, Default)]
pub struct Tail {
    pub last: VecDeque<u8>,
    pub line: Vec<u8>,
    next_line: Vec<u8>,
}

impl Counters {
    /// So much has arrived. Relaxed: the display may be a moment behind.
    pub fn moved(&self, bytes: u64) {
        if self.bytes.fetch_add(bytes, Ordering::Relaxed) == 0 {
            let _ = self.first.set(Instant::now());
        }
    }

    pub fn counted_lines(&self, lines: u64) {
        self.lines.fetch_add(lines, Ordering::Relaxed);
    }

    pub fn buffers(&self, bytes: usize) {
        self.buffered.store(bytes as u64, Ordering::Relaxed);
    }

    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    pub fn lines(&self) -> u64 {
        self.lines.load(Ordering::Relaxed)
    }

    pub fn buffered(&self) -> u64 {
        self.buffered.load(Ordering::Relaxed)
    }

    /// When the first byte arrived.
    pub fn first(&self) -> Option<Instant> {
        self.first.get().copied()
    }

    /// Keeps what the display may show of the data.
    pub fn saw(&self, data: &[u8], separator: u8) {
        self.lock().saw(data, separator);
    }

    pub fn tail(&self) -> Tail {
        self.lock().clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Tail> {
        self.tail.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tail {
    fn saw(&mut self, data: &[u8], separator: u8) {
        let kept = &data[data.len().saturating_sub(LAST_KEPT)..];
        self.last.extend(kept);
        let surplus = self.last.len().saturating_sub(LAST_KEPT);
        self.last.drain(..surplus);

        let Some(end) = memchr::memrchr(separator, data) else {
            keep(&mut self.next_line, data);
            return;
        };
        // Only the last complete line is shown: those before it need not be looked at.
        match memchr::memrchr(separator, &data[..end]) {
            Some(before) => self.next_line = data[before + 1..end].to_vec(),
            None => keep(&mut self.next_line, &data[..end]),
        }
        self.next_line.truncate(LINE_KEPT);
        self.line = std::mem::take(&mut self.next_line);
        keep(&mut self.next_line, &data[end + 1..]);
    }
}

fn keep(line: &mut Vec<u8>, data: &[u8]) {
    let room = LINE_KEPT.saturating_sub(line.len());
    line.extend(&data[..data.len().min(room)]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn last_line_is_the_one_that_ended_last() {
        let mut tail = Tail::default();
        tail.saw(b"one\ntw", b'\n');
        assert_eq!(tail.line, b"one");
        tail.saw(b"o\nthree\nfo", b'\n');
        assert_eq!(tail.line, b"three");
        tail.saw(b"ur", b'\n');
        assert_eq!(tail.line, b"three");
        tail.saw(b"\n", b'\n');
        assert_eq!(tail.line, b"four");
    }

    proptest! {
        #[test]
        fn pieces_make_no_difference(data in proptest::collection::vec(prop_oneof![Just(b'\n'), any::<u8>()], 0..3000), cut in 1..700_usize) {
            let (mut whole, mut pieces) = (Tail::default(), Tail::default());
            whole.saw(&data, b'\n');
            for piece in data.chunks(cut) {
                pieces.saw(piece, b'\n');
            }
            prop_assert_eq!(&whole.last, &pieces.last);
            prop_assert_eq!(&whole.line, &pieces.line);
            prop_assert_eq!(&whole.next_line, &pieces.next_line);
        }
    }
}
