//! How long a cache line takes from one CPU to another: the figure on which everything with two CPUs depends.

use rustix::thread::{CpuSet, sched_setaffinity};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::stats;

/// Batches to measure; their median is the result, so that a batch in which a CPU was taken away does not count.
const BATCHES: usize = 20;
/// Round trips per batch: 10 µs near, 40 µs to 0.8 ms far, long against reading the clock (0.03 µs).
const TRIPS: u64 = 200;
/// No further batch starts after this much measuring: enough for all 20 below 0.6 µs one way.
const MEASURE: Duration = Duration::from_millis(5);
/// Neither thread spins longer than this, whatever happens to the other.
const GIVE_UP: Duration = Duration::from_millis(50);
/// Attempts between two looks at the clock: some 10 µs, longer than a line is ever on its way.
const TRIES: u32 = 1024;

/// Below this many nanoseconds one way, CPUs are [`Distance::Near`].
///
/// Source: 150 looks at a 2-CPU guest (AMD EPYC, Linux 6.18), before and after a run of the fat-slot prototype (constant,
/// relay): 23–31 ns, then it ran at 890–910 GiB/s when the CPUs had nothing else to do; or 100–112 ns, then at 550–594,
/// some minutes at 230; nothing between. The table published with the tool core-to-core-latency, which measures the same
/// way, has 16–53 ns for most cores under one cache, and 84–200 ns between the caches or sockets of AMD and Intel
/// processors. A threshold belongs to its method: see `PingPong::step`.
pub const NEAR_BELOW_NS: f64 = 70.0;

/// No line of this world travels for longer: beyond it, in nanoseconds, a CPU had other things to do.
pub const LONGEST_TRAVEL_NS: f64 = 1000.0;

/// How far two CPUs are from each other, in time. Figures from different distances are never pooled.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Distance {
    /// A line travels in less than [`NEAR_BELOW_NS`].
    Near,
    /// It takes longer.
    Far,
}

impl fmt::Display for Distance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Near => "near",
            Self::Far => "far",
        })
    }
}

/// Classes a travel time, in nanoseconds one way.
pub fn distance(ns: f64) -> Distance {
    if ns < NEAR_BELOW_NS {
        Distance::Near
    } else {
        Distance::Far
    }
}

/// Alone on its cache line, and on the neighbour that processors fetch with it.
#[repr(align(128))]
struct Line<T>(T);

/// What the two threads share.
struct PingPong {
    /// Even: A adds one. Odd: B does.
    count: Line<AtomicU64>,
    /// Set when one of them ends; only looked at now and then, so that it stays out of the measurement.
    over: Line<AtomicBool>,
    deadline: Instant,
}

impl PingPong {
    /// Spins until the count is `from`, and adds one at once. False when the other thread ended or time ran out first.
    ///
    /// Compare-and-exchange even to look: the line then comes over owned, once per step. A plain load brings a shared
    /// copy, and the store after it has to claim the line in a second journey (40 ns instead of 25 near and 171 instead
    /// of 105 far, on one EPYC guest).
    fn step(&self, from: u64) -> bool {
        let count = &self.count.0;
        loop {
            for _ in 0..TRIES {
                let added =
                    count.compare_exchange(from, from + 1, Ordering::AcqRel, Ordering::Relaxed);
                if added.is_ok() {
                    return true;
                }
            }
            if self.over.0.load(Ordering::Relaxed) || Instant::now() >= self.deadline {
                return false;
            }
        }
    }

    /// A: steps from every even count, timed in batches. Nanoseconds one way, one figure per whole batch.
    fn measure(&self) -> Vec<f64> {
        let mut batches = Vec::with_capacity(BATCHES);
        let mut counts = (0..).step_by(2);
        let mut step = || counts.next().is_some_and(|from| self.step(from));
        // Untimed: the second step waits until the other thread is there.
        if !(step() && step()) {
            return batches;
        }
        let start = Instant::now();
        while batches.len() < BATCHES && start.elapsed() < MEASURE {
            let batch = Instant::now();
            for _ in 0..TRIPS {
                if !step() {
                    return batches;
                }
            }
            batches.push(batch.elapsed().as_nanos() as f64 / (2 * TRIPS) as f64);
        }
        batches
    }

    /// B: steps from every odd count until there are no more.
    fn respond(&self) {
        let mut counts = (1..).step_by(2);
        while counts.next().is_some_and(|from| self.step(from)) {}
    }

    /// Pins the calling thread, runs its part, and ends the other one's when it is done, for whatever reason.
    fn run_on<T>(&self, cpu: usize, part: impl FnOnce() -> T) -> io::Result<T> {
        let result = pin(cpu).map(|()| part());
        self.over.0.store(true, Ordering::Relaxed);
        result
    }
}

