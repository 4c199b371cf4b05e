//! What may be typed.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::{Args, Parser, Subcommand, ValueEnum};
use fullbore::pages::PageKind;
use fullbore::size::Size;
use fullbore::wait::Wait;
use fullbore::{Error, Result};
use fullbore_lab::config::{Config, PipeSize, ReadWith, WriteWith};

use crate::session::RunArgs;

/// Measures how fast Linux pipes are on this machine, and moves bytes through them at full bore.
#[derive(Parser, Debug)]
#[command(
    name = "fullbore",
    version = concat!(env!("CARGO_PKG_VERSION"), env!("FULLBORE_COMMIT")),
    disable_help_subcommand = true,
    after_help = "Examples:\n  \
        fullbore                                  climb the ladder on this machine\n  \
        fullbore write | fullbore read            the pair by hand\n  \
        fullbore ladder --json > ladder.json      the ladder as data"
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand, Debug)]
pub enum Command {
    Ladder(LadderArgs),
    Profile(crate::profile::ProfileArgs),
    Sweep(crate::sweep::SweepArgs),
    Bandwidth(crate::bandwidth::BandwidthArgs),
    Report(crate::report::ReportArgs),
    Compare(crate::compare::CompareArgs),
    /// Write into standard output until the reader goes away, or for a given number of bytes or seconds.
    #[command(after_help = "Examples:\n  \
        fullbore write | fullbore read\n  \
        fullbore write --with vmsplice --pages huge --wait spin | fullbore read --with splice --wait spin\n  \
        fullbore write --bytes 1G --verify | fullbore read --verify")]
    Write(PairArgs),
    /// Read standard input to its end, or for a given number of bytes or seconds, and say how fast that was.
    #[command(after_help = "Examples:\n  \
        fullbore write | fullbore read\n  \
        fullbore write | fullbore read --seconds 2 --json\n  \
        fullbore write --with vmsplice | fullbore read --with splice --bytes 100G")]
    Read(PairArgs),
    Doctor(crate::doctor::DoctorArgs),
    Ring(crate::ring::RingArgs),
    Walk(crate::walk::WalkArgs),
    Gup(crate::gup::GupArgs),
    #[command(alias = "pv")]
    View(Box<crate::view::ViewArgs>),
    Cat(crate::cat::CatArgs),
    Tee(crate::tee::TeeArgs),
    Yes(crate::yes::YesArgs),
    Fizzbuzz(crate::fizzbuzz::FizzbuzzArgs),
    /// One side of a trial; started by the ladder, which speaks to it through a socket.
    #[command(hide = true)]
    PairSide,
    /// A process of a trial of `bandwidth`, which speaks to it through its standard input.
    #[command(hide = true)]
    BandwidthSide,
}

/// Climb the ladder from write/read to the limit on this machine: a table with bars, and a saved run.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    fullbore ladder\n  \
    fullbore ladder --rungs write-read,busy-loop --rounds 15\n  \
    fullbore ladder --json --no-save > ladder.json")]
pub struct LadderArgs {
    /// Only these rungs, by id, separated by commas
    #[arg(long, value_delimiter = ',', value_name = "ID,ID")]
    pub rungs: Vec<String>,
    /// Rounds; each runs every rung once, in an order of its own
    #[arg(long, default_value_t = 9, allow_negative_numbers = true, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub rounds: u32,
    /// Seconds of each trial [default: as many as fit in 45 s altogether]
    #[arg(long, value_parser = trial_seconds, allow_negative_numbers = true, value_name = "S", conflicts_with = "bytes")]
    pub seconds: Option<f64>,
    /// Bytes of each trial, instead of seconds
    #[arg(long, value_parser = positive_size, value_name = "SIZE")]
    pub bytes: Option<u64>,
    /// CPUs of writer and reader [default: two that share a cache]
    #[arg(long, value_parser = two_cpus, value_name = "W,R")]
    pub cpus: Option<(usize, usize)>,
    /// Also run N pairs at once, on CPUs of their own, and show how that scales
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=512), conflicts_with = "cpus")]
    pub pairs: Option<u16>,
    /// Say what each rung changes, and why that helps, and measure nothing
    #[arg(long, conflicts_with = "json")]
    pub explain: bool,
    /// Print one JSON document instead of the table
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub run: RunArgs,
    /// Colours in the table
    #[arg(long, value_enum, default_value_t, value_name = "WHEN")]
    pub color: Color,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    Always,
    Never,
}

