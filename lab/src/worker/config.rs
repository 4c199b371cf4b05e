//! What one pair of writer and reader does: the options of `fullbore write` and `fullbore read`, and of each rung.

use std::fmt;
use std::str::FromStr;

use fullbore_sys::pages::PageKind;
use fullbore_sys::size::Size;
use fullbore_sys::wait::Wait;
use fullbore_sys::write::fresh::PIECE;
use fullbore_sys::{Error, Result};
use serde::{Deserialize, Serialize};

use super::sizes::{BufSize, PipeSize};
use crate::saved::by_name;

/// How the writer writes: the write method.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum WriteWith {
    /// `write(2)`.
    #[default]
    Write,
    /// `vmsplice(2)` of two buffers in turn.
    Vmsplice,
    /// New data copied into a pool of memory that is lent by `vmsplice(2)`, and written again without asking who still holds
    /// it: sound for readers that copy, only. What `Cow` is compared with.
    Reuse,
    /// The library's `fresh`: new data copied into huge pages that are lent and abandoned.
    Fresh,
    /// The library's `fat`: new data copied into a socket and spliced from there.
    Fat,
    /// The library's `cow`: new data copied into huge pages that are lent, and written again once they are copy-on-write.
    Cow,
    /// The library's own choice among its ways for new data, `cow` included.
    Auto,
    /// The library's `Constant`: tee from a master pipe of fat slots.
    Tee,
    /// No pipe: a ring in shared memory. For the ladder only.
    SharedMemory,
}

/// How the reader reads: the read method.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ReadWith {
    /// `read(2)`.
    #[default]
    Read,
    /// `splice(2)` to /dev/null.
    Splice,
    /// Whole slots into a private pipe, dropped there.
    Relay,
    /// No pipe: a ring in shared memory. For the ladder only.
    SharedMemory,
}

impl WriteWith {
    /// Every way through a pipe, with its name.
    pub const ALL: [(Self, &str); 8] = [
        (Self::Write, "write"),
        (Self::Vmsplice, "vmsplice"),
        (Self::Reuse, "reuse"),
        (Self::Fresh, "fresh"),
        (Self::Fat, "fat"),
        (Self::Cow, "cow"),
        (Self::Auto, "auto"),
        (Self::Tee, "tee"),
    ];

    /// Whether no reader, whatever it does with the data, ever sees a byte change.
    pub fn is_sound(self) -> bool {
        !matches!(self, Self::Vmsplice | Self::Reuse)
    }

    /// Whether data is copied into memory, or a socket, from which it can be sent later.
    pub fn can_fill_ahead(self) -> bool {
        match self {
            Self::Reuse | Self::Fresh | Self::Fat | Self::Cow | Self::Auto => true,
            Self::Write | Self::Vmsplice | Self::Tee | Self::SharedMemory => false,
        }
    }
}

impl ReadWith {
    /// Every read method, with its name.
    pub const ALL: [(Self, &str); 3] = [
        (Self::Read, "read"),
        (Self::Splice, "splice"),
        (Self::Relay, "relay"),
    ];

    /// Whether the reader's CPU touches the data.
    pub fn touches_data(self) -> bool {
        !matches!(self, Self::Splice | Self::Relay)
    }
}

/// The text names no write method, or no read method.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownMethod {
    /// Which of the two.
    pub why: &'static str,
    /// The names that there are.
    pub what_to_do: String,
}

impl fmt::Display for UnknownMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.why, self.what_to_do)
    }
}

impl std::error::Error for UnknownMethod {}

macro_rules! named {
    ($type:ty, $what:literal) => {
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let name = Self::ALL.iter().find(|(way, _)| way == self);
                f.write_str(name.map_or("shared memory", |(_, name)| name))
            }
        }

        impl FromStr for $type {
            type Err = UnknownMethod;

            fn from_str(text: &str) -> std::result::Result<Self, UnknownMethod> {
                let found = Self::ALL.iter().find(|(_, name)| *name == text);
                found.map(|(way, _)| *way).ok_or_else(|| {
                    let names: Vec<_> = Self::ALL.iter().map(|(_, name)| *name).collect();
                    UnknownMethod {
                        why: concat!("unknown ", $what, " method"),
                        what_to_do: format!("use one of {}", names.join(", ")),
                    }
                })
            }
        }
    };
}

named!(WriteWith, "write");
named!(ReadWith, "read");

