//! The command line: every command, and how it is called through a link.

use std::ffi::OsString;

use clap::{Arg, ArgAction, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::args::pair::PairArgs;
use crate::links::link_of;

/// Measures how fast Linux pipes are on this machine, and moves bytes through them at full bore.
#[derive(Parser, Debug)]
#[command(
    name = "fullbore",
    version = concat!(env!("CARGO_PKG_VERSION"), env!("FULLBORE_COMMIT")),
    disable_help_subcommand = true,
    after_help = "Examples:\n  \
        fullbore ladder                           climb the ladder on this machine\n  \
        fullbore write | fullbore read            the pair by hand\n  \
        fullbore ladder --json > ladder.json      the ladder as data"
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand, Debug)]
pub enum Command {
    Ladder(crate::commands::ladder::LadderArgs),
    Profile(crate::commands::profile::ProfileArgs),
    Sweep(crate::commands::sweep::SweepArgs),
    Bandwidth(crate::commands::bandwidth::BandwidthArgs),
    Report(crate::commands::report::ReportArgs),
    Compare(crate::commands::compare::CompareArgs),
    /// Write into standard output until the reader goes away, or for a given number of bytes or seconds.
    #[command(after_help = "Examples:\n  \
        fullbore write | fullbore read\n  \
        fullbore write --with vmsplice --pages huge --wait spin | fullbore read --with splice --wait spin\n  \
        fullbore write --with cow --ahead 4M --pipe-size 1M --wait spin | fullbore read --wait spin\n  \
        fullbore write --bytes 1G --verify | fullbore read --verify\n\n\
        reuse and vmsplice lend memory and write it again without asking who holds it: right for readers that copy, only.")]
    Write(PairArgs),
    /// Read standard input to its end, or for a given number of bytes or seconds, and say how fast that was.
    #[command(after_help = "Examples:\n  \
        fullbore write | fullbore read\n  \
        fullbore write | fullbore read --seconds 2 --json\n  \
        fullbore write --with vmsplice | fullbore read --with splice --bytes 100G")]
    Read(PairArgs),
    Doctor(crate::commands::doctor::DoctorArgs),
    Ring(crate::commands::ring::RingArgs),
    Walk(crate::commands::walk::WalkArgs),
    Gup(crate::commands::gup::GupArgs),
    #[command(alias = "pv")]
    View(Box<crate::tools::view::ViewArgs>),
    Cat(crate::tools::cat::CatArgs),
    Tee(crate::tools::tee::TeeArgs),
    Yes(crate::tools::yes::YesArgs),
    Fizzbuzz(crate::tools::fizzbuzz::FizzbuzzArgs),
    /// One process of a trial, which gets its order through the socket that is its standard input.
    #[command(hide = true, name = fullbore_lab::worker::COMMAND)]
    Worker,
}

/// What is said where nothing was typed.
pub const SHORT_HELP: &str = "\
fullbore ladder                   climb the ladder: how fast pipes are on this machine, in a minute
fullbore profile                  where the time of each rung goes
fullbore doctor                   what this machine allows, what it refuses, how to allow it
fullbore write | fullbore read    one writer and one reader, by hand
fullbore view FILE | COMMAND      progress of a pipeline, with pv's options
fullbore cat, tee, yes, fizzbuzz  as you know them, as fast as this kernel allows
fullbore report                   a page of the saved runs, to share

fullbore --help                   every command; COMMAND --help: its options, and examples
";

/// Puts the command in where a link's name stands for it.
pub fn with_command(mut args: Vec<OsString>) -> Vec<OsString> {
    if let Some(link) = args.first().and_then(|name| link_of(name)) {
        args.insert(1, link.into());
    }
    args
}

/// What was typed, with the command put in, as clap understands it.
pub fn parse(mut typed: Vec<OsString>) -> Result<Cli, clap::Error> {
    let mut command = match typed.first().and_then(|name| link_of(name)) {
        Some(link) => {
            typed.remove(0);
            definition_of_link(link)
        }
        None => Cli::command(),
    };
    let mut matches = command.try_get_matches_from_mut(typed)?;
    Cli::from_arg_matches_mut(&mut matches).map_err(|e| e.format(&mut command))
}

/// What may be typed behind the name of a link, which is the name of its command and of the program.
pub fn definition_of_link(link: &str) -> clap::Command {
    let definition = Cli::command().no_binary_name(true);
    match link {
        "pv" => definition.mut_subcommand("view", |view| {
            view.override_usage("pv [OPTIONS] [FILE]...\n       pv -d PID[:FD]... [OPTIONS]\n       pv -R PID [OPTIONS]")
        }),
        // These have no -h.
        "cat" | "tee" | "yes" => definition.mut_subcommand(link, |command| {
            let help = Arg::new("help").long("help").action(ArgAction::Help);
            command.disable_help_flag(true).arg(help.help("Print help"))
        }),
        _ => definition,
    }
}

/// How to ask for the help that belongs to a command line, the command put in.
pub fn help_for(typed: &[OsString]) -> String {
    if let Some(link) = typed.first().and_then(|name| link_of(name)) {
        return format!("{link} --help");
    }
    let definition = Cli::command();
    match typed.get(1).and_then(|name| name.to_str()) {
        Some(name) if definition.find_subcommand(name).is_some() => {
            format!("fullbore {name} --help")
        }
        _ => "fullbore --help".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::links::LINKS;

    fn typed(line: &str) -> Vec<String> {
        let args = line.split(' ').map(OsString::from).collect();
        with_command(args)
            .into_iter()
            .map(|a| a.into_string().unwrap())
            .collect()
    }

    #[test]
    fn link_names_stand_for_commands() {
        assert_eq!(typed("fullbore"), ["fullbore"]);
        assert_eq!(typed("fullbore --version"), ["fullbore", "--version"]);
        assert_eq!(typed("fullbore read"), ["fullbore", "read"]);
        assert_eq!(typed("./write --csv"), ["./write", "write", "--csv"]);
        assert_eq!(typed("/tmp/read"), ["/tmp/read", "read"]);
    }

    #[test]
    fn help_is_looked_for_where_the_options_are() {
        let help = |line: &str| {
            let args = line.split(' ').map(OsString::from).collect();
            help_for(&with_command(args))
        };
        assert_eq!(help("fullbore --bogus"), "fullbore --help");
        assert_eq!(help("fullbore read --bogus"), "fullbore read --help");
        assert_eq!(help("fullbore bogus"), "fullbore --help");
        assert_eq!(help("/tmp/read --bogus"), "read --help");
    }

    #[test]
    fn short_help_begins_with_the_ladder_and_names_commands_that_exist() {
        let definition = Cli::command();
        assert!(SHORT_HELP.starts_with("fullbore ladder "));
        for line in SHORT_HELP.lines() {
            let typed = line.split("  ").next().unwrap_or_default();
            let words = typed.split(|c: char| !(c.is_lowercase() || c == '-'));
            for name in words.filter(|w| !["", "fullbore", "--help"].contains(w)) {
                assert!(definition.find_subcommand(name).is_some(), "{name}");
            }
        }
    }

    #[test]
    fn definitions_are_consistent() {
        Cli::command().debug_assert();
        for link in LINKS {
            definition_of_link(link).debug_assert();
        }
    }
}
