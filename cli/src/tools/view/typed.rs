//! What may be typed.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::parser::ValueSource;
use clap::{ArgAction, ArgMatches, Args, FromArgMatches};

use super::voice::Complaint;

/// Move data from files or standard input to standard output and show how it gets on, as pv does.
#[derive(Args, Debug, Clone)]
#[command(
    version = concat!(env!("CARGO_PKG_VERSION"), env!("FULLBORE_COMMIT")),
    args_override_self = true,
    infer_long_args = true,
    override_usage = "fullbore view [OPTIONS] [FILE]...\n       fullbore view -d PID[:FD]... [OPTIONS]\n       fullbore view -R PID [OPTIONS]",
    after_help = "Without switches for the display: -p -t -e -r -b. SIZE may have a fraction and K, M, G or T: 1.5G.\n\n\
        Examples:\n  \
        fullbore view big.iso > /dev/null\n  \
        tar cf - . | fullbore view -s @. | gzip > all.tar.gz\n  \
        fullbore view -q -L 10M big.iso | nc host 3000\n  \
        fullbore view -n --json big.iso 2> progress.jsonl > copy.iso\n  \
        fullbore view --explain big.iso | sha256sum"
)]
pub(super) struct Typed {
    /// Files to move, one after the other; `-` is standard input
    #[arg(value_name = "FILE")]
    pub(super) files: Vec<OsString>,

    /// Show the progress bar
    #[arg(short = 'p', long)]
    pub(super) progress: bool,
    /// Show the time since the start
    #[arg(short = 't', long)]
    pub(super) timer: bool,
    /// Show the time that is left, where the size is known
    #[arg(short = 'e', long)]
    pub(super) eta: bool,
    /// Show the local time at which it ends, where the size is known
    #[arg(short = 'I', long)]
    pub(super) fineta: bool,
    /// Show the rate of now
    #[arg(short = 'r', long)]
    pub(super) rate: bool,
    /// Show the average rate of the last 30 s (see -m)
    #[arg(short = 'a', long)]
    pub(super) average_rate: bool,
    /// Show how much was moved
    #[arg(short = 'b', long)]
    pub(super) bytes: bool,
    /// Show how full the transfer buffer is; implies -C
    #[arg(short = 'T', long)]
    pub(super) buffer_percent: bool,
    /// Show the last NUM bytes that were moved
    #[arg(short = 'A', long, value_name = "NUM")]
    pub(super) last_written: Option<String>,
    /// Show this instead: %p %t %e %I %r %a %b %T %16A %40L %N %{bar-block} %{sgr:green} …, as in pv's manual
    #[arg(short = 'F', long, value_name = "FORMAT")]
    pub(super) format: Option<String>,
    /// Write a line per update: the percentage; with -b the count, with -r the rate, with -t the seconds
    #[arg(short = 'n', long)]
    pub(super) numeric: bool,
    /// With -n, each line is a JSON object
    #[arg(long, requires = "numeric")]
    pub(super) json: bool,
    /// Show nothing
    #[arg(short = 'q', long)]
    pub(super) quiet: bool,
    /// Say on standard error at the end which route the bytes took, and why
    #[arg(long)]
    pub(super) explain: bool,

    /// Count bits
    #[arg(short = '8', long)]
    pub(super) bits: bool,
    /// Powers of 1000, also in the options behind this one
    #[arg(short = 'k', long)]
    pub(super) si: bool,
    /// Show nothing before the first byte, and count the time from there
    #[arg(short = 'W', long)]
    pub(super) wait: bool,
    /// Show nothing for so many seconds
    #[arg(short = 'D', long, value_name = "SEC")]
    pub(super) delay_start: Option<String>,
    /// Expect so much; @FILE: as much as that file or directory holds
    #[arg(short = 's', long, value_name = "SIZE")]
    pub(super) size: Option<OsString>,
    /// Without a size, the bar shows the rate against the highest one
    #[arg(short = 'g', long)]
    pub(super) gauge: bool,
    /// Count lines
    #[arg(short = 'l', long)]
    pub(super) line_mode: bool,
    /// Count lines that end with a null byte
    #[arg(short = '0', long)]
    pub(super) null: bool,
    /// Update every SEC seconds (0.1 to 600) [default: 1]
    #[arg(short = 'i', long, value_name = "SEC")]
    pub(super) interval: Option<String>,
    /// Average over so many seconds [default: 30]
    #[arg(short = 'm', long, value_name = "SEC")]
    pub(super) average_rate_window: Option<String>,
    /// Columns of the display [default: the terminal's, or 80]
    #[arg(short = 'w', long, value_name = "WIDTH")]
    pub(super) width: Option<String>,
    /// Rows of the terminal [default: the terminal's, or 25]
    #[arg(short = 'H', long, value_name = "HEIGHT")]
    pub(super) height: Option<String>,
    /// Put this name in front
    #[arg(short = 'N', long, value_name = "NAME")]
    pub(super) name: Option<String>,
    /// Style of the bar: plain, block, granular, shaded
    #[arg(short = 'u', long, value_name = "STYLE")]
    pub(super) bar_style: Option<String>,
    /// At the end, say the lowest, mean and highest rate, and the deviation
    #[arg(short = 'v', long)]
    pub(super) stats: bool,
    /// Show it also where standard error is not a terminal
    #[arg(short = 'f', long)]
    pub(super) force: bool,
    /// Keep to a line of one's own, for several in one pipeline
    #[arg(short = 'c', long)]
    pub(super) cursor: bool,

