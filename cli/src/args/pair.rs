//! The options of `write` and `read`, in our words and in those of the original pair, and what it means.

use clap::Args;
use fullbore_lab::worker::config::{Config, ReadWith, UnknownMethod, WriteWith};
use fullbore_lab::worker::sizes::{BufSize, PipeSize};
use fullbore_sys::pages::PageKind;
use fullbore_sys::wait::Wait;
use fullbore_sys::{Error, Result};

use super::values::{method, pages, read_method, seconds, size, wait, write_method};

/// The options of both `write` and `read`: one line can be given to both, each obeys what concerns it.
#[derive(Args, Debug)]
pub struct PairArgs {
    /// How data is written into the pipe [default: write]
    #[arg(long, alias = "write_with", value_parser = write_method(), value_name = "METHOD")]
    pub write_with: Option<WriteWith>,
    /// How data is read from the pipe [default: read]
    #[arg(long, alias = "read_with", value_parser = read_method(), value_name = "METHOD")]
    pub read_with: Option<ReadWith>,
    /// Short for --write-with of a writer, --read-with of a reader
    #[arg(long, value_parser = method(), value_name = "METHOD")]
    pub with: Option<String>,
    /// Kind of pages buffers are made of [default: small]
    #[arg(long, value_parser = pages(), value_name = "KIND")]
    pub pages: Option<PageKind>,
    /// How to wait [default: block]
    #[arg(long, value_parser = wait(), value_name = "HOW")]
    pub wait: Option<Wait>,
    /// Size of a buffer
    #[arg(long, alias = "buf_size", value_parser = size, default_value = "256K", value_name = "SIZE")]
    pub buf_size: u64,
    /// With reuse, fresh, fat, cow and auto: fill up to so many bytes while the pipe is full, before they can be sent
    /// [default: none; auto finds how many are best]
    #[arg(long, value_parser = size, default_value = "0", hide_default_value = true, value_name = "SIZE")]
    pub ahead: u64,
    /// Capacity of the pipe [default: as it comes; with vmsplice half the buffer]
    #[arg(long, alias = "pipe_size", value_parser = size, value_name = "SIZE")]
    pub pipe_size: Option<u64>,
    /// Stop after exactly so many bytes [default: a writer never, a reader after 10G]
    #[arg(long, value_parser = size, value_name = "SIZE")]
    pub bytes: Option<u64>,
    /// Stop after so many seconds
    #[arg(long, value_parser = seconds, allow_negative_numbers = true, value_name = "S")]
    pub seconds: Option<f64>,
    /// Run on this CPU only
    #[arg(long, value_name = "N")]
    pub cpu: Option<usize>,
    /// Pass SPLICE_F_GIFT to vmsplice, SPLICE_F_MOVE to splice
    #[arg(long)]
    pub gift: bool,
    /// Lock the buffers in memory
    #[arg(long, alias = "lock_memory")]
    pub lock_memory: bool,
    /// Do not fault the buffers in before the start
    #[arg(long, alias = "dont_touch_pages")]
    pub dont_touch_pages: bool,
    /// With vmsplice, two halves of one buffer instead of two buffers
    #[arg(long, alias = "same_buffer")]
    pub same_buffer: bool,
    /// Fail unless every page of the buffers is huge
    #[arg(long, alias = "check_huge_page")]
    pub check_huge_page: bool,
    /// Send a known sequence (each 8-byte word is its own offset), and check it
    #[arg(long)]
    pub verify: bool,
    /// Print the reader's result as one line of CSV
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
    /// Print the reader's result as one JSON document
    #[arg(long)]
    pub json: bool,
    /// Say on standard error what is done, and count the writer's page faults
    #[arg(long)]
    pub verbose: bool,

    #[arg(long = "write_with_vmsplice", hide = true)]
    write_with_vmsplice: bool,
    #[arg(long = "read_with_splice", hide = true)]
    read_with_splice: bool,
    #[arg(long = "huge_page", hide = true)]
    huge_page: bool,
    #[arg(long = "busy_loop", hide = true)]
    busy_loop: bool,
    #[arg(long, hide = true)]
    poll: bool,
    #[arg(long = "bytes_to_pipe", value_parser = size, hide = true)]
    bytes_to_pipe: Option<u64>,
}

/// Which side of the pair obeys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Writer,
    Reader,
}

