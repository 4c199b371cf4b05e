//! A writer and a reader as two fresh processes, released together.

use std::os::fd::OwnedFd;
use std::path::Path;

use fullbore_sys::{Error, Result};
use serde::{Deserialize, Serialize};

use super::config::Config;
use super::order::{Job, Order};
use super::outcome::Report;
use super::processes::{Processes, Task};
use super::side_report::{Finished, SideReport};
use super::timing::{Time, Until};
use crate::sys::SharedMemory;

/// One trial of a pair.
#[derive(Clone, Debug)]
pub struct PairTrial<'a> {
    /// What the pair does.
    pub config: &'a Config,
    /// CPUs of writer and reader.
    pub cpus: (usize, usize),
    /// Seconds that are not measured, at the start.
    pub warm_up_s: f64,
    /// End of the measured part.
    pub until: Until,
}

/// What both sides report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Reports {
    /// The writing side.
    pub writer: SideReport,
    /// The reading side, whose clock counts.
    pub reader: SideReport,
}

/// Runs one trial of several pairs at once, each side as a process of `program` with the argument [`super::COMMAND`].
/// Reports come in the same order.
///
/// # Errors
/// A side could not be started, failed, or fell silent. No process is left behind.
pub fn run(program: &Path, trials: &[PairTrial<'_>]) -> Result<Vec<Reports>> {
    let (sides, ()) = run_observed(program, trials, |_| Ok(()))?;
    Ok(sides
        .into_iter()
        .map(|[writer, reader]| Reports {
            writer: writer.report,
            reader: reader.report,
        })
        .collect())
}

/// The same; `observe` is given the process IDs, of each pair writer and reader, when all are ready and none has begun. What
/// it returns is kept until all have ended, and handed back with what they say, of each pair the writer first.
///
/// # Errors
/// As [`run`], and what `observe` says.
pub fn run_observed<O>(
    program: &Path,
    trials: &[PairTrial<'_>],
    observe: impl FnOnce(&[u32]) -> Result<O>,
) -> Result<(Vec<[Finished; 2]>, O)> {
    let mut tasks = Vec::new();
    for trial in trials {
        tasks.extend(sides(trial)?);
    }
    let mut processes = Processes::start(program, tasks)?;
    let observer = observe(&processes.ids())?;
    processes.release()?;
    let mut sides = processes.reports()?.into_iter().map(|report| match report {
        Report::Moved(finished) => Ok(*finished),
        other => Err(unexpected(&other)),
    });
    let mut pairs = Vec::new();
    while let (Some(writer), Some(reader)) = (sides.next(), sides.next()) {
        pairs.push([writer?, reader?]);
    }
    Ok((pairs, observer))
}

fn unexpected(report: &Report) -> Error {
    let why = format!("a side reported {report:?}");
    Error::new("a trial failed", why, "run it again")
}

/// The tasks of both sides. The writer sets the capacity before it is ready, so all are ready before any begins.
fn sides(trial: &PairTrial<'_>) -> Result<[Task; 2]> {
    let failed =
        |what: &str, e| Error::system(format!("a trial failed: {what}"), e, "run it again");
    let (read_end, write_end) = fullbore_sys::calls::pipe().map_err(|e| failed("pipe", e))?;
    let shared = SharedMemory::create().map_err(|e| failed("shared memory", e))?;
    let time = Time {
        warm_up_s: trial.warm_up_s,
        until: Some(trial.until),
    };
    let task = |job: Job, cpu, pipe: OwnedFd| -> Result<Task> {
        let memory = shared.duplicate().map_err(|e| failed("shared memory", e))?;
        Ok(Task {
            order: Order {
                job,
                cpu: Some(cpu),
                time,
            },
            descriptors: vec![pipe, memory],
        })
    };
    let (writer, reader) = trial.cpus;
    Ok([
        task(Job::Writer(trial.config.clone()), writer, write_end)?,
        task(Job::Reader(trial.config.clone()), reader, read_end)?,
    ])
}
