//! Measures: every column once per round, in an order of its own each time.

use std::ffi::OsStr;
use std::fs::File;
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use fullbore_sys::{Error, Result};

use super::MESSAGE;
use super::column::{Column, How};
use super::result::{LatencySample, Method, Run, SCHEMA, Sample};
use super::summary::{self, Measured};
use super::year_2005;
use crate::ladder;
use crate::ladder::run::{LineTravel, State};
use crate::ladder::rung;
use crate::machine::travel::line_travel_ns;
use crate::machine::{self, Machine};
use crate::rounds::plan;
use crate::saved::head::Head;
use crate::worker::crew::{self, Member};
use crate::worker::failure::because_of;
use crate::worker::files;
use crate::worker::memory_loops;
use crate::worker::pair::{self, Trial};
use crate::worker::stream;
use crate::worker::timing::{Report, Time};
use crate::worker::trial::Until;
use crate::worker::work::{Job, Order};

/// A column whose trials failed so often is not tried again.
const FAILURES_ALLOWED: usize = 2;

/// What to measure and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// The columns.
    pub columns: Vec<Column>,
    /// Rounds.
    pub rounds: usize,
    /// Measured seconds of each trial.
    pub seconds: f64,
    /// CPU of the sender or of what works alone, and CPU of the receiver.
    pub cpus: (usize, usize),
    /// Seed of the order of trials.
    pub seed: u64,
    /// What the owner wants to say about the machine.
    pub label: Option<String>,
    /// The program whose processes work.
    pub program: PathBuf,
    /// Its argument for [`super::serve`].
    pub side: &'static str,
    /// Its argument for [`crate::worker::trial::serve`].
    pub pair_side: &'static str,
}

/// What happens on the way.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// A trial begins.
    Trial {
        /// Number of trials finished so far.
        done: usize,
        /// The column.
        column: &'a Column,
    },
    /// A round is finished; the run holds all that was measured so far.
    Round(&'a Run),
}

/// Measures. After each event `on_event` decides whether to go on; the run so far is returned either way.
///
/// # Errors
/// Nothing at all could be measured. A column whose trials fail does not keep the others from being measured.
pub fn measure(
    options: &Options,
    machine: Machine,
    mut on_event: impl FnMut(Event<'_>) -> ControlFlow<()>,
) -> Result<Run> {
    let columns = &options.columns;
    let size = memory_loops::buffer_size(&machine);
    let site = Site::new(options, size.bytes);
    let conduits = columns.iter().all(|c| c.copies.is_some());
    let mut run = Run {
        head: Head::new(SCHEMA, options.label.clone(), machine),
        method: Method {
            cpus: [options.cpus.0, options.cpus.1],
            rounds: options.rounds,
            rounds_done: 0,
            seconds: options.seconds,
            warm_up_s: ladder::WARM_UP_S,
            seed: options.seed,
            message_bytes: MESSAGE as u64,
            memory_bytes: size.bytes,
            file_system: site.source.as_ref().ok().map(files::file_system),
        },
        columns: Vec::new(),
        latencies: Vec::new(),
        row_2005: (!conduits).then(year_2005::row),
        warnings: Vec::new(),
    };
    let mut measured = vec![Measured::default(); columns.len()];
    let sum_up = |run: &mut Run, measured: &[Measured]| {
        run.columns = summary::rates(columns, measured);
        run.latencies = summary::latencies(columns, measured);
        run.warnings = size.doubt.iter().cloned().collect();
        run.warnings.extend(summary::warnings(measured));
    };
    let mut done = 0;
    let plan = plan::rounds(columns.len(), options.rounds, options.seed);
    'measure: for (round, order) in plan.into_iter().enumerate() {
        for i in order {
            if measured[i].failures.len() >= FAILURES_ALLOWED {
                continue;
            }
            let event = Event::Trial {
                done,
                column: &columns[i],
            };
            if on_event(event).is_break() {
                break 'measure;
            }
            match site.trial(&columns[i], round) {
                Ok(Figures::Rate(sample)) => measured[i].rates.push(sample),
                Ok(Figures::Trips(sample)) => measured[i].trips.push(sample),
                // Ctrl-C reaches the processes of a trial, too; then its failure is no news.
                Err(_) if on_event(event).is_break() => break 'measure,
                Err(e) => measured[i].failures.push(e),
            }
            done += 1;
        }
        run.method.rounds_done = round + 1;
        sum_up(&mut run, &measured);
        if on_event(Event::Round(&run)).is_break() {
            break;
        }
    }
    let nothing = |m: &Measured| m.rates.is_empty() && m.trips.is_empty();
    if let Some(e) = measured.iter().find_map(|m| m.failures.last())
        && measured.iter().all(nothing)
    {
        let what = "nothing could be measured";
        return Err(because_of(what, e, "run it again"));
    }
    sum_up(&mut run, &measured);
    Ok(run)
}

/// What one trial gave.
enum Figures {
    Rate(Sample),
    Trips(LatencySample),
}

/// What the trials of a run have in common.
struct Site<'a> {
    options: &'a Options,
    bytes: u64,
    /// The file that is read, or why there is none.
    source: Result<File>,
    /// The file that is written.
    target: Result<File>,
}

