//! [`Reason`]: why bytes do not move in a better way.

use std::borrow::Cow;
use std::time::Duration;
use std::{fmt, io};

use rustix::io::Errno;

use crate::size::Size;

/// Why a [`Route`](crate::Route) is not taken.
///
/// As text it is the part of a sentence that follows "not fresh:", say: why, and after a semicolon what to do about it, where
/// there is something. [`why`](Self::why) and [`what_to_do`](Self::what_to_do) are those two parts.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// The output is not a pipe.
    NotAPipe,
    /// The descriptor is not open for writing.
    NotWritable,
    /// The pipe, or the socket, keeps packets (`O_DIRECT`, `SOCK_DGRAM`, `SOCK_SEQPACKET`), which only `read(2)` and `write(2)`
    /// leave whole.
    Packets,
    /// The pipe does not block (`O_NONBLOCK`).
    NonBlocking,
    /// The writer does not allow copy-on-write.
    NotAllowed,
    /// The kernel gave small pages where huge ones were asked for.
    NoHugePages,
    /// The user has as much memory in pipes as is allowed (`fs.pipe-user-pages-soft`).
    NoPipeMemory,
    /// A system call was refused.
    Refused {
        /// Its name, with the request where one is needed to know which it was: `madvise(MADV_WIPEONFORK)`.
        call: &'static str,
        /// The error number of the system.
        errno: i32,
    },
    /// The reader, or whoever it has passed the data on to, keeps too much of what was lent.
    Held {
        /// What was sent so many bytes ago is still held.
        bytes: u64,
    },
    /// It takes too long to make memory copy-on-write, compared with the time of sending what that is for.
    TooCostly {
        /// Time of the one.
        takes: Duration,
        /// Time of the other.
        sending: Duration,
    },
    /// The process has too much private memory in small pages, all of which would become copy-on-write.
    ProcessTooLarge {
        /// Bytes that it has.
        has: u64,
        /// Bytes that it may have.
        most: u64,
    },
    /// Another route is as fast, or is being tried.
    Slower,
    /// There is no whole huge page in the memory that is to be sent.
    TooShort,
    /// The pattern is longer than what a pipe can hold.
    TooLong {
        /// Its length in bytes.
        bytes: u64,
    },
    /// The input is a file without a size, such as those in /proc.
    NoSize,
    /// The caller's memory cannot be lent, for what it is.
    Memory(&'static str),
    /// This kernel does something else, or tells nothing.
    Unsupported(Cow<'static, str>),
    /// Anything else, in words.
    Other(Cow<'static, str>),
}

impl Reason {
    /// Why.
    #[must_use]
    pub fn why(&self) -> Cow<'static, str> {
        let text = match self {
            Self::NotAPipe => "the output is not a pipe",
            Self::NotWritable => "the descriptor is not open for writing",
            Self::Packets => {
                "the pipe or socket carries packets, which only read(2) and write(2) leave whole"
            }
            Self::NonBlocking => "the pipe does not block",
            Self::NotAllowed => "the writer does not allow copy-on-write",
            Self::NoHugePages => "the kernel gave small pages in place of huge ones",
            Self::NoPipeMemory => "no pipe memory is left for this user",
            Self::Slower => "copying is as fast, or is being tried",
            Self::TooShort => "it has no whole huge page",
            Self::NoSize => "the file has no size",
            Self::Memory(why) => why,
            Self::Unsupported(why) | Self::Other(why) => return why.clone(),
            Self::Refused { call, errno } => {
                let error = io::Error::from_raw_os_error(*errno);
                return format!("{call}: {}", plain(&error)).into();
            }
            Self::Held { bytes } => {
                let ago = Size(*bytes);
                return format!(
                    "the reader, or whoever it has passed the data on to, still has what was sent {ago} ago"
                )
                .into();
            }
            Self::TooCostly { takes, sending } => {
                let (takes, sending) = (takes.as_micros(), sending.as_micros());
                return format!(
                    "making memory copy-on-write takes {takes} µs, too long beside the {sending} µs of sending what is in it"
                )
                .into();
            }
            Self::ProcessTooLarge { has, most } => {
                let (has, most) = (Size(*has & !0xf_ffff), Size(*most));
                return format!(
                    "the process has {has} of private memory in small pages, and more than {most} take too long to be made copy-on-write"
                )
                .into();
            }
            Self::TooLong { bytes } => {
                let len = Size(*bytes);
                return format!("the pattern of {len} is too long for a pipe").into();
            }
        };
        text.into()
    }

    /// What to do about it; empty where nothing is known.
    #[must_use]
    pub fn what_to_do(&self) -> &'static str {
        match self {
            Self::NoHugePages => {
                "free memory, or set /sys/kernel/mm/transparent_hugepage/enabled to madvise"
            }
            Self::NoPipeMemory => "close other pipes, or raise fs.pipe-user-pages-soft",
            Self::Held { .. } => "read on, or copy instead of splicing",
            Self::TooCostly { .. } | Self::ProcessTooLarge { .. } => "use it in a smaller process",
            Self::Refused { call, errno } => match (*call, Errno::from_raw_os_error(*errno)) {
                (_, Errno::MFILE) => FILES,
                (_, Errno::NFILE) => "close files, or raise fs.file-max",
                ("clone", Errno::AGAIN) => "raise the limit of processes (ulimit -u, pids.max)",
                ("ioctl(PAGEMAP_SCAN)", _) => "use Linux 6.7 or newer",
                ("ioctl(PROCMAP_QUERY)", _) => "use Linux 6.11 or newer",
                ("fcntl(F_SETPIPE_SZ)", Errno::PERM) => {
                    "close other pipes, or raise fs.pipe-max-size or fs.pipe-user-pages-soft"
                }
                (_, Errno::PERM | Errno::ACCESS | Errno::NOSYS) => "a sandbox may forbid it",
                (_, Errno::NOMEM | Errno::NOBUFS) => "free memory",
                _ => "",
            },
            _ => "",
        }
    }
}