/// Measures how long a cache line takes from one CPU to the other: nanoseconds, one way.
///
/// Two threads, one pinned to each CPU, take a counter from each other in turn; the result is the median of up to 20
/// batches of 200 round trips, halved. It takes 0.3 ms when the CPUs are near, 1 ms at 100 ns, and below 10 ms when a
/// line takes 2 µs. The calling thread keeps its own affinity.
///
/// `None` when both are the same CPU, or when not one batch was completed within 50 ms because one of the CPUs had other
/// things to do: then there is no figure, and no reason to call the CPUs far.
///
/// # Errors
///
/// When a thread cannot be started or may not run on its CPU; the error names the CPU.
pub fn line_travel_ns(cpu_a: usize, cpu_b: usize) -> io::Result<Option<f64>> {
    if cpu_a == cpu_b {
        return Ok(None);
    }
    let ping_pong = PingPong {
        count: Line(AtomicU64::new(0)),
        over: Line(AtomicBool::new(false)),
        deadline: Instant::now() + GIVE_UP,
    };
    // B sleeps until A is on its CPU: spinning earlier, it may keep the calling thread from its CPU for a whole
    // scheduler tick (4 ms) before A is even started. If A never starts, the sender is dropped and B ends.
    let (ready, start) = mpsc::channel();
    let batches = thread::scope(|scope| {
        let ping_pong = &ping_pong;
        let b = thread::Builder::new().spawn_scoped(scope, move || {
            ping_pong.run_on(cpu_b, || start.recv().is_ok().then(|| ping_pong.respond()))
        })?;
        let a = thread::Builder::new().spawn_scoped(scope, move || {
            ping_pong.run_on(cpu_a, || {
                ready
                    .send(())
                    .map_or_else(|_| Vec::new(), |()| ping_pong.measure())
            })
        });
        let batches = join(a?)?;
        join(b)?;
        io::Result::Ok(batches)
    })?;
    Ok(stats::median(&batches))
}

fn join<T>(thread: thread::ScopedJoinHandle<'_, io::Result<T>>) -> io::Result<T> {
    match thread.join() {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// Pins the calling thread only.
fn pin(cpu: usize) -> io::Result<()> {
    let refused = |why: io::Error| {
        let advice = "choose CPUs that are online and allowed to this process (taskset -p, cpuset)";
        io::Error::new(why.kind(), format!("CPU {cpu} refused: {why}; {advice}"))
    };
    if cpu >= CpuSet::MAX_CPU {
        return Err(refused(io::Error::from(io::ErrorKind::InvalidInput)));
    }
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set).map_err(|errno| refused(errno.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{Machine, choose_cpus};
    use rustix::thread::sched_getaffinity;

    #[test]
    fn travel_time_is_classed_on_either_side_of_the_threshold() {
        assert_eq!(distance(24.0), Distance::Near);
        assert_eq!(distance(53.0), Distance::Near);
        assert_eq!(distance(NEAR_BELOW_NS), Distance::Far);
        assert_eq!(distance(84.0), Distance::Far);
        assert_eq!(distance(1900.0), Distance::Far);
    }

    #[test]
    fn distance_is_shown_and_saved_in_the_same_word() {
        for (distance, word) in [(Distance::Near, "near"), (Distance::Far, "far")] {
            assert_eq!(distance.to_string(), word);
            let json = serde_json::to_string(&distance).unwrap();
            assert_eq!(json, format!("\"{word}\""));
        }
    }

    #[test]
    fn one_cpu_has_no_travel_time() {
        assert_eq!(line_travel_ns(0, 0).unwrap(), None);
    }

    #[test]
    fn two_cpus_give_a_time_and_the_caller_keeps_its_affinity() {
        let pair = choose_cpus(&Machine::detect()).unwrap();
        let before = sched_getaffinity(None).unwrap();
        let start = Instant::now();
        let travel = line_travel_ns(pair.writer, pair.reader).unwrap();
        // 50 ms at most by its own clock; the rest is for a machine that is busy with other tests.
        assert!(start.elapsed() < Duration::from_secs(5));
        assert_eq!(sched_getaffinity(None).unwrap(), before);
        if let Some(ns) = travel {
            assert!(ns > 0.5 && ns < 1e6, "{ns} ns");
        }
    }

    #[test]
    fn cpu_that_cannot_be_had_is_named_whichever_side_it_is_on() {
        let start = Instant::now();
        for cpu in [1023, CpuSet::MAX_CPU, usize::MAX] {
            let allowed = Machine::detect().topology.cpus_allowed;
            if allowed.contains(&cpu) {
                continue;
            }
            for (a, b) in [(allowed[0], cpu), (cpu, allowed[0])] {
                let error = line_travel_ns(a, b).unwrap_err().to_string();
                assert!(error.starts_with(&format!("CPU {cpu} refused")), "{error}");
            }
        }
        assert!(start.elapsed() < Duration::from_secs(5));
    }

    #[test]
    fn thread_without_a_partner_gives_up_at_the_deadline() {
        let ping_pong = PingPong {
            count: Line(AtomicU64::new(0)),
            over: Line(AtomicBool::new(false)),
            deadline: Instant::now() + Duration::from_millis(2),
        };
        assert!(ping_pong.measure().is_empty());
        assert!(Instant::now() >= ping_pong.deadline);
    }
}
