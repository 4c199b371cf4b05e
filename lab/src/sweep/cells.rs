//! Measures a sweep: every cell once per round, in an order of its own each time.

use std::ops::ControlFlow;

use fullbore_sys::{Error, Result, capacity};

use super::{Cell, CellFigures, Methods, SCHEMA, Sweep, SweepMethod};
use crate::ladder::pair_figures;
use crate::machine::Machine;
use crate::machine::conditions::Conditions;
use crate::rounds::by_state::ByState;
use crate::rounds::made::Made;
use crate::rounds::{Event, Measured, Measurement, RunOptions, measure};
use crate::saved::head::Head;
use crate::worker::config::Config;
use crate::worker::failure::because_of;
use crate::worker::order::{Job, Order, Work};
use crate::worker::outcome::{Report, RoundTrips};
use crate::worker::pair::PairTrial;
use crate::worker::processes::{Processes, Task};
use crate::worker::stream::{Link, both_ways};
use crate::worker::timing::{Time, Until};

/// Seconds at the start of each trial that are not measured: half of what a rung of the ladder gets, since there are
/// many cells and a neighbour shows what is doubtful.
pub const WARM_UP_S: f64 = 0.05;
/// Seconds in which round trips are made: some thousands.
pub const LATENCY_S: f64 = 0.06;

/// What to sweep and how.
#[derive(Clone, Debug)]
pub struct SweepOptions {
    /// What every run is told.
    pub run: RunOptions,
    /// Sizes of a buffer, in bytes.
    pub buffers: Vec<u64>,
    /// Capacities to ask for, in bytes.
    pub capacities: Vec<u64>,
    /// Write and read method.
    pub methods: Methods,
    /// Whether round trips of one byte are measured, too.
    pub latency: bool,
    /// Seconds of the measured part of each trial.
    pub seconds: f64,
    /// The question that was asked by name.
    pub preset: Option<String>,
}

/// Sweeps. After each event `on_event` decides whether to go on; what was measured so far is returned either way.
///
/// # Errors
/// No cell is possible, or every trial failed.
pub fn sweep(
    options: &SweepOptions,
    machine: Machine,
    on_event: impl FnMut(Event<'_, Sweep>) -> ControlFlow<()>,
) -> Result<Sweep> {
    let mut cells = Cells::new(options, machine)?;
    let cases = cells.possible.len();
    measure(&mut cells, cases, &options.run, on_event)
}

const NOTHING: (&str, &str) = (
    "nothing can be swept",
    "choose another --buf-size and --pipe-size",
);

/// The cells of a sweep, and those of them that can be measured, of which there is at least one.
struct Cells<'a> {
    options: &'a SweepOptions,
    sweep: Sweep,
    /// What the pair of a cell does, and the place of that cell among all.
    possible: Vec<(usize, Config)>,
}

impl Measurement for Cells<'_> {
    type Figures = CellFigures;
    type Run = Sweep;
    const NOTHING: (&'static str, &'static str) = NOTHING;

    fn trial(&mut self, case: usize) -> Result<(CellFigures, Conditions)> {
        let (options, (cell, config)) = (self.options, &self.possible[case]);
        let trial = PairTrial {
            config,
            cpus: options.run.cpus,
            warm_up_s: WARM_UP_S,
            until: Until::Seconds(options.seconds),
        };
        let (pair, conditions) = pair_figures(&options.run.program, &[trial])?;
        if let Some(left) = pair.writer.path.left(&config.write_with.to_string()) {
            return Err(Error::new("a trial does not count", left, "run it again"));
        }
        let capacity = self.sweep.cells[*cell].capacity;
        let round_trips = options
            .latency
            .then(|| round_trips(&options.run, capacity))
            .transpose()?;
        let figures = CellFigures {
            gib_per_s: pair.gib_per_s,
            round_trips,
        };
        Ok((figures, conditions))
    }

    fn run(&self, rounds_done: usize, measured: &[Measured<CellFigures>]) -> Sweep {
        let mut sweep = self.sweep.clone();
        sweep.method.made.rounds_done = rounds_done;
        let cells = self.possible.iter().map(|(cell, _)| *cell);
        sweep.sum_up(cells.zip(measured));
        sweep
    }
}

