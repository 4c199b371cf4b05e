//! What runs in the processes of a trial, and how they get their orders and report.
//!
//! `processes` starts them; each of them is this program with the argument [`COMMAND`] and ends in [`run`]: it gets its
//! `order`, which names a job, and does that.

mod conduit;
pub mod config;
pub(crate) mod failure;
pub(crate) mod files;
pub mod gup_trial;
mod memory_loops;
pub(crate) mod order;
pub mod outcome;
pub mod page_faults;
pub mod pair;
pub(crate) mod processes;
pub mod read_result;
pub mod reader;
pub mod round_trip;
pub mod sequence;
pub mod side;
pub mod side_report;
mod sides;
pub mod sizes;
pub(crate) mod stream;
pub mod timing;
mod wire;
pub mod writer;

pub use order::run;

/// The argument with which a program does the work of one process of a trial: it calls [`run`] then.
pub const COMMAND: &str = "worker";
