//! Where every nanosecond per page goes: both sides of a pair are sampled while they run, and each sample is put down to
//! a cause.
//!
//! The main path: [`recorder`] (the kernel's records of both processes) → [`symbols`] (names for addresses) → [`fold`]
//! (stacks and shares, by [`cause`]) → [`explain`] (the biggest cause in one sentence) → [`profiled`] (what is saved).

pub mod cause;
pub mod explain;
pub mod flame;
pub mod fold;
mod hidden;
pub mod profiled;
pub mod recorder;
pub mod symbols;

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use fullbore_sys::{Error, Result};

use crate::ladder::rung::Rung;
use crate::ladder::{WARM_UP_S, rung_trial};
use crate::machine::Machine;
use crate::machine::conditions::{Conditions, under_conditions};
use crate::machine::state::{LineTravel, State};
use crate::rounds::by_state::{ByState, prevailing, seen, state_warnings};
use crate::rounds::sample::Sample;
use crate::rounds::{Event, Measured, Measurement, RunOptions, measure};
use crate::saved::head::Head;
use crate::stats::{self, Estimate};
use crate::worker::pair;
use crate::worker::side_report::{Finished, SideReport};
use crate::worker::timing::Until;
use fold::Folded;
use profiled::{CauseShare, Profile, ProfileMethod, Rate, Role, RungProfile, SCHEMA, SideProfile};
use recorder::{Counter, Events, RecordedSample, Recorder, Recording, Sampling};
use symbols::{Maps, Symbols};

/// What to profile and how.
#[derive(Clone, Debug)]
pub struct ProfileOptions {
    /// What every run is told.
    pub run: RunOptions,
    /// The rungs, lowest first.
    pub rungs: Vec<Rung>,
    /// Seconds of the measured part of each trial.
    pub seconds: f64,
    /// How to sample.
    pub sampling: Sampling,
    /// What the sampling lacks, if anything.
    pub warning: Option<String>,
}

/// Profiles every rung once per round. After each event `on_event` decides whether to go on.
///
/// # Errors
/// No rung could be profiled.
pub fn profile(
    options: &ProfileOptions,
    machine: Machine,
    on_event: impl FnMut(Event<'_, Profile>) -> ControlFlow<()>,
) -> Result<Profile> {
    recorder::may_be_read(&options.run.program, options.sampling)?;
    let mut warnings: Vec<_> = options.warning.iter().cloned().collect();
    if crate::sys::usage().run_queue_wait.is_none() {
        let warning = "this kernel does not tell how long a side waits for its CPU (CONFIG_SCHED_INFO): where it sleeps as well, that time counts as asleep";
        warnings.push(warning.to_owned());
    }
    let mut rungs = Rungs {
        options,
        head: Head::new(SCHEMA, options.run.label.clone(), machine),
        warnings,
        symbols: Symbols::default(),
    };
    measure(&mut rungs, options.rungs.len(), &options.run, on_event)
}

struct Rungs<'a> {
    options: &'a ProfileOptions,
    head: Head,
    warnings: Vec<String>,
    symbols: Symbols,
}

/// What one trial showed.
#[derive(Clone, Debug)]
struct ProfileFigures {
    gib_per_s: f64,
    /// Writer, then reader.
    sides: [SideFigures; 2],
    /// What did not go as it was asked for.
    left: Option<String>,
}

/// What one trial, or several together, showed of one side.
#[derive(Clone, Debug, Default)]
struct SideFigures {
    wall_s: f64,
    on_cpu_s: f64,
    runnable_s: f64,
    blocked_s: f64,
    steal_s: Option<f64>,
    /// Seconds on its CPU that could not be sampled.
    hidden_s: f64,
    pages: f64,
    samples: u64,
    lost: u64,
    folded: Vec<Folded>,
    /// What they say.
    causes: Vec<CauseShare>,
}

