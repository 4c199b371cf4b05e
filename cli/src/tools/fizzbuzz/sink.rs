//! From the plan to standard output, by one thread or several.

use std::io::{self, Write};
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use fullbore::PipeWriter;
use fullbore_sys::calls::End;
use fullbore_sys::wait::{Wait, Waiter};
use fullbore_sys::write::fresh::PIECE;

use super::lines;
use super::plan::{Piece, Plan};
use super::recycle::Ring;
use super::sequencer::Sequencer;
use super::thousands::{PHASES, SLACK, Thousands, cycle_bytes, width};
use super::vector::Vectors;

/// What a thread sends its pieces through.
#[derive(Debug)]
pub enum Sink<'a> {
    /// By the library's sound ways.
    Sound(Box<PipeWriter<BorrowedFd<'a>>>),
    Recycled(Box<Ring>),
}

/// The most thousands that a block of a sound writer takes, with what is overwritten behind them.
pub fn thousands_in_block(width: usize) -> u64 {
    ((PIECE - SLACK) / cycle_bytes(width) * PHASES) as u64
}

/// What all threads share.
#[derive(Debug)]
pub struct Output<'a> {
    out: BorrowedFd<'a>,
    vectors: Option<Vectors>,
    plan: Mutex<std::iter::Enumerate<Plan>>,
    sequencer: Sequencer,
    lines: AtomicU64,
    bytes: AtomicU64,
}

impl<'a> Output<'a> {
    pub fn new(out: BorrowedFd<'a>, plan: Plan, vectors: Option<Vectors>) -> Self {
        Self {
            out,
            vectors,
            plan: Mutex::new(plan.enumerate()),
            sequencer: Sequencer::default(),
            lines: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        }
    }

    /// Lines and bytes that were sent.
    pub fn sent(&self) -> (u64, u64) {
        let load = |n: &AtomicU64| n.load(Ordering::Acquire);
        (load(&self.lines), load(&self.bytes))
    }

