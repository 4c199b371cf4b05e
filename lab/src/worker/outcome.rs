//! What a process of a trial says at its end.

use fullbore_sys::Result;
use serde::{Deserialize, Serialize};

use super::side_report::{Finished, SideReport};

/// What a process measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Report {
    /// It moved bytes.
    Moved(Box<Finished>),
    /// It sent bytes there and back.
    RoundTrips(RoundTrips),
    /// It had the kernel take references.
    Gup(Costs<f64>),
    /// Its partner ended before its time; what that says explains it.
    Nothing,
}

impl Report {
    /// What was moved, if that is what was measured.
    pub(crate) fn moved(&self) -> Option<&SideReport> {
        match self {
            Self::Moved(finished) => Some(&finished.report),
            _ => None,
        }
    }
}

/// What a job calls once its memory is ready; returns when all processes of the trial are.
pub(crate) type Ready<'a> = &'a mut dyn FnMut() -> Result<()>;

/// What many round trips took.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RoundTrips {
    /// How many were counted.
    pub count: usize,
    /// Median, in microseconds.
    pub median_us: f64,
    /// 99th percentile, in microseconds.
    pub p99_us: f64,
}

/// Nanoseconds per page: of one trial, or what several say.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Costs<T> {
    /// Finding one base page of it by address, and taking a reference. In an estimate: vmsplice less splice.
    pub ns_per_page: Option<T>,
    /// vmsplice less tee, in an estimate: finding pages alone, were it not for references, which vmsplice takes to a huge
    /// page all at once and tee one by one. So this may be below zero.
    pub beyond_tee_ns_per_page: Option<T>,
    /// The whole of vmsplice, in an estimate.
    pub vmsplice_ns_per_page: Option<T>,
    /// The whole of tee, in an estimate: a reference for each slot.
    pub tee_ns_per_page: Option<T>,
    /// The whole of splice from pipe to pipe, in an estimate: slots are moved and no reference is taken.
    pub splice_ns_per_page: Option<T>,
    /// Giving the reference back, where the kernel times it.
    pub put_ns_per_page: Option<T>,
}
