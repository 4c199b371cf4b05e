//! What this kernel lets us do, tried out once per process.
//!
//! Each fact is a refusal with its reason, or nothing: sandboxes refuse system calls, kernels change (`vmsplice` may
//! copy one day), and only a trial tells.

#[cfg(test)]
mod tests;

use std::io;
use std::os::fd::AsFd;
use std::sync::OnceLock;

use crate::calls::{self, SpliceFlags};
use crate::capacity;
use crate::error::{Error, Result};
use crate::pages::OnWrite;
use crate::reason::Reason;
use crate::write::Lender;
use crate::write::fat::{FRAGMENT, Fat};
use crate::write::fresh::Fresh;

/// Why the way in `fresh` cannot be used in this process, if it cannot.
#[must_use]
pub fn fresh_refusal() -> Option<Error> {
    refusal(&FRESH, || try_fresh().map(drop))
}

static FRESH: Known = Known::new();

/// The memory of the way `fresh`, with the trial before it where none was made yet.
pub(crate) fn make_fresh() -> Result<Fresh> {
    let mut tried = None;
    let refused = refusal(&FRESH, || {
        tried = Some(try_fresh()?);
        Ok(())
    });
    match refused {
        Some(refused) => Err(refused),
        None => tried.map_or_else(Fresh::new, Ok),
    }
}

/// Why the way in `fat` cannot be used in this process, if it cannot.
#[must_use]
pub fn fat_refusal() -> Option<Error> {
    static KNOWN: Known = Known::new();
    refusal(&KNOWN, try_fat)
}

/// Why the way in `cow` cannot be used in this process, if it cannot.
#[must_use]
pub fn cow_refusal() -> Option<Error> {
    static KNOWN: Known = Known::new();
    refusal(&KNOWN, try_cow)
}

/// Why [`Unbuffered::lend`](crate::writer::Unbuffered::lend) always copies in this process, if it does.
#[must_use]
pub fn lend_refusal() -> Option<Error> {
    static KNOWN: Known = Known::new();
    cow_refusal().or_else(|| refusal(&KNOWN, crate::pages::try_the_look))
}

/// How long it takes to make this process' memory copy-on-write, as [`cow`](crate::write::cow) does once a round: the median of
/// nine times.
///
/// # Errors
/// No child is available for it.
pub fn turn_takes() -> Result<std::time::Duration> {
    let mut times = Vec::new();
    for _ in 0..9 {
        times.push(crate::pages::turn()?);
    }
    times.sort();
    Ok(times[times.len() / 2])
}

type Known = OnceLock<Option<Error>>;

/// What is known, else what a trial says. Where it only ran out of something, the next one tries again.
fn refusal(known: &Known, try_it: impl FnOnce() -> Result<()>) -> Option<Error> {
    if let Some(known) = known.get() {
        return known.clone();
    }
    let refusal = try_it().err();
    if refusal.as_ref().is_some_and(Error::is_passing) {
        return refusal;
    }
    known.get_or_init(|| refusal).clone()
}

fn private_pipe() -> Result<(std::os::fd::OwnedFd, std::os::fd::OwnedFd)> {
    calls::pipe().map_err(|e| {
        Error::refused(
            "no pipe to try things out",
            "pipe",
            e,
            "close some descriptors",
        )
    })
}

/// Lends a byte, then writes beside it, reads what the pipe has: all must be as it was sent, and by reference.
fn try_fresh() -> Result<Fresh> {
    if !calls::vmsplice_shows_later_change().map_err(vmsplice_refused)? {
        return Err(unsupported("vmsplice is of no use", COPIES));
    }
    let mut fresh = Fresh::new()?;
    let (read_end, write_end) = private_pipe()?;
    let pages = fresh.pages();
    pages.free_mut()[0] = 1;
    let sent = pages.send(&write_end, 1, SpliceFlags::NONBLOCK);
    sent.map_err(vmsplice_refused)?;
    let mut got = [0];
    match calls::read(&read_end, &mut got) {
        Ok(1) if got == [1] => Ok(fresh),
        _ => Err(unsupported("vmsplice refused", LOST)),
    }
}

/// Lends a huge page, passes it on, makes it copy-on-write, writes it: who holds it must have what was sent. And once it is
/// held no more, it must be given back as it is.
fn try_cow() -> Result<()> {
    if !calls::vmsplice_shows_later_change().map_err(vmsplice_refused)? {
        return Err(unsupported("vmsplice is of no use", COPIES));
    }
    match crate::pages::try_copy_on_write()? {
        OnWrite::CopiesWhatIsHeld => Ok(()),
        OnWrite::ChangesWhatIsHeld => Err(unsupported(
            "copy-on-write is refused",
            "this kernel changes pages that a pipe holds (before Linux 5.18, where they are huge)",
        )),
        OnWrite::CopiesAlways => Err(unsupported(
            "copy-on-write is of no use",
            "this kernel does not give a page back that nobody holds any more",
        )),
    }
}

fn vmsplice_refused(e: io::Error) -> Error {
    Error::refused("vmsplice refused", "vmsplice", e, "a sandbox may forbid it")
}

fn unsupported(what: &str, why: &'static str) -> Error {
    Error::because(what, Reason::Unsupported(why.into()))
}

const COPIES: &str = "this kernel copies instead of lending pages";
const LOST: &str = "what was sent did not arrive";

/// Whether vmsplice lends pages here, or copies them: a page is changed after it was sent, and read back.
///
/// # Errors
/// vmsplice is refused.
pub fn vmsplice_is_by_reference() -> io::Result<bool> {
    calls::vmsplice_shows_later_change()
}

/// Sends one fragment through and looks whether it is one slot: only a whole slot fits through a pipe of one slot.
fn try_fat() -> Result<()> {
    let mut fat = Fat::new()?;
    let (slots_out, slots_in) = private_pipe()?;
    let (one_out, one_in) = private_pipe()?;
    capacity::set(&one_in, 1)?;
    let what = "fat slots refused";
    let refused = |call| {
        let what_to_do = "a sandbox may forbid sockets or splice";
        move |e| Error::refused(what, call, e, what_to_do)
    };
    let staged = fat.stage(&[7; FRAGMENT]).map_err(refused("sendmmsg"))?;
    let nonblocking = SpliceFlags::NONBLOCK;
    let delivered = fat
        .deliver(&slots_in, staged, nonblocking)
        .map_err(refused("splice"))?;
    let through = calls::splice(&slots_out, &one_in, delivered, nonblocking);
    let through = through.map_err(refused("splice"))?;
    let page = rustix::param::page_size();
    if through <= page {
        let why = format!("a slot from a socket holds no more than {page} bytes here");
        return Err(Error::because(what, Reason::Unsupported(why.into())));
    }
    let mut got = [0; FRAGMENT];
    let n = calls::read(one_out.as_fd(), &mut got).map_err(refused("read"))?;
    if n != through || got[..n].iter().any(|&b| b != 7) {
        return Err(unsupported(what, LOST));
    }
    Ok(())
}