    /// Sends everything, through as many threads as there are sinks, or as many as the system grants: this one is the
    /// first of them. Says how many they were.
    ///
    /// # Errors
    /// What a thread met; the others end without.
    pub fn run(&self, sinks: &mut [Sink<'a>]) -> (usize, io::Result<()>) {
        let Some((mine, others)) = sinks.split_first_mut() else {
            return (0, Ok(()));
        };
        thread::scope(|scope| {
            let workers: Vec<_> = others
                .iter_mut()
                .map_while(|sink| {
                    let worker = thread::Builder::new();
                    worker.spawn_scoped(scope, || self.work(sink)).ok()
                })
                .collect();
            let threads = 1 + workers.len();
            let done = self.work(mine);
            let done = workers
                .into_iter()
                .map(|w| {
                    w.join()
                        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
                })
                .fold(done, io::Result::and);
            (threads, done)
        })
    }

    fn work(&self, sink: &mut Sink<'a>) -> io::Result<()> {
        let others = EndForAll(&self.sequencer);
        self.send_pieces(sink)?;
        std::mem::forget(others);
        Ok(())
    }

    fn next_piece(&self) -> Option<(u64, Piece)> {
        let mut plan = self.plan.lock().unwrap_or_else(PoisonError::into_inner);
        plan.next().map(|(i, piece)| (i as u64, piece))
    }

    fn send_pieces(&self, sink: &mut Sink<'a>) -> io::Result<()> {
        let mut text = Text::new(self.vectors);
        while let Some((number, piece)) = self.next_piece() {
            let sent = match sink {
                Sink::Sound(writer) => self.send_block(writer, number, &piece, &mut text)?,
                Sink::Recycled(ring) => self.send_recycled(ring, number, &piece, &mut text)?,
            };
            let Some(len) = sent else {
                return Ok(()); // another thread has failed
            };
            self.lines.fetch_add(piece.lines(), Ordering::AcqRel);
            self.bytes.fetch_add(len as u64, Ordering::AcqRel);
            self.sequencer.pass(number);
        }
        match sink {
            Sink::Sound(writer) => self.until_taken(writer, |writer| writer.flush()),
            Sink::Recycled(_) => Ok(()),
        }
    }

    /// Makes a piece in a block and sends it after the pieces before it. Returns how many bytes it is.
    fn send_block(
        &self,
        writer: &mut PipeWriter<BorrowedFd<'a>>,
        number: u64,
        piece: &Piece,
        text: &mut Text,
    ) -> io::Result<Option<usize>> {
        let most = text.most(piece);
        self.until_taken(writer, |writer| writer.block(most).map(drop))?;
        let mut block = writer.block(most)?;
        let len = text.fill(piece, &mut block);
        if !self.sequencer.wait(number) {
            return Ok(None);
        }
        if let Err(unsent) = block.commit(len) {
            let (error, writer) = unsent.into_parts();
            if error.kind() != io::ErrorKind::WouldBlock {
                return Err(error);
            }
            self.until_taken(writer, |writer| writer.flush())?;
        }
        Ok(Some(len))
    }

    /// The same in buffers that are written again.
    fn send_recycled(
        &self,
        ring: &mut Ring,
        number: u64,
        piece: &Piece,
        text: &mut Text,
    ) -> io::Result<Option<usize>> {
        let sent = self.sent().1;
        let len = match piece {
            Piece::Lines(_) => {
                let mut lines = vec![0; text.most(piece)];
                let len = text.fill(piece, &mut lines);
                ring.put(self.out, sent, &lines[..len])?;
                len
            }
            Piece::Thousands(heads) => {
                let thousands = text.thousands(heads.start);
                ring.make(self.out, sent, heads, thousands)?
            }
        };
        if !self.sequencer.wait(number) {
            return Ok(None);
        }
        ring.send(self.out, len, self.sent().1)?;
        Ok(Some(len))
    }

    /// Repeats what would block: the output was made non-blocking by somebody who shares it.
    fn until_taken(
        &self,
        writer: &mut PipeWriter<BorrowedFd<'a>>,
        mut send: impl FnMut(&mut PipeWriter<BorrowedFd<'a>>) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut waiter = Waiter::new(Wait::Adaptive, End::Write);
        loop {
            match send(writer) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    waiter.after_would_block(self.out)?;
                }
                other => return other,
            }
        }
    }
}

/// Makes the text of pieces.
#[derive(Debug)]
struct Text {
    vectors: Option<Vectors>,
    /// For the width of numbers that came last.
    thousands: Option<Thousands>,
}

impl Text {
    fn new(vectors: Option<Vectors>) -> Self {
        Self {
            vectors,
            thousands: None,
        }
    }

    /// What makes the text of numbers with this head.
    fn thousands(&mut self, head: u64) -> &mut Thousands {
        let width = width(head);
        if self.thousands.as_ref().is_some_and(|t| t.width() != width) {
            self.thousands = None;
        }
        let vectors = self.vectors;
        self.thousands
            .get_or_insert_with(|| Thousands::new(width, vectors))
    }

    /// Bytes that a piece takes at most, with what is overwritten behind it.
    fn most(&mut self, piece: &Piece) -> usize {
        match piece {
            Piece::Lines(_) => piece.lines() as usize * (lines::WIDEST + 1),
            Piece::Thousands(heads) => self.thousands(heads.start).bytes(heads) + SLACK,
        }
    }

    /// Makes a piece at the beginning of `out`, and returns how many bytes it is.
    fn fill(&mut self, piece: &Piece, out: &mut [u8]) -> usize {
        match piece {
            Piece::Lines(numbers) => {
                let mut text = Vec::new();
                lines::append(numbers.clone(), &mut text);
                out[..text.len()].copy_from_slice(&text);
                text.len()
            }
            Piece::Thousands(heads) => self.thousands(heads.start).fill(heads.clone(), out),
        }
    }
}

/// When dropped, after an error or in a panic, ends the wait of all threads for this one's pieces.
struct EndForAll<'a>(&'a Sequencer);

impl Drop for EndForAll<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}
