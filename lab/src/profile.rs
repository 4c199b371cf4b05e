//! Where every nanosecond per page goes: both sides of a pair are sampled while they run, and each sample is put down to
//! a cause.
//!
//! The main path: [`sample`] (the kernel's records of both processes) → [`symbols`] (names for addresses) → [`fold`]
//! (stacks and shares, by [`cause`]) → [`explain`] (the biggest cause in one sentence) → [`profiled`] (what is saved).

pub mod cause;
pub mod explain;
pub mod flame;
pub mod fold;
mod hidden;
pub mod profiled;
pub mod sample;
pub mod symbols;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::ops::ControlFlow;
use std::path::PathBuf;

use fullbore_sys::{Error, Result};

use crate::ladder::WARM_UP_S;
use crate::ladder::run::LineTravel;
use crate::ladder::rung::{Place, Rung};
use crate::machine::travel::line_travel_ns;
use crate::machine::{self, Machine};
use crate::saved::head::Head;
use crate::worker::pair::{self, Trial};
use crate::worker::trial::{Finished, Role, SideReport, Until};
use profiled::{Method, Profile, RungProfile, SCHEMA, SideProfile};
use sample::{Event, Events, Recorder, Recording, Sampling};
use symbols::{Maps, Symbols};

/// What to profile and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// The rungs, lowest first.
    pub rungs: Vec<Rung>,
    /// Seconds of the measured part of each.
    pub seconds: f64,
    /// How to sample.
    pub sampling: Sampling,
    /// CPUs of writer and reader.
    pub cpus: (usize, usize),
    /// What the owner wants to say about the machine.
    pub label: Option<String>,
    /// The program that serves as a side, and the argument that makes it one.
    pub side: (PathBuf, &'static str),
}

/// Profiles one rung after the other. Before each one `go_on` is told how many are done, and decides.
///
/// # Errors
/// No rung could be profiled.
pub fn profile(
    options: &Options,
    machine: Machine,
    mut go_on: impl FnMut(usize, &Rung) -> ControlFlow<()>,
) -> Result<Profile> {
    sample::may_be_read(&options.side.0, options.sampling)?;
    let mut profile = Profile {
        head: Head::new(SCHEMA, options.label.clone(), machine),
        method: Method {
            cpus: [options.cpus.0, options.cpus.1],
            seconds: options.seconds,
            frequency_hz: options.sampling.frequency_hz,
            event: options.sampling.event.to_string(),
            kernel: options.sampling.kernel,
            cpu_wide: options.sampling.cpu_wide,
        },
        rungs: Vec::new(),
        warnings: Vec::new(),
    };
    if crate::sys::usage().run_queue_wait.is_none() {
        let warning = "this kernel does not tell how long a side waits for its CPU (CONFIG_SCHED_INFO): where it sleeps as well, that time counts as asleep";
        profile.warnings.push(warning.to_owned());
    }
    let mut symbols = Symbols::default();
    let mut failure = None;
    for (done, rung) in options.rungs.iter().enumerate() {
        if go_on(done, rung).is_break() {
            break;
        }
        let one = profile_one(options, rung, &mut symbols);
        profile.rungs.push(match one {
            Ok(rung) => rung,
            Err(e) => {
                let refused = refused(rung, &e);
                failure = Some(e);
                refused
            }
        });
    }
    match failure {
        Some(e) if profile.rungs.iter().all(|r| r.refused.is_some()) => Err(e),
        _ => Ok(profile),
    }
}

fn refused(rung: &Rung, why: &Error) -> RungProfile {
    RungProfile {
        id: rung.id.to_string(),
        gib_per_s: 0.0,
        ns_per_page: 0.0,
        touches_data: rung.touches_data(),
        line_travel_ns: LineTravel::default(),
        sides: Vec::new(),
        sentence: String::new(),
        warnings: Vec::new(),
        refused: Some(why.to_string()),
    }
}

