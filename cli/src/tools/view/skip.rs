//! `--skip-errors`: how far to go on behind what cannot be read.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::fs::SeekFrom;
use rustix::io::Errno;

/// Errors in one file.
#[derive(Debug)]
pub struct Skip {
    block: u64,
    in_a_row: u32,
    any: bool,
}

impl Skip {
    /// By blocks of so many bytes; 0: few bytes first, more when errors follow each other.
    pub fn new(block: u64) -> Self {
        Self {
            block,
            in_a_row: 0,
            any: false,
        }
    }

    pub fn succeeded(&mut self) {
        self.in_a_row = 0;
    }

    /// Whether this is the first error of the file.
    pub fn is_first(&mut self) -> bool {
        !std::mem::replace(&mut self.any, true)
    }

    /// Moves the offset behind an error by at most `most` bytes; returns where it was and by how much it was moved. None
    /// where the file ends there.
    pub fn past(&mut self, file: BorrowedFd<'_>, most: usize) -> io::Result<Option<(u64, usize)>> {
        self.in_a_row += 1;
        let at = rustix::fs::seek(file, SeekFrom::Current(0))?;
        let n = self.length(at).min(most as u64);
        match rustix::fs::seek(file, SeekFrom::Start(at + n)) {
            Ok(now) if now > at => Ok(Some((at, (now - at) as usize))),
            Ok(_) | Err(Errno::INVAL) => Ok(None),
            Err(e) => Err(e.into()),
        }
    }

    /// Up to the next multiple of the step, which grows to a disk's sector.
    fn length(&self, at: u64) -> u64 {
        let step = match self.in_a_row {
            _ if self.block > 0 => self.block,
            0..5 => 1,
            5..10 => 2,
            n @ 10..20 => 1 << (n - 10),
            _ => 512,
        };
        step - at % step
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths(block: u64, at: u64) -> Vec<u64> {
        let mut skip = Skip::new(block);
        (0..25)
            .map(|_| {
                skip.in_a_row += 1;
                skip.length(at)
            })
            .collect()
    }

    #[test]
    fn steps_grow_to_a_sector_and_end_on_its_multiples() {
        let at_0 = lengths(0, 0);
        assert_eq!(at_0[..5], [1, 1, 1, 1, 2]);
        assert_eq!(at_0[18..], [512; 7]);
        assert_eq!(lengths(0, 257)[24], 255);
        assert_eq!(lengths(4096, 4100), [4092; 25]);
    }
}
