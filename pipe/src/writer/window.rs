//! The buffer: memory of the open block, filled front to back.
#![allow(unsafe_code)]

use std::ptr::NonNull;

use fullbore_sys::pages::forked::Owner;

/// What is filled now, and how far.
///
/// The memory is a block of the writer that has this ([`block_mut`](fullbore_sys::writer::Unbuffered::block_mut)). It stays where
/// it is, and nobody else touches it, until the next call on that writer, before which the window is [closed](Self::close).
#[derive(Debug)]
pub(super) struct Window {
    start: NonNull<u8>,
    capacity: usize,
    len: usize,
    /// Up to here bytes are put in without a look at anything else; at most `capacity`.
    end: usize,
    /// The process that has put them in. `None` where a forked child cannot be told from it.
    owner: Option<Owner>,
}

// SAFETY: the memory belongs to the writer beside this, which may be used by any thread, one at a time.
unsafe impl Send for Window {}
// SAFETY: `&Window` gives no access to the memory but to read it, and nobody writes it meanwhile.
unsafe impl Sync for Window {}

impl Window {
    pub(super) const CLOSED: Self = Self {
        start: NonNull::dangling(),
        capacity: 0,
        len: 0,
        end: 0,
        owner: None,
    };

    /// Opens it on memory of which the first `len` bytes are filled.
    ///
    /// # Safety
    /// The memory stays valid, and is used by nobody else, until the window is closed.
    pub(super) unsafe fn open(memory: &mut [u8], len: usize) -> Self {
        debug_assert!(len <= memory.len());
        Self {
            capacity: memory.len(),
            start: NonNull::from(memory).cast(),
            len,
            end: len,
            owner: this_process(),
        }
    }

    /// Gives the memory back. Returns how many bytes of it are filled.
    pub(super) fn close(&mut self) -> usize {
        let len = self.len();
        *self = Self::CLOSED;
        len
    }

    pub(super) fn is_open(&self) -> bool {
        self.capacity > 0
    }

    /// Bytes that are filled. What was put in before a fork is the parent's.
    pub(super) fn len(&mut self) -> usize {
        if !self.is_ours() {
            self.len = 0;
            self.end = 0;
            self.owner = this_process();
        }
        self.len
    }

    /// Bytes that can be filled.
    pub(super) fn room(&mut self) -> usize {
        self.capacity - self.len()
    }

    #[inline]
    fn is_ours(&self) -> bool {
        self.owner.is_none_or(Owner::is_this_process)
    }

    /// From now on bytes are put in at once until `more` are.
    pub(super) fn allow(&mut self, more: usize) {
        self.end = self.capacity.min(self.len() + more);
    }

    /// Puts all of these in, if this may be done at once.
    #[inline]
    pub(super) fn put_at_once(&mut self, bytes: &[u8]) -> bool {
        // `end` is never before `len`.
        if bytes.len() > self.end - self.len || !self.is_ours() {
            return false;
        }
        // SAFETY: `len` and as many bytes more are in the memory, which is ours alone while the window is open, as `open`
        // demands; so nobody can have a reference to it, `bytes` included.
        let to = unsafe { self.start.add(self.len) };
        // SAFETY: as above; the source is a slice.
        unsafe { to.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len()) };
        self.len += bytes.len();
        true
    }

    /// Puts as many in as there is room for, and returns how many.
    pub(super) fn put(&mut self, bytes: &[u8]) -> usize {
        let len = bytes.len().min(self.room());
        self.free_mut()[..len].copy_from_slice(&bytes[..len]);
        self.fill(len);
        len
    }

    /// Takes the next `len` bytes for filled.
    pub(super) fn fill(&mut self, len: usize) {
        self.len = self.capacity.min(self.len() + len);
        self.end = self.end.max(self.len);
    }

    /// The bytes behind those that are filled.
    pub(super) fn free_mut(&mut self) -> &mut [u8] {
        let room = self.room();
        // SAFETY: `len` is at most `capacity`: inside the memory, or just past it.
        let start = unsafe { self.start.add(self.len) };
        // SAFETY: the memory is ours while the window is open, all of it initialised (it was a slice), and `&mut self` is the only
        // access.
        unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), room) }
    }

    /// The bytes behind those that are filled.
    pub(super) fn free(&self) -> &[u8] {
        // SAFETY: as for `free_mut`.
        let start = unsafe { self.start.add(self.len) };
        // SAFETY: as for `free_mut`, with `&self`.
        unsafe { std::slice::from_raw_parts(start.as_ptr(), self.capacity - self.len) }
    }
}

/// `None` where a forked child cannot be told from this process: under Miri, too, which knows no forks.
fn this_process() -> Option<Owner> {
    if cfg!(miri) {
        return None;
    }
    Owner::this_process().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        AtOnce(Vec<u8>),
        Put(Vec<u8>),
        InPlace(usize),
        Allow(usize),
        Reopen(usize),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let bytes = || proptest::collection::vec(any::<u8>(), 0..20);
        let step = prop_oneof![
            4 => bytes().prop_map(Step::AtOnce),
            2 => bytes().prop_map(Step::Put),
            1 => (0..20usize).prop_map(Step::InPlace),
            2 => (0..60usize).prop_map(Step::Allow),
            1 => (0..40usize).prop_map(Step::Reopen),
        ];
        proptest::collection::vec(step, 0..40)
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            failure_persistence: None, // Miri has no files
            ..ProptestConfig::default()
        })]

        /// Against a vector. Under Miri this shows that no access is outside the memory or through a reference that is gone.
        #[test]
        fn window_holds_what_was_put_in(steps in steps(), capacity in 1..200usize) {
            let mut memory = vec![0xEE; capacity];
            let mut model: Vec<u8> = Vec::new();
            // SAFETY: `memory` lives as long as the window, and is not used while that is open.
            let mut window = unsafe { Window::open(&mut memory, 0) };
            for step in steps {
                match step {
                    Step::AtOnce(bytes) => {
                        if window.put_at_once(&bytes) {
                            model.extend(&bytes);
                        }
                    }
                    Step::Put(bytes) => {
                        let n = window.put(&bytes);
                        prop_assert_eq!(n, bytes.len().min(capacity - model.len()));
                        model.extend(&bytes[..n]);
                    }
                    Step::InPlace(len) => {
                        let len = len.min(window.room());
                        window.free_mut()[..len].fill(7);
                        prop_assert!(window.free()[..len].iter().all(|&b| b == 7));
                        window.fill(len);
                        model.extend(std::iter::repeat_n(7, len));
                    }
                    Step::Allow(more) => {
                        window.allow(more);
                        let more = more.min(window.room());
                        prop_assert!(window.put_at_once(&vec![1; more]));
                        model.extend(std::iter::repeat_n(1, more));
                    }
                    Step::Reopen(sent) => {
                        let len = window.close();
                        prop_assert_eq!(&memory[..len], &model[..]);
                        // What was sent is gone from the front, as when a block was sent in part.
                        let sent = sent.min(len);
                        model.drain(..sent);
                        memory.copy_within(sent..len, 0);
                        // SAFETY: as above.
                        window = unsafe { Window::open(&mut memory, len - sent) };
                    }
                }
                prop_assert_eq!(window.len(), model.len());
                prop_assert_eq!(window.room(), capacity - model.len());
            }
            let len = window.close();
            prop_assert_eq!(&memory[..len], &model[..]);
        }
    }
}
