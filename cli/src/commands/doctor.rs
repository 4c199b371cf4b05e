//! `fullbore doctor`: what this machine allows, what it refuses, how to allow it.

mod text;

use clap::Args;
use fullbore_lab::doctor::{DoctorReport, examine};
use fullbore_sys::Error;

use crate::args::rungs;
use crate::args::values::Color;
use crate::output::failure::Outcome;

/// Show what this machine allows, what it refuses, what that costs you, and how to change it; changes nothing itself.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    fullbore doctor\n  \
    fullbore doctor --json > doctor.json\n  \
    fullbore doctor | grep -A3 vmsplice")]
pub struct DoctorArgs {
    /// Print one JSON document instead
    #[arg(long)]
    json: bool,
    /// Colours of the states
    #[arg(long, value_enum, default_value_t, value_name = "WHEN")]
    color: Color,
}

pub fn run(args: &DoctorArgs) -> Outcome {
    let report = examine(std::env::current_exe().ok());
    if args.json {
        rungs::print_json(&report)?;
    } else {
        rungs::print(&text::draw(&report), args.color)?;
    }
    match unusable(&report) {
        None => Ok(()),
        Some(error) => Err(error.into()),
    }
}

fn unusable(report: &DoctorReport) -> Option<Error> {
    let fatal = report.checks().find(|check| check.is_fatal)?;
    Some(Error::new(
        "Fullbore cannot work here",
        fatal.found.as_str(),
        fatal.change.as_deref().unwrap_or(""),
    ))
}
