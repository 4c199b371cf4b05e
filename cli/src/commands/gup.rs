//! `fullbore gup`: what get_user_pages costs per page on this machine.

mod gup_table;

use clap::Args;
use fullbore_lab::gup::{self, Gup, GupOptions};
use fullbore_lab::machine::{Machine, choose_cpus};
use fullbore_sys::Error;

use crate::args::rungs::usable;
use crate::args::values;
use crate::output::failure::{Failure, Outcome};
use crate::output::session::RunArgs;

/// Show what it costs the kernel to find and reference a page (get_user_pages), for each kind of pages.
#[derive(Args, Debug)]
#[command(
    after_help = "Exit code 4: every cost is below the resolution of the method.\n\n\
    Examples:\n  \
    fullbore gup\n  \
    fullbore gup --rounds 25 --seconds 0.1\n  \
    fullbore gup --json --no-save > gup.json"
)]
pub struct GupArgs {
    /// Rounds; each measures every kind of pages once, in an order of its own
    #[arg(long, default_value_t = 15, allow_negative_numbers = true, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rounds: u32,
    /// Seconds for each kind of pages in a round
    #[arg(long, default_value_t = 0.05, value_parser = values::trial_seconds, allow_negative_numbers = true, value_name = "S")]
    seconds: f64,
    /// Run on this CPU only [default: one of two that share a cache]
    #[arg(long, allow_negative_numbers = true, value_name = "N")]
    cpu: Option<usize>,
    #[command(flatten)]
    run: RunArgs,
}

pub fn run(args: &GupArgs) -> Outcome {
    args.cpu.map_or(Ok(()), usable)?;
    let machine = Machine::detect();
    let chosen = || choose_cpus(&machine).map(|pair| pair.writer);
    let cpu = args.cpu.or_else(chosen).unwrap_or_default();
    let options = GupOptions {
        run: args.run.options(args.rounds, (cpu, cpu))?,
        seconds: args.seconds,
    };
    let session = args.run.session("gup")?;
    let result = session.saved_as_it_goes(
        |_| [],
        |_| String::new(),
        |on_event| gup::measure(&options, machine, on_event),
    )?;
    session.show(&result, &args.run, || Ok(gup_table::draw(&result)))?;
    judged(&result)
}

fn judged(result: &Gup) -> Outcome {
    if result.has_cost() {
        return Ok(());
    }
    Err(Failure::Unjudged(Error::new(
        "no cost can be told",
        "every one is below the resolution of this method",
        "run it again while the machine is idle, with more --rounds",
    )))
}
