//! What `read --json` says.

use serde::Serialize;

use super::side::Path;

/// Name and version of the form of the result.
pub const SCHEMA: &str = "fullbore.read/1";

/// What a reader measured.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ReadResult {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// Version of Fullbore.
    pub version: &'static str,
    /// GiB/s, from the moment when the first bytes had arrived.
    pub gib_per_s: f64,
    /// Bytes read.
    pub bytes: u64,
    /// Seconds since the first bytes had arrived.
    pub seconds: f64,
    /// System calls that moved bytes or might have.
    pub calls: u64,
    /// Those that would have blocked.
    pub eagain: u64,
    /// CPU time of the process, in seconds.
    pub cpu_s: f64,
    /// How bytes moved.
    pub path: Path,
}
