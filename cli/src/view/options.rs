//! What may be typed, and what it means.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::parser::ValueSource;
use clap::{ArgAction, ArgMatches, Args, FromArgMatches};

use super::amount::Unit;
use super::bar::Style;
use super::display::Switches;
use super::voice::Complaint;
use super::{input, number};

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
struct Typed {
    /// Files to move, one after the other; `-` is standard input
    #[arg(value_name = "FILE")]
    files: Vec<OsString>,

    /// Show the progress bar
    #[arg(short = 'p', long, help_heading = "Display")]
    progress: bool,
    /// Show the time since the start
    #[arg(short = 't', long, help_heading = "Display")]
    timer: bool,
    /// Show the time that is left, where the size is known
    #[arg(short = 'e', long, help_heading = "Display")]
    eta: bool,
    /// Show the local time at which it ends, where the size is known
    #[arg(short = 'I', long, help_heading = "Display")]
    fineta: bool,
    /// Show the rate of now
    #[arg(short = 'r', long, help_heading = "Display")]
    rate: bool,
    /// Show the average rate of the last 30 s (see -m)
    #[arg(short = 'a', long, help_heading = "Display")]
    average_rate: bool,
    /// Show how much was moved
    #[arg(short = 'b', long, help_heading = "Display")]
    bytes: bool,
    /// Show how full the transfer buffer is; implies -C
    #[arg(short = 'T', long, help_heading = "Display")]
    buffer_percent: bool,
    /// Show the last NUM bytes that were moved
    #[arg(short = 'A', long, value_name = "NUM", help_heading = "Display")]
    last_written: Option<String>,
    /// Show this instead: %p %t %e %I %r %a %b %T %16A %40L %N %{bar-block} %{sgr:green} …, as in pv's manual
    #[arg(
        short = 'F',
        long,
        value_name = "FORMAT",
        allow_hyphen_values = true,
        help_heading = "Display"
    )]
    format: Option<String>,
    /// Write a line per update: the percentage; with -b the count, with -r the rate, with -t the seconds
    #[arg(short = 'n', long, help_heading = "Display")]
    numeric: bool,
    /// With -n, each line is a JSON object
    #[arg(long, requires = "numeric", help_heading = "Display")]
    json: bool,
    /// Show nothing
    #[arg(short = 'q', long, help_heading = "Display")]
    quiet: bool,
    /// Say at the end on standard error which path the bytes took, and why
    #[arg(long, help_heading = "Display")]
    explain: bool,

    /// Count bits
    #[arg(short = '8', long, help_heading = "How it is shown")]
    bits: bool,
    /// Powers of 1000, also in the options behind this one
    #[arg(short = 'k', long, help_heading = "How it is shown")]
    si: bool,
    /// Show nothing before the first byte, and count the time from there
    #[arg(short = 'W', long, help_heading = "How it is shown")]
    wait: bool,
    /// Show nothing for so many seconds
    #[arg(
        short = 'D',
        long,
        value_name = "SEC",
        help_heading = "How it is shown"
    )]
    delay_start: Option<String>,
    /// Expect so much; @FILE: as much as that file or directory holds
    #[arg(
        short = 's',
        long,
        value_name = "SIZE",
        allow_hyphen_values = true,
        help_heading = "How it is shown"
    )]
    size: Option<OsString>,
    /// Without a size, the bar shows the rate against the highest one
    #[arg(short = 'g', long, help_heading = "How it is shown")]
    gauge: bool,
    /// Count lines
    #[arg(short = 'l', long, help_heading = "How it is shown")]
    line_mode: bool,
    /// Count lines that end with a null byte
    #[arg(short = '0', long, help_heading = "How it is shown")]
    null: bool,
    /// Update every SEC seconds (0.1 to 600) [default: 1]
    #[arg(
        short = 'i',
        long,
        value_name = "SEC",
        help_heading = "How it is shown"
    )]
    interval: Option<String>,
    /// Average over so many seconds [default: 30]
    #[arg(
        short = 'm',
        long,
        value_name = "SEC",
        help_heading = "How it is shown"
    )]
    average_rate_window: Option<String>,
    /// Columns of the display [default: the terminal's, or 80]
    #[arg(
        short = 'w',
        long,
        value_name = "WIDTH",
        help_heading = "How it is shown"
    )]
    width: Option<String>,
    /// Rows of the terminal [default: the terminal's, or 25]
    #[arg(
        short = 'H',
        long,
        value_name = "HEIGHT",
        help_heading = "How it is shown"
    )]
    height: Option<String>,
    /// Put this name in front
    #[arg(
        short = 'N',
        long,
        value_name = "NAME",
        allow_hyphen_values = true,
        help_heading = "How it is shown"
    )]
    name: Option<String>,
    /// Style of the bar: plain, block, granular, shaded
    #[arg(
        short = 'u',
        long,
        value_name = "STYLE",
        help_heading = "How it is shown"
    )]
    bar_style: Option<String>,
    /// At the end, say the lowest, mean and highest rate, and the deviation
    #[arg(short = 'v', long, help_heading = "How it is shown")]
    stats: bool,
    /// Show it also where standard error is not a terminal
    #[arg(short = 'f', long, help_heading = "How it is shown")]
    force: bool,
    /// Keep to a line of one's own, for several in one pipeline
    #[arg(short = 'c', long, help_heading = "How it is shown")]
    cursor: bool,

    /// Write into FILE instead of standard output
    #[arg(
        short = 'o',
        long,
        value_name = "FILE",
        help_heading = "How it is moved"
    )]
    output: Option<OsString>,
    /// Move at most so many bytes a second (with -l, lines)
    #[arg(
        short = 'L',
        long,
        value_name = "RATE",
        help_heading = "How it is moved"
    )]
    rate_limit: Option<String>,
    /// Read and write through a buffer of this size; implies -C
    #[arg(
        short = 'B',
        long,
        value_name = "BYTES",
        help_heading = "How it is moved"
    )]
    buffer_size: Option<String>,
    /// Read and write; never splice
    #[arg(short = 'C', long, help_heading = "How it is moved")]
    no_splice: bool,
    /// Put null bytes where the input cannot be read, and go on; twice: say so once per file only
    #[arg(short = 'E', long, action = ArgAction::Count, help_heading = "How it is moved")]
    skip_errors: u8,
    /// Skip errors by blocks of this size; implies -E
    #[arg(
        short = 'Z',
        long,
        value_name = "BYTES",
        help_heading = "How it is moved"
    )]
    error_skip_block: Option<String>,
    /// Stop after as much as -s says
    #[arg(short = 'S', long, help_heading = "How it is moved")]
    stop_at_size: bool,
    /// Have everything written to the disk (fdatasync) after each step
    #[arg(short = 'Y', long, help_heading = "How it is moved")]
    sync: bool,
    /// Throw the data away
    #[arg(
        short = 'X',
        long,
        conflicts_with = "output",
        help_heading = "How it is moved"
    )]
    discard: bool,

    /// Move nothing; show how far a process has come in its files, or in this one
    #[arg(
        short = 'd',
        long,
        value_name = "PID[:FD]",
        help_heading = "Other jobs"
    )]
    watchfd: Option<String>,
    /// Move nothing; change rate limit, size or display of a running `fullbore view`
    #[arg(short = 'R', long, value_name = "PID", help_heading = "Other jobs")]
    remote: Option<String>,
    /// Keep the process ID in FILE while it runs
    #[arg(short = 'P', long, value_name = "FILE", help_heading = "Other jobs")]
    pidfile: Option<PathBuf>,

    #[arg(short = 'K', long, hide = true)]
    direct_io: bool,
    #[arg(short = 'O', long, alias = "sparse-output", hide = true)]
    sparse: bool,
    #[arg(short = 'U', long, value_name = "FILE", hide = true)]
    store_and_forward: Option<OsString>,
    #[arg(short = 'x', long, value_name = "SPEC", hide = true)]
    extra_display: Option<OsString>,
    #[arg(short = 'Q', long, value_name = "PID", hide = true)]
    query: Option<OsString>,
    #[arg(short = 'M', long, value_name = "SIDE", hide = true)]
    monitor: Option<OsString>,
}

