//! Several threads make pieces at once, and send them in order.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Whose turn it is, by the number of the piece.
#[derive(Debug, Default)]
pub struct Turn {
    now: AtomicU64,
    sleepers: Mutex<()>,
    changed: Condvar,
}

/// In place of a piece's number: nobody's turn will come any more.
const OVER: u64 = u64::MAX;

/// About what it costs to be woken.
const SPIN: Duration = Duration::from_micros(50);

impl Turn {
    /// Waits until this piece is the next one. False when it never will be.
    pub fn wait(&self, piece: u64) -> bool {
        let over = |now| (now == piece || now == OVER).then_some(now == piece);
        let look = || over(self.now.load(Ordering::Acquire));
        if let Some(mine) = look() {
            return mine;
        }
        let start = Instant::now();
        while start.elapsed() < SPIN {
            if let Some(mine) = look() {
                return mine;
            }
            std::hint::spin_loop();
        }
        let mut asleep = self.sleepers.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(mine) = look() {
                return mine;
            }
            let woken = self.changed.wait(asleep);
            asleep = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Makes it the turn of the piece after this one.
    pub fn pass(&self, piece: u64) {
        self.set(piece + 1);
    }

    /// Sends everybody home.
    pub fn end(&self) {
        self.set(OVER);
    }

    fn set(&self, piece: u64) {
        // With the lock, so that nobody falls asleep between looking and sleeping.
        let _sleepers = self.sleepers.lock().unwrap_or_else(PoisonError::into_inner);
        self.now.store(piece, Ordering::Release);
        self.changed.notify_all();
    }
}