impl Measurement for Rungs<'_> {
    type Figures = ProfileFigures;
    type Run = Profile;
    const NOTHING: (&'static str, &'static str) = ("no rung could be profiled", "run it again");

    fn trial(&mut self, case: usize) -> Result<(ProfileFigures, Conditions)> {
        let options = self.options;
        let rung = &options.rungs[case];
        let until = Until::Seconds(options.seconds);
        let trial = rung_trial(rung, options.run.cpus, WARM_UP_S, until);
        let cpus = [trial.cpus.0, trial.cpus.1];
        let ((finished, recordings, maps), conditions) = under_conditions(trial.cpus, || {
            let events = Events::open(cpus, options.sampling)?;
            let (finished, (recorder, maps)) =
                pair::run_observed(&options.run.program, &[trial], |processes| {
                    let pair = <[u32; 2]>::try_from(processes).map_err(|_| no_pair())?;
                    let maps = pair.map(Maps::of);
                    Ok((Recorder::start(events, pair)?, maps))
                })?;
            Ok((finished, recorder.stop()?, maps))
        })?;
        let [writer, reader] = finished.first().ok_or_else(no_pair)?;
        let mut side = |i: usize, finished: &Finished| {
            let fold = |sample: &RecordedSample| self.symbols.fold(sample, &maps[i]);
            let steal = conditions.steal[i];
            side_figures(options.sampling, finished, &recordings[i], steal, fold)
        };
        let asked = rung.config.write_with.to_string();
        let figures = ProfileFigures {
            gib_per_s: reader.report.gib_per_s(),
            sides: [side(0, writer), side(1, reader)],
            left: writer.report.path.left(&asked),
        };
        Ok((figures, conditions))
    }

    fn run(&self, rounds_done: usize, measured: &[Measured<ProfileFigures>]) -> Profile {
        let options = self.options;
        let main = prevailing(seen(measured));
        let mut warnings = self.warnings.clone();
        warnings.extend(state_warnings(
            seen(measured),
            "figures of two CPUs would be better on near ones",
        ));
        let rungs = options.rungs.iter().zip(measured).map(|(rung, of_rung)| {
            let mut result = ByState::of(&of_rung.samples, main, |state, samples| {
                rung_profile(rung, state, &samples)
            });
            result.refused = of_rung.refused();
            result.main.warnings.extend(of_rung.doubt());
            result
        });
        Profile {
            head: self.head.clone(),
            method: ProfileMethod {
                cpus: [options.run.cpus.0, options.run.cpus.1],
                seconds: options.seconds,
                rounds: options.run.rounds,
                rounds_done,
                seed: Some(options.run.seed),
                frequency_hz: options.sampling.frequency_hz,
                event: options.sampling.event.to_string(),
                kernel: options.sampling.kernel,
                cpu_wide: options.sampling.cpu_wide,
            },
            prevailing: main,
            rungs: rungs.collect(),
            warnings,
        }
    }
}

fn no_pair() -> Error {
    Error::new("no pair ran", "none was asked for", "")
}

