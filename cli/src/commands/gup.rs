//! `fullbore gup`: what get_user_pages costs per page on this machine.

mod gup_table;

use clap::Args;
use fullbore_lab::gup::{self, Options};
use fullbore_lab::machine::{Machine, choose_cpus};

use crate::args::values::{self, Color};
use crate::output::failure::{Failure, Outcome};
use crate::output::session::{Session, progress_bar, seed_of_now};

/// Show what it costs the kernel to find and reference a page (get_user_pages), for each kind of pages.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    fullbore gup\n  \
    fullbore gup --rounds 25 --seconds 0.1\n  \
    fullbore gup --json > gup.json")]
pub struct GupArgs {
    /// Rounds; each measures every kind of pages once, in an order of its own
    #[arg(long, default_value_t = 15, allow_negative_numbers = true, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rounds: u32,
    /// Seconds for each kind of pages in a round
    #[arg(long, default_value_t = 0.05, value_parser = values::trial_seconds, allow_negative_numbers = true, value_name = "S")]
    seconds: f64,
    /// Print one JSON document instead of the table
    #[arg(long)]
    json: bool,
    /// Colours in the table
    #[arg(long, value_enum, default_value_t, value_name = "WHEN")]
    color: Color,
}

pub fn run(args: &GupArgs) -> Outcome {
    let machine = Machine::detect();
    let options = Options {
        rounds: args.rounds as usize,
        seconds: args.seconds,
        seed: seed_of_now(),
        cpu: choose_cpus(&machine).map(|pair| pair.writer),
    };
    let session = Session::unsaved()?;
    let bar = progress_bar(gup::cases().len() * options.rounds, "trials");
    let measured = gup::measure(&options, machine, |done| {
        bar.set_position(done as u64);
        bar.tick();
        session.go_on()
    });
    bar.finish_and_clear();
    let result = match measured {
        // Interrupted before there was anything to show.
        Err(_) if session.is_interrupted() => return Err(Failure::Interrupted),
        other => other?,
    };
    session.show(&result, args.json, args.color, || {
        Ok(gup_table::draw(&result))
    })
}
