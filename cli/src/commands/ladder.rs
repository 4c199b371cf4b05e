//! `fullbore ladder`: climb the ladder on this machine.

pub(crate) mod ladder_csv;
mod ladder_table;

use clap::Args;
use fullbore_lab::ladder::run::Run;
use fullbore_lab::ladder::rung::Rung;
use fullbore_lab::ladder::{LadderOptions, climb};
use fullbore_lab::machine::Machine;
use fullbore_lab::rounds::plan::seconds_per_trial;
use fullbore_lab::worker::timing::Until;
use fullbore_sys::Result;

use crate::args::rungs::{self, RungArgs};
use crate::args::values::{positive_size, trial_seconds, two_cpus};
use crate::output::failure::{Outcome, complain};
use crate::output::session::{RunArgs, Session};
use crate::output::table;
use crate::output::table::Table;

/// Climb the ladder from write/read to the limit on this machine: a table with bars, and a saved run.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    fullbore ladder\n  \
    fullbore ladder --rungs write-read,busy-loop --rounds 15\n  \
    fullbore ladder --explain --all                 what each rung changes, and which are there\n  \
    fullbore ladder --json --no-save > ladder.json")]
pub struct LadderArgs {
    #[command(flatten)]
    rungs: RungArgs,
    /// Rounds; each runs every rung once, in an order of its own
    #[arg(long, default_value_t = 9, allow_negative_numbers = true, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rounds: u32,
    /// Seconds of each trial [default: as many as fit in 45 s altogether]
    #[arg(long, value_parser = trial_seconds, allow_negative_numbers = true, value_name = "S", conflicts_with = "bytes")]
    seconds: Option<f64>,
    /// Bytes of each trial, instead of seconds
    #[arg(long, value_parser = positive_size, value_name = "SIZE")]
    bytes: Option<u64>,
    /// CPUs of writer and reader [default: two that share a cache]
    #[arg(long, value_parser = two_cpus, value_name = "W,R")]
    cpus: Option<(usize, usize)>,
    /// Also run N pairs at once, on CPUs of their own, and show how that scales
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=512), conflicts_with = "cpus")]
    pairs: Option<u16>,
    /// Say what each rung changes, and why that helps, and measure nothing
    #[arg(long, conflicts_with = "json")]
    explain: bool,
    #[command(flatten)]
    run: RunArgs,
}

/// The default run takes about so many seconds.
const BUDGET_S: f64 = 45.0;

pub fn run(args: &LadderArgs) -> Outcome {
    let rungs = args.rungs.chosen();
    if args.explain {
        return rungs::print(&explanation(&rungs), args.run.color);
    }
    let machine = Machine::detect();
    let cpus = rungs::cpus(args.cpus, &machine)?;
    let (rungs, more_cpus) = match args.pairs {
        Some(n) => with_pairs(rungs, usize::from(n), &machine, cpus),
        None => (rungs, Vec::new()),
    };
    let options = LadderOptions {
        run: args.run.options(args.rounds, cpus)?,
        until: match (args.bytes, args.seconds) {
            (Some(bytes), _) => Until::Bytes(bytes),
            (None, Some(seconds)) => Until::Seconds(seconds),
            (None, None) => Until::Seconds(seconds_per_trial(
                rungs.len(),
                args.rounds as usize,
                BUDGET_S,
            )),
        },
        more_cpus,
        rungs,
    };
    let session = args.run.session("ladder")?;

    let run = climb_and_save(&options, machine, &session)?;
    session.show(&run, &args.run, || {
        Ok(ladder_table::draw(&run, table::width()))
    })
}

/// Each rung once with one pair and once with as many as were asked for and have CPUs.
fn with_pairs(
    rungs: Vec<Rung>,
    wanted: usize,
    machine: &Machine,
    first: (usize, usize),
) -> (Vec<Rung>, Vec<(usize, usize)>) {
    let mut free = machine.topology.clone();
    free.cpus_allowed
        .retain(|&cpu| cpu != first.0 && cpu != first.1);
    let mut more = Vec::new();
    while more.len() + 1 < wanted {
        match free.choose() {
            Some(pair) if pair.writer != pair.reader => {
                free.cpus_allowed
                    .retain(|&cpu| cpu != pair.writer && cpu != pair.reader);
                more.push((pair.writer, pair.reader));
            }
            _ => break,
        }
    }
    let pairs = more.len() + 1;
    if pairs < wanted {
        complain(&format!(
            "warning: {wanted} pairs do not fit: there are CPUs for {pairs}, so that many run"
        ));
    }
    if pairs == 1 {
        return (rungs, more);
    }
    let both = rungs.into_iter().flat_map(|r| {
        let many = r.with_pairs(pairs);
        [r, many]
    });
    (both.collect(), more)
}

fn climb_and_save(options: &LadderOptions, machine: Machine, session: &Session) -> Result<Run> {
    let name = |case: usize| options.rungs[case].id.to_string();
    session.saved_as_it_goes(ladder_csv::tables, name, |on_event| {
        climb(options, machine, on_event)
    })
}

fn explanation(rungs: &[Rung]) -> String {
    let mut table = Table::new(["", ""]);
    for rung in rungs {
        let note = if rung.by_default {
            ""
        } else {
            " (not by default)"
        };
        table.row([rung.id.to_string(), format!("{}{note}", rung.explanation)]);
    }
    table.draw()
}
