//! `fullbore read`: the reading side of the pair, by hand, and its result in three forms.

use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fullbore_lab::sys;
use fullbore_lab::worker::config::{Config, ReadWith, WriteWith};
use fullbore_lab::worker::read_result::{ReadResult, SCHEMA};
use fullbore_lab::worker::reader::Reader;
use fullbore_lab::worker::side::{Counters, Path, Watch};
use fullbore_sys::Error;
use fullbore_sys::pages::PageKind;
use fullbore_sys::size::Size;
use fullbore_sys::wait::Wait;

use super::pair_output::{Deadline, describe, end_when_stuck};
use crate::args::pair::{PairArgs, Side};
use crate::output::failure::{Failure, Outcome, must_be_open, print_result};

pub fn run(args: &PairArgs) -> Outcome {
    must_be_open(0)?;
    must_be_open(1)?;
    let config = args.config(Side::Reader).map_err(Failure::Usage)?;
    let limit = args.limit(Side::Reader).map_err(Failure::Usage)?;
    if let Some(cpu) = args.cpu {
        sys::pin_to_cpu(cpu).map_err(Failure::Usage)?;
    }
    let stdin = rustix::stdio::stdin();
    let mut reader = Reader::prepare(&config, stdin, None)?;
    if args.verbose {
        describe("read", &config, &reader.path());
    }
    let report = Report {
        form: match (args.json, args.csv) {
            (true, _) => Form::Json,
            (_, true) => Form::Csv,
            _ => Form::Human,
        },
        config,
        path: reader.path(),
    };
    let shared = Arc::new(Mutex::new(Progress::new()));
    if let Some(seconds) = args.seconds {
        let (shared, report) = (shared.clone(), report.clone());
        end_when_stuck(seconds, move || match shared.lock() {
            Ok(progress) => {
                let outcome = report.print(&progress);
                std::mem::forget(progress);
                outcome.map_or_else(Failure::report, |()| ExitCode::SUCCESS)
            }
            Err(_) => ExitCode::FAILURE,
        })?;
    }
    let mut timing = Timing {
        progress: Progress::new(),
        shared: &shared,
        deadline: args.seconds.map(Deadline::new),
    };
    let counters = reader.run(limit, &mut timing)?;
    timing.progress.counters = counters;
    let progress = timing.progress;
    // Never given back: whoever takes it reports, and the process ends.
    std::mem::forget(shared.lock());
    report.print(&progress)?;
    match args.expected() {
        // Where time is limited, either side's may be over.
        Some(expected) if counters.bytes < expected && args.seconds.is_none() => {
            Err(Failure::Work(Error::new(
                format!("{} of {expected} bytes arrived", counters.bytes),
                "the data ended there",
                "see what the writer has said, or expect less with --bytes",
            )))
        }
        _ => Ok(()),
    }
}

/// How the result is printed.
#[derive(Clone, Copy)]
enum Form {
    Human,
    Csv,
    Json,
}

#[derive(Clone)]
struct Report {
    form: Form,
    config: Config,
    path: Path,
}

impl Report {
    fn print(&self, progress: &Progress) -> Outcome {
        let counters = progress.counters;
        let (seconds, gib_per_s) = progress.rate();
        let capacity = fullbore_sys::capacity::get(rustix::stdio::stdin());
        let result = ReadResult {
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION"),
            gib_per_s,
            bytes: counters.bytes,
            seconds,
            calls: counters.calls,
            eagain: counters.would_block,
            cpu_s: sys::usage().cpu.as_secs_f64(),
            path: Path {
                // The writer may have set it after we started.
                capacity: capacity.ok().map(|c| c as u64),
                ..self.path.clone()
            },
        };
        let text = match self.form {
            Form::Json => serde_json::to_string(&result).unwrap_or_default(),
            Form::Csv => csv_line(&self.config, &result),
            Form::Human => human_line(&self.config, &result),
        };
        print_result(&format!("{text}\n"))
    }
}

/// What has been read so far, and since when. The clock runs from the moment when the first bytes have arrived, so that
/// the writer's start-up does not count.
#[derive(Clone, Copy)]
struct Progress {
    start: Instant,
    first: Option<(Instant, u64)>,
    counters: Counters,
}

impl Progress {
    fn new() -> Self {
        Self {
            start: Instant::now(),
            first: None,
            counters: Counters::default(),
        }
    }

    /// Seconds measured and GiB/s within them. With a single call there is nothing but its own time, waiting included.
    fn rate(&self) -> (f64, f64) {
        let bytes = self.counters.bytes;
        let (start, before) = match self.first {
            Some((start, before)) if bytes > before => (start, before),
            _ => (self.start, 0),
        };
        let seconds = start.elapsed().max(Duration::from_nanos(1)).as_secs_f64();
        let gib = (bytes - before) as f64 / (1u64 << 30) as f64;
        (seconds, gib / seconds)
    }
}

struct Timing<'a> {
    progress: Progress,
    /// For [`end_when_stuck`]; kept up to date only where there is a deadline.
    shared: &'a Mutex<Progress>,
    deadline: Option<Deadline>,
}

impl Watch for Timing<'_> {
    fn go_on(&mut self, counters: &Counters) -> bool {
        if self.progress.first.is_none() && counters.bytes > 0 {
            self.progress.first = Some((Instant::now(), counters.bytes));
        }
        let Some(deadline) = &mut self.deadline else {
            return true;
        };
        self.progress.counters = *counters;
        if let Ok(mut shared) = self.shared.lock() {
            *shared = self.progress;
        }
        !deadline.is_over(counters, Instant::now)
    }
}

/// `62.5GiB/s, 256KiB buffer, 40960 iterations (10GiB piped)`; an iteration is a call that moved bytes.
fn human_line(config: &Config, result: &ReadResult) -> String {
    format!(
        "{:.1}GiB/s, {} buffer, {} iterations ({} piped)",
        result.gib_per_s,
        config.buf_size,
        result.calls - result.eagain,
        Size(result.bytes),
    )
}

/// The original's 14 fields; the first, which it calls gigabytes per second, is GiB/s there too.
fn csv_line(config: &Config, result: &ReadResult) -> String {
    let flags = [
        matches!(config.wait, Wait::Spin | Wait::PollSpin),
        matches!(config.wait, Wait::Poll | Wait::PollSpin),
        config.pages != PageKind::Small,
        config.check_huge_page,
        config.write_with == WriteWith::Vmsplice,
        config.read_with == ReadWith::Splice,
        config.gift,
        config.lock_memory,
        config.dont_touch_pages,
        config.same_buffer,
    ];
    let flags: Vec<_> = flags.map(|f| u8::from(f).to_string()).into();
    format!(
        "{:.6},{},{},{},{}",
        result.gib_per_s,
        result.bytes,
        config.buf_size.0,
        result.path.capacity.unwrap_or(0),
        flags.join(",")
    )
}
