//! The lab: what can be measured of Linux pipes, without argument parsing and without printing.
//!
//! The main path: [`rung`] (the ladder as data) → [`plan`] (shuffled rounds) → [`ladder`] (one trial after the other) →
//! [`pair`] (two processes, started together) → [`trial`] (what each of them does) → [`run`] (what it all says).
#![warn(missing_docs)]

pub mod bandwidth;
pub mod compare;
pub mod config;
pub mod doctor;
mod failure;
pub mod faults;
mod font;
pub mod gup;
pub mod head;
pub mod ladder;
pub mod latency;
pub mod load;
pub mod machine;
pub mod memory;
pub mod pagemap;
pub mod pair;
pub mod plan;
pub mod profile;
pub mod reader;
pub mod report;
pub mod ring;
mod rng;
pub mod run;
pub mod rung;
#[cfg(test)]
mod schema;
pub mod sequence;
pub mod side;
pub mod stats;
pub mod sweep;
pub mod sys;
#[cfg(test)]
#[path = "../tests/support/mod.rs"]
mod testing;
mod text;
pub mod travel;
pub mod trial;
pub mod walk;
mod wire;
mod wrap;
pub mod writer;
