//! `fullbore ladder`: climb the ladder on this machine.

use std::io::{self, Write};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use anstream::{AutoStream, ColorChoice};
use fullbore::{Error, Result};
use fullbore_lab::ladder::{Event, Options, climb};
use fullbore_lab::machine::{Machine, choose_cpus};
use fullbore_lab::plan::seconds_per_trial;
use fullbore_lab::run::Run;
use fullbore_lab::rung::{self, Rung};
use fullbore_lab::sys;
use fullbore_lab::trial::Until;
use indicatif::{ProgressBar, ProgressStyle};

use crate::args::{Color, LadderArgs};
use crate::failure::{Failure, Outcome, complain, print_result, printed};
use crate::ladder_csv;
use crate::saved::Place;
use crate::table;

/// The default run takes about so many seconds.
const BUDGET_S: f64 = 45.0;

pub fn run(args: &LadderArgs) -> Outcome {
    let rungs = chosen(&args.rungs).map_err(Failure::Usage)?;
    if args.explain {
        return print(&explanation(&rungs), args.color);
    }
    let machine = Machine::detect();
    let cpus = cpus(args, &machine)?;
    let (rungs, more_cpus) = match args.pairs {
        Some(n) => with_pairs(rungs, usize::from(n), &machine, cpus),
        None => (rungs, Vec::new()),
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.unwrap_or_default();
    let options = Options {
        rounds: args.rounds as usize,
        until: match (args.bytes, args.seconds) {
            (Some(bytes), _) => Until::Bytes(bytes),
            (None, Some(seconds)) => Until::Seconds(seconds),
            (None, None) => Until::Seconds(seconds_per_trial(
                rungs.len(),
                args.rounds as usize,
                BUDGET_S,
            )),
        },
        cpus,
        more_cpus,
        seed: args.seed.unwrap_or(now.as_nanos() as u64),
        label: args.label.clone(),
        side: (this_program()?, "pair-side"),
        rungs,
    };
    let place = match (&args.out, args.no_save) {
        (Some(file), _) => Some(Place::file(file)?),
        (None, true) => None,
        (None, false) => Some(Place::new_in_state(now.as_secs(), "ladder")?),
    };
    let interrupted = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGINT, interrupted.clone())
        .map_err(|e| Error::system("Ctrl-C cannot be caught", e, ""))?;

    let run = climb_and_save(&options, machine, place.as_ref(), &interrupted)?;
    if args.json {
        print_json(&run)?;
    } else {
        print(&table::draw(&run), args.color)?;
        if let Some(place) = &place {
            complain(&format!("saved in {}", place.json().display()));
        }
    }
    if interrupted.load(Ordering::Relaxed) {
        return Err(Failure::Interrupted);
    }
    Ok(())
}

fn chosen(ids: &[String]) -> Result<Vec<Rung>> {
    let ladder = rung::ladder();
    if ids.is_empty() {
        return Ok(ladder);
    }
    if let Some(unknown) = ids.iter().find(|id| ladder.iter().all(|r| r.id != **id)) {
        let known: Vec<_> = ladder.iter().map(|r| &*r.id).collect();
        return Err(Error::new(
            format!("--rungs {unknown}"),
            "there is no such rung",
            format!("use some of {}", known.join(",")),
        ));
    }
    Ok(ladder
        .into_iter()
        .filter(|r| ids.iter().any(|id| *id == r.id))
        .collect())
}

fn cpus(args: &LadderArgs, machine: &Machine) -> std::result::Result<(usize, usize), Failure> {
    if let Some((writer, reader)) = args.cpus {
        // A CPU that cannot be used is found now, and not in the middle of the climb.
        for cpu in [writer, reader] {
            std::thread::scope(|s| s.spawn(|| sys::pin_to_cpu(cpu)).join())
                .unwrap_or(Ok(()))
                .map_err(Failure::Usage)?;
        }
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

fn this_program() -> Result<std::path::PathBuf> {
    std::env::current_exe()
        .map_err(|e| Error::system("this program's own file cannot be found", e, "mount /proc"))
}

/// Every finished round is on disk before the next one begins.
fn climb_and_save(
    options: &Options,
    machine: Machine,
    place: Option<&Place>,
    interrupted: &AtomicBool,
) -> Result<Run> {
    // Drawn between trials only, so that it never disturbs one.
    let bar = ProgressBar::new((options.rungs.len() * options.rounds) as u64);
    if let Ok(style) =
        ProgressStyle::with_template("{bar:30} {pos}/{len} trials, {eta} left  {msg}")
    {
        bar.set_style(style);
    }
    let mut not_saved = None;
    let run = climb(options, machine, |event| {
        match event {
            Event::Trial { done, rung } => {
                bar.set_position(done as u64);
                bar.set_message(rung.id.to_string());
                bar.tick();
            }
            Event::Round(run) => {
                if let Some(place) = place
                    && let Err(e) = place.save(run, &ladder_csv::tables(run))
                {
                    not_saved = Some(e);
                    return ControlFlow::Break(());
                }
            }
        }
        if interrupted.load(Ordering::Relaxed) {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    });
    bar.finish_and_clear();
    if let Some(e) = not_saved {
        return Err(e);
    }
    let run = run?;
    if let Some(place) = place {
        place.save(&run, &ladder_csv::tables(&run))?;
    }
    Ok(run)
}

fn explanation(rungs: &[Rung]) -> String {
    rungs
        .iter()
        .map(|r| format!("{:<24} {}\n", r.id, r.explanation))
        .collect()
}

fn print_json(run: &Run) -> Outcome {
    let text = serde_json::to_string(run)
        .map_err(|e| Error::system("the result cannot be printed", io::Error::from(e), ""))?;
    print_result(&format!("{text}\n"))
}

fn print(text: &str, color: Color) -> Outcome {
    let choice = match color {
        Color::Always => ColorChoice::Always,
        Color::Never => ColorChoice::Never,
        Color::Auto => AutoStream::choice(&io::stdout()),
    };
    let mut out = AutoStream::new(io::stdout(), choice);
    printed(out.write_all(text.as_bytes()))
}
