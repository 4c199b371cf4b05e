//! Climbs the ladder: every rung once per round, in an order of its own each time.

pub mod run;
pub mod rung;

use std::ffi::OsStr;
use std::ops::ControlFlow;
use std::path::PathBuf;

use fullbore_sys::{Error, Result};

use crate::ladder::run::{LineTravel, Method, Run, SCHEMA, Sample, summarise, warnings};
use crate::ladder::rung::{Place, Rung};
use crate::machine::memory_rates::{self, MemoryRates};
use crate::machine::travel::line_travel_ns;
use crate::machine::{self, Machine};
use crate::rounds::plan;
use crate::saved::head::Head;
use crate::worker::failure::because_of;
use crate::worker::pair::{self, Trial};
use crate::worker::trial::Until;

/// Seconds at the start of each trial that are not measured: page tables, caches and clocks settle.
pub const WARM_UP_S: f64 = 0.1;

/// A rung whose trials failed so often is not tried again.
const FAILURES_ALLOWED: usize = 2;

/// What to climb and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// The rungs, lowest first.
    pub rungs: Vec<Rung>,
    /// Rounds.
    pub rounds: usize,
    /// End of the measured part of each trial.
    pub until: Until,
    /// CPUs of writer and reader.
    pub cpus: (usize, usize),
    /// CPUs of further pairs, for rungs that run several at once.
    pub more_cpus: Vec<(usize, usize)>,
    /// Seed of the order of trials.
    pub seed: u64,
    /// What the owner wants to say about the machine.
    pub label: Option<String>,
    /// The program that serves as a side, and the argument that makes it one.
    pub side: (PathBuf, &'static str),
}

/// What happens on the way.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// A trial begins.
    Trial {
        /// Number of trials finished so far.
        done: usize,
        /// The rung.
        rung: &'a Rung,
    },
    /// A round is finished; the run holds all that was measured so far.
    Round(&'a Run),
}

/// Climbs. After each event `on_event` decides whether to go on; the run so far is returned either way.
///
/// # Errors
/// Every trial of every rung failed. A rung whose trials fail does not keep the others from being climbed.
pub fn climb(
    options: &Options,
    machine: Machine,
    mut on_event: impl FnMut(Event<'_>) -> ControlFlow<()>,
) -> Result<Run> {
    let rungs = &options.rungs;
    let mut samples: Vec<Vec<Sample>> = vec![Vec::new(); rungs.len()];
    let head = Head::new(SCHEMA, options.label.clone(), machine);
    let memory = measure_memory(options.cpus.0, &head.machine);
    let all_warnings = |samples: &[Vec<Sample>]| {
        let mut all = warnings(samples);
        let refused = memory.as_ref().err();
        all.extend(refused.map(|e| format!("memory alone was not measured: {e}")));
        all
    };
    let mut run = Run {
        method: Method {
            cpus: [options.cpus.0, options.cpus.1],
            pairs: options.more_cpus.iter().map(|&(w, r)| [w, r]).collect(),
            rounds: options.rounds,
            rounds_done: 0,
            warm_up_s: WARM_UP_S,
            until: options.until,
            seed: options.seed,
        },
        memory: memory.as_ref().ok().copied(),
        head,
        rungs: Vec::new(),
        warnings: Vec::new(),
    };
    let mut failures: Vec<Vec<Error>> = vec![Vec::new(); rungs.len()];
    let mut done = 0;
    'climb: for (round, order) in plan::rounds(rungs.len(), options.rounds, options.seed)
        .into_iter()
        .enumerate()
    {
        for rung in order {
            if failures[rung].len() >= FAILURES_ALLOWED {
                continue;
            }
            let event = Event::Trial {
                done,
                rung: &rungs[rung],
            };
            if on_event(event).is_break() {
                break 'climb;
            }
            match measure(options, &rungs[rung], round) {
                Ok(sample) => samples[rung].push(sample),
                // Ctrl-C reaches the sides of a trial, too; then its failure is no news.
                Err(_) if on_event(event).is_break() => break 'climb,
                // Perhaps this machine cannot climb this rung (no huge pages, say); the others go on.
                Err(e) => failures[rung].push(e),
            }
            done += 1;
        }
        run.method.rounds_done = round + 1;
        run.rungs = summarise(rungs, &samples, &failures);
        run.warnings = all_warnings(&samples);
        if on_event(Event::Round(&run)).is_break() {
            break;
        }
    }
    if let Some(e) = failures.iter().flatten().next()
        && samples.iter().all(Vec::is_empty)
    {
        let what = "no rung could be climbed";
        return Err(because_of(what, e, "run it again"));
    }
    run.rungs = summarise(rungs, &samples, &failures);
    run.warnings = all_warnings(&samples);
    Ok(run)
}

/// On a thread of its own, so that the caller stays where it is.
fn measure_memory(cpu: usize, machine: &Machine) -> Result<MemoryRates> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().spawn_scoped(scope, || {
            let _ = crate::sys::pin_to_cpu(cpu);
            memory_rates::measure(machine)
        });
        thread
            .map_err(|e| Error::system("no thread", e, "raise the limit (ulimit -u)"))?
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn measure(options: &Options, rung: &Rung, round: usize) -> Result<Sample> {
    let (program, argument) = &options.side;
    let place = |cpus: (usize, usize)| match rung.place {
        Place::TwoCpus => cpus,
        Place::OneCpu => (cpus.0, cpus.0),
    };
    let trial = |cpus| Trial {
        program: program.clone(),
        argument: OsStr::new(argument),
        config: &rung.config,
        cpus,
        warm_up_s: WARM_UP_S,
        until: options.until,
    };
    let more = options.more_cpus.iter().take(rung.pairs - 1).copied();
    let trials: Vec<_> = std::iter::once(options.cpus)
        .chain(more)
        .map(place)
        .map(trial)
        .collect();
    measured(&trials, round)
}

/// Runs these trials at once, and looks at the machine before and after. The first pair's CPUs decide on the state.
pub(crate) fn measured(trials: &[Trial<'_>], round: usize) -> Result<Sample> {
    let nothing = || Error::new("no pair ran", "none was asked for", "");
    let cpus = trials.first().ok_or_else(nothing)?.cpus;
    let travel = || line_travel_ns(cpus.0, cpus.1).ok().flatten();
    let ticks = || [cpus.0, cpus.1].map(machine::cpu_ticks);
    let before = travel();
    let ticks_before = ticks();
    let mut reports = pair::run(trials)?;
    let steal = machine::larger_steal(&ticks_before, &ticks());
    let line_travel = LineTravel {
        before,
        after: travel(),
    };
    let others = reports.split_off(1);
    let first = reports.pop().ok_or_else(nothing)?;
    Ok(Sample::new(round, cpus, first, others, line_travel, steal))
}
