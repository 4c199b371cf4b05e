//! What the commands that measure have in common: what to measure, where, and how results leave.

use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anstream::{AutoStream, ColorChoice};
use fullbore::{Error, Result};
use fullbore_lab::machine::{Machine, choose_cpus};
use fullbore_lab::rung::{self, Rung};
use fullbore_lab::sys;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use crate::args::Color;
use crate::failure::{Failure, Outcome, complain, print_result, printed};
use crate::saved::Place;

/// The rungs of these names in the order of the ladder; all of them when none is named.
pub fn rungs(ids: &[String]) -> Result<Vec<Rung>> {
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

/// The CPUs of writer and reader: those given, else two that share a cache.
pub fn cpus(
    given: Option<(usize, usize)>,
    machine: &Machine,
) -> std::result::Result<(usize, usize), Failure> {
    if let Some((writer, reader)) = given {
        // A CPU that cannot be used is found now, and not in the middle of the work.
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

/// The program that each side of a trial is a process of.
pub fn this_program() -> Result<PathBuf> {
    std::env::current_exe()
        .map_err(|e| Error::system("this program's own file cannot be found", e, "mount /proc"))
}

/// Where a run of this kind is saved, if anywhere.
pub fn place(
    out: Option<&Path>,
    no_save: bool,
    started_unix_s: u64,
    kind: &str,
) -> Result<Option<Place>> {
    match (out, no_save) {
        (Some(file), _) => Place::file(file).map(Some),
        (None, true) => Ok(None),
        (None, false) => Place::new_in_state(started_unix_s, kind).map(Some),
    }
}

/// Set by Ctrl-C from here on.
pub fn interruptible() -> Result<Arc<AtomicBool>> {
    let interrupted = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGINT, interrupted.clone())
        .map_err(|e| Error::system("Ctrl-C cannot be caught", e, ""))?;
    Ok(interrupted)
}

/// A bar on a terminal, nothing elsewhere. Drawn between trials only, so that it never disturbs one.
pub fn progress_bar(len: usize, what: &str) -> ProgressBar {
    let bar = ProgressBar::new(len as u64);
    let template = format!("{{bar:30}} {{pos}}/{{len}} {what}, {{eta}} left  {{msg}}");
    if let Ok(style) = ProgressStyle::with_template(&template) {
        bar.set_style(style);
    }
    bar
}

/// What happens while a command measures.
pub enum Step<'a, R> {
    /// A trial begins, of so many; what it is of.
    Trial(usize, usize, &'a str),
    /// A round is finished; the run holds all that was measured so far.
    Round(&'a R),
}

/// Measures with a progress bar, and saves: every finished round is on disk before the next one begins.
pub fn saved_as_it_goes<R: Serialize, T: AsRef<[(&'static str, String)]>>(
    place: Option<&Place>,
    interrupted: &AtomicBool,
    tables: impl Fn(&R) -> T,
    measure: impl FnOnce(&mut dyn FnMut(Step<'_, R>) -> ControlFlow<()>) -> Result<R>,
) -> Result<R> {
    let save = |run: &R| match place {
        Some(place) => place.save(run, tables(run).as_ref()),
        None => Ok(()),
    };
    let bar = progress_bar(0, "trials");
    let mut not_saved = None;
    let run = measure(&mut |step| {
        match step {
            Step::Trial(done, of, what) => {
                bar.set_length(of as u64);
                bar.set_position(done as u64);
                bar.set_message(what.to_owned());
                bar.tick();
            }
            Step::Round(run) => {
                if let Err(e) = save(run) {
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
    save(&run)?;
    Ok(run)
}

/// Prints a result as one JSON document.
pub fn print_json(result: &impl Serialize) -> Outcome {
    let text = serde_json::to_string(result)
        .map_err(|e| Error::system("the result cannot be printed", io::Error::from(e), ""))?;
    print_result(&format!("{text}\n"))
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
