//! Measures: every column once per round, in an order of its own each time.

use std::fs::File;
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;

use fullbore_sys::{Error, Result};

use super::buffer_size::{BufferSize, buffer_size};
use super::column::{Column, How};
use super::result::{BandwidthMethod, BandwidthRun, ColumnFigures, SCHEMA, TripFigures};
use super::summary::{TrialFigures, sum_up};
use super::year_2005;
use crate::ladder::{WARM_UP_S, rung, rung_trial};
use crate::machine::Machine;
use crate::machine::conditions::{Conditions, under_conditions};
use crate::rounds::by_state::{seen, state_warnings};
use crate::rounds::made::Made;
use crate::rounds::{Event, Measured, Measurement, RunOptions};
use crate::saved::head::Head;
use crate::worker::files;
use crate::worker::order::{Job, Order, Work};
use crate::worker::outcome::Report;
use crate::worker::pair;
use crate::worker::processes::{Processes, Task};
use crate::worker::side_report::SideReport;
use crate::worker::stream::{self, MESSAGE};
use crate::worker::timing::{Time, Until};

/// What to measure and how.
#[derive(Clone, Debug)]
pub struct BandwidthOptions {
    /// What every run is told.
    pub run: RunOptions,
    /// The columns.
    pub columns: Vec<Column>,
    /// Measured seconds of each trial.
    pub seconds: f64,
}

/// Measures. After each event `on_event` decides whether to go on; the run so far is returned either way.
///
/// # Errors
/// Nothing at all could be measured. A column whose trials fail does not keep the others from being measured.
pub fn measure(
    options: &BandwidthOptions,
    machine: Machine,
    on_event: impl FnMut(Event<'_, BandwidthRun>) -> ControlFlow<()>,
) -> Result<BandwidthRun> {
    let mut columns = Columns::new(options, machine);
    let cases = options.columns.len();
    crate::rounds::measure(&mut columns, cases, &options.run, on_event)
}

/// What the trials of a run have in common.
struct Columns<'a> {
    options: &'a BandwidthOptions,
    head: Head,
    size: BufferSize,
    /// The file that is read, or why there is none.
    source: Result<File>,
    /// The file that is written.
    target: Result<File>,
}

impl Measurement for Columns<'_> {
    type Figures = TrialFigures;
    type Run = BandwidthRun;
    const NOTHING: (&'static str, &'static str) = ("nothing could be measured", "run it again");

    fn trial(&mut self, case: usize) -> Result<(TrialFigures, Conditions)> {
        let column = &self.options.columns[case];
        let (one, other) = self.options.run.cpus;
        let cpus = match column.how {
            How::Alone(_) => (one, one),
            _ => (one, other),
        };
        under_conditions(cpus, || match column.how {
            How::Rung(id) => self.rung(id),
            _ => self.processes(column),
        })
    }

    fn run(&self, rounds_done: usize, measured: &[Measured<TrialFigures>]) -> BandwidthRun {
        let options = self.options;
        let conduits = options.columns.iter().all(|c| c.copies.is_some());
        let summary = sum_up(&options.columns, measured);
        let mut warnings: Vec<_> = self.size.doubt.iter().cloned().collect();
        warnings.extend(state_warnings(
            seen(measured),
            "figures of two processes would be better on near ones",
        ));
        BandwidthRun {
            head: self.head.clone(),
            method: BandwidthMethod {
                made: Made::new(&options.run, rounds_done, WARM_UP_S),
                seconds: options.seconds,
                message_bytes: MESSAGE as u64,
                memory_bytes: self.size.bytes,
                file_system: self.source.as_ref().ok().map(files::file_system),
            },
            prevailing: summary.prevailing,
            columns: summary.columns,
            latencies: summary.latencies,
            row_2005: (!conduits).then(year_2005::row),
            warnings,
        }
    }
}

