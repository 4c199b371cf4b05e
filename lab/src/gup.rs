//! What `get_user_pages_fast` costs per page: by the kernel's own benchmark, else estimated from the outside.

mod outside;
pub mod test_file;

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use fullbore::pages::{self, PageKind, Pages, Request};
use fullbore::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::machine::Machine;
use crate::stats::{Estimate, estimate, paired_ratio};
use crate::sys::gup::Lent;
use crate::{plan, sys, text};

use outside::Outside;
use test_file::{Job, TestFile};

/// As many as vmsplice asks for at once (kernel source, `iov_iter_get_pages2` from `iter_to_pipe`).
pub const PAGES_PER_CALL: usize = 16;
/// gup_test counts whole microseconds: enough pages that one of them is below a percent.
const TEST_FILE_BYTES: usize = 64 << 20;

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
    /// Form of this document.
    pub schema: &'static str,
    /// Version of this program.
    pub version: &'static str,
    /// Seconds since 1970.
    pub started_unix_s: u64,
    /// The kind of machine.
    pub machine: Machine,
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
    #[serde(with = "text")]
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
    /// Whether their two intervals do not overlap.
    pub is_apart: bool,
}

/// One case, ready to be measured.
enum Case {
    Inside(Box<Inside>),
    Outside(Box<Outside>),
}

/// Measures, and calls `done` with the number of trials after each of them; a break ends it after that trial.
///
/// # Errors
/// Neither gup_test nor an estimate is possible here. That one kind of pages is not to be had is no error: its row says so.
pub fn measure(
    options: &Options,
    machine: Machine,
    started_unix_s: u64,
    mut done: impl FnMut(usize) -> ControlFlow<()> + Send,
) -> Result<Gup> {
    // On a thread of its own: its CPU is nobody else's business.
    std::thread::scope(|scope| {
        std::thread::Builder::new()
            .spawn_scoped(scope, || {
                measure_here(options, machine, started_unix_s, &mut done)
            })
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
    started_unix_s: u64,
    done: &mut impl FnMut(usize) -> ControlFlow<()>,
) -> Result<Gup> {
    let mut warnings = Vec::new();
    let mut cpu = options.cpu;
    if let Some(number) = cpu
        && let Err(e) = sys::pin_to_cpu(number)
    {
        warnings.push(format!("not bound to one CPU: {e}"));
        cpu = None;
    }
    let (file, no_gup_test) = match TestFile::open() {
        Ok(file) => (Some(file), None),
        Err(why) => {
            outside::refusal()?;
            (None, Some(why.to_string()))
        }
    };
    let file = file.map(std::rc::Rc::new);
    let mut prepared: Vec<Result<Case>> = cases()
        .into_iter()
        .map(|(kind, touched)| match &file {
            Some(file) => Inside::new(file.clone(), kind, touched)
                .map(Box::new)
                .map(Case::Inside),
            None => Outside::new(kind, touched).map(Box::new).map(Case::Outside),
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
    Ok(Gup {
        schema: "fullbore.gup/1",
        version: env!("CARGO_PKG_VERSION"),
        started_unix_s,
        machine,
        method: Method {
            source: match no_gup_test {
                None => Source::GupTest,
                Some(_) => Source::Estimate,
            },
            request_bytes: file.map(|file| file.form.size()),
            no_gup_test,
            cpu,
            rounds: options.rounds,
            rounds_done,
            seconds: options.seconds,
            seed: options.seed,
            pages_per_call: PAGES_PER_CALL,
            page_bytes: rustix::param::page_size(),
        },
        small_to_huge: small_to_huge(&rows),
        rows,
        warnings,
    })
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
    Some(Ratio {
        ratio: paired_ratio(&pairs).filter(|_| has_ratio),
        is_apart: of_small.ci95[0] > of_huge.ci95[1] || of_small.ci95[1] < of_huge.ci95[0],
    })
}

/// One case of the kernel's own benchmark.
struct Inside {
    file: std::rc::Rc<TestFile>,
    kind: PageKind,
    touched: bool,
    lent: Lent,
}

impl Inside {
    fn new(file: std::rc::Rc<TestFile>, kind: PageKind, touched: bool) -> Result<Self> {
        let lent = Self::map(kind, touched)?;
        if touched && kind != PageKind::Small {
            lent.prove_huge()?;
        }
        Ok(Self {
            file,
            kind,
            touched,
            lent,
        })
    }

    fn map(kind: PageKind, touched: bool) -> Result<Lent> {
        Pages::map(&Request {
            len: TEST_FILE_BYTES,
            kind,
            lock: false,
            fill: touched.then_some(b'X'),
        })
        .map(Lent::new)
    }

    fn trial(&mut self, time: Duration) -> Result<Timing> {
        let start = Instant::now();
        let mut passes = [Vec::new(), Vec::new()];
        while start.elapsed() < time || passes[0].is_empty() {
            if !self.touched {
                self.lent = Self::map(self.kind, false)?;
            }
            let timed = self.file.time(&Job {
                address: self.lent.bytes().as_ptr() as usize,
                bytes: self.lent.bytes().len(),
                pages_per_call: PAGES_PER_CALL as u32,
            })?;
            let pages = timed.bytes as f64 / rustix::param::page_size() as f64;
            let per_page = |us: u64| us as f64 * 1e3 / pages;
            passes[0].push(per_page(timed.get_us));
            passes[1].extend(timed.put_us.map(per_page));
        }
        let [get, put] = passes.map(|p| crate::stats::median(&p));
        Ok(Timing {
            ns_per_page: get.unwrap_or_default(),
            beyond_tee_ns_per_page: None,
            vmsplice_ns_per_page: None,
            tee_ns_per_page: None,
            splice_ns_per_page: None,
            put_ns_per_page: put,
        })
    }
}

#[cfg(test)]
mod tests;
