//! What `get_user_pages_fast` costs per page: by the kernel's own benchmark, else estimated from the outside.

pub mod form;
mod inside;
mod outside;
pub mod test_file;

use std::ops::ControlFlow;
use std::rc::Rc;
use std::time::Duration;

use fullbore_sys::pages::{self, PageKind, Pages, Request};
use fullbore_sys::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::machine::Machine;
use crate::rounds::plan;
use crate::saved::by_name;
use crate::saved::head::Head;
use crate::stats::{Estimate, estimate, paired_ratio};
use crate::sys;
use crate::sys::gup_pages::Lent;

use inside::Inside;
use outside::{Outside, Rig};
use test_file::TestFile;

/// As many as vmsplice asks for at once (kernel source, `iov_iter_get_pages2` from `iter_to_pipe`).
pub const PAGES_PER_CALL: usize = 16;

/// What to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// Each case is measured once a round.
    pub rounds: usize,
    /// How long one case is measured in one round.
    pub seconds: f64,
    /// Seed of the order.
    pub seed: u64,
    /// The one CPU to run on.
    pub cpu: Option<usize>,
}

/// Everything measured.
#[derive(Clone, Debug, Serialize)]
pub struct Gup {
    /// Of the form `fullbore.gup/1`.
    #[serde(flatten)]
    pub head: Head,
    /// How it was measured.
    pub method: Method,
    /// One row for each kind of pages, touched and untouched.
    pub rows: Vec<Row>,
    /// Small pages against huge ones, both touched: how many times as much a small one costs.
    pub small_to_huge: Option<Ratio>,
    /// What makes the figures doubtful.
    pub warnings: Vec<String>,
}

/// Which of the two it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The kernel's own benchmark.
    GupTest,
    /// vmsplice against tee and splice of the same slots.
    Estimate,
}

/// How it was measured.
#[derive(Clone, Debug, Serialize)]
pub struct Method {
    /// Which of the two it was.
    pub source: Source,
    /// Bytes of the request that the kernel's benchmark answered to.
    pub request_bytes: Option<usize>,
    /// Why it was an estimate.
    pub no_gup_test: Option<String>,
    /// The one CPU it ran on, where it could be bound to one.
    pub cpu: Option<usize>,
    /// Rounds that were asked for.
    pub rounds: usize,
    /// Rounds that were completed.
    pub rounds_done: usize,
    /// Seconds of each trial.
    pub seconds: f64,
    /// Seed of the order of trials.
    pub seed: u64,
    /// Pages that each call asks for.
    pub pages_per_call: usize,
    /// Bytes of a page: every figure is per so many bytes, whatever page holds them.
    pub page_bytes: usize,
}

/// One kind of pages.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Kind of pages that was asked for.
    #[serde(with = "by_name")]
    pub pages: PageKind,
    /// Bytes of one of them.
    pub page_bytes: Option<usize>,
    /// Whether they were written before.
    pub touched: bool,
    /// Finding one base page of it by address, and taking a reference. In an estimate: vmsplice less splice.
    pub ns_per_page: Option<Estimate>,
    /// vmsplice less tee, in an estimate: finding pages alone, were it not for references, which vmsplice takes to a huge
    /// page all at once and tee one by one. So this may be below zero.
    pub beyond_tee_ns_per_page: Option<Estimate>,
    /// The whole of vmsplice, in an estimate.
    pub vmsplice_ns_per_page: Option<Estimate>,
    /// The whole of tee, in an estimate: a reference for each slot.
    pub tee_ns_per_page: Option<Estimate>,
    /// The whole of splice from pipe to pipe, in an estimate: slots are moved and no reference is taken.
    pub splice_ns_per_page: Option<Estimate>,
    /// Giving the reference back, where the kernel times it.
    pub put_ns_per_page: Option<Estimate>,
    /// One for each round.
    pub samples: Vec<Sample>,
    /// Why it could not be measured.
    pub refused: Option<String>,
}

impl Row {
    /// Whether the cost cannot be told from nothing, or came out as less than nothing, which no cost is.
    #[must_use]
    pub fn is_below_sight(&self) -> bool {
        let cost = self.ns_per_page;
        cost.is_some_and(|cost| cost.median <= 0.0 || cost.ci95[0] <= 0.0)
    }
}

