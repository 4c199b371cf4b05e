//! Readers that do with a pipe what readers may do. Each shows every byte to a check, in order.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use fullbore_sys::calls::{self, SpliceFlags};
use fullbore_sys::{capacity, wait};

use crate::sequence::Rng;

/// What a reader does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `read`, in pieces of any length.
    Copies,
    /// Splices everything into pipes of its own and reads those when the writer has gone far on.
    Onwards,
    /// Tees everything into a second pipe, reads the first, and compares the second with it later.
    Tees,
    /// Changes the capacity of the pipe while it reads.
    Resizes,
    /// Changes the capacity of the pipe while it splices onwards.
    ResizesOnwards,
    /// Reads one byte at a time.
    ByteByByte,
}

impl Kind {
    pub const ALL: [Self; 6] = [
        Self::Copies,
        Self::Onwards,
        Self::Tees,
        Self::Resizes,
        Self::ResizesOnwards,
        Self::ByteByByte,
    ];
}

type Result<T> = std::result::Result<T, String>;

/// Reads to the end of file, and stops at the first complaint of `check`.
pub fn read(
    kind: Kind,
    pipe: &OwnedFd,
    mut rng: Rng,
    check: &mut dyn FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let resizes = matches!(kind, Kind::Resizes | Kind::ResizesOnwards);
    let mut step: Box<dyn Step> = match kind {
        Kind::Copies | Kind::Resizes => Box::new(Copies::up_to(rng.between(1000, 300_000))),
        Kind::ByteByByte => Box::new(Copies::up_to(1)),
        Kind::Onwards | Kind::ResizesOnwards => Box::new(Onwards::new(&mut rng)),
        Kind::Tees => Box::new(Tees::new()),
    };
    loop {
        if resizes && rng.once_in(3) {
            let _ = capacity::set(pipe, 4096 << rng.below(9)); // refused when it holds more
        }
        if !step.step(pipe, &mut rng, check)? {
            return step.finish(check);
        }
    }
}

trait Step {
    /// Takes some bytes; false at end of file.
    fn step(
        &mut self,
        pipe: &OwnedFd,
        rng: &mut Rng,
        check: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<bool>;

    /// Shows what was kept.
    fn finish(&mut self, _check: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        Ok(())
    }
}

struct Copies {
    buffer: Vec<u8>,
}

impl Copies {
    fn up_to(len: usize) -> Self {
        Self {
            buffer: vec![0; len],
        }
    }
}

impl Step for Copies {
    fn step(
        &mut self,
        pipe: &OwnedFd,
        rng: &mut Rng,
        check: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<bool> {
        let len = rng.between(1, self.buffer.len());
        let n = calls::read(pipe, &mut self.buffer[..len]).expect("read");
        check(&self.buffer[..n])?;
        Ok(n > 0)
    }
}

/// A pipe of the reader's own, as large as it gets.
pub struct Own {
    read: OwnedFd,
    write: OwnedFd,
    len: usize,
}

impl Own {
    pub fn new() -> Self {
        let (read, write) = calls::pipe().expect("a pipe");
        capacity::largest(&write).expect("a pipe");
        Self {
            read,
            write,
            len: 0,
        }
    }

    /// Bytes in it.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Splices from `pipe`; `None` when this one is full. The other must not be empty.
    pub fn take(&mut self, pipe: impl AsFd, len: usize) -> Option<usize> {
        match calls::splice(pipe, &self.write, len, SpliceFlags::NONBLOCK) {
            Ok(n) => {
                self.len += n;
                Some(n)
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => None,
            Err(e) => panic!("splice onwards: {e}"),
        }
    }

    /// Reads up to `len` of its bytes.
    pub fn show(&mut self, len: usize, check: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let mut buffer = vec![0; len.min(self.len).min(256 << 10)];
        let end = self.len - len.min(self.len);
        while self.len > end {
            let most = buffer.len().min(self.len - end);
            let n = calls::read(&self.read, &mut buffer[..most]).expect("read");
            assert!(n > 0);
            self.len -= n;
            check(&buffer[..n])?;
        }
        Ok(())
    }
}

/// Pipes in turn. With 1 MiB each and slots of a page the writer goes on for some MiB before the first is read.
struct Onwards {
    held: VecDeque<Own>,
    spare: Vec<Own>,
}

impl Onwards {
    fn new(rng: &mut Rng) -> Self {
        Self {
            held: VecDeque::new(),
            spare: (0..rng.between(1, 5)).map(|_| Own::new()).collect(),
        }
    }
}

impl Step for Onwards {
    fn step(
        &mut self,
        pipe: &OwnedFd,
        rng: &mut Rng,
        check: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<bool> {
        calls::poll(pipe, wait::events(calls::End::Read), None).expect("poll");
        let len = match rng.below(4) {
            0 => rng.between(1, 100_000),
            _ => 16 << 20,
        };
        match self.held.back_mut().and_then(|own| own.take(pipe, len)) {
            Some(0) => return Ok(false),
            Some(_) => {}
            None => {
                let next = match self.spare.pop() {
                    Some(own) => own,
                    None => {
                        let mut oldest = self.held.pop_front().expect("one is held");
                        oldest.show(usize::MAX, check)?;
                        oldest
                    }
                };
                self.held.push_back(next);
            }
        }
        if rng.once_in(30)
            && let Some(oldest) = self.held.front_mut()
        {
            oldest.show(rng.between(1, 100_000), check)?;
        }
        Ok(true)
    }

    fn finish(&mut self, check: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        self.held
            .iter_mut()
            .try_for_each(|own| own.show(usize::MAX, check))
    }
}

struct Tees {
    copy: Own,
    /// What the first pipe gave, until it was compared.
    kept: Vec<u8>,
}

impl Tees {
    fn new() -> Self {
        Self {
            copy: Own::new(),
            kept: Vec::new(),
        }
    }

    fn compare(&mut self, len: usize) -> Result<()> {
        let mut at = 0;
        let kept = &self.kept;
        self.copy.show(len, &mut |bytes| {
            let same = kept[at..at + bytes.len()] == *bytes;
            at += bytes.len();
            same.then_some(())
                .ok_or("the copy differs from the original".to_owned())
        })?;
        self.kept.drain(..at);
        Ok(())
    }
}

impl Step for Tees {
    fn step(
        &mut self,
        pipe: &OwnedFd,
        rng: &mut Rng,
        check: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<bool> {
        calls::poll(pipe, wait::events(calls::End::Read), None).expect("poll");
        let len = rng.between(1, 2 << 20);
        let n = match calls::tee(pipe, &self.copy.write, len, SpliceFlags::NONBLOCK) {
            Ok(0) => return Ok(false),
            Ok(n) => n,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                self.compare(rng.between(1, 1 << 20))?;
                return Ok(true);
            }
            Err(e) => panic!("tee: {e}"),
        };
        self.copy.len += n;
        let mut original = vec![0; n];
        let mut got = 0;
        while got < n {
            got += calls::read(pipe, &mut original[got..]).expect("read");
        }
        check(&original)?;
        self.kept.extend_from_slice(&original);
        Ok(true)
    }

    fn finish(&mut self, _check: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        self.compare(usize::MAX)
    }
}
