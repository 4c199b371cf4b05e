//! Several threads make pieces at once, and send them in order.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Which piece is sent next, by its number.
#[derive(Debug, Default)]
pub struct Sequencer {
    now: AtomicU64,
    sleepers: AtomicUsize,
    lock: Mutex<()>,
    changed: Condvar,
}

/// In place of a piece's number: no more pieces are sent.
const OVER: u64 = u64::MAX;

/// About what it costs to be woken.
const SPIN: Duration = Duration::from_micros(50);

impl Sequencer {
    /// Waits until this piece is the next one. False when it never will be.
    pub fn wait(&self, piece: u64) -> bool {
        let look = || match self.now.load(SeqCst) {
            OVER => Some(false),
            now => (now == piece).then_some(true),
        };
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
        let mut asleep = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.sleepers.fetch_add(1, SeqCst);
        let mine = loop {
            if let Some(mine) = look() {
                break mine;
            }
            let woken = self.changed.wait(asleep);
            asleep = woken.unwrap_or_else(PoisonError::into_inner);
        };
        self.sleepers.fetch_sub(1, SeqCst);
        mine
    }

    /// Lets the piece after this one be sent.
    pub fn pass(&self, piece: u64) {
        self.set(piece + 1);
    }

    /// Ends every wait.
    pub fn end(&self) {
        self.set(OVER);
    }

    fn set(&self, piece: u64) {
        self.now.store(piece, SeqCst);
        // Who counts as a sleeper after this looks again before it sleeps. Waking nobody would cost a system call.
        if self.sleepers.load(SeqCst) > 0 {
            // With the lock, so that nobody is between looking and sleeping.
            let _lock = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
            self.changed.notify_all();
        }
    }
}
