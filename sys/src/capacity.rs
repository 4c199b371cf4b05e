//! The capacity of a pipe: ask for it, read back what was granted, explain the rest.

use std::os::fd::AsFd;

use rustix::io::Errno;

use crate::calls::{
    self,
    fault::{Call, allow},
};
use crate::error::{Error, Result};
use crate::size::Size;

/// Reads the capacity of a pipe in bytes (`F_GETPIPE_SZ`): slots times the size of a page.
///
/// # Errors
/// The descriptor is not a pipe.
pub fn get(fd: impl AsFd) -> Result<usize> {
    rustix::pipe::fcntl_getpipe_size(&fd)
        .map_err(|e| explain("capacity cannot be read", GET, e, calls::is_pipe(&fd)))
}

/// Asks for a capacity in bytes (`F_SETPIPE_SZ`) and returns what was granted: the kernel rounds up to a power of two
/// of pages.
///
/// # Errors
/// Above `fs.pipe-max-size` without privilege, above the user's share of pipe memory, smaller than what the pipe holds
/// now, or not a pipe.
pub fn set(fd: impl AsFd, bytes: usize) -> Result<usize> {
    let asked = allow(Call::SetCapacity, bytes);
    let done = asked.and_then(|_| rustix::pipe::fcntl_setpipe_size(&fd, bytes));
    done.map_err(|e| {
        let what = format!("capacity {} refused", Size(bytes as u64));
        explain(&what, SET, e, calls::is_pipe(&fd))
    })?;
    get(fd)
}

/// What [`largest`] asks for at most, in bytes. More is not faster, and `fs.pipe-max-size` may allow 1 GiB of memory to a
/// pipe; whoever wants that calls [`set`].
pub const MOST_UNASKED: usize = 1 << 20;

/// The capacity that was granted when as much as is useful was asked for.
#[derive(Debug)]
pub struct Largest {
    /// Bytes granted.
    pub granted: usize,
    /// Why it is less than `fs.pipe-max-size` and than [`MOST_UNASKED`], if it is.
    pub refusal: Option<Error>,
}

/// Makes a pipe as large as this user may have it without privilege, up to [`MOST_UNASKED`]; never makes it smaller.
///
/// # Errors
/// The descriptor is not a pipe. That less is granted is not an error: see [`Largest::refusal`].
pub fn largest(fd: impl AsFd) -> Result<Largest> {
    let mut granted = get(&fd)?;
    let mut want = MOST_UNASKED;
    let mut refusal = None;
    while want > granted {
        match set(&fd, want) {
            Ok(now) => granted = now,
            Err(e) => {
                refusal.get_or_insert(e);
                want /= 2;
            }
        }
    }
    Ok(Largest { granted, refusal })
}

/// The limit of an unprivileged user, in bytes: `fs.pipe-max-size`. `None` where /proc does not show it.
#[must_use]
pub fn limit() -> Option<usize> {
    number("/proc/sys/fs/pipe-max-size")
}

fn number(path: &str) -> Option<usize> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

const GET: &str = "fcntl(F_GETPIPE_SZ)";
const SET: &str = "fcntl(F_SETPIPE_SZ)";

fn explain(what: &str, call: &'static str, errno: Errno, is_pipe: bool) -> Error {
    match errno {
        Errno::PERM => {
            let limit = limit().map_or("unknown".into(), |l| Size(l as u64).to_string());
            let soft = number("/proc/sys/fs/pipe-user-pages-soft")
                .map_or("unknown".into(), |l| l.to_string());
            Error::refused(
                format!(
                    "{what}: the limit is {limit} a pipe (fs.pipe-max-size) and {soft} pages a user (fs.pipe-user-pages-soft)"
                ),
                call,
                errno,
                "ask for less, close other pipes, or raise the limit that is in the way with sysctl",
            )
        }
        Errno::BUSY => Error::refused(
            what,
            call,
            errno,
            "the pipe holds more than that; read it first",
        ),
        Errno::BADF | Errno::INVAL if !is_pipe => Error::new(
            what,
            "the descriptor is not a pipe",
            "connect it with | to another program",
        ),
        other => Error::refused(what, call, other, "a sandbox may forbid fcntl"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grants_a_power_of_two_of_pages() {
        let (_r, w) = calls::pipe().unwrap();
        let page = rustix::param::page_size();
        assert_eq!(set(&w, 3 * page).unwrap(), 4 * page);
        assert_eq!(set(&w, 1).unwrap(), page);
        assert_eq!(get(&w).unwrap(), page);
    }

    #[test]
    fn what_is_not_a_pipe_is_said_to_be_none() {
        let null = std::fs::File::open("/dev/null").unwrap();
        let text = get(&null).unwrap_err().to_string();
        assert!(text.contains("not a pipe"), "{text}");
    }

    #[test]
    fn pipe_whose_size_is_refused_is_not_said_to_be_none() {
        for errno in [Errno::INVAL, Errno::BADF, Errno::NOSYS] {
            let text = explain("capacity", GET, errno, true).to_string();
            assert!(!text.contains("not a pipe"), "{text}");
            assert!(text.contains("sandbox"), "{text}");
        }
    }

    #[test]
    fn shrinking_below_what_is_held_is_refused_with_the_reason() {
        let (_r, w) = calls::pipe().unwrap();
        let page = rustix::param::page_size();
        calls::write(&w, &vec![1; 3 * page]).unwrap();
        let text = set(&w, page).unwrap_err().to_string();
        assert!(text.contains("holds more"), "{text}");
    }

    #[test]
    fn largest_never_shrinks_and_reads_back() {
        let (_r, w) = calls::pipe().unwrap();
        let before = get(&w).unwrap();
        let largest = largest(&w).unwrap();
        assert!(largest.granted >= before);
        assert_eq!(largest.granted, get(&w).unwrap());
    }
}
