//! Measures a sweep: every cell once per round, in an order of its own each time.

use std::ffi::OsStr;
use std::ops::ControlFlow;
use std::path::PathBuf;

use fullbore_sys::{Error, Result, capacity};

use super::Cell;
use super::Method;
use super::SCHEMA;
use super::Sample;
use super::Sweep;
use super::Ways;
use crate::ladder::measured;
use crate::machine::Machine;
use crate::rounds::plan;
use crate::saved::head::Head;
use crate::worker::config::Config;
use crate::worker::failure::because_of;
use crate::worker::pair::Trial;
use crate::worker::round_trip::{RoundTrips, round_trips};
use crate::worker::trial::Until;

/// Seconds at the start of each trial that are not measured: half of what a rung of the ladder gets, since there are
/// many cells and a neighbour shows what is doubtful.
pub const WARM_UP_S: f64 = 0.05;

/// A cell whose trials failed so often is not tried again.
const FAILURES_ALLOWED: usize = 2;

/// What to sweep and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// Sizes of a buffer, in bytes.
    pub buffers: Vec<u64>,
    /// Capacities to ask for, in bytes.
    pub capacities: Vec<u64>,
    /// Ways in and out.
    pub ways: Ways,
    /// Whether round trips of one byte are measured, too.
    pub latency: bool,
    /// Rounds.
    pub rounds: usize,
    /// Seconds of the measured part of each trial.
    pub seconds: f64,
    /// CPUs of writer and reader.
    pub cpus: (usize, usize),
    /// Seed of the order of trials.
    pub seed: u64,
    /// What the owner wants to say about the machine.
    pub label: Option<String>,
    /// The question that was asked by name.
    pub preset: Option<String>,
    /// The program that serves as a side, and the argument that makes it one.
    pub side: (PathBuf, &'static str),
}

/// What happens on the way.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// A trial begins.
    Trial {
        /// Trials finished so far.
        done: usize,
        /// Trials there will be.
        of: usize,
    },
    /// A round is finished; the sweep holds all that was measured so far.
    Round(&'a Sweep),
}

/// A cell that can be measured.
struct Possible {
    /// Its place among all cells.
    cell: usize,
    config: Config,
    failures: Vec<Error>,
}

/// Sweeps. After each event `on_event` decides whether to go on; what was measured so far is returned either way.
///
/// # Errors
/// No cell is possible, or every trial failed.
pub fn sweep(
    options: &Options,
    machine: Machine,
    mut on_event: impl FnMut(Event<'_>) -> ControlFlow<()>,
) -> Result<Sweep> {
    let (mut sweep, mut possible) = empty(options, machine)?;
    let of = possible.len() * options.rounds;
    let mut done = 0;
    let rounds = plan::rounds(possible.len(), options.rounds, options.seed);
    'sweep: for (round, order) in rounds.into_iter().enumerate() {
        for next in order {
            let Possible {
                cell,
                config,
                failures,
            } = &mut possible[next];
            let cell = &mut sweep.cells[*cell];
            done += 1;
            if failures.len() >= FAILURES_ALLOWED {
                continue;
            }
            let event = Event::Trial { done: done - 1, of };
            if on_event(event).is_break() {
                break 'sweep;
            }
            match measure(options, config, cell.capacity, round) {
                Ok(sample) => cell.samples.push(sample),
                // Ctrl-C reaches the sides of a trial, too; then its failure is no news.
                Err(_) if on_event(event).is_break() => break 'sweep,
                // Perhaps this cell cannot be had here; the others go on.
                Err(e) => failures.push(e),
            }
        }
        sweep.method.rounds_done = round + 1;
        finish(&mut sweep, &possible);
        if on_event(Event::Round(&sweep)).is_break() {
            break;
        }
    }
    finish(&mut sweep, &possible);
    let measured = sweep.cells.iter().any(|c| !c.samples.is_empty());
    match possible.iter().find_map(|p| p.failures.last()) {
        Some(e) if !measured => Err(because_of(NOTHING, e, CHOOSE)),
        _ => Ok(sweep),
    }
}

const NOTHING: &str = "nothing can be swept";
const CHOOSE: &str = "choose other --buffers and --capacities";

/// A sweep without trials, and the cells that can be measured, of which there is at least one.
fn empty(options: &Options, machine: Machine) -> Result<(Sweep, Vec<Possible>)> {
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
            let refused = match (refusal, options.ways.config(buffer, *capacity, page)) {
                (Some(e), _) => Some(e.clone()),
                (None, Err(e)) => Some(e),
                (None, Ok(config)) => {
                    possible.push(Possible {
                        cell: cells.len(),
                        config,
                        failures: Vec::new(),
                    });
                    None
                }
            };
            let why = refused.as_ref().map(Error::to_string);
            cells.push(Cell::new(buffer, *capacity, why));
            first_refused = first_refused.or(refused);
        }
    }
    if possible.is_empty() {
        return Err(match first_refused {
            Some(e) => because_of(NOTHING, &e, CHOOSE),
            None => Error::new(NOTHING, "there are no sizes to combine", CHOOSE),
        });
    }
    let Ways {
        write_with,
        read_with,
        pages,
        wait,
    } = options.ways;
    let sweep = Sweep {
        head: Head::new(SCHEMA, options.label.clone(), machine),
        method: Method {
            cpus: [options.cpus.0, options.cpus.1],
            rounds: options.rounds,
            rounds_done: 0,
            warm_up_s: WARM_UP_S,
            seconds: options.seconds,
            seed: options.seed,
            write_with,
            read_with,
            pages,
            wait,
            preset: options.preset.clone(),
        },
        buffers,
        capacities: granted.into_iter().map(|(capacity, _)| capacity).collect(),
        cells,
        warnings: Vec::new(),
    };
    Ok((sweep, possible))
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

fn measure(options: &Options, config: &Config, capacity: u64, round: usize) -> Result<Sample> {
    let (program, argument) = &options.side;
    let trial = Trial {
        program: program.clone(),
        argument: OsStr::new(argument),
        config,
        cpus: options.cpus,
        warm_up_s: WARM_UP_S,
        until: Until::Seconds(options.seconds),
    };
    let sample = measured(&[trial], round)?;
    if let Some(left) = sample.writer.path.left(&config.write_with.to_string()) {
        return Err(Error::new("a trial does not count", left, "run it again"));
    }
    let round_trips: Option<RoundTrips> = options
        .latency
        .then(|| round_trips(capacity, options.cpus))
        .transpose()?;
    Ok(Sample {
        round,
        gib_per_s: sample.gib_per_s,
        state: sample.state,
        line_travel_ns: sample.line_travel_ns,
        round_trips,
    })
}

/// Estimates of what was measured, and why there is nothing where every trial failed.
fn finish(sweep: &mut Sweep, possible: &[Possible]) {
    sweep.summarise();
    for Possible { cell, failures, .. } in possible {
        let cell = &mut sweep.cells[*cell];
        if let (true, Some(why)) = (cell.samples.is_empty(), failures.last()) {
            cell.refused = Some(why.to_string());
        }
    }
}