/// Bytes of the pool of `reuse`, and of every rung that lends a pool: the most that the library gives `cow`, which takes as many
/// where turns are dear and is refused where that is not enough.
pub const POOL: u64 = 64 << 20;

/// What one pair does. Each side obeys what concerns it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Write method.
    pub write_with: WriteWith,
    /// Read method.
    pub read_with: ReadWith,
    /// Kind of pages that buffers are made of.
    #[serde(with = "by_name")]
    pub pages: PageKind,
    /// How both sides wait.
    #[serde(with = "by_name")]
    pub wait: Wait,
    /// Bytes of one buffer.
    pub buf_size: BufSize,
    /// Bytes of the memory that new data is copied from; as many as one buffer has where that is more. The reader's buffer
    /// is not concerned.
    pub source: u64,
    /// Bytes that are filled before they are lent, with the ways that can. With 0 none are, but for `auto`, which finds by
    /// itself how many are best.
    pub ahead: u64,
    /// Bytes of the memory that `cow` and `reuse` lend, round and round. With 0 `cow` finds by itself how many are best, and
    /// `reuse` takes [`POOL`].
    pub pool: u64,
    /// Capacity of the pipe.
    pub pipe_size: PipeSize,
    /// `SPLICE_F_GIFT` and `SPLICE_F_MOVE`.
    pub gift: bool,
    /// `mlock` the buffers.
    pub lock_memory: bool,
    /// Do not fault the buffers in first.
    pub dont_touch_pages: bool,
    /// One buffer split in halves instead of two.
    pub same_buffer: bool,
    /// Fail unless every page of the buffers is huge.
    pub check_huge_page: bool,
    /// Send a known sequence, and check it.
    pub verify: bool,
}

impl Config {
    /// Finds contradictions, so that a wrong command line ends before anything is moved.
    ///
    /// # Errors
    /// Options that exclude each other, or sizes that cannot be.
    pub fn check(&self, page_size: usize) -> Result<()> {
        let wrong =
            |what: String, why: &str, what_to_do: &str| Err(Error::new(what, why, what_to_do));
        self.buf_size.check()?;
        self.pipe_size.check(self.lent())?;
        if let Some(lent) = self.lent() {
            lent.check_lent(page_size)?;
        }
        if self.ahead > 0 && !self.write_with.can_fill_ahead() {
            return wrong(
                format!("--ahead with {}", self.write_with),
                "only data that is copied into memory of the writer's own can wait there until it is sent",
                "use it with --write-with fresh, fat, cow, auto or reuse",
            );
        }
        if self.ahead > i64::MAX as u64 / 4 {
            return wrong(
                format!("--ahead {}", Size(self.ahead)),
                "larger than memory can be",
                "use for example --ahead 4M",
            );
        }
        if self.write_with == WriteWith::Reuse {
            self.fits_into_pool(self.capacity().unwrap_or(0))?;
        }
        if self.check_huge_page && self.dont_touch_pages {
            return wrong(
                "--check-huge-page with --dont-touch-pages".into(),
                "only pages that were touched can be proven to be huge",
                "leave out one of them",
            );
        }
        if self.check_huge_page && self.pages == PageKind::Small {
            return wrong(
                "--check-huge-page with --pages small".into(),
                "small pages are never huge",
                "use --pages huge",
            );
        }
        if self.verify && !self.read_with.touches_data() {
            return wrong(
                format!("--verify with --read-with {}", self.read_with),
                "only a reader that copies the bytes can check them",
                "use --read-with read",
            );
        }
        Ok(())
    }

    /// Bytes of the pool of `reuse`.
    pub fn pool_of_reuse(&self) -> u64 {
        if self.pool == 0 { POOL } else { self.pool }
    }

    /// Whether a piece of the pool of `reuse` has left a pipe of this capacity when it is written again: what is filled ahead,
    /// what is being filled, and what the pipe holds are different pieces.
    ///
    /// # Errors
    /// The pool is too small for that.
    pub fn fits_into_pool(&self, capacity: u64) -> Result<()> {
        let pool = self.pool_of_reuse();
        let needed = capacity.saturating_add(PIECE as u64);
        if needed.saturating_add(self.ahead) <= pool {
            return Ok(());
        }
        let what_to_do = match pool.checked_sub(needed) {
            Some(most) => format!("fill at most {} ahead (--ahead)", Size(most)),
            None => "use a smaller pipe (--pipe-size 1M)".to_owned(),
        };
        Err(Error::new(
            format!(
                "--ahead {} with reuse and a pipe of {}",
                Size(self.ahead),
                Size(capacity)
            ),
            format!(
                "memory is written again after {}, when it may still wait or be in the pipe",
                Size(pool)
            ),
            what_to_do,
        ))
    }

