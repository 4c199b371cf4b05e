//! One run of a command that measures: when it begins, how it gets on, where it is saved, how it ends.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use fullbore_lab::rounds::{Event, RunOptions};
use fullbore_lab::sys::start;
use fullbore_sys::{Error, Result};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use super::failure::{Failure, Outcome, complain};
use super::file::STDOUT;
use super::saved::Place;
use crate::args::rungs::{print, print_json};
use crate::args::values::Color;

/// A bar on a terminal, nothing elsewhere. Drawn between trials only, so that it never disturbs one.
fn progress_bar() -> ProgressBar {
    let bar = ProgressBar::new(0);
    let columns = rustix::termios::tcgetwinsize(rustix::stdio::stderr()).map_or(0, |w| w.ws_col);
    if let Ok(style) = ProgressStyle::with_template(&template(columns)) {
        bar.set_style(style);
    }
    bar
}

/// For a terminal of so many columns, or one that does not say (0). What is too long is cut, and never goes on in a second
/// line, which would not be wiped away.
fn template(columns: u16) -> String {
    match columns {
        0 | 70.. => "{bar:30} {pos}/{len} trials, {eta} left  {wide_msg}",
        _ => "{pos}/{len} {wide_msg}",
    }
    .to_owned()
}

/// What may be said of a run that is made of shuffled rounds and saved.
#[derive(Args, Debug)]
pub struct RunArgs {
    /// Save the run in this file as JSON (and as CSV beside it), instead of the user's state directory; - is standard output
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Save nothing
    #[arg(long, conflicts_with = "out")]
    no_save: bool,
    /// Whatever you want the saved run to say about this machine
    #[arg(long, value_name = "TEXT")]
    label: Option<String>,
    /// Seed of the order of trials [default: the time]
    #[arg(long, allow_negative_numbers = true, value_name = "N")]
    seed: Option<u64>,
    /// Print one JSON document instead of what is for people
    #[arg(long)]
    json: bool,
    /// Colours in what is printed for people
    #[arg(long, value_enum, default_value_t, value_name = "WHEN")]
    pub color: Color,
}

impl RunArgs {
    /// What the lab is told of a run of so many rounds on these CPUs.
    pub fn options(&self, rounds: u32, cpus: (usize, usize)) -> Result<RunOptions> {
        Ok(RunOptions {
            rounds: rounds as usize,
            cpus,
            seed: self.seed.unwrap_or_else(|| now().as_nanos() as u64),
            label: self.label.clone(),
            program: std::env::current_exe().map_err(|e| {
                Error::system("this program's own file cannot be found", e, "mount /proc")
            })?,
        })
    }

    /// Whether standard output gets the run itself, as JSON.
    pub fn is_to_stdout(&self) -> bool {
        self.out.as_deref() == Some(Path::new(STDOUT))
    }

    /// Begins a run of this kind.
    pub fn session(&self, kind: &str) -> Result<Session> {
        start::ignore_file_size_signal();
        let interrupted = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(signal_hook::consts::SIGINT, interrupted.clone())
            .map_err(|e| Error::system("Ctrl-C cannot be caught", e, ""))?;
        let place = match &self.out {
            _ if self.no_save || self.is_to_stdout() => None,
            Some(file) => Some(Place::file(file)?),
            None => Some(Place::new_in_state(now().as_secs(), kind)?),
        };
        Ok(Session {
            place,
            interrupted,
            not_saved: OnceLock::new(),
        })
    }
}

/// One run of a command that measures: where it is saved, if anywhere, and whether Ctrl-C has ended it.
pub struct Session {
    place: Option<Place>,
    interrupted: Arc<AtomicBool>,
    /// Why not everything that was measured is saved; printed when the result is shown.
    not_saved: OnceLock<Error>,
}

impl Session {
    pub fn place(&self) -> Option<&Place> {
        self.place.as_ref()
    }

    fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// Goes on until Ctrl-C.
    fn go_on(&self) -> ControlFlow<()> {
        if self.is_interrupted() {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }

    /// Keeps for the end that something could not be saved: first is shown what was measured. Returns whether it was saved.
    pub fn saved(&self, result: Result<()>) -> bool {
        result.map_err(|e| self.not_saved.set(e)).is_ok()
    }

    /// Measures with a progress bar that names each case, and saves: every finished round is on disk before the next one begins.
    /// One that cannot be saved is the last.
    pub fn saved_as_it_goes<R: Serialize, T: AsRef<[(&'static str, String)]>>(
        &self,
        tables: impl Fn(&R) -> T,
        name: impl Fn(usize) -> String,
        measure: impl FnOnce(&mut dyn FnMut(Event<'_, R>) -> ControlFlow<()>) -> Result<R>,
    ) -> Result<R> {
        let save = |run: &R| match &self.place {
            Some(place) => self.saved(place.save(run, tables(run).as_ref())),
            None => true,
        };
        let bar = progress_bar();
        // What is on disk is all that was measured, once a round is.
        let mut is_whole = false;
        let run = measure(&mut |event| {
            match event {
                Event::Trial { done, of, case } => {
                    bar.set_length(of as u64);
                    bar.set_position(done as u64);
                    bar.set_message(name(case));
                    bar.tick();
                    is_whole = false;
                }
                Event::Round(run) => {
                    is_whole = save(run);
                    if !is_whole {
                        return ControlFlow::Break(());
                    }
                }
            }
            self.go_on()
        });
        bar.finish_and_clear();
        let run = run?;
        if !is_whole && self.not_saved.get().is_none() {
            save(&run);
        }
        Ok(run)
    }

    /// Shows a result, as JSON or as text, and where it was saved. That it was not, or that Ctrl-C has ended the run early, is a
    /// failure then.
    pub fn show(
        &self,
        result: &impl Serialize,
        args: &RunArgs,
        text: impl FnOnce() -> Result<String>,
    ) -> Outcome {
        let not_saved = self.not_saved.get();
        if args.json || args.is_to_stdout() {
            print_json(result)?;
        } else {
            print(&text()?, args.color)?;
            if let Some(place) = self.place.as_ref().filter(|_| not_saved.is_none()) {
                complain(&format!("saved in {}", place.json().display()));
            }
        }
        if let Some(e) = not_saved {
            return Err(Failure::Work(e.clone()));
        }
        if self.is_interrupted() {
            return Err(Failure::Interrupted);
        }
        Ok(())
    }
}

/// The time since 1970 UTC.
fn now() -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::template;

    #[test]
    fn narrow_terminal_gets_no_bar_that_would_wrap() {
        assert!(template(80).contains("{bar:30}"));
        assert!(template(0).contains("{bar:30}"));
        assert!(!template(69).contains("bar"));
        // What is longest is what gives way.
        for columns in [20, 80] {
            assert!(template(columns).ends_with("{wide_msg}"));
        }
    }
}