/// What trials of one rung in one state say: shares of all of them together, and intervals from one to the next.
fn rung_profile(
    rung: &Rung,
    state: Option<State>,
    samples: &[Sample<ProfileFigures>],
) -> RungProfile {
    let of_side = |role, i: usize| {
        let trials: Vec<_> = samples.iter().map(|s| &s.figures.sides[i]).collect();
        SideFigures::profile(role, &trials)
    };
    let sides = match samples {
        [] => Vec::new(),
        _ => vec![of_side(Role::Writer, 0), of_side(Role::Reader, 1)],
    };
    let rates: Vec<_> = samples.iter().map(|s| s.figures.gib_per_s).collect();
    let ns: Vec<_> = rates.iter().map(|rate| ns_per_page(*rate)).collect();
    let median = |estimate: Option<Estimate>| estimate.map_or(0.0, |e| e.median);
    let interval = |estimate: Option<Estimate>| estimate.filter(|_| rates.len() > 1);
    let (rate, ns) = (stats::estimate(&rates), stats::estimate(&ns));
    let mut warnings: Vec<_> = sides.iter().flat_map(doubts).collect();
    let mut newest_first = samples.iter().rev();
    let left = newest_first.find_map(|s| s.figures.left.as_ref());
    warnings.extend(left.map(|left| format!("writer: {left}")));
    RungProfile {
        id: rung.id.to_string(),
        state,
        gib_per_s: median(rate),
        gib_per_s_ci95: interval(rate).map(|e| e.ci95),
        ns_per_page: median(ns),
        ns_per_page_ci95: interval(ns).map(|e| e.ci95),
        samples: samples
            .iter()
            .map(|s| {
                s.with(Rate {
                    gib_per_s: s.figures.gib_per_s,
                })
            })
            .collect(),
        touches_data: rung.touches_data(),
        line_travel_ns: LineTravel::medians(samples.iter().map(|s| &s.line_travel_ns)),
        sentence: explain::sentence(&rung.id, &sides),
        sides,
        warnings,
        refused: None,
    }
}

fn ns_per_page(gib_per_s: f64) -> f64 {
    4096e9 / (gib_per_s * (1u64 << 30) as f64).max(1e-9)
}

fn side_figures(
    sampling: Sampling,
    finished: &Finished,
    recording: &Recording,
    steal: Option<f64>,
    mut fold: impl FnMut(&RecordedSample) -> String,
) -> SideFigures {
    let report = &finished.report;
    let measured = finished.measured_ns;
    let mut stacks: BTreeMap<String, u64> = BTreeMap::new();
    let (mut samples, mut seen) = (0, 0);
    let during = |s: &&RecordedSample| (measured[0]..measured[1]).contains(&s.time_ns);
    for sample in recording.samples.iter().filter(during) {
        *stacks.entry(fold(sample)).or_default() += 1;
        samples += 1;
        seen += sample.period;
    }
    let folded: Vec<_> = stacks.into_iter().collect();
    let on_cpu_s = report.cpu_s;
    let (runnable_s, blocked_s) = off_cpu_s(report);
    let hidden_s = match sampling.event {
        Counter::CpuClock if !sampling.kernel => (on_cpu_s - seen as f64 * 1e-9).max(0.0),
        _ => 0.0,
    };
    let pages = report.bytes as f64 / 4096.0;
    SideFigures {
        wall_s: report.seconds,
        on_cpu_s,
        runnable_s,
        blocked_s,
        steal_s: steal.map(|share| share * report.seconds),
        hidden_s,
        pages,
        samples,
        lost: recording.lost,
        causes: fold::causes(&folded, on_cpu_s, hidden_s, pages),
        folded,
    }
}

impl SideFigures {
    /// What these trials of one side say.
    fn profile(role: Role, trials: &[&Self]) -> SideProfile {
        let mut all = Self::default();
        let mut stacks: BTreeMap<&str, u64> = BTreeMap::new();
        for trial in trials {
            all.wall_s += trial.wall_s;
            all.on_cpu_s += trial.on_cpu_s;
            all.runnable_s += trial.runnable_s;
            all.blocked_s += trial.blocked_s;
            all.hidden_s += trial.hidden_s;
            all.pages += trial.pages;
            all.samples += trial.samples;
            all.lost += trial.lost;
            for (stack, count) in &trial.folded {
                *stacks.entry(stack).or_default() += count;
            }
        }
        let stacks = stacks.into_iter();
        let folded: Vec<Folded> = stacks.map(|(s, n)| (s.to_owned(), n)).collect();
        let steal: Option<Vec<_>> = trials.iter().map(|t| t.steal_s).collect();
        let mut causes = fold::causes(&folded, all.on_cpu_s, all.hidden_s, all.pages);
        for cause in causes.iter_mut().filter(|_| trials.len() > 1) {
            let ns = trials.iter().map(|trial| {
                let same = trial.causes.iter().find(|c| c.cause == cause.cause);
                same.map_or(0.0, |c| c.ns_per_page)
            });
            let estimate = stats::estimate(&ns.collect::<Vec<_>>());
            cause.ns_per_page_ci95 = estimate.map(|e| e.ci95);
        }
        SideProfile {
            side: role,
            wall_s: all.wall_s,
            on_cpu_s: all.on_cpu_s,
            runnable_s: all.runnable_s,
            blocked_s: all.blocked_s,
            unaccounted_s: all.wall_s - all.on_cpu_s - all.runnable_s - all.blocked_s,
            steal_s: steal.map(|steal| steal.iter().sum()),
            pages: all.pages,
            samples: all.samples,
            lost: all.lost,
            causes,
            folded,
        }
    }
}