/// What to do where a process has no descriptors left.
pub(crate) const FILES: &str = "raise the limit of open files (ulimit -n)";

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why())?;
        match self.what_to_do() {
            "" => Ok(()),
            what_to_do => write!(f, "; {what_to_do}"),
        }
    }
}

/// The system's message without Rust's `(os error N)`.
pub(crate) fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error") {
        Some((message, _)) => message.to_owned(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_says_why_and_what_to_do() {
        let micros = Duration::from_micros;
        let refused = |call, errno: Errno| Reason::Refused {
            call,
            errno: errno.raw_os_error(),
        };
        let texts = [
            (Reason::NotAPipe, "the output is not a pipe"),
            (
                Reason::NotWritable,
                "the descriptor is not open for writing",
            ),
            (
                Reason::Packets,
                "the pipe or socket carries packets, which only read(2) and write(2) leave whole",
            ),
            (Reason::NonBlocking, "the pipe does not block"),
            (
                Reason::NotAllowed,
                "the writer does not allow copy-on-write",
            ),
            (
                Reason::NoHugePages,
                "the kernel gave small pages in place of huge ones; free memory, or set /sys/kernel/mm/transparent_hugepage/enabled to madvise",
            ),
            (
                Reason::NoPipeMemory,
                "no pipe memory is left for this user; close other pipes, or raise fs.pipe-user-pages-soft",
            ),
            (
                refused("vmsplice", Errno::PERM),
                "vmsplice: Operation not permitted; a sandbox may forbid it",
            ),
            (refused("splice", Errno::INVAL), "splice: Invalid argument"),
            (
                refused("pipe", Errno::MFILE),
                "pipe: Too many open files; raise the limit of open files (ulimit -n)",
            ),
            (
                refused("pipe", Errno::NFILE),
                "pipe: Too many open files in system; close files, or raise fs.file-max",
            ),
            (
                refused("clone", Errno::AGAIN),
                "clone: Resource temporarily unavailable; raise the limit of processes (ulimit -u, pids.max)",
            ),
            (
                refused("fcntl(F_SETPIPE_SZ)", Errno::PERM),
                "fcntl(F_SETPIPE_SZ): Operation not permitted; close other pipes, or raise fs.pipe-max-size or fs.pipe-user-pages-soft",
            ),
            (
                refused("ioctl(PROCMAP_QUERY)", Errno::NOTTY),
                "ioctl(PROCMAP_QUERY): Inappropriate ioctl for device; use Linux 6.11 or newer",
            ),
            (
                refused("ioctl(PAGEMAP_SCAN)", Errno::NOTTY),
                "ioctl(PAGEMAP_SCAN): Inappropriate ioctl for device; use Linux 6.7 or newer",
            ),
            (
                refused("sendmmsg", Errno::NOBUFS),
                "sendmmsg: No buffer space available; free memory",
            ),
            (
                Reason::Held { bytes: 32 << 20 },
                "the reader, or whoever it has passed the data on to, still has what was sent 32MiB ago; read on, or copy instead of splicing",
            ),
            (
                Reason::TooCostly {
                    takes: micros(700),
                    sending: micros(900),
                },
                "making memory copy-on-write takes 700 µs, too long beside the 900 µs of sending what is in it; use it in a smaller process",
            ),
            (
                Reason::ProcessTooLarge {
                    has: (300 << 20) + 4096,
                    most: 256 << 20,
                },
                "the process has 300MiB of private memory in small pages, and more than 256MiB take too long to be made copy-on-write; use it in a smaller process",
            ),
            (Reason::Slower, "copying is as fast, or is being tried"),
            (Reason::TooShort, "it has no whole huge page"),
            (
                Reason::TooLong { bytes: 9 << 20 },
                "the pattern of 9MiB is too long for a pipe",
            ),
            (Reason::NoSize, "the file has no size"),
            (Reason::Memory("it is shared"), "it is shared"),
            (Reason::Unsupported("it copies".into()), "it copies"),
            (Reason::Other("it is late".into()), "it is late"),
        ];
        for (reason, text) in texts {
            assert_eq!(reason.to_string(), text);
        }
    }

    #[test]
    fn error_without_a_number_is_a_reason_in_words() {
        let error = io::Error::from(io::ErrorKind::UnexpectedEof);
        let reason = Reason::of("read", &error);
        assert_eq!(reason.to_string(), "read: unexpected end of file");
    }
}
