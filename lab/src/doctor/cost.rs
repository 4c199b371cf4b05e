//! What a system call costs here, what it costs to wake somebody, and how far two CPUs are from each other: measured.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use fullbore_sys::calls::pipe;
use fullbore_sys::{Error, Result};
use serde::Serialize;

use crate::machine::travel;
use crate::machine::{CpuTicks, Machine, choose_cpus, cpu_ticks, steal_share};
use crate::stats::{Estimate, estimate};
use crate::sys;
use crate::worker::round_trip::{echo, trip};

/// Each figure takes so long.
const TIME: Duration = Duration::from_millis(25);
/// getppid(2) calls in a batch: 20 µs or more, long against reading the clock.
const CALLS: u32 = 200;
/// Round trips in a batch.
const TRIPS: u32 = 10;
/// A round trip needs two wake-ups.
const WAKE_UPS: f64 = 2.0;

/// What was measured. Each is a median of batches with its 95 % interval; none where it could not be measured.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct MeasuredCosts {
    /// One getppid(2), in nanoseconds: entering the kernel and leaving it.
    pub system_call_ns: Option<Estimate>,
    /// One byte through a pipe to a reader that sleeps on the same CPU, in microseconds: half a round trip.
    pub wake_up_one_cpu_us: Option<Estimate>,
    /// The same with the reader on another CPU.
    pub wake_up_two_cpus_us: Option<Estimate>,
    /// A cache line from one of these CPUs to the other, in nanoseconds.
    pub line_travel_ns: Option<f64>,
    /// The CPUs: the first one alone, and both.
    pub cpus: Option<[usize; 2]>,
    /// Share of the time, while this was measured, that the hypervisor gave the first CPU to others.
    pub steal: Option<f64>,
    /// Why something is missing.
    pub refused: Vec<String>,
}

pub(super) fn measure(machine: &Machine) -> MeasuredCosts {
    let pair = choose_cpus(machine);
    let cpus = pair.map(|pair| [pair.writer, pair.reader]);
    let mut measured = MeasuredCosts {
        cpus,
        ..MeasuredCosts::default()
    };
    let ticks = || cpus.and_then(|[cpu, _]| cpu_ticks(cpu));
    let before = ticks();
    measured.system_call_ns = system_call();
    if let Some([one, other]) = cpus {
        let mut keep = |result: Result<Option<Estimate>>| match result {
            Ok(estimate) => estimate,
            Err(e) => {
                let why = e.to_string();
                if !measured.refused.contains(&why) {
                    measured.refused.push(why);
                }
                None
            }
        };
        measured.wake_up_one_cpu_us = keep(wake_up([one, one]));
        if one != other {
            measured.wake_up_two_cpus_us = keep(wake_up([one, other]));
            let travel = travel::line_travel_ns(one, other);
            measured.line_travel_ns = travel.unwrap_or_default();
        }
    } else {
        let why = "the system does not say which CPUs this process may use";
        measured.refused.push(why.to_owned());
    }
    measured.steal = before
        .zip(ticks())
        .map(|(before, after)| steal_share(&before, &after));
    measured
}

/// The share of steal since the machine was started.
pub(super) fn steal_since_boot(cpu: usize) -> Option<f64> {
    let start = CpuTicks { steal: 0, total: 0 };
    Some(steal_share(&start, &cpu_ticks(cpu)?))
}

fn system_call() -> Option<Estimate> {
    let mut batches = Vec::new();
    let start = Instant::now();
    while start.elapsed() < TIME {
        let batch = Instant::now();
        for _ in 0..CALLS {
            sys::enter_kernel().ok()?;
        }
        batches.push(batch.elapsed().as_nanos() as f64 / f64::from(CALLS));
    }
    thinned(&batches)
}

/// The interval of thousands of batches takes long to compute and is no better: 100 of them, evenly spread.
fn thinned(batches: &[f64]) -> Option<Estimate> {
    let step = batches.len().div_ceil(100).max(1);
    let some: Vec<f64> = batches.iter().copied().step_by(step).collect();
    estimate(&some)
}

/// Two threads send a byte back and forth through two pipes and sleep in between.
fn wake_up([one, other]: [usize; 2]) -> Result<Option<Estimate>> {
    let broken = |e| Error::system("latency cannot be measured", e, "run it again");
    let (there, back) = (pipe().map_err(broken)?, pipe().map_err(broken)?);
    let batches = std::thread::scope(|scope| {
        // Each thread owns the ends it uses: when one ends, the other sees end of file or EPIPE and ends, too.
        let (echo_in, echo_out) = (there.0, back.1);
        let echo = std::thread::Builder::new().spawn_scoped(scope, move || {
            sys::pin_to_cpu(other)?;
            echo(&echo_in, &echo_out).map_err(broken)
        });
        let echo = echo.map_err(broken)?;
        let (to, from) = (there.1, back.0);
        let batches = sys::on_own_thread(move || {
            sys::pin_to_cpu(one)?;
            round_trips(&to, &from).map_err(broken)
        });
        let echoed = echo
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        // Where both fail, the one that could not start is the reason.
        echoed?;
        batches
    })?;
    Ok(thinned(&batches))
}

/// Microseconds of one wake-up, for each batch.
fn round_trips(to: &OwnedFd, from: &OwnedFd) -> io::Result<Vec<f64>> {
    // Both threads are there after the first.
    trip(to, from)?;
    let mut batches = Vec::new();
    let start = Instant::now();
    while start.elapsed() < TIME {
        let batch = Instant::now();
        for _ in 0..TRIPS {
            trip(to, from)?;
        }
        let us = batch.elapsed().as_nanos() as f64 / 1e3;
        batches.push(us / f64::from(TRIPS) / WAKE_UPS);
    }
    Ok(batches)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_its_costs() {
        let machine = Machine::detect();
        let measured = measure(&machine);
        assert!(measured.system_call_ns.unwrap().median > 1.0);
        let Some([one, other]) = measured.cpus else {
            return crate::testing::skip("this_machine_has_its_costs", "no CPUs can be chosen");
        };
        assert!(measured.refused.is_empty(), "{:?}", measured.refused);
        assert!(measured.wake_up_one_cpu_us.unwrap().median > 0.1);
        assert_eq!(measured.wake_up_two_cpus_us.is_some(), one != other);
    }

    #[test]
    fn a_cpu_that_cannot_be_had_is_named_and_nobody_waits_for_ever() {
        let cpu = Machine::detect().topology.cpus_allowed[0];
        for cpus in [[cpu, 99_999], [99_999, cpu]] {
            let why = wake_up(cpus).unwrap_err().to_string();
            assert!(why.starts_with("CPU 99999 refused"), "{why}");
        }
    }
}
