//! The lab: what can be measured of Linux pipes, without argument parsing and without printing.
//!
//! The main path: [`ladder::rung`] (the ladder as data) → [`rounds`] (which trial when) → [`ladder`] (a trial of a rung) →
//! [`worker::pair`] (two processes, started together) → [`worker`] (what each of them does) → [`ladder::run`] (what it all
//! says). `docs/architecture.md` has it in ten lines.
#![warn(missing_docs)]

pub mod bandwidth;
pub mod compare;
pub mod doctor;
pub mod gup;
pub mod ladder;
pub mod machine;
pub mod profile;
pub mod report;
pub mod ring;
pub mod rounds;
pub mod saved;
pub mod show;
pub mod stats;
pub mod sweep;
pub mod sys;
#[cfg(test)]
#[path = "../tests/support/mod.rs"]
mod testing;
pub mod walk;
pub mod worker;
