//! Proof that new memory is a huge page, by the faults that the kernel counts while it is touched.
//!
//! The first touch of 2 MiB that are new is a fault. Where the kernel gave a huge page for it, a touch of their last 4 KiB is
//! none any more. This needs neither /proc nor privilege, and holds on every kernel.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU8, Ordering};

use rustix::io::Errno;

use crate::calls::fault::{Call, allow};

/// What two touches have shown of a range that had no pages yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// One fault for all of it.
    Huge,
    /// More than one.
    Small,
    /// It had its pages already (locked memory does), or faults cannot be counted here.
    Nothing,
}

/// Touches new memory: writes zeroes to the first and the last byte, and counts.
pub(super) fn touch_new(range: &mut [u8]) -> Shown {
    // Not by `write_same`: a processor may read for that first, which brings in the huge zero page, a fault more.
    touch(range, |byte| {
        // SAFETY: `&mut` is valid for a write.
        unsafe { std::ptr::from_mut(byte).write_volatile(0) }
    })
}

/// Touches memory that somebody may hold: writes what is there to the first and the last byte, and counts.
pub(super) fn touch_same(range: &mut [u8]) -> Shown {
    touch(range, write_same)
}

fn touch(range: &mut [u8], write: impl Fn(&mut u8)) -> Shown {
    let [first, .., last] = range else {
        return Shown::Nothing;
    };
    // After a turn the stack is copy-on-write, too. The first call takes those faults; by what comes next they would be counted.
    let _ = minor_faults();
    let before = minor_faults();
    write(first);
    let between = minor_faults();
    write(last);
    let after = minor_faults();
    let (Ok(before), Ok(between), Ok(after)) = (before, between, after) else {
        return Shown::Nothing;
    };
    // A signal handler that faults in between makes a huge page look like small ones, which costs another mapping.
    match (between - before, after - between) {
        (1, 0) => Shown::Huge,
        (0, 0) => Shown::Nothing,
        _ => Shown::Small,
    }
}

/// A write that changes nothing: somebody may hold the page, and it may be that it is not copied on write.
fn write_same(byte: &mut u8) {
    // The compiler would make a load of it if it knew that nothing changes.
    let nothing = std::hint::black_box(0);
    // SAFETY: `&mut` is valid for a byte's atomic use, and is the only access.
    let byte = unsafe { AtomicU8::from_ptr(byte) };
    byte.fetch_or(nothing, Ordering::Relaxed);
}

/// Faults of this thread that needed no I/O, see `getrusage(2)`.
fn minor_faults() -> Result<libc::c_long, Errno> {
    allow(Call::Getrusage, 0)?;
    // SAFETY: all zeroes is a valid `rusage`, which is plain numbers.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes one `rusage`, and `usage` has room for it.
    match unsafe { libc::getrusage(libc::RUSAGE_THREAD, &mut usage) } {
        0 => Ok(usage.ru_minflt),
        _ => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL)),
    }
}
