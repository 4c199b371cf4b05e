//! What the commands that measure have in common: what to measure, where, and how results are printed.

use std::io::{self, Write};

use anstream::{AutoStream, ColorChoice};
use clap::Args;
use clap::builder::PossibleValuesParser;
use fullbore_lab::ladder::rung::{self, Rung};
use fullbore_lab::machine::{Machine, choose_cpus};
use fullbore_lab::show::escape;
use fullbore_lab::sys;
use fullbore_sys::Error;
use serde::Serialize;

use super::values::Color;
use crate::output::failure::{Failure, Outcome, complain, print_result, printed};

/// Which rungs are climbed.
#[derive(Args, Debug)]
pub struct RungArgs {
    /// Only these rungs, by id, separated by commas [default: some twenty of them]
    #[arg(
        long,
        value_delimiter = ',',
        value_parser = ids(),
        hide_possible_values = true,
        value_name = "ID,ID",
        conflicts_with = "all"
    )]
    rungs: Vec<String>,
    /// All rungs, those also that are there to compare with
    #[arg(long)]
    all: bool,
}

impl RungArgs {
    /// The rungs in the order of the ladder.
    pub fn chosen(&self) -> Vec<Rung> {
        let mut ladder = rung::ladder();
        match (&self.rungs[..], self.all) {
            ([], true) => {}
            ([], false) => ladder.retain(|r| r.by_default),
            (ids, _) => ladder.retain(|r| ids.iter().any(|id| *id == r.id)),
        }
        ladder
    }
}

fn ids() -> PossibleValuesParser {
    rung::ladder().into_iter().map(|r| r.id.into_owned()).into()
}

/// The CPUs of writer and reader: those given, else two that share a cache.
pub fn cpus(given: Option<(usize, usize)>, machine: &Machine) -> Result<(usize, usize), Failure> {
    if let Some((writer, reader)) = given {
        usable(writer)?;
        usable(reader)?;
        return Ok((writer, reader));
    }
    let pair = choose_cpus(machine).ok_or_else(|| {
        Error::new(
            "no CPUs can be chosen",
            "the system does not say which ones this process may use",
            "name two with --cpus, for example --cpus 0,1",
        )
    })?;
    if pair.writer == pair.reader {
        complain("warning: only one CPU may be used: writer and reader share it");
    }
    Ok((pair.writer, pair.reader))
}

/// Refuses a CPU that was asked for and cannot be used now, and not in the middle of the work.
pub fn usable(cpu: usize) -> Outcome {
    sys::try_cpu(cpu).map_err(Failure::Usage)
}

/// Prints a result as one JSON document.
pub fn print_json(result: &impl Serialize) -> Outcome {
    let text = serde_json::to_string(result)
        .map_err(|e| Error::system("the result cannot be printed", io::Error::from(e), ""))?;
    print_result(&format!("{}\n", escape::json(&text)))
}

/// Whether results are printed in colour.
pub fn colour(asked: Color) -> ColorChoice {
    match asked {
        Color::Always => ColorChoice::Always,
        Color::Never => ColorChoice::Never,
        Color::Auto => AutoStream::choice(&io::stdout()),
    }
}

/// Prints text that may have colours.
pub fn print(text: &str, color: Color) -> Outcome {
    let mut out = AutoStream::new(io::stdout(), colour(color));
    printed(out.write_all(text.as_bytes()))
}
