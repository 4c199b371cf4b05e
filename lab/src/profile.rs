//! Where every nanosecond per page goes: both sides of a pair are sampled while they run, and each sample is put down to
//! a cause.
//!
//! The main path: [`sample`] (the kernel's records of both processes) → [`symbols`] (names for addresses) → [`fold`]
//! (stacks and shares, by [`cause`]) → [`explain`] (the biggest cause in one sentence) → [`result`] (what is saved).

pub mod cause;
pub mod explain;
pub mod flame;
pub mod fold;
pub mod result;
pub mod sample;
pub mod symbols;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::ops::ControlFlow;
use std::path::PathBuf;

use fullbore::{Error, Result};

use crate::head::Head;
use crate::ladder::WARM_UP_S;
use crate::machine::{self, Machine};
use crate::pair::{self, Trial};
use crate::run::LineTravel;
use crate::rung::{Place, Rung};
use crate::travel::line_travel_ns;
use crate::trial::{Finished, Role, Until};
use result::{Method, Profile, RungProfile, SCHEMA, SideProfile};
use sample::{Event, Recorder, Recording, Sampling};
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
    let (finished, (recorder, maps)) = pair::run_observed(&trial, |processes| {
        let recorder = Recorder::start(processes, [cpus.0, cpus.1], options.sampling)?;
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
        warnings.extend(doubts(&side, &recordings[i]));
        sides.push(side);
    }
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
    let left = (report.seconds - on_cpu_s).max(0.0);
    let off = match recording.lost_switches {
        0 => sample::off_cpu_s(&recording.switches, measured),
        _ => left, // the records have holes: what is left of the wall time is all there is to say
    };
    // The record of coming back is written when the scheduler's clock runs already and perf has set up its own events:
    // 1 to 2 µs a switch are in both, and they are CPU time.
    let off = off.min(left);
    let runnable_s = report.run_queue_wait_s.unwrap_or(0.0).min(off);
    let blocked_s = off - runnable_s;
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
        lost: recording.lost_samples + recording.lost_switches,
        causes: fold::causes(&folded, on_cpu_s, hidden_s, pages),
        folded,
    }
}

/// More than this share of a side's time without an account is flagged, and so is an unrecognised one.
const NOTICEABLE: f64 = 0.05;
/// Fewer samples than this say little about shares.
const FEW: u64 = 100;

fn doubts(side: &SideProfile, recording: &Recording) -> Vec<String> {
    let name = explain::name(side.side);
    let mut doubts = Vec::new();
    if recording.lost_samples > 0 {
        doubts.push(format!("{name}: {} samples lost", recording.lost_samples));
    }
    if recording.lost_switches > 0 {
        doubts.push(format!(
            "{name}: {} context switches lost, so the time blocked is what was left over",
            recording.lost_switches
        ));
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
