//! What a run says, in the form in which it is saved.

use serde::{Deserialize, Serialize};

use super::column::Group;
use super::year_2005::Row2005;
use crate::machine::state::State;
use crate::rounds::by_state::ByState;
use crate::rounds::made::Made;
use crate::rounds::sample::Sample;
use crate::saved::head::Head;
use crate::stats::Estimate;

/// Name and version of the saved form.
pub const SCHEMA: &str = "fullbore.bandwidth/1";

/// One run of `fullbore bandwidth`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct BandwidthRun {
    /// Of the form [`SCHEMA`].
    #[serde(flatten)]
    pub head: Head,
    /// How trials were made.
    pub method: BandwidthMethod,
    /// State of two CPUs in which most trials were made.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub prevailing: Option<State>,
    /// Results, in the order of the table.
    pub columns: Vec<ByState<ColumnResult>>,
    /// Round trips of one byte; none in a run of conduits.
    #[serde(default)]
    pub latencies: Vec<ByState<LatencyResult>>,
    /// The row of 2005; absent in a run of conduits, which 2005 did not have.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub row_2005: Option<Row2005>,
    /// What a reader of the whole run should know.
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// How the trials of a run were made.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct BandwidthMethod {
    /// What is the same for every run.
    #[serde(flatten)]
    pub made: Made,
    /// Measured seconds of each trial.
    pub seconds: f64,
    /// Bytes per call where messages or files are moved.
    pub message_bytes: u64,
    /// Bytes of each buffer and file.
    pub memory_bytes: u64,
    /// File system of the temporary files; absent where there were none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub file_system: Option<String>,
}

/// What the trials of one column in one state of the machine say.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ColumnResult {
    /// Name.
    pub id: String,
    /// Head of the column.
    pub title: String,
    /// What is measured.
    pub what: String,
    /// Which table it belongs to.
    pub group: Group,
    /// State of the machine in these trials.
    #[serde(default)]
    pub state: Option<State>,
    /// Rate in MB (10⁶ bytes) per second.
    pub mb_per_s: Option<Estimate>,
    /// Rate in GiB (2³⁰ bytes) per second.
    pub gib_per_s: Option<Estimate>,
    /// CPU seconds of all processes per GiB.
    #[serde(default)]
    pub cpu_s_per_gib: Option<f64>,
    /// How often a byte is copied on its way, where that is the point.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub copies: Option<u32>,
    /// Whether a CPU touches the data at the end; where it does not, the rate is one of references.
    pub touches_data: bool,
    /// The trials of this state.
    pub samples: Vec<Sample<ColumnFigures>>,
    /// What is doubtful about these trials.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// Why this machine has no figure here.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub refused: Option<String>,
}

/// What one trial of a column gave.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ColumnFigures {
    /// Rate.
    pub gib_per_s: f64,
    /// CPU seconds of all processes per GiB.
    pub cpu_s_per_gib: f64,
}

/// What the round trips through one kind of connection say, in one state of the machine.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LatencyResult {
    /// Name.
    pub id: String,
    /// Head of the column.
    pub title: String,
    /// State of the machine in these trials.
    #[serde(default)]
    pub state: Option<State>,
    /// Round trip, in µs.
    pub us: Option<Microseconds>,
    /// The trials of this state.
    #[serde(default)]
    pub samples: Vec<Sample<TripFigures>>,
    /// Why this machine has no figure here.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub refused: Option<String>,
}

/// A round trip.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Microseconds {
    /// The median of the trials' medians.
    pub median: f64,
    /// Its 95 % interval.
    pub ci95: [f64; 2],
    /// The median of the trials' 99th percentiles.
    pub p99: f64,
}

/// What one trial of round trips gave.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TripFigures {
    /// Median of the trips, in µs.
    pub median_us: f64,
    /// 99th percentile, in µs.
    pub p99_us: f64,
}
