//! How this process was started: what Rust's runtime changes before `main`, and a program that others rely on must know.
//!
//! The runtime ignores SIGPIPE and opens /dev/null in place of a closed standard descriptor, so both are looked at
//! before it: the C library calls the functions of `.init_array` first.

use std::io;
use std::sync::atomic::{AtomicU8, Ordering};

/// Bits 0 to 2: this standard descriptor was closed. Bit 3: SIGPIPE was ignored.
static AT_START: AtomicU8 = AtomicU8::new(0);
const SIGPIPE_IGNORED: u8 = 1 << 3;

extern "C" fn look() {
    let mut found = 0;
    for fd in 0..3 {
        // SAFETY: F_GETFD reads a flag of a descriptor, or fails with EBADF where there is none.
        let failed = unsafe { libc::fcntl(fd, libc::F_GETFD) } == -1;
        // A seccomp filter may refuse the call: that says nothing about the descriptor.
        if failed && io::Error::last_os_error().raw_os_error() == Some(libc::EBADF) {
            found |= 1 << fd;
        }
    }
    // SAFETY: all zeros is a value of this plain structure.
    let mut old: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: a null new action changes nothing; `old` is large enough for what is written.
    let failed = unsafe { libc::sigaction(libc::SIGPIPE, std::ptr::null(), &raw mut old) };
    if failed == 0 && old.sa_sigaction == libc::SIG_IGN {
        found |= SIGPIPE_IGNORED;
    }
    AT_START.store(found, Ordering::Relaxed);
}

// SAFETY: `.init_array` holds pointers to functions that take what the C library passes (or, as this one, nothing) and
// return nothing. It runs once, before any thread, and touches nothing but an atomic and the kernel.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

fn at_start() -> u8 {
    // Makes the linker keep what holds it.
    std::hint::black_box(&LOOK);
    AT_START.load(Ordering::Relaxed)
}

/// Whether standard input (0), output (1) or error (2) was closed when this process was started.
pub fn was_closed(standard: u8) -> bool {
    standard < 3 && at_start() & 1 << standard != 0
}

/// Lets SIGPIPE end this process again, unless whoever started it had it ignored, as other programs know it.
pub fn let_sigpipe_kill() {
    if at_start() & SIGPIPE_IGNORED == 0 {
        set_handler(libc::SIGPIPE, libc::SIG_DFL);
    }
}

/// Ignores Ctrl-C (SIGINT).
pub fn ignore_interrupts() {
    set_handler(libc::SIGINT, libc::SIG_IGN);
}

/// Lets a write beyond the limit of a file's size (`ulimit -f`) fail with EFBIG, and not end this process.
pub fn ignore_file_size_signal() {
    set_handler(libc::SIGXFSZ, libc::SIG_IGN);
}

fn set_handler(signal: i32, handler: libc::sighandler_t) {
    // SAFETY: the handler is one of the two that are no functions, so no code of ours runs in a signal.
    let old = unsafe { libc::signal(signal, handler) };
    debug_assert_ne!(old, libc::SIG_ERR, "both signals can be handled");
}