impl PairArgs {
    /// What the options mean for this side.
    pub fn config(&self, side: Side) -> Result<Config> {
        let (mut write_with, mut read_with) = (self.write_with, self.read_with);
        if let Some(way) = &self.with {
            let given_twice = match side {
                Side::Writer => write_with.replace(named("--with", way)?).is_some(),
                Side::Reader => read_with.replace(named("--with", way)?).is_some(),
            };
            if given_twice {
                return Err(contradiction("--with", "the long form of the same option"));
            }
        }
        let config = Config {
            write_with: original(
                write_with,
                self.write_with_vmsplice,
                WriteWith::Vmsplice,
                ["--write-with", "--write_with_vmsplice"],
            )?,
            read_with: original(
                read_with,
                self.read_with_splice,
                ReadWith::Splice,
                ["--read-with", "--read_with_splice"],
            )?,
            pages: original(
                self.pages,
                self.huge_page,
                PageKind::Huge,
                ["--pages", "--huge_page"],
            )?,
            wait: original(
                self.wait,
                self.busy_loop || self.poll,
                match (self.busy_loop, self.poll) {
                    (true, true) => Wait::PollSpin,
                    (true, false) => Wait::Spin,
                    _ => Wait::Poll,
                },
                ["--wait", "--busy_loop or --poll"],
            )?,
            buf_size: BufSize(self.buf_size),
            source: 0,
            ahead: match side {
                Side::Writer => self.ahead,
                Side::Reader => 0, // it takes what is in the pipe
            },
            pool: 0,
            pipe_size: self.pipe_size.map_or(PipeSize::Leave, PipeSize::Exactly),
            gift: self.gift,
            lock_memory: self.lock_memory,
            dont_touch_pages: self.dont_touch_pages,
            same_buffer: self.same_buffer,
            check_huge_page: self.check_huge_page,
            verify: self.verify,
        };
        config.check(rustix::param::page_size())?;
        Ok(config)
    }

    /// Bytes that the reader is to expect, if any.
    pub fn expected(&self) -> Option<u64> {
        self.bytes.or(self.bytes_to_pipe)
    }

    /// Bytes after which this side stops, if any.
    pub fn limit(&self, side: Side) -> Result<Option<u64>> {
        let given = match (side, self.bytes, self.bytes_to_pipe) {
            (Side::Reader, Some(_), Some(_)) => {
                return Err(contradiction("--bytes", "--bytes_to_pipe"));
            }
            (Side::Reader, bytes, original) => bytes.or(original),
            (Side::Writer, bytes, _) => bytes,
        };
        let default = match side {
            Side::Reader if self.seconds.is_none() => Some(10 << 30),
            _ => None,
        };
        Ok(given.or(default))
    }
}

/// The value of an option that also has the original's name, as a flag without value.
fn original<T: Default + PartialEq>(
    value: Option<T>,
    flag: bool,
    means: T,
    names: [&str; 2],
) -> Result<T> {
    match (value, flag) {
        (Some(value), true) if value != means => Err(contradiction(names[0], names[1])),
        (_, true) => Ok(means),
        (value, false) => Ok(value.unwrap_or_default()),
    }
}

fn contradiction(one: &str, other: &str) -> Error {
    Error::new(
        format!("{one} with {other}"),
        "they contradict each other",
        "leave out one of them",
    )
}

fn named<T: std::str::FromStr<Err = UnknownMethod>>(option: &str, text: &str) -> Result<T> {
    let unknown = |e: UnknownMethod| Error::new(format!("{option} {text}"), e.why, e.what_to_do);
    text.parse().map_err(unknown)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command};
    use clap::Parser;

    fn pair(line: &str, side: Side) -> Result<Config> {
        let name = match side {
            Side::Writer => "write",
            Side::Reader => "read",
        };
        let line = format!("fullbore {name} {line}");
        match Cli::try_parse_from(line.split_whitespace())
            .unwrap()
            .command
        {
            Command::Write(args) | Command::Read(args) => args.config(side),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn original_names_mean_the_same() {
        let ours = "--write-with vmsplice --read-with splice --pages huge --wait poll-spin";
        let original = "--write_with_vmsplice --read_with_splice --huge_page --busy_loop --poll";
        for side in [Side::Writer, Side::Reader] {
            assert_eq!(pair(ours, side).unwrap(), pair(original, side).unwrap());
            // Both names at once agree with each other.
            pair(&format!("{ours} {original}"), side).unwrap();
        }
    }

    #[test]
    fn with_is_short_for_ones_own_side() {
        assert_eq!(
            pair("--with vmsplice", Side::Writer).unwrap().write_with,
            WriteWith::Vmsplice
        );
        assert_eq!(
            pair("--with splice", Side::Reader).unwrap().read_with,
            ReadWith::Splice
        );
        assert!(pair("--with splice", Side::Writer).is_err());
        assert!(pair("--with vmsplice --write-with write", Side::Writer).is_err());
    }
}