impl<'a> Columns<'a> {
    fn new(options: &'a BandwidthOptions, machine: Machine) -> Self {
        use Work::{Copy, FileReread, MmapReread, Splice, Spread, Tee};
        let size = buffer_size(&machine);
        let needed_by = |is_one: fn(&Work) -> bool| {
            let all = options.columns.iter().filter_map(|c| match &c.how {
                How::Alone(work) | How::Between(_, work, _) => Some(work),
                How::Rung(_) => None,
            });
            match all.into_iter().any(is_one) {
                true => files::temporary(size.bytes),
                false => Err(Error::new("no file", "none of these columns needs one", "")),
            }
        };
        Self {
            options,
            head: Head::new(SCHEMA, options.run.label.clone(), machine),
            source: needed_by(|work| {
                matches!(
                    work,
                    FileReread | MmapReread | Splice | Copy | Tee(_) | Spread(_)
                )
            }),
            target: needed_by(|work| matches!(work, Splice | Copy)),
            size,
        }
    }

    /// A rung of the ladder.
    fn rung(&self, id: &str) -> Result<TrialFigures> {
        let rungs = rung::ladder();
        let rung = rungs.iter().find(|r| r.id == id);
        let rung = rung.ok_or_else(|| Error::new(id, "there is no such rung", ""))?;
        let until = Until::Seconds(self.options.seconds);
        let trial = rung_trial(rung, self.options.run.cpus, WARM_UP_S, until);
        let reports = pair::run(&self.options.run.program, &[trial])?;
        let sides = reports.iter().flat_map(|r| [&r.reader, &r.writer]);
        Ok(rates(&sides.collect::<Vec<_>>()))
    }

    /// Processes of our own.
    fn processes(&self, column: &Column) -> Result<TrialFigures> {
        let (one, other) = self.options.run.cpus;
        let task = |work, cpu, descriptors, measures: bool| Task {
            order: Order {
                job: Job::Column(work, self.size.bytes),
                cpu: Some(cpu),
                time: Time {
                    warm_up_s: WARM_UP_S,
                    until: measures.then_some(Until::Seconds(self.options.seconds)),
                },
            },
            descriptors,
        };
        // The one whose figures count comes first.
        let tasks = match column.how {
            How::Alone(work) => vec![task(work, one, self.alone(work)?, true)],
            How::Between(link, Work::Ping, pong) => {
                let [ours, theirs] = stream::both_ways(link)?;
                vec![
                    task(Work::Ping, one, ours.into(), true),
                    task(pong, other, theirs.into(), false),
                ]
            }
            How::Between(link, sends, receives) => {
                let (to, from) = stream::connect(link)?;
                let mut source = match sends {
                    Work::Send => Vec::new(),
                    _ => vec![duplicate(&self.source)?],
                };
                source.push(to);
                vec![
                    task(receives, other, vec![from], true),
                    task(sends, one, source, false),
                ]
            }
            How::Rung(_) => Vec::new(),
        };
        let reports = Processes::run(&self.options.run.program, tasks)?;
        if let Some(Report::RoundTrips(trips)) = reports.first() {
            return Ok(TrialFigures::Trips(TripFigures {
                median_us: trips.median_us,
                p99_us: trips.p99_us,
            }));
        }
        let sides = reports.iter().filter_map(Report::moved);
        Ok(rates(&sides.collect::<Vec<_>>()))
    }

    /// What work of one process needs.
    fn alone(&self, work: Work) -> Result<Vec<OwnedFd>> {
        Ok(match work {
            Work::FileReread | Work::MmapReread | Work::Tee(_) | Work::Spread(_) => {
                vec![duplicate(&self.source)?]
            }
            Work::Splice | Work::Copy => vec![duplicate(&self.source)?, duplicate(&self.target)?],
            _ => Vec::new(),
        })
    }
}

fn duplicate(file: &Result<File>) -> Result<OwnedFd> {
    match file {
        Ok(file) => file
            .try_clone()
            .map(OwnedFd::from)
            .map_err(|e| Error::system("no descriptors left", e, "close some files")),
        Err(e) => Err(e.clone()),
    }
}

/// The rate of the first, the CPU time of all.
fn rates(sides: &[&SideReport]) -> TrialFigures {
    let cpu = |side: &&SideReport| side.cpu_s / side.gib().max(1.0 / (1u64 << 30) as f64);
    TrialFigures::Rate(ColumnFigures {
        gib_per_s: sides.first().map_or(0.0, |side| side.gib_per_s()),
        cpu_s_per_gib: sides.iter().map(cpu).sum(),
    })
}
