//! `fullbore profile`: where the time goes, per rung, per cause.

mod profile_text;

use clap::Args;
use fullbore_lab::machine::Machine;
use fullbore_lab::profile::profiled::{Profile, RungProfile};
use fullbore_lab::profile::{self, ProfileOptions, explain, flame, recorder};
use fullbore_sys::{Error, Result};

use crate::args::rungs::{self, RungArgs};
use crate::args::values::{trial_seconds, two_cpus};
use crate::output::failure::{Failure, Outcome};
use crate::output::saved::Place;
use crate::output::session::RunArgs;

/// Show where the time of each rung goes, per cause in ns/page: bars, flame graphs, and a saved profile.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    fullbore profile\n  \
    fullbore profile --rungs write-read,busy-loop,relay --seconds 3\n  \
    fullbore profile --rungs vmsplice-splice --symbol iov_iter_get_pages2\n  \
    fullbore profile --json --no-save > profile.json")]
pub struct ProfileArgs {
    #[command(flatten)]
    rungs: RungArgs,
    /// Rounds; each profiles every rung once, in an order of its own
    #[arg(long, default_value_t = 5, allow_negative_numbers = true, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rounds: u32,
    /// Seconds of each trial
    #[arg(long, default_value_t = 0.3, value_parser = trial_seconds, allow_negative_numbers = true, value_name = "S")]
    seconds: f64,
    /// Samples per second of CPU time
    #[arg(long, default_value_t = 997, allow_negative_numbers = true, value_name = "HZ", value_parser = clap::value_parser!(u64).range(1..=100_000))]
    frequency: u64,
    /// CPUs of writer and reader [default: two that share a cache]
    #[arg(long, value_parser = two_cpus, value_name = "W,R")]
    cpus: Option<(usize, usize)>,
    /// Show what lies below this function instead: its callees with their shares
    #[arg(long, value_name = "NAME", conflicts_with = "json")]
    symbol: Option<String>,
    #[command(flatten)]
    run: RunArgs,
}

pub fn run(args: &ProfileArgs) -> Outcome {
    if args.symbol.is_some() && args.run.is_to_stdout() {
        return Err(Failure::Usage(Error::new(
            "--symbol with --out -",
            "standard output is for one of them",
            "leave out one of them, or name a file",
        )));
    }
    let rungs = args.rungs.chosen();
    let machine = Machine::detect();
    let cpus = rungs::cpus(args.cpus, &machine)?;
    let (sampling, warning) = recorder::permitted(args.frequency, cpus.0)?;
    let session = args.run.session("profile")?;
    let options = ProfileOptions {
        run: args.run.options(args.rounds, cpus)?,
        seconds: args.seconds,
        sampling,
        warning,
        rungs,
    };
    let name = |case: usize| options.rungs[case].id.to_string();
    let tables = |profile: &Profile| [("causes", causes_csv(profile))];
    let profile = session.saved_as_it_goes(tables, name, |on_event| {
        profile::profile(&options, machine, on_event)
    })?;
    if let Some(place) = session.place() {
        session.saved(save_stacks(&profile, place));
    }
    session.show(&profile, &args.run, || {
        text(&profile, args.symbol.as_deref())
    })
}

fn text(profile: &Profile, symbol: Option<&str>) -> Result<String> {
    let Some(symbol) = symbol else {
        return Ok(profile_text::profile(profile));
    };
    profile_text::below(profile, symbol).ok_or_else(|| {
        Error::new(
            format!("--symbol {symbol}"),
            "no sample is in a function of that name",
            "take a name from a flame graph, or profile for longer with --seconds",
        )
    })
}

/// For each side of each rung the folded stacks and a flame graph.
fn save_stacks(profile: &Profile, place: &Place) -> Result<()> {
    for (rung, side) in profile
        .rungs
        .iter()
        .flat_map(|r| r.sides.iter().map(move |s| (r, s)))
    {
        let who = explain::name(side.side);
        let name = format!("{}-{who}", rung.id);
        place.save_beside(&format!("{name}.folded"), &flame::lines(&side.folded))?;
        // A side that hardly ran has nothing to draw.
        if !side.folded.is_empty() {
            let title = format!("{}: {who}, {} samples", rung.id, side.samples);
            place.save_beside(&format!("{name}.svg"), &flame::draw(&side.folded, &title)?)?;
        }
    }
    Ok(())
}

/// One line per rung, side and cause; time off the CPU stands like a cause.
fn causes_csv(profile: &Profile) -> String {
    let mut csv = String::from("rung,side,cause,samples,share_of_cpu,ns_per_page\n");
    for RungProfile { id, sides, .. } in profile.rungs.iter().map(|r| &r.main) {
        for side in sides {
            let who = explain::name(side.side);
            for c in &side.causes {
                csv += &format!(
                    "{id},{who},{},{},{},{}\n",
                    c.cause, c.samples, c.share, c.ns_per_page
                );
            }
            for (what, s) in [("runnable", side.runnable_s), ("blocked", side.blocked_s)] {
                csv += &format!("{id},{who},{what},,,{}\n", s * 1e9 / side.pages.max(1.0));
            }
        }
    }
    csv
}
