//! A saved profile: where the time of each rung went.

use serde::{Deserialize, Serialize};

use super::cause::Cause;
use crate::machine::state::{LineTravel, State};
use crate::rounds::by_state::ByState;
use crate::rounds::sample::Sample;
use crate::saved::head::Head;

/// Name and version of the saved form.
pub const SCHEMA: &str = "fullbore.profile/1";

fn one() -> usize {
    1
}

/// A profile of some rungs.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Profile {
    /// Of the form [`SCHEMA`].
    #[serde(flatten)]
    pub head: Head,
    /// How it was made.
    pub method: ProfileMethod,
    /// State of two CPUs in which most trials were made.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub prevailing: Option<State>,
    /// Results, lowest rung first.
    pub rungs: Vec<ByState<RungProfile>>,
    /// What a reader of the whole profile should know.
    pub warnings: Vec<String>,
}

/// How a profile was made.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ProfileMethod {
    /// CPUs of writer and reader.
    pub cpus: [usize; 2],
    /// Seconds of the measured part of each trial.
    pub seconds: f64,
    /// Rounds asked for; older profiles had one.
    #[serde(default = "one")]
    pub rounds: usize,
    /// Rounds finished.
    #[serde(default = "one")]
    pub rounds_done: usize,
    /// Seed of the order of trials.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub seed: Option<u64>,
    /// Samples per second of CPU time that were asked for.
    pub frequency_hz: u64,
    /// What is counted between two samples: `cycles`, or `cpu-clock` where the machine counts no cycles.
    pub event: String,
    /// Whether the kernel's part was sampled, too.
    pub kernel: bool,
    /// Whether whole CPUs were sampled; otherwise pairs on two CPUs that sleep and wake all the time are slowed down.
    #[serde(default)]
    pub cpu_wide: bool,
}

/// Where the time of one rung went.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RungProfile {
    /// Name.
    pub id: String,
    /// State of the machine in these trials; absent in older profiles.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub state: Option<State>,
    /// Median rate of the reader under profiling, in GiB/s.
    pub gib_per_s: f64,
    /// 95 % interval of that; absent where there is one trial.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub gib_per_s_ci95: Option<[f64; 2]>,
    /// Median of the wall time per 4096 bytes, in ns.
    pub ns_per_page: f64,
    /// 95 % interval of that; absent where there is one trial.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ns_per_page_ci95: Option<[f64; 2]>,
    /// The trials.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub samples: Vec<Sample<Rate>>,
    /// Whether the reader's CPU touches the data.
    pub touches_data: bool,
    /// Travel time of a cache line between the two CPUs, in ns, before and after: medians.
    pub line_travel_ns: LineTravel,
    /// Writer, then reader.
    pub sides: Vec<SideProfile>,
    /// The biggest cause, and what the next rung does about it.
    pub sentence: String,
    /// What is doubtful about this rung.
    pub warnings: Vec<String>,
    /// Why this machine cannot climb this rung; then there are no sides.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub refused: Option<String>,
}

/// What one trial gave, beside its samples.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Rate {
    /// Rate of the reader under profiling, in GiB/s.
    pub gib_per_s: f64,
}

/// Which side of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Writes into the pipe.
    Writer,
    /// Reads from it.
    Reader,
}

/// Where the time of one side went: `on_cpu_s + runnable_s + blocked_s` is `wall_s`, but for `unaccounted_s`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SideProfile {
    /// `writer` or `reader`.
    pub side: Role,
    /// Seconds of the measured part.
    pub wall_s: f64,
    /// Seconds on its CPU, shared out by `causes`.
    pub on_cpu_s: f64,
    /// Seconds it could have run and was not let to, by the scheduler's own sum (`/proc/PID/schedstat`).
    pub runnable_s: f64,
    /// Seconds it slept: what is left of `wall_s`, and 0 where it never gave up its CPU. Time of the hypervisor is inside
    /// where the kernel keeps it out of CPU time.
    pub blocked_s: f64,
    /// `wall_s` less the three above: interrupts and the hypervisor took it from a side that never slept.
    pub unaccounted_s: f64,
    /// Seconds that the hypervisor took from its CPU; inside the others.
    pub steal_s: Option<f64>,
    /// Pages of 4096 bytes moved.
    pub pages: f64,
    /// Samples taken on its CPU.
    pub samples: u64,
    /// Samples that the kernel had no room for.
    pub lost: u64,
    /// What the CPU time went into, largest first; shares add up to 1.
    pub causes: Vec<CauseShare>,
    /// Call chains, outermost function first, `;` between functions, and how often each was seen.
    pub folded: Vec<(String, u64)>,
}

/// What one cause took of a side's CPU time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CauseShare {
    /// The cause.
    pub cause: Cause,
    /// Samples.
    pub samples: u64,
    /// Share of the side's CPU time.
    pub share: f64,
    /// CPU time per 4096 bytes, in ns.
    pub ns_per_page: f64,
    /// 95 % interval of that from trial to trial; absent where there is one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ns_per_page_ci95: Option<[f64; 2]>,
    /// The functions in which the CPU was found most often.
    pub top: Vec<SymbolShare>,
}

/// How often the CPU was found in a function.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SymbolShare {
    /// The function.
    pub symbol: String,
    /// Share of the side's CPU time.
    pub share: f64,
}