/// The options of both `write` and `read`: one line can be given to both, each obeys what concerns it.
#[derive(Args, Debug)]
pub struct PairArgs {
    /// Way into the pipe: write, vmsplice, fresh, fat, tee
    #[arg(long, alias = "write_with", value_name = "WAY")]
    pub write_with: Option<WriteWith>,
    /// Way out of the pipe: read, splice, relay
    #[arg(long, alias = "read_with", value_name = "WAY")]
    pub read_with: Option<ReadWith>,
    /// Short for --write-with of a writer, --read-with of a reader
    #[arg(long, value_name = "WAY")]
    pub with: Option<String>,
    /// Kind of pages buffers are made of: small, huge (transparent), hugetlb (reserved)
    #[arg(long, value_name = "KIND")]
    pub pages: Option<PageKind>,
    /// How to wait: block, poll, spin, poll-spin, adaptive [default: block]
    #[arg(long, value_name = "HOW")]
    pub wait: Option<Wait>,
    /// Size of a buffer
    #[arg(long, alias = "buf_size", value_parser = size, default_value = "256K", value_name = "SIZE")]
    pub buf_size: u64,
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
            buf_size: self.buf_size,
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

fn named<T: std::str::FromStr<Err = String>>(option: &str, text: &str) -> Result<T> {
    text.parse().map_err(|why: String| {
        let (why, what_to_do) = why.split_once("; ").unwrap_or((&why, ""));
        Error::new(format!("{option} {text}"), why, what_to_do)
    })
}

pub fn size(text: &str) -> std::result::Result<u64, fullbore::size::ParseSizeError> {
    text.parse::<Size>().map(|s| s.0)
}

fn positive_size(text: &str) -> std::result::Result<u64, String> {
    match size(text) {
        Ok(0) => Err("nothing would be moved; use for example 1G".into()),
        other => other.map_err(|e| e.to_string()),
    }
}

fn seconds(text: &str) -> std::result::Result<f64, &'static str> {
    text.parse()
        .ok()
        .filter(|s: &f64| s.is_finite() && *s > 0.0 && *s <= 86_400.0)
        .ok_or("not a time; use seconds between 0 and 86400, for example 0.5")
}

/// A trial must be long enough for both sides to see its beginning and its end.
pub fn trial_seconds(text: &str) -> std::result::Result<f64, &'static str> {
    match seconds(text) {
        Ok(s) if s < 0.01 => Err("too short for a trial; use at least 0.01"),
        other => other,
    }
}

pub fn two_cpus(text: &str) -> std::result::Result<(usize, usize), &'static str> {
    let wrong = "not two CPUs; write for example 0,1";
    let (writer, reader) = text.split_once(',').ok_or(wrong)?;
    let number = |text: &str| text.trim().parse().map_err(|_| wrong);
    Ok((number(writer)?, number(reader)?))
}

/// Names under which the binary is a command of its own.
const LINKS: [&str; 7] = ["write", "read", "pv", "cat", "tee", "yes", "fizzbuzz"];

/// The name of the link through which the binary was called, if it is one of a command.
pub fn link_of(name: &OsStr) -> Option<&'static str> {
    let name = Path::new(name).file_name()?.to_str()?;
    LINKS.into_iter().find(|link| *link == name)
}

/// Puts the command in where a link's name or nothing at all stands for it.
pub fn with_command(mut args: Vec<OsString>) -> Vec<OsString> {
    let link = args.first().and_then(|name| link_of(name));
    let is_for_ladder = |arg: &OsString| {
        let help = ["-h", "--help", "-V", "--version"];
        arg.to_str()
            .is_some_and(|a| a.starts_with('-') && !help.contains(&a))
    };
    let command = link.or_else(|| args.get(1).is_none_or(is_for_ladder).then_some("ladder"));
    if let Some(command) = command {
        args.insert(args.len().min(1), command.into());
    }
    args
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(line: &str) -> Vec<String> {
        let args = line.split(' ').map(OsString::from).collect();
        with_command(args)
            .into_iter()
            .map(|a| a.into_string().unwrap())
            .collect()
    }

    #[test]
    fn link_names_and_nothing_stand_for_commands() {
        assert_eq!(typed("fullbore"), ["fullbore", "ladder"]);
        assert_eq!(typed("fullbore --json"), ["fullbore", "ladder", "--json"]);
        assert_eq!(typed("fullbore --version"), ["fullbore", "--version"]);
        assert_eq!(typed("fullbore read"), ["fullbore", "read"]);
        assert_eq!(typed("./write --csv"), ["./write", "write", "--csv"]);
        assert_eq!(typed("/tmp/read"), ["/tmp/read", "read"]);
    }

    #[test]
    fn definitions_are_consistent() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }

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