/// What was typed, and where `--si` stood: it concerns what stands behind it.
#[derive(Debug, Clone)]
pub struct ViewArgs {
    typed: Typed,
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

impl Args for ViewArgs {
    fn augment_args(command: clap::Command) -> clap::Command {
        Typed::augment_args(command)
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Typed::augment_args_for_update(command)
    }
}

/// What there is to do.
#[derive(Clone, Debug)]
pub enum Job {
    Move,
    Watch(Vec<String>),
    Remote(u32),
}

/// What the options mean.
#[derive(Clone, Debug)]
pub struct Options {
    pub job: Job,
    pub files: Vec<OsString>,
    pub output: Option<OsString>,
    pub discard: bool,

    /// Whether any switch asked for parts of the display.
    pub switched: bool,
    pub switches: Switches,
    pub format: Option<String>,
    pub numeric: bool,
    pub json: bool,
    pub quiet: bool,
    pub explain: bool,
    pub bits: bool,
    pub si: bool,
    pub gauge: bool,
    pub name: Option<String>,
    pub style: Style,
    pub stats: bool,
    pub force: bool,
    pub cursor: bool,
    pub wait: bool,
    pub delay_start: f64,
    pub interval: Option<f64>,
    pub window: u32,
    pub width: Option<usize>,
    pub height: Option<usize>,