const BELOW_SIGHT: &str = "a cost that comes out as nothing or less is below what this method can see: run it again while the machine is idle, with more --rounds";

/// One trial.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Sample {
    /// From 0.
    pub round: usize,
    /// What it gave.
    #[serde(flatten)]
    pub timing: Timing,
}

/// Nanoseconds per page of one trial.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Timing {
    /// See [`Row`].
    pub ns_per_page: f64,
    /// See [`Row`].
    pub beyond_tee_ns_per_page: Option<f64>,
    /// See [`Row`].
    pub vmsplice_ns_per_page: Option<f64>,
    /// See [`Row`].
    pub tee_ns_per_page: Option<f64>,
    /// See [`Row`].
    pub splice_ns_per_page: Option<f64>,
    /// See [`Row`].
    pub put_ns_per_page: Option<f64>,
}

/// How two rows compare.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Ratio {
    /// Cost of a small page over that of a huge one, round by round, where both are above zero.
    pub ratio: Option<Estimate>,
    /// Whether their two intervals do not overlap; never where there is no ratio.
    pub is_apart: bool,
}

/// One case, ready to be measured.
enum Case {
    Inside(Inside),
    Outside(Outside),
}

/// What every case is measured with.
enum Means {
    Inside(Rc<TestFile>),
    /// And why not by the kernel itself.
    Outside(Rc<Rig>, String),
}