    /// Write into FILE instead of standard output
    #[arg(short = 'o', long, value_name = "FILE")]
    pub(super) output: Option<OsString>,
    /// Move at most so many bytes a second (with -l, lines)
    #[arg(short = 'L', long, value_name = "RATE")]
    pub(super) rate_limit: Option<String>,
    /// Read and write through a buffer of this size; implies -C
    #[arg(short = 'B', long, value_name = "BYTES")]
    pub(super) buffer_size: Option<String>,
    /// Read and write; never splice
    #[arg(short = 'C', long)]
    pub(super) no_splice: bool,
    /// Put null bytes where the input cannot be read, and go on; twice: say so once per file only
    #[arg(short = 'E', long, action = ArgAction::Count)]
    pub(super) skip_errors: u8,
    /// Skip errors by blocks of this size; implies -E
    #[arg(short = 'Z', long, value_name = "BYTES")]
    pub(super) error_skip_block: Option<String>,
    /// Stop after as much as -s says
    #[arg(short = 'S', long)]
    pub(super) stop_at_size: bool,
    /// Have everything written to the disk (fdatasync) after each step
    #[arg(short = 'Y', long)]
    pub(super) sync: bool,
    /// Throw the data away
    #[arg(short = 'X', long, conflicts_with = "output")]
    pub(super) discard: bool,

    /// Move nothing; show how far a process has come in its files, or in this one
    #[arg(short = 'd', long, value_name = "PID[:FD]")]
    pub(super) watchfd: Option<String>,
    /// Move nothing; change rate limit, size or display of a running `fullbore view`
    #[arg(short = 'R', long, value_name = "PID")]
    pub(super) remote: Option<String>,
    /// Keep the process ID in FILE while it runs
    #[arg(short = 'P', long, value_name = "FILE")]
    pub(super) pidfile: Option<PathBuf>,

    #[arg(short = 'K', long, hide = true)]
    pub(super) direct_io: bool,
    #[arg(short = 'O', long, alias = "sparse-output", hide = true)]
    pub(super) sparse: bool,
    #[arg(short = 'U', long, value_name = "FILE", hide = true)]
    pub(super) store_and_forward: Option<OsString>,
    #[arg(short = 'x', long, value_name = "SPEC", hide = true)]
    pub(super) extra_display: Option<OsString>,
    #[arg(short = 'Q', long, value_name = "PID", hide = true)]
    pub(super) query: Option<OsString>,
    #[arg(short = 'M', long, value_name = "SIDE", hide = true)]
    pub(super) monitor: Option<OsString>,
}

/// What was typed, and where `--si` stood: it concerns what stands behind it.
#[derive(Debug, Clone)]
pub struct ViewArgs {
    pub(super) typed: Typed,
    si_at: Option<usize>,
    at: Vec<(&'static str, usize)>,
}

const SIZES: [&str; 4] = ["size", "rate_limit", "buffer_size", "error_skip_block"];

impl FromArgMatches for ViewArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let place = |id: &str| {
            let typed = matches.value_source(id) == Some(ValueSource::CommandLine);
            typed.then(|| matches.indices_of(id)?.next_back()).flatten()
        };
        Ok(Self {
            typed: Typed::from_arg_matches(matches)?,
            si_at: matches
                .value_source("si")
                .filter(|s| *s == ValueSource::CommandLine)
                .and_then(|_| matches.indices_of("si")?.next()),
            at: SIZES
                .into_iter()
                .filter_map(|id| Some((id, place(id)?)))
                .collect(),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// The headings in the help, each with the first option below it.
const HEADINGS: [(&str, Option<&str>); 6] = [
    ("files", None),
    ("progress", Some("Display")),
    ("bits", Some("How it is shown")),
    ("output", Some("How it is moved")),
    ("watchfd", Some("Other jobs")),
    ("direct_io", None),
];

impl Args for ViewArgs {
    /// What is the same for all: a value may begin with a hyphen, as pv takes it.
    fn augment_args(command: clap::Command) -> clap::Command {
        let mut heading = None;
        Typed::augment_args(command).mut_args(|arg| {
            let begins = HEADINGS.iter().find(|(first, _)| arg.get_id() == *first);
            heading = begins.map_or(heading, |(_, heading)| *heading);
            let may_hyphen = heading.is_some() && arg.get_action().takes_values();
            arg.help_heading(heading).allow_hyphen_values(may_hyphen)
        })
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Typed::augment_args_for_update(command)
    }
}

impl ViewArgs {
    /// Whether powers of 1000 are meant by what was typed for this option.
    pub(super) fn is_decimal(&self, id: &str) -> bool {
        let place = self.at.iter().find(|(name, _)| *name == id);
        match (self.si_at, place) {
            (Some(si), Some((_, at))) => si < *at,
            _ => false,
        }
    }
}

impl Typed {
    /// What pv does and this does not, with what to use instead.
    pub(super) fn refuse_what_is_not_built(&self) -> Result<(), Complaint> {
        let refused: [(bool, &str, &str); 6] = [
            (
                self.direct_io,
                "-K",
                "O_DIRECT belongs to descriptors that other programs share; let dd iflag=direct read or write it",
            ),
            (
                self.sparse,
                "-O",
                "use cp --sparse=always, or dd conv=sparse",
            ),
            (
                self.store_and_forward.is_some(),
                "-U",
                "write into a file first, then view that",
            ),
            (
                self.extra_display.is_some(),
                "-x",
                "use -F with the text for the terminal",
            ),
            (
                self.query.is_some(),
                "-Q",
                "use -n --json in the instance itself, or -d with its process ID",
            ),
            (
                self.monitor.is_some(),
                "-M",
                "put one view before the command and one behind it",
            ),
        ];
        match refused.iter().find(|r| r.0) {
            Some((_, option, instead)) => Err(Complaint::usage(*option, "not built", *instead)),
            None => Ok(()),
        }
    }
}
