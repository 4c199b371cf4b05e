//! Memory that new data is copied from, front to back and again.

use std::ops::Range;

use fullbore_sys::Result;
use fullbore_sys::pages::Pages;

use crate::worker::config::Config;
use crate::worker::side::map_bytes;

#[derive(Debug)]
pub(super) struct Source {
    pages: Pages,
    /// Bytes of a buffer.
    buffer: usize,
    /// The buffer that is sent now.
    chosen: Range<usize>,
}

impl Source {
    /// As large as was asked for, at least one buffer.
    pub fn prepare(config: &Config, note: &mut Option<String>) -> Result<Self> {
        Ok(Self {
            pages: map_bytes(config, config.source.max(config.buf_size.0), note)?,
            buffer: usize::try_from(config.buf_size.0).unwrap_or(usize::MAX),
            chosen: 0..0,
        })
    }

    /// Bytes of a buffer.
    pub fn buffer_len(&self) -> usize {
        self.buffer
    }

    /// Goes on to the next `len` bytes, or as many as there are.
    pub fn next(&mut self, len: usize) -> &mut [u8] {
        let len = len.min(self.pages.len());
        let follows = self.chosen.end + len <= self.pages.len();
        let start = if follows { self.chosen.end } else { 0 };
        self.chosen = start..start + len;
        &mut self.pages[start..start + len]
    }

    /// What [`next`](Self::next) returned last.
    pub fn chosen(&self) -> &[u8] {
        &self.pages[self.chosen.clone()]
    }

    /// Copies from here until the block is full.
    pub fn copy_into(&mut self, block: &mut [u8]) {
        let mut done = 0;
        while done < block.len() {
            let bytes = self.next(block.len() - done);
            block[done..done + bytes.len()].copy_from_slice(bytes);
            done += bytes.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::sizes::BufSize;

    fn source(buf_size: u64, source: u64) -> Source {
        let config = Config {
            buf_size: BufSize(buf_size),
            source,
            ..Config::default()
        };
        let mut source = Source::prepare(&config, &mut None).unwrap();
        let len = source.pages.len() as u64;
        assert_eq!(len, config.source.max(buf_size));
        for (i, byte) in source.pages.iter_mut().enumerate() {
            *byte = (i / 1000) as u8;
        }
        source
    }

    #[test]
    fn one_buffer_is_sent_again_and_again() {
        let mut source = source(1000, 0);
        for _ in 0..3 {
            assert_eq!(source.next(1000).len(), source.buffer_len());
            assert_eq!(source.chosen().as_ptr(), source.pages.as_ptr());
        }
    }

    #[test]
    fn all_of_a_larger_source_is_sent_before_any_of_it_again() {
        let mut source = source(1000, 4000);
        let mut seen = [0; 5].map(|_| source.next(1000)[0]);
        assert_eq!(seen, [0, 1, 2, 3, 0]);
        source.chosen = 0..0;
        source.copy_into(&mut [0; 3000]);
        source.copy_into(&mut seen[..1]);
        assert_eq!(seen[0], 3);
        // Where a block is larger than the source it begins again inside.
        let mut block = [9; 6000];
        source.chosen = 0..0;
        source.copy_into(&mut block);
        let firsts: Vec<_> = block.chunks(1000).map(|c| c[0]).collect();
        assert_eq!(firsts, [0, 1, 2, 3, 0, 1]);
    }
}
