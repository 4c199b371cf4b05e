//! `fullbore`: the lab and the tools, one file per command.

mod args;
mod cli;
mod commands;
mod links;
mod output;
mod parsing;
mod tools;

use std::process::ExitCode;

use cli::Command;

fn main() -> ExitCode {
    let typed = cli::with_command(std::env::args_os().collect());
    let cli = match cli::parse(typed.clone()) {
        Ok(cli) => cli,
        Err(e) => return parsing::explain(&e, &typed),
    };
    let outcome = match &cli.command {
        Command::Ladder(args) => commands::ladder::run(args),
        Command::Profile(args) => commands::profile::run(args),
        Command::Bandwidth(args) => commands::bandwidth::run(args),
        Command::Sweep(args) => commands::sweep::run(args),
        Command::Compare(args) => commands::compare::run(args),
        Command::Write(args) => commands::write::run(args),
        Command::Read(args) => commands::read::run(args),
        Command::Ring(args) => commands::ring::run(args),
        Command::Walk(args) => commands::walk::run(args),
        Command::Gup(args) => commands::gup::run(args),
        Command::Doctor(args) => commands::doctor::run(args),
        Command::Report(args) => commands::report::run(args),
        Command::View(args) => return tools::view::run(args),
        Command::Fizzbuzz(args) => tools::fizzbuzz::run(args),
        Command::Cat(args) => tools::cat::run(args),
        Command::Tee(args) => tools::tee::run(args),
        Command::Yes(args) => tools::yes::run(args),
        Command::Worker => fullbore_lab::worker::run().map_err(output::failure::Failure::from),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
