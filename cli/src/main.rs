//! `fullbore`: the lab and the tools, one file per command.

mod args;
mod bandwidth;
mod cat;
mod cli;
mod compare;
mod doctor;
mod failure;
mod fallbacks;
mod find;
mod fizzbuzz;
mod gup;
mod ladder;
mod ladder_csv;
mod links;
mod measuring;
mod pair_args;
mod pair_output;
mod parsing;
mod picture;
mod profile;
mod quote;
mod read;
mod report;
mod ring;
mod saved;
mod session;
mod stand_in;
mod sweep;
mod table;
mod tee;
mod view;
mod walk;
mod write;
mod yes;

use std::process::ExitCode;

use cli::Command;

fn main() -> ExitCode {
    let typed = cli::with_command(std::env::args_os().collect());
    let cli = match cli::parse(typed.clone()) {
        Ok(cli) => cli,
        Err(e) => return parsing::explain(&e, &typed),
    };
    let outcome = match &cli.command {
        Command::Ladder(args) => ladder::run(args),
        Command::Profile(args) => profile::run(args),
        Command::Bandwidth(args) => bandwidth::run(args),
        Command::Sweep(args) => sweep::run(args),
        Command::Compare(args) => compare::run(args),
        Command::Write(args) => write::run(args),
        Command::Read(args) => read::run(args),
        Command::Ring(args) => ring::run(args),
        Command::Walk(args) => walk::run(args),
        Command::Gup(args) => gup::run(args),
        Command::Doctor(args) => doctor::run(args),
        Command::Report(args) => report::run(args),
        Command::View(args) => return view::run(args),
        Command::Fizzbuzz(args) => fizzbuzz::run(args),
        Command::Cat(args) => cat::run(args),
        Command::Tee(args) => tee::run(args),
        Command::Yes(args) => yes::run(args),
        Command::PairSide => fullbore_lab::trial::serve().map_err(failure::Failure::from),
        Command::BandwidthSide => fullbore_lab::bandwidth::serve().map_err(failure::Failure::from),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