    pub size: Option<u64>,
    /// What ends a line, where lines are counted.
    pub separator: Option<u8>,
    pub rate_limit: u64,
    pub buffer_size: usize,
    pub no_splice: bool,
    pub skip_errors: u8,
    pub error_skip_block: u64,
    pub stop_at_size: bool,
    pub sync: bool,
    pub pidfile: Option<PathBuf>,
}

/// Bytes of the transfer buffer that is read into and written from, unless `-B` says otherwise.
const BUFFER: usize = 400 << 10;
/// A larger one than this is surely a mistake, and could not be had.
const LARGEST_BUFFER: u64 = 1 << 40;

impl ViewArgs {
    /// What the options mean, or what is wrong with them.
    pub fn options(&self) -> Result<Options, Complaint> {
        let typed = self.typed.clone();
        typed.refuse_what_is_not_built()?;
        let size = match &typed.size {
            None => None,
            Some(text) => Some(self.expected_size(text)?),
        };
        let (rate_limit, buffer_size, error_skip_block) = (
            self.bytes("-L", "rate_limit", &typed.rate_limit)?,
            self.bytes("-B", "buffer_size", &typed.buffer_size)?,
            self.bytes("-Z", "error_skip_block", &typed.error_skip_block)?,
        );
        if buffer_size > LARGEST_BUFFER {
            return Err(Complaint::usage(
                "-B",
                "that is no buffer size",
                "use for example 1M",
            ));
        }
        let last_written = count("-A", &typed.last_written)?;
        let switches = Switches {
            progress: typed.progress,
            timer: typed.timer,
            eta: typed.eta,
            fineta: typed.fineta,
            rate: typed.rate,
            average_rate: typed.average_rate,
            bytes: typed.bytes || typed.bits,
            buffer_percent: typed.buffer_percent,
            last_written: last_written.unwrap_or(0) as usize,
        };
        let switched = switches != Switches::default() || typed.numeric || typed.quiet;
        let positive = |n: Option<u32>| n.filter(|&n| n > 0).map(|n| n.min(999_999) as usize);
        let options = Options {
            job: job(&typed)?,
            switches: if switched {
                switches
            } else {
                default_switches()
            },
            switched,
            format: typed.format,
            numeric: typed.numeric,
            json: typed.json,
            quiet: typed.quiet,
            explain: typed.explain,
            bits: typed.bits,
            si: typed.si,
            gauge: typed.gauge,
            name: typed.name,
            style: typed
                .bar_style
                .as_deref()
                .map_or(Style::Plain, Style::named),
            stats: typed.stats,
            force: typed.force,
            cursor: typed.cursor,
            wait: typed.wait,
            delay_start: seconds("-D", &typed.delay_start)?.unwrap_or(0.0),
            interval: seconds("-i", &typed.interval)?.map(|s| s.clamp(0.1, 600.0)),
            window: count("-m", &typed.average_rate_window)?.unwrap_or(30),
            width: positive(count("-w", &typed.width)?),
            height: positive(count("-H", &typed.height)?),
            size,
            separator: match (typed.line_mode, typed.null) {
                (_, true) => Some(0),
                (true, false) => Some(b'\n'),
                _ => None,
            },
            rate_limit,
            no_splice: typed.no_splice || buffer_size > 0 || typed.buffer_percent,
            buffer_size: if buffer_size == 0 {
                BUFFER
            } else {
                buffer_size as usize
            },
            skip_errors: typed.skip_errors.max(u8::from(error_skip_block > 0)),
            error_skip_block,
            stop_at_size: typed.stop_at_size,
            sync: typed.sync,
            pidfile: typed.pidfile,
            files: typed.files,
            output: typed.output.filter(|name| name != "-"),
            discard: typed.discard,
        };
        options.check()?;
        Ok(options)
    }