/// Seconds that a side could have run and was not let to, and seconds that it slept.
///
/// The scheduler adds up the first as it does the CPU time, and what is left is sleep: no record of each switch is needed,
/// which pairs that share a CPU and switch 100,000 times a second would pay with an eighth of their rate. A side that never
/// gave up its CPU did not sleep, whatever is left: interrupts and the hypervisor take time, too.
fn off_cpu_s(report: &SideReport) -> (f64, f64) {
    let left = (report.seconds - report.cpu_s).max(0.0);
    let runnable = report.run_queue_wait_s.unwrap_or(0.0).min(left);
    let slept = report.voluntary_switches > 0;
    (runnable, if slept { left - runnable } else { 0.0 })
}

/// More than this share of a side's time without an account is flagged, and so is an unrecognised one.
const NOTICEABLE: f64 = 0.05;
/// Fewer samples than this say little about shares.
const FEW: u64 = 100;

fn doubts(side: &SideProfile) -> Vec<String> {
    let name = explain::name(side.side);
    let mut doubts = Vec::new();
    if side.lost > 0 {
        doubts.push(format!("{name}: {} samples lost", side.lost));
    }
    let unaccounted = side.unaccounted_s / side.wall_s.max(1e-9);
    if unaccounted.abs() > NOTICEABLE {
        doubts.push(format!(
            "{name}: {:.0} % of the time is unaccounted for",
            unaccounted * 100.0
        ));
    }
    // A side that sleeps nearly all the time has few samples, and they matter little.
    if side.samples < FEW && side.on_cpu_s > side.wall_s / 2.0 {
        doubts.push(format!("{name}: only {} samples", side.samples));
    }
    let steal = side.steal_s.unwrap_or(0.0) / side.wall_s.max(1e-9);
    if steal > NOTICEABLE {
        doubts.push(format!(
            "{name}: the hypervisor took {:.0} % of the time",
            steal * 100.0
        ));
    }
    doubts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_of_the_wall_time_is_sleep_of_a_side_that_slept() {
        let mut report = SideReport {
            seconds: 8.0,
            cpu_s: 2.0,
            run_queue_wait_s: Some(1.0),
            voluntary_switches: 3,
            ..SideReport::default()
        };
        assert_eq!(off_cpu_s(&report), (1.0, 5.0));
        report.voluntary_switches = 0; // interrupts or the hypervisor took the rest
        assert_eq!(off_cpu_s(&report), (1.0, 0.0));
        report.run_queue_wait_s = None;
        assert_eq!(off_cpu_s(&report), (0.0, 0.0));
    }

    #[test]
    fn clocks_that_differ_a_little_make_no_time_negative() {
        let report = SideReport {
            seconds: 8.0,
            cpu_s: 7.5,
            run_queue_wait_s: Some(0.6),
            voluntary_switches: 3,
            ..SideReport::default()
        };
        assert_eq!(off_cpu_s(&report), (0.5, 0.0));
        let report = SideReport {
            cpu_s: 8.1,
            ..report
        };
        assert_eq!(off_cpu_s(&report), (0.0, 0.0));
    }
}
