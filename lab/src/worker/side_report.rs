//! What a process did in the measured part of its work.

use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::side::{Counters, Path};
use crate::sys::{self, Usage};

/// What a side did in the measured part.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SideReport {
    /// Seconds, CLOCK_MONOTONIC.
    pub seconds: f64,
    /// Bytes moved.
    pub bytes: u64,
    /// System calls that move bytes.
    pub calls: u64,
    /// Those that found the pipe full or empty.
    pub eagain: u64,
    /// CPU seconds used.
    pub cpu_s: f64,
    /// Context switches because it waited.
    pub voluntary_switches: u64,
    /// Context switches because something else ran.
    pub involuntary_switches: u64,
    /// Page faults without I/O.
    pub minor_faults: u64,
    /// Seconds it could have run and was not let to; absent where the kernel does not tell.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub run_queue_wait_s: Option<f64>,
    /// How bytes moved.
    pub path: Path,
}

impl SideReport {
    /// GiB moved.
    pub fn gib(&self) -> f64 {
        self.bytes as f64 / (1u64 << 30) as f64
    }

    /// Rate in GiB/s.
    pub fn gib_per_s(&self) -> f64 {
        self.gib() / self.seconds.max(1e-9)
    }
}

/// A side that has ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Finished {
    /// What it did.
    pub report: SideReport,
    /// Start and end of the measured part, in ns of `CLOCK_MONOTONIC`.
    pub measured_ns: [u64; 2],
}

/// What a process had done at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub at: Instant,
    monotonic_ns: u64,
    usage: Usage,
    pub counters: Counters,
}

impl Moment {
    pub(super) fn now(counters: &Counters) -> Self {
        Self {
            usage: sys::usage(),
            monotonic_ns: sys::monotonic_ns(),
            at: Instant::now(),
            counters: *counters,
        }
    }

    /// What was done between this moment and another one.
    pub(super) fn until(&self, end: &Self, path: Path) -> Finished {
        let (u0, u1) = (self.usage, end.usage);
        let (c0, c1) = (self.counters, end.counters);
        let wait = |u: Usage| u.run_queue_wait;
        let report = SideReport {
            seconds: (end.at - self.at).as_secs_f64(),
            bytes: c1.bytes - c0.bytes,
            calls: c1.calls - c0.calls,
            eagain: c1.would_block - c0.would_block,
            cpu_s: u1.cpu.saturating_sub(u0.cpu).as_secs_f64(),
            voluntary_switches: u1.voluntary_switches - u0.voluntary_switches,
            involuntary_switches: u1.involuntary_switches - u0.involuntary_switches,
            minor_faults: u1.minor_faults - u0.minor_faults,
            run_queue_wait_s: wait(u1)
                .zip(wait(u0))
                .map(|(after, before)| after.saturating_sub(before).as_secs_f64()),
            path,
        };
        Finished {
            report,
            measured_ns: [self.monotonic_ns, end.monotonic_ns],
        }
    }
}
