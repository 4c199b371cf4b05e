//! `fullbore report`: a page of saved runs to share, or one chart as a picture.

#[cfg(feature = "png")]
mod png;
mod reported;

use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use fullbore_lab::report::{self, Chart, Layout};
use fullbore_lab::saved::load::{Kind, Saved};
use fullbore_sys::Error;

#[cfg(feature = "png")]
use self::png::png;
use crate::output::failure::{Failure, Outcome, complain};
use crate::output::file::{self, STDOUT};

/// Make a page of saved runs, with charts, tables, and every command to repeat them; or one chart as a picture.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    fullbore report                                   the newest run of each kind, as report.html\n  \
    fullbore report ladder.json -o ladder.html\n  \
    fullbore report results/ -o machines.html         runs of many machines, grouped by kernel and CPU\n  \
    fullbore report last --chart ladder --svg ladder.svg\n  \
    fullbore report ladder.json --chart ladder --png - | file -")]
pub struct ReportArgs {
    /// Saved runs: files, their directories, folders of them, or last~1, the last but one of each kind [default: last]
    #[arg(value_name = "RUN")]
    runs: Vec<OsString>,
    /// Write the page into this file; - is standard output [default: report.html]
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["chart", "picture"])]
    out: Option<PathBuf>,
    /// Instead of a page, this chart of it, with --svg or --png
    #[arg(long, value_enum, value_name = "NAME", requires = "picture")]
    chart: Option<Picture>,
    /// Draw the chart as an SVG picture into this file; - is standard output. It follows the reader's choice of light or dark
    #[arg(long, value_name = "FILE", group = "picture", requires = "chart")]
    svg: Option<PathBuf>,
    /// Draw the chart as PNG into this file; - is standard output
    #[arg(long, value_name = "FILE", group = "picture", requires = "chart")]
    png: Option<PathBuf>,
    /// Draw the chart for a phone
    #[arg(long, requires = "chart")]
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
    if args.png.as_deref() == Some(Path::new(STDOUT)) && std::io::stdout().is_terminal() {
        return Err(Failure::Usage(Error::new(
            "--png -",
            "standard output is a terminal, which shows no PNG",
            "name a file",
        )));
    }
    let mut found = reported::find(&args.runs)?;
    found.sort_by_key(Saved::kind); // the ladder first, and then why
    let named = args
        .svg
        .as_ref()
        .or(args.png.as_ref())
        .or(args.out.as_ref());
    let output = named.map_or(Path::new("report.html"), PathBuf::as_path);
    match args.chart {
        None => file::write(output, report::page(&found))?,
        Some(picture) => {
            let layout = match args.narrow {
                true => Layout::Narrow,
                false => Layout::Wide,
            };
            let svg = the_chart(picture, &found)?.document(layout);
            match &args.png {
                Some(_) => file::write(output, png(&svg)?)?,
                None => file::write(output, svg)?,
            }
        }
    }
    if output != Path::new(STDOUT) {
        complain(&format!("written: {}", output.display()));
    }
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
