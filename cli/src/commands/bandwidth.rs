//! `fullbore bandwidth`: lmbench's nine columns on this machine, round trips, and conduits.

mod bandwidth_csv;
mod bandwidth_table;

use std::collections::BTreeSet;

use clap::Args;
use clap::builder::PossibleValuesParser;
use fullbore_lab::bandwidth::column::{Column, columns};
use fullbore_lab::bandwidth::measuring::{BandwidthOptions, measure};
use fullbore_lab::bandwidth::result::BandwidthRun;
use fullbore_lab::machine::Machine;
use fullbore_lab::rounds::plan::seconds_per_trial;
use fullbore_sys::{Error, Result};

use crate::args::rungs;
use crate::args::values::{trial_seconds, two_cpus};
use crate::output::failure::{Failure, Outcome};
use crate::output::session::{RunArgs, Session};
use crate::output::table;

/// Measure what this machine moves per second, in lmbench's nine columns of 2005 and a few more, and round trips.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    fullbore bandwidth\n  \
    fullbore bandwidth --conduits\n  \
    fullbore bandwidth --columns pipe,af-unix,tcp --seconds 1\n  \
    fullbore bandwidth --rounds 15 --json --no-save > bandwidth.json")]
pub struct BandwidthArgs {
    /// Measure conduits instead: file → pipe → file or socket, and tee, by reference and by copying
    #[arg(long)]
    pub conduits: bool,
    /// Only these columns, by id, separated by commas; round trips have the ids of what they go through
    #[arg(long, value_delimiter = ',', value_parser = ids(), hide_possible_values = true, value_name = "ID,ID")]
    pub columns: Vec<String>,
    /// Rounds; each measures every column once, in an order of its own
    #[arg(long, default_value_t = 9, allow_negative_numbers = true, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub rounds: u32,
    /// Seconds of each trial [default: as many as fit in 40 s altogether]
    #[arg(long, value_parser = trial_seconds, allow_negative_numbers = true, value_name = "S")]
    pub seconds: Option<f64>,
    /// CPUs of sender and receiver; what works alone runs on the first [default: two that share a cache]
    #[arg(long, value_parser = two_cpus, value_name = "S,R")]
    pub cpus: Option<(usize, usize)>,
    #[command(flatten)]
    pub run: RunArgs,
}

/// The default run takes about so many seconds.
const BUDGET_S: f64 = 40.0;
pub fn run(args: &BandwidthArgs) -> Outcome {
    let columns = chosen(args).map_err(Failure::Usage)?;
    let machine = Machine::detect();
    let cpus = rungs::cpus(args.cpus, &machine)?;
    let rounds = args.rounds as usize;
    let options = BandwidthOptions {
        run: args.run.options(args.rounds, cpus)?,
        seconds: args
            .seconds
            .unwrap_or_else(|| seconds_per_trial(columns.len(), rounds, BUDGET_S)),
        columns,
    };
    let session = args.run.session("bandwidth")?;

    let run = measure_and_save(&options, machine, &session)?;
    session.show(&run, &args.run, || {
        Ok(bandwidth_table::draw(&run, table::width()))
    })
}

fn ids() -> PossibleValuesParser {
    let of_both = [false, true].into_iter().flat_map(columns);
    of_both
        .map(|column| column.id)
        .collect::<BTreeSet<_>>()
        .into()
}

fn chosen(args: &BandwidthArgs) -> Result<Vec<Column>> {
    let mut columns = columns(args.conduits);
    if args.columns.is_empty() {
        return Ok(columns);
    }
    let exists = |id: &String| columns.iter().any(|c| c.id == *id);
    if let Some(unknown) = args.columns.iter().find(|id| !exists(id)) {
        let mut known: Vec<_> = columns.iter().map(|c| c.id).collect();
        known.sort_unstable();
        known.dedup();
        return Err(Error::new(
            format!("--columns {unknown}"),
            "there is no such column in this table",
            format!("use some of {}", known.join(",")),
        ));
    }
    columns.retain(|c| args.columns.iter().any(|id| *id == c.id));
    Ok(columns)
}

fn measure_and_save(
    options: &BandwidthOptions,
    machine: Machine,
    session: &Session,
) -> Result<BandwidthRun> {
    let name = |case: usize| options.columns[case].title.to_owned();
    session.saved_as_it_goes(bandwidth_csv::tables, name, |on_event| {
        measure(options, machine, on_event)
    })
}
