//! Climbs the ladder: every rung once per round, in an order of its own each time.

pub mod run;
pub mod rung;

use std::ops::ControlFlow;
use std::path::Path;

use fullbore_sys::{Error, Result};

use crate::machine::Machine;
use crate::machine::conditions::{Conditions, under_conditions};
use crate::machine::memory_rates::{self, MemoryRates};
use crate::rounds::by_state::{seen, state_warnings};
use crate::rounds::made::Made;
use crate::rounds::{Event, Measured, Measurement, RunOptions, measure};
use crate::saved::head::Head;
use crate::worker::pair::{self, PairTrial};
use crate::worker::timing::Until;
use run::{LadderMethod, PairFigures, Run, SCHEMA, sum_up};
use rung::{Placement, Rung};

/// Seconds at the start of each trial that are not measured: page tables, caches and clocks settle.
pub const WARM_UP_S: f64 = 0.1;

/// What to climb and how.
#[derive(Clone, Debug)]
pub struct LadderOptions {
    /// What every run is told.
    pub run: RunOptions,
    /// The rungs, lowest first.
    pub rungs: Vec<Rung>,
    /// End of the measured part of each trial.
    pub until: Until,
    /// CPUs of further pairs, for rungs that run several at once.
    pub more_cpus: Vec<(usize, usize)>,
}

/// Climbs. After each event `on_event` decides whether to go on; the run so far is returned either way.
///
/// # Errors
/// Every trial of every rung failed. A rung whose trials fail does not keep the others from being climbed.
pub fn climb(
    options: &LadderOptions,
    machine: Machine,
    on_event: impl FnMut(Event<'_, Run>) -> ControlFlow<()>,
) -> Result<Run> {
    let mut climb = Climb {
        memory: crate::sys::on_own_thread(|| {
            let _ = crate::sys::pin_to_cpu(options.run.cpus.0);
            memory_rates::measure(&machine)
        }),
        head: Head::new(SCHEMA, options.run.label.clone(), machine),
        options,
    };
    measure(&mut climb, options.rungs.len(), &options.run, on_event)
}

struct Climb<'a> {
    options: &'a LadderOptions,
    head: Head,
    memory: Result<MemoryRates>,
}

impl Measurement for Climb<'_> {
    type Figures = PairFigures;
    type Run = Run;
    const NOTHING: (&'static str, &'static str) = ("no rung could be climbed", "run it again");

    fn trial(&mut self, case: usize) -> Result<(PairFigures, Conditions)> {
        let options = self.options;
        let rung = &options.rungs[case];
        let more = options.more_cpus.iter().take(rung.pairs - 1);
        let trials: Vec<_> = std::iter::once(&options.run.cpus)
            .chain(more)
            .map(|&cpus| rung_trial(rung, cpus, WARM_UP_S, options.until))
            .collect();
        pair_figures(&options.run.program, &trials)
    }

    fn run(&self, rounds_done: usize, measured: &[Measured<PairFigures>]) -> Run {
        let options = self.options;
        let mut warnings = state_warnings(
            seen(measured),
            "figures of two CPUs would be higher on near ones",
        );
        let refused = self.memory.as_ref().err();
        warnings.extend(refused.map(|e| format!("memory alone was not measured: {e}")));
        let (prevailing, rungs) = sum_up(&options.rungs, measured);
        Run {
            head: self.head.clone(),
            method: LadderMethod {
                made: Made::new(&options.run, rounds_done, WARM_UP_S),
                pairs: options.more_cpus.iter().map(|&(w, r)| [w, r]).collect(),
                until: options.until,
            },
            memory: self.memory.as_ref().ok().copied(),
            prevailing,
            rungs,
            warnings,
        }
    }
}

/// A trial of a rung on these CPUs, or on the first of them.
pub(crate) fn rung_trial(
    rung: &Rung,
    (writer, reader): (usize, usize),
    warm_up_s: f64,
    until: Until,
) -> PairTrial<'_> {
    PairTrial {
        config: &rung.config,
        cpus: match rung.place {
            Placement::TwoCpus => (writer, reader),
            Placement::OneCpu => (writer, writer),
        },
        warm_up_s,
        until,
    }
}

/// Runs these trials at once. The first pair's CPUs decide on the state.
pub(crate) fn pair_figures(
    program: &Path,
    trials: &[PairTrial<'_>],
) -> Result<(PairFigures, Conditions)> {
    let nothing = || Error::new("no pair ran", "none was asked for", "");
    let first = trials.first().ok_or_else(nothing)?;
    under_conditions(first.cpus, || {
        PairFigures::new(pair::run(program, trials)?).ok_or_else(nothing)
    })
}