    fn is_decimal(&self, id: &str) -> bool {
        let place = self.at.iter().find(|(name, _)| *name == id);
        match (self.si_at, place) {
            (Some(si), Some((_, at))) => si < *at,
            _ => false,
        }
    }

    fn bytes(&self, option: &str, id: &str, text: &Option<String>) -> Result<u64, Complaint> {
        let Some(text) = text else { return Ok(0) };
        number::size(text, self.is_decimal(id)).ok_or_else(|| not_a_size(option, text))
    }

    fn expected_size(&self, text: &OsString) -> Result<u64, Complaint> {
        use std::os::unix::ffi::{OsStrExt, OsStringExt};
        if let Some(file) = text.as_bytes().strip_prefix(b"@") {
            return input::size_of(OsString::from_vec(file.to_vec()).as_ref());
        }
        let text = text.to_string_lossy();
        number::size(&text, self.is_decimal("size")).ok_or_else(|| not_a_size("-s", &text))
    }
}

impl Typed {
    fn refuse_what_is_not_built(&self) -> Result<(), Complaint> {
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

impl Options {
    fn check(&self) -> Result<(), Complaint> {
        match self.job {
            Job::Move => Ok(()),
            Job::Watch(_) => {
                let moves = self.separator.is_some()
                    || self.stop_at_size
                    || self.skip_errors > 0
                    || self.no_splice
                    || self.rate_limit > 0
                    || self.output.is_some()
                    || self.discard;
                if moves || self.cursor {
                    return Err(Complaint::usage(
                        "-d",
                        "cannot use line mode, cursor positioning or transfer modifier options when watching file descriptors",
                        "leave them out",
                    ));
                }
                Ok(())
            }
            Job::Remote(_) if !self.files.is_empty() => Err(Complaint::usage(
                "-R",
                "files cannot be specified with this option",
                "leave them out",
            )),
            Job::Remote(_) => Ok(()),
        }
    }

    pub fn unit(&self) -> Unit {
        match (self.separator, self.si) {
            (Some(_), _) => Unit::Lines,
            (None, true) => Unit::DecimalBytes,
            (None, false) => Unit::Bytes,
        }
    }
}

fn job(typed: &Typed) -> Result<Job, Complaint> {
    match (&typed.watchfd, &typed.remote) {
        (Some(_), Some(_)) => Err(Complaint::usage(
            "-R",
            "cannot use remote control when watching file descriptors",
            "leave one of them out",
        )),
        (Some(first), None) => {
            let others = typed.files.iter().map(|f| f.to_string_lossy().into_owned());
            Ok(Job::Watch(
                std::iter::once(first.clone()).chain(others).collect(),
            ))
        }
        (None, Some(_)) => Ok(Job::Remote(count("-R", &typed.remote)?.unwrap_or(0))),
        (None, None) => Ok(Job::Move),
    }
}

fn default_switches() -> Switches {
    Switches {
        progress: true,
        timer: true,
        eta: true,
        rate: true,
        bytes: true,
        ..Switches::default()
    }
}

fn not_a_size(option: &str, text: &str) -> Complaint {
    let what = format!("{option}: {text}");
    Complaint::usage(
        what,
        "numeric value not understood",
        "write for example 4096, 256K or 1.5G",
    )
}

fn count(option: &str, text: &Option<String>) -> Result<Option<u32>, Complaint> {
    let Some(text) = text else { return Ok(None) };
    let wrong = || {
        Complaint::usage(
            format!("{option}: {text}"),
            "integer argument expected",
            "use a whole number",
        )
    };
    number::count(text).map(Some).ok_or_else(wrong)
}

fn seconds(option: &str, text: &Option<String>) -> Result<Option<f64>, Complaint> {
    let Some(text) = text else { return Ok(None) };
    let wrong = || {
        Complaint::usage(
            format!("{option}: {text}"),
            "numeric argument expected",
            "use seconds, for example 0.5",
        )
    };
    number::seconds(text).map(Some).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Alone {
        #[command(flatten)]
        args: ViewArgs,
    }

    fn options(line: &str) -> Result<Options, Complaint> {
        let words = std::iter::once("pv").chain(line.split_whitespace());
        Alone::try_parse_from(words).unwrap().args.options()
    }

    #[test]
    fn without_switches_the_default_display_is_shown() {
        assert_eq!(options("").unwrap().switches, default_switches());
        assert_eq!(options("-f -L 1k").unwrap().switches, default_switches());
        let only = options("-t").unwrap().switches;
        assert!(only.timer && !only.bytes);
        assert!(options("-8").unwrap().switches.bytes);
    }

    #[test]
    fn si_concerns_what_stands_behind_it() {
        let o = options("-s 1k -k -L 1k").unwrap();
        assert_eq!((o.size, o.rate_limit), (Some(1024), 1000));
        assert_eq!(options("-kL1k").unwrap().rate_limit, 1000);
        assert_eq!(options("-L1k --si").unwrap().rate_limit, 1024);
    }

    #[test]
    fn options_may_be_abbreviated_joined_and_repeated() {
        let o = options("-ptebarfcW -N one -N two --inter 0.5 --rate-l 2M a - b").unwrap();
        assert!(o.switches.average_rate && o.cursor && o.wait && o.force);
        assert_eq!(
            (o.name.as_deref(), o.interval, o.rate_limit),
            (Some("two"), Some(0.5), 2 << 20)
        );
        assert_eq!(o.files, ["a", "-", "b"]);
        assert_eq!(options("-EE -i 0.01").unwrap().skip_errors, 2);
        assert_eq!(options("-i 0.01").unwrap().interval, Some(0.1));
        assert_eq!(options("-l").unwrap().separator, Some(b'\n'));
        assert_eq!(options("-0").unwrap().separator, Some(0));
    }

    #[test]
    fn what_is_not_built_or_contradicts_itself_is_refused_by_name() {
        for (line, name) in [
            ("-K", "-K"),
            ("-O", "-O"),
            ("-U x", "-U"),
            ("-x window", "-x"),
            ("-Q 1", "-Q"),
            ("-M in", "-M"),
            ("-s x", "-s: x"),
            ("-L -", "-L: -"),
            ("-w 1.5", "-w: 1.5"),
            ("-i x", "-i: x"),
            ("-R x", "-R: x"),
            ("-d 1 -L 1", "-d"),
            ("-d 1 -R 1", "-R"),
            ("-R 1 file", "-R"),
            ("-B 2T", "-B"),
        ] {
            let refused = options(line).unwrap_err();
            let text = super::super::voice::Voice::Fullbore.line(&refused);
            assert!(
                text.starts_with(&format!("fullbore: {name}: ")),
                "{line}: {text}"
            );
            assert!(text.contains("; "), "{text}");
        }
    }
}
