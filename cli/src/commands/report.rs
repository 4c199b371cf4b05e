//! `fullbore report`: a page of saved runs to share, or one chart as a picture.

#[cfg(feature = "png")]
mod png;
mod reported;

use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use fullbore_lab::report::{self, Chart, Layout};
use fullbore_lab::saved::load::{Kind, Saved};
use fullbore_lab::sys::start;
use fullbore_sys::Error;

#[cfg(feature = "png")]
use self::png::png;
use crate::output::failure::{Failure, Outcome, complain, printed};
use crate::output::saved;

/// Make a page of saved runs, with charts, tables, and every command to repeat them; or one chart as a picture.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    fullbore report                                   the newest run of each kind, as report.html\n  \
    fullbore report ladder.json -o ladder.html\n  \
    fullbore report results/ -o machines.html         runs of many machines, grouped by kernel and CPU\n  \
    fullbore report last --svg ladder -o ladder.svg\n  \
    fullbore report ladder.json --png ladder -o - | file -")]
pub struct ReportArgs {
    /// Saved runs: files, their directories, folders of them, or last~1, the last but one of each kind [default: last]
    #[arg(value_name = "RUN")]
    runs: Vec<OsString>,
    /// Write into this file; - is standard output [default: report.html, or CHART.svg or CHART.png]
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// One chart as SVG; it follows the reader's choice of light or dark
    #[arg(long, value_enum, value_name = "CHART", conflicts_with = "png")]
    svg: Option<Picture>,
    /// One chart as PNG
    #[arg(long, value_enum, value_name = "CHART")]
    png: Option<Picture>,
    /// Draw the chart for a phone
    #[arg(long)]
    narrow: bool,
}

/// A chart that can be had by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Picture {
    /// GiB/s of each rung, with intervals
    Ladder,
    /// ns per page, by cause
    Causes,
    /// Buffer size and capacity
    Sweep,
    /// Ways to move bytes
    Bandwidth,
    /// Round trips
    Latency,
}

impl Picture {
    fn name(self) -> String {
        let value = self.to_possible_value();
        value.map_or_else(String::new, |v| v.get_name().to_owned())
    }

    /// The command that measures what it shows.
    fn kind(self) -> Kind {
        match self {
            Self::Ladder => Kind::Ladder,
            Self::Causes => Kind::Profile,
            Self::Sweep => Kind::Sweep,
            Self::Bandwidth | Self::Latency => Kind::Bandwidth,
        }
    }

    fn of(self, saved: &Saved) -> Option<Chart> {
        match (self, saved) {
            (Self::Ladder, Saved::Ladder(run)) => Some(report::ladder(run)),
            (Self::Causes, Saved::Profile(run)) => Some(report::causes(run)),
            (Self::Sweep, Saved::Sweep(run)) => Some(report::sweep(run)),
            (Self::Bandwidth, Saved::Bandwidth(run)) => Some(report::bandwidth(run)),
            (Self::Latency, Saved::Bandwidth(run)) => report::latency(run),
            _ => None,
        }
    }
}

pub fn run(args: &ReportArgs) -> Outcome {
    start::ignore_file_size_signal();
    if args.narrow && args.svg.is_none() && args.png.is_none() {
        return Err(Failure::Usage(Error::new(
            "--narrow",
            "a page has both forms and shows the one that fits",
            "use it with --svg or --png",
        )));
    }
    let (default, is_binary) = match (args.svg, args.png) {
        (Some(chart), _) => (format!("{}.svg", chart.name()), false),
        (_, Some(chart)) => (format!("{}.png", chart.name()), true),
        _ => ("report.html".to_owned(), false),
    };
    let output = args.out.clone().unwrap_or_else(|| default.into());
    let to_stdout = output == Path::new("-");
    if to_stdout && is_binary && std::io::stdout().is_terminal() {
        return Err(Failure::Usage(Error::new(
            "-o -",
            "standard output is a terminal, which shows no PNG",
            "name a file",
        )));
    }
    let mut found = reported::find(&args.runs)?;
    found.sort_by_key(Saved::kind); // the ladder first, and then why
    let bytes = match args.svg.or(args.png) {
        None => report::page(&found).into_bytes(),
        Some(picture) => {
            let layout = if args.narrow {
                Layout::Narrow
            } else {
                Layout::Wide
            };
            let svg = the_chart(picture, &found)?.document(layout);
            if is_binary {
                png(&svg)?
            } else {
                svg.into_bytes()
            }
        }
    };
    if to_stdout {
        let mut out = std::io::stdout().lock();
        return printed(out.write_all(&bytes).and_then(|()| out.flush()));
    }
    write(&output, &bytes)?;
    complain(&format!("written: {}", output.display()));
    Ok(())
}

#[cfg(not(feature = "png"))]
fn png(_: &str) -> fullbore_sys::Result<Vec<u8>> {
    Err(Error::new(
        "--png",
        "this fullbore was built without it",
        "use --svg, or build it with cargo install --path cli --features png",
    ))
}

/// The one chart of this kind.
fn the_chart(picture: Picture, runs: &[Saved]) -> Result<Chart, Failure> {
    let mut charts = runs.iter().filter_map(|saved| picture.of(saved));
    match (charts.next(), charts.next()) {
        (Some(chart), None) => Ok(chart),
        (None, _) => Err(Failure::Work(Error::new(
            format!("there is no chart {}", picture.name()),
            format!("none of these runs was made by fullbore {}", picture.kind()),
            format!(
                "run fullbore {}, or name a run of that kind",
                picture.kind()
            ),
        ))),
        (Some(_), Some(_)) => Err(Failure::Usage(Error::new(
            format!("the chart {}", picture.name()),
            "several of these runs have it",
            "name one run",
        ))),
    }
}

fn write(path: &Path, bytes: &[u8]) -> Outcome {
    saved::write(path, bytes).map_err(|e| {
        Failure::Work(Error::system(
            format!("{} cannot be written", path.display()),
            e,
            "name a file in a directory you may write with -o FILE",
        ))
    })
}