impl<'a> Site<'a> {
    fn new(options: &'a Options, bytes: u64) -> Self {
        use Job::{Copy, FileReread, MmapReread, Splice, Spread, Tee};
        let needed_by = |is_one: fn(&Job) -> bool| {
            let jobs = options.columns.iter().filter_map(|c| match &c.how {
                How::Alone(job) | How::Between(_, job, _) => Some(job),
                How::Rung(_) => None,
            });
            match jobs.into_iter().any(is_one) {
                true => files::temporary(bytes),
                false => Err(Error::new("no file", "none of these columns needs one", "")),
            }
        };
        Self {
            options,
            bytes,
            source: needed_by(|job| {
                matches!(
                    job,
                    FileReread | MmapReread | Splice | Copy | Tee(_) | Spread(_)
                )
            }),
            target: needed_by(|job| matches!(job, Splice | Copy)),
        }
    }

    fn trial(&self, column: &Column, round: usize) -> Result<Figures> {
        let (one, other) = self.options.cpus;
        let alone = matches!(column.how, How::Alone(_)) || one == other;
        let travel = || match alone {
            true => None,
            false => line_travel_ns(one, other).ok().flatten(),
        };
        let ticks = || [one, other].map(machine::cpu_ticks);
        let before = travel();
        let ticks_before = ticks();
        let reports = match column.how {
            How::Rung(id) => self.rung(id)?,
            _ => self.crew(column)?,
        };
        let used = if alone { 1 } else { 2 };
        let steal = machine::larger_steal(&ticks_before[..used], &ticks()[..used]);
        let line_travel_ns = LineTravel {
            before,
            after: travel(),
        };
        let state = match alone {
            true => State::OneCpu,
            false => line_travel_ns.state(),
        };
        let measured = reports.first().copied().unwrap_or_default();
        Ok(match measured.round_trips {
            Some(trips) => Figures::Trips(LatencySample {
                round,
                median_us: trips.median_us,
                p99_us: trips.p99_us,
                state,
                line_travel_ns,
                steal,
            }),
            None => Figures::Rate(Sample {
                round,
                gib_per_s: gib(measured.bytes) / measured.seconds.max(1e-9),
                cpu_s_per_gib: reports.iter().map(|r| r.cpu_s / gib(r.bytes.max(1))).sum(),
                state,
                line_travel_ns,
                steal,
            }),
        })
    }

    /// A rung of the ladder; the reader's report first.
    fn rung(&self, id: &str) -> Result<Vec<Report>> {
        let rungs = rung::ladder();
        let rung = rungs
            .iter()
            .find(|r| r.id == id)
            .ok_or_else(|| Error::new(id, "there is no such rung", ""))?;
        let trial = Trial {
            program: self.options.program.clone(),
            argument: OsStr::new(self.options.pair_side),
            config: &rung.config,
            cpus: self.options.cpus,
            warm_up_s: ladder::WARM_UP_S,
            until: Until::Seconds(self.options.seconds),
        };
        let reports = pair::run(&[trial])?;
        Ok(reports
            .into_iter()
            .flat_map(|r| [r.reader, r.writer])
            .map(|side| Report {
                bytes: side.bytes,
                seconds: side.seconds,
                cpu_s: side.cpu_s,
                round_trips: None,
            })
            .collect())
    }

    /// Processes of our own; the report that counts first.
    fn crew(&self, column: &Column) -> Result<Vec<Report>> {
        let (one, other) = self.options.cpus;
        let member = |job, cpu, descriptors, measures: bool| Member {
            order: Order {
                job,
                cpu,
                time: Time {
                    warm_up_s: ladder::WARM_UP_S,
                    measured_s: measures.then_some(self.options.seconds),
                },
                bytes: self.bytes,
            },
            descriptors,
        };
        let members = match column.how {
            How::Alone(job) => vec![member(job, one, self.alone(job)?, true)],
            How::Between(link, Job::Ping, pong) => {
                let [ours, theirs] = stream::both_ways(link)?;
                vec![
                    member(Job::Ping, one, ours.into(), true),
                    member(pong, other, theirs.into(), false),
                ]
            }
            How::Between(link, sends, receives) => {
                let (to, from) = stream::connect(link)?;
                let mut source = match sends {
                    Job::Send => Vec::new(),
                    _ => vec![duplicate(&self.source)?],
                };
                source.push(to);
                vec![
                    member(receives, other, vec![from], true),
                    member(sends, one, source, false),
                ]
            }
            How::Rung(_) => Vec::new(),
        };
        crew::run(
            &self.options.program,
            OsStr::new(self.options.side),
            members,
        )
    }

    /// What a job that works alone needs.
    fn alone(&self, job: Job) -> Result<Vec<OwnedFd>> {
        Ok(match job {
            Job::FileReread | Job::MmapReread | Job::Tee(_) | Job::Spread(_) => {
                vec![duplicate(&self.source)?]
            }
            Job::Splice | Job::Copy => vec![duplicate(&self.source)?, duplicate(&self.target)?],
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

fn gib(bytes: u64) -> f64 {
    bytes as f64 / (1u64 << 30) as f64
}