impl<'a> Cells<'a> {
    fn new(options: &'a SweepOptions, machine: Machine) -> Result<Self> {
        let page = machine.page_size;
        let mut buffers = options.buffers.clone();
        buffers.sort_unstable();
        buffers.dedup();
        let mut asked = options.capacities.clone();
        asked.sort_unstable();
        // Several that were asked for may be rounded up to one.
        let mut granted: Vec<(u64, Option<Error>)> = asked.into_iter().map(grant).collect();
        granted.dedup_by_key(|(capacity, _)| *capacity);
        let (mut cells, mut possible) = (Vec::new(), Vec::new());
        let mut first_refused = None;
        for (capacity, refusal) in &granted {
            for &buffer in &buffers {
                let refused = match (refusal, options.methods.config(buffer, *capacity, page)) {
                    (Some(e), _) => Some(e.clone()),
                    (None, Err(e)) => Some(e),
                    (None, Ok(config)) => {
                        possible.push((cells.len(), config));
                        None
                    }
                };
                let why = refused.as_ref().map(Error::to_string);
                cells.push(ByState {
                    main: Cell::new(buffer, *capacity, why),
                    apart: Vec::new(),
                });
                first_refused = first_refused.or(refused);
            }
        }
        if possible.is_empty() {
            return Err(match first_refused {
                Some(e) => because_of(NOTHING.0, &e, NOTHING.1),
                None => Error::new(NOTHING.0, "there are no sizes to combine", NOTHING.1),
            });
        }
        let Methods {
            write_with,
            read_with,
            pages,
            wait,
        } = options.methods;
        let sweep = Sweep {
            head: Head::new(SCHEMA, options.run.label.clone(), machine),
            method: SweepMethod {
                made: Made::new(&options.run, 0, WARM_UP_S),
                seconds: options.seconds,
                write_with,
                read_with,
                pages,
                wait,
                preset: options.preset.clone(),
            },
            buffers,
            capacities: granted.into_iter().map(|(capacity, _)| capacity).collect(),
            prevailing: None,
            cells,
            warnings: Vec::new(),
        };
        Ok(Self {
            options,
            sweep,
            possible,
        })
    }
}

/// One byte through a pipe of this capacity to another process, and back through a second one.
fn round_trips(options: &RunOptions, bytes: u64) -> Result<RoundTrips> {
    let [ours, theirs] = both_ways(Link::Pipe)?;
    for ends in [&ours, &theirs] {
        capacity::set(&ends[0], usize::try_from(bytes).unwrap_or(usize::MAX))?;
    }
    let task = |work, cpu, descriptors: [_; 2], measured_s: Option<f64>| Task {
        order: Order {
            job: Job::Column(work, 0),
            cpu: Some(cpu),
            time: Time {
                warm_up_s: 0.0,
                until: measured_s.map(Until::Seconds),
            },
        },
        descriptors: descriptors.into(),
    };
    let (one, other) = options.cpus;
    let tasks = vec![
        task(Work::Ping, one, ours, Some(LATENCY_S)),
        task(Work::Pong, other, theirs, None),
    ];
    match Processes::run(&options.program, tasks)?.first() {
        Some(Report::RoundTrips(trips)) => Ok(*trips),
        other => Err(Error::new(
            "latency cannot be measured",
            format!("a process reported {other:?}"),
            "run it again",
        )),
    }
}

/// The capacity that a new pipe gets when this much is asked for; or the same again, and why it is refused.
fn grant(bytes: u64) -> (u64, Option<Error>) {
    let granted = fullbore_sys::calls::pipe()
        .map_err(|e| Error::system("a pipe cannot be made", e, ""))
        .and_then(|(_, end)| capacity::set(end, usize::try_from(bytes).unwrap_or(usize::MAX)));
    match granted {
        Ok(granted) => (granted as u64, None),
        Err(e) => (bytes, Some(e)),
    }
}