fn profile_one(options: &Options, rung: &Rung, symbols: &mut Symbols) -> Result<RungProfile> {
    let cpus = match rung.place {
        Place::TwoCpus => options.cpus,
        Place::OneCpu => (options.cpus.0, options.cpus.0),
    };
    let trial = Trial {
        program: options.side.0.clone(),
        argument: OsStr::new(options.side.1),
        config: &rung.config,
        cpus,
        warm_up_s: WARM_UP_S,
        until: Until::Seconds(options.seconds),
    };
    let travel = || line_travel_ns(cpus.0, cpus.1).ok().flatten();
    let ticks = || [cpus.0, cpus.1].map(machine::cpu_ticks);
    let (travel_before, ticks_before) = (travel(), ticks());
    let events = Events::open([cpus.0, cpus.1], options.sampling)?;
    let (finished, (recorder, maps)) = pair::run_observed(&trial, |processes| {
        let recorder = Recorder::start(events, processes)?;
        Ok((recorder, processes.map(Maps::of)))
    })?;
    let recordings = recorder.stop()?;
    let ticks_after = ticks();

    let mut warnings = Vec::new();
    let mut sides = Vec::new();
    for (i, role) in [Role::Writer, Role::Reader].into_iter().enumerate() {
        let steal = ticks_before[i]
            .zip(ticks_after[i])
            .map(|(before, after)| machine::steal_share(&before, &after));
        let side = side(
            role,
            options.sampling,
            &finished[i],
            &recordings[i],
            steal,
            |sample| symbols.fold(sample, &maps[i]),
        );
        warnings.extend(doubts(&side));
        sides.push(side);
    }
    let left = finished[0]
        .report
        .path
        .left(&rung.config.write_with.to_string());
    warnings.extend(left.map(|left| format!("writer: {left}")));
    let reader = &finished[1].report;
    let gib_per_s = reader.bytes as f64 / (1u64 << 30) as f64 / reader.seconds.max(1e-9);
    Ok(RungProfile {
        id: rung.id.to_string(),
        gib_per_s,
        ns_per_page: 4096e9 / (gib_per_s * (1u64 << 30) as f64).max(1e-9),
        touches_data: rung.touches_data(),
        line_travel_ns: LineTravel {
            before: travel_before,
            after: travel(),
        },
        sentence: explain::sentence(&rung.id, &sides),
        sides,
        warnings,
        refused: None,
    })
}

fn side(
    role: Role,
    sampling: Sampling,
    finished: &Finished,
    recording: &Recording,
    steal: Option<f64>,
    mut fold: impl FnMut(&sample::Sample) -> String,
) -> SideProfile {
    let report = &finished.report;
    let measured = finished.measured_ns;
    let mut stacks: BTreeMap<String, u64> = BTreeMap::new();
    let (mut samples, mut seen) = (0, 0);
    let during = |s: &&sample::Sample| (measured[0]..measured[1]).contains(&s.time_ns);
    for sample in recording.samples.iter().filter(during) {
        *stacks.entry(fold(sample)).or_default() += 1;
        samples += 1;
        seen += sample.period;
    }
    let folded: Vec<_> = stacks.into_iter().collect();
    let on_cpu_s = report.cpu_s;
    let (runnable_s, blocked_s) = off_cpu_s(report);
    let hidden_s = match sampling.event {
        Event::CpuClock if !sampling.kernel => (on_cpu_s - seen as f64 * 1e-9).max(0.0),
        _ => 0.0,
    };
    let pages = report.bytes as f64 / 4096.0;
    SideProfile {
        side: role,
        wall_s: report.seconds,
        on_cpu_s,
        runnable_s,
        blocked_s,
        unaccounted_s: report.seconds - on_cpu_s - runnable_s - blocked_s,
        steal_s: steal.map(|share| share * report.seconds),
        pages,
        samples,
        lost: recording.lost,
        causes: fold::causes(&folded, on_cpu_s, hidden_s, pages),
        folded,
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