    /// The exact capacity in bytes that the pipe must be given, if any.
    pub fn capacity(&self) -> Option<u64> {
        self.pipe_size.exact(self.lent())
    }

    /// The buffer whose pages are lent to the pipe, where they are.
    fn lent(&self) -> Option<BufSize> {
        (self.write_with == WriteWith::Vmsplice).then_some(self.buf_size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn default_is_sound() {
        assert!(Config::default().check(4096).is_ok());
    }

    #[test]
    fn contradictions_are_found() {
        let vmsplice = Config {
            write_with: WriteWith::Vmsplice,
            ..Config::default()
        };
        let cases = [
            Config {
                pipe_size: PipeSize::Exactly(65536),
                ..vmsplice.clone()
            },
            Config {
                buf_size: BufSize(5001),
                ..vmsplice.clone()
            },
            Config {
                buf_size: BufSize(384 << 10),
                ..vmsplice.clone()
            },
            Config {
                buf_size: BufSize(0),
                ..Config::default()
            },
            Config {
                buf_size: BufSize(u64::MAX),
                ..Config::default()
            },
            Config {
                check_huge_page: true,
                ..Config::default()
            },
            Config {
                verify: true,
                read_with: ReadWith::Splice,
                ..Config::default()
            },
            Config {
                ahead: 1,
                ..Config::default()
            },
            Config {
                ahead: 4 << 20,
                ..vmsplice
            },
            Config {
                ahead: u64::MAX,
                write_with: WriteWith::Fresh,
                ..Config::default()
            },
            Config {
                pipe_size: PipeSize::Exactly(POOL),
                write_with: WriteWith::Reuse,
                ..Config::default()
            },
        ];
        for config in cases {
            assert!(config.check(4096).is_err(), "{config:?}");
        }
    }

    #[test]
    fn memory_is_used_again_only_after_it_was_lent_and_left_the_pipe() {
        let reuse = |ahead, capacity| Config {
            write_with: WriteWith::Reuse,
            pipe_size: PipeSize::Exactly(capacity),
            ahead,
            ..Config::default()
        };
        let (piece, capacity) = (PIECE as u64, 1 << 20);
        let most = POOL - piece - capacity;
        reuse(most, capacity).check(4096).unwrap();
        let why = reuse(most + 1, capacity).check(4096).unwrap_err();
        assert!(why.to_string().contains("at most 62MiB ahead"), "{why}");
        let why = reuse(0, POOL).check(4096).unwrap_err().to_string();
        assert!(why.contains("smaller pipe"), "{why}");
    }

    #[test]
    fn what_can_be_filled_ahead_may_be() {
        for (write_with, name) in WriteWith::ALL {
            let config = Config {
                write_with,
                ahead: 4 << 20,
                ..Config::default()
            };
            let may = ["reuse", "fresh", "fat", "cow", "auto"].contains(&name);
            assert_eq!(config.check(4096).is_ok(), may, "{name}");
        }
    }

    proptest! {
        #[test]
        fn a_vmsplice_capacity_is_what_the_kernel_grants(buf_size: u32, shift in 12u32..17) {
            let page = 1usize << shift;
            let config = Config { write_with: WriteWith::Vmsplice, buf_size: BufSize(buf_size.into()), ..Config::default() };
            if config.check(page).is_ok() {
                let capacity = config.capacity().unwrap();
                prop_assert!(capacity.is_power_of_two() && capacity >= page as u64);
            }
        }

        #[test]
        fn config_survives_json(buf_size: u64, ahead: u64, gift: bool, verify: bool, pipe: Option<u64>) {
            let pipe_size = pipe.map_or(PipeSize::Leave, PipeSize::Exactly);
            let config = Config { buf_size: BufSize(buf_size), ahead, gift, verify, pipe_size, pages: PageKind::Huge, wait: Wait::PollSpin, ..Config::default() };
            let text = serde_json::to_string(&config).unwrap();
            prop_assert_eq!(serde_json::from_str::<Config>(&text).unwrap(), config);
        }
    }
}