/// Measures, and calls `done` with the number of trials after each of them; a break ends it after that trial.
///
/// # Errors
/// Neither gup_test nor an estimate is possible here. That one kind of pages is unavailable is no error: its row says so.
pub fn measure(
    options: &Options,
    machine: Machine,
    mut done: impl FnMut(usize) -> ControlFlow<()> + Send,
) -> Result<Gup> {
    // On a thread of its own: its CPU is nobody else's business.
    std::thread::scope(|scope| {
        std::thread::Builder::new()
            .spawn_scoped(scope, || measure_here(options, machine, &mut done))
            .map_err(|e| Error::system("no thread", e, "raise the limit (ulimit -u)"))?
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Cases that one call of [`measure`] tries in each round.
#[must_use]
pub fn cases() -> Vec<(PageKind, bool)> {
    PageKind::ALL
        .into_iter()
        .flat_map(|kind| [(kind, true), (kind, false)])
        .collect()
}

fn measure_here(
    options: &Options,
    machine: Machine,
    done: &mut impl FnMut(usize) -> ControlFlow<()>,
) -> Result<Gup> {
    let head = Head::new("fullbore.gup/1", None, machine);
    let mut warnings = Vec::new();
    let mut cpu = options.cpu;
    if let Some(number) = cpu
        && let Err(e) = sys::pin_to_cpu(number)
    {
        warnings.push(format!("not bound to one CPU: {e}"));
        cpu = None;
    }
    let means = match TestFile::open() {
        Ok(file) => Means::Inside(Rc::new(file)),
        Err(why) => Means::Outside(Rc::new(Rig::new()?), why.to_string()),
    };
    let mut prepared: Vec<Result<Case>> = cases()
        .into_iter()
        .map(|(kind, touched)| match &means {
            Means::Inside(file) => Inside::new(file.clone(), kind, touched).map(Case::Inside),
            Means::Outside(rig, _) => Outside::new(rig.clone(), kind, touched).map(Case::Outside),
        })
        .collect();
    let mut samples = vec![Vec::new(); prepared.len()];
    let mut rounds_done = 0;
    let mut trials = 0;
    let seconds = Duration::from_secs_f64(options.seconds);
    'rounds: for order in plan::rounds(prepared.len(), options.rounds, options.seed) {
        for index in order {
            let result = match &mut prepared[index] {
                Ok(Case::Inside(case)) => case.trial(seconds),
                Ok(Case::Outside(case)) => case.trial(seconds),
                Err(_) => continue,
            };
            match result {
                Ok(timing) => samples[index].push(Sample {
                    round: rounds_done,
                    timing,
                }),
                Err(e) => prepared[index] = Err(e),
            }
            trials += 1;
            if done(trials).is_break() {
                break 'rounds;
            }
        }
        rounds_done += 1;
    }
    let rows = cases().into_iter().zip(prepared).zip(samples);
    let rows: Vec<Row> = rows
        .map(|(((kind, touched), case), samples)| row(kind, touched, case.err(), samples))
        .collect();
    // Where not one case can be measured there is no result, but a reason.
    if rows.iter().all(|row| row.ns_per_page.is_none())
        && let Some(why) = rows.iter().find_map(|row| row.refused.clone())
    {
        return Err(Error::new(
            "no kind of pages can be measured",
            why,
            "see what `fullbore doctor` says",
        ));
    }
    if rows.iter().any(|row| row.is_below_sight()) {
        warnings.push(BELOW_SIGHT.to_owned());
    }
    Ok(Gup {
        head,
        method: method(options, means, cpu, rounds_done),
        small_to_huge: small_to_huge(&rows),
        rows,
        warnings,
    })
}

fn method(options: &Options, means: Means, cpu: Option<usize>, rounds_done: usize) -> Method {
    let (source, request_bytes, no_gup_test) = match means {
        Means::Inside(file) => (Source::GupTest, Some(file.form.size()), None),
        Means::Outside(_, why) => (Source::Estimate, None, Some(why)),
    };
    Method {
        source,
        request_bytes,
        no_gup_test,
        cpu,
        rounds: options.rounds,
        rounds_done,
        seconds: options.seconds,
        seed: options.seed,
        pages_per_call: PAGES_PER_CALL,
        page_bytes: rustix::param::page_size(),
    }
}

fn row(kind: PageKind, touched: bool, refused: Option<Error>, samples: Vec<Sample>) -> Row {
    let of = |value: fn(&Timing) -> Option<f64>| {
        let values = samples.iter().map(|s| value(&s.timing));
        values
            .collect::<Option<Vec<f64>>>()
            .and_then(|v| estimate(&v))
    };
    Row {
        pages: kind,
        page_bytes: pages::page_size(kind).ok(),
        touched,
        ns_per_page: of(|t| Some(t.ns_per_page)),
        beyond_tee_ns_per_page: of(|t| t.beyond_tee_ns_per_page),
        vmsplice_ns_per_page: of(|t| t.vmsplice_ns_per_page),
        tee_ns_per_page: of(|t| t.tee_ns_per_page),
        splice_ns_per_page: of(|t| t.splice_ns_per_page),
        put_ns_per_page: of(|t| t.put_ns_per_page),
        samples,
        refused: refused.map(|e| e.to_string()),
    }
}

/// Maps memory to be lent, written once or not at all.
fn map(kind: PageKind, touched: bool, len: usize) -> Result<Lent> {
    Pages::map(&Request {
        len,
        kind,
        lock: false,
        fill: touched.then_some(b'X'),
    })
    .map(Lent::new)
}

fn small_to_huge(rows: &[Row]) -> Option<Ratio> {
    let touched = |kind| rows.iter().find(|row| row.pages == kind && row.touched);
    let (small, huge) = (touched(PageKind::Small)?, touched(PageKind::Huge)?);
    let (of_small, of_huge) = (small.ns_per_page?, huge.ns_per_page?);
    let pairs: Vec<(f64, f64)> = small
        .samples
        .iter()
        .filter_map(|s| {
            let same_round = huge.samples.iter().find(|h| h.round == s.round)?;
            Some((s.timing.ns_per_page, same_round.timing.ns_per_page))
        })
        .collect();
    // A ratio to nothing means nothing.
    let has_ratio = pairs.iter().all(|&(small, huge)| small > 0.0 && huge > 0.0);
    let ratio = paired_ratio(&pairs).filter(|_| has_ratio);
    let do_not_overlap = of_small.ci95[0] > of_huge.ci95[1] || of_small.ci95[1] < of_huge.ci95[0];
    Some(Ratio {
        ratio,
        is_apart: ratio.is_some() && do_not_overlap,
    })
}

#[cfg(test)]
mod tests;
