//! What was typed, and what it means.

use std::ffi::OsString;
use std::path::PathBuf;

use super::amount::Unit;
use super::bar::Style;
use super::display::Switches;
use super::input;
use super::number;
use super::typed::{Typed, ViewArgs};
use super::voice::Complaint;

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
            Some(text) => Some(self.expected_size(text)?).filter(|&size| size > 0), // as pv: 0 is unknown
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
            style: typed.bar_style.as_deref().map_or(Ok(Style::Plain), style)?,
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

fn style(name: &str) -> Result<Style, Complaint> {
    Style::named(name).ok_or_else(|| {
        Complaint::usage(
            format!("-u: {name}"),
            "no such style of bar",
            "use plain, block, granular or shaded",
        )
    })
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
            ("-u bogus", "-u: bogus"),
            ("-L -1", "-L: -1"),
            ("-B -1", "-B: -1"),
            ("-Z -1", "-Z: -1"),
            ("-i -1", "-i: -1"),
            ("-D -1", "-D: -1"),
            ("-w -1", "-w: -1"),
            ("-H -1", "-H: -1"),
            ("-A -1", "-A: -1"),
            ("-m -1", "-m: -1"),
            ("-R -1", "-R: -1"),
        ] {
            let refused = options(line).unwrap_err();
            let text = super::super::voice::ViewVoice::Fullbore.line(&refused);
            assert!(
                text.starts_with(&format!("fullbore: {name}: ")),
                "{line}: {text}"
            );
            assert!(text.contains("; "), "{text}");
        }
    }
}
