//! What `get_user_pages_fast` costs per page: by the kernel's own benchmark, else estimated from the outside.

use std::ops::ControlFlow;

use fullbore_sys::Result;
use fullbore_sys::pages::PageKind;
use serde::Serialize;

use crate::machine::Machine;
use crate::machine::conditions::{Conditions, under_conditions};
use crate::rounds::sample::{self, Sample};
use crate::rounds::{Event, Measured, Measurement, RunOptions};
use crate::saved::by_name;
use crate::saved::head::Head;
use crate::stats::{Estimate, estimate, paired_ratio};
use crate::sys;
pub use crate::worker::gup_trial::{GupSource, PAGES_PER_CALL};
use crate::worker::gup_trial::{GupTrial, Possible};
use crate::worker::order::{Job, Order};
pub use crate::worker::outcome::Costs;
use crate::worker::outcome::Report;
use crate::worker::processes::{Processes, Task};
use crate::worker::timing::{Time, Until};

/// Name and version of the document.
pub const SCHEMA: &str = "fullbore.gup/1";

/// What to measure.
#[derive(Clone, Debug)]
pub struct GupOptions {
    /// What every run is told; it needs the first CPU only.
    pub run: RunOptions,
    /// How long one case is measured in one round.
    pub seconds: f64,
}

/// Everything measured.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Gup {
    /// Of the form [`SCHEMA`].
    #[serde(flatten)]
    pub head: Head,
    /// How it was measured.
    pub method: GupMethod,
    /// One row for each kind of pages, touched and untouched.
    pub rows: Vec<GupRow>,
    /// Small pages against huge ones, both touched: how many times as much a small one costs.
    pub small_to_huge: Option<Ratio>,
    /// What makes the figures doubtful.
    pub warnings: Vec<String>,
}

/// How it was measured.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct GupMethod {
    /// Which of the two it was.
    pub source: GupSource,
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
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct GupRow {
    /// Kind of pages that was asked for.
    #[serde(with = "by_name")]
    #[cfg_attr(test, schemars(with = "String"))]
    pub pages: PageKind,
    /// Bytes of one of them.
    pub page_bytes: Option<usize>,
    /// Whether they were written before.
    pub touched: bool,
    /// What it costs.
    #[serde(flatten)]
    pub costs: Costs<Estimate>,
    /// One for each round.
    pub samples: Vec<Sample<Costs<f64>>>,
    /// Why it could not be measured.
    pub refused: Option<String>,
}

impl Gup {
    /// Whether there is a cost that can be told from nothing.
    pub fn has_cost(&self) -> bool {
        let told = |row: &GupRow| row.costs.ns_per_page.is_some() && !row.is_below_resolution();
        self.rows.iter().any(told)
    }
}

impl GupRow {
    /// Whether the cost cannot be told from nothing, or came out as less than nothing, which no cost is.
    pub fn is_below_resolution(&self) -> bool {
        let cost = self.costs.ns_per_page;
        cost.is_some_and(|cost| cost.median <= 0.0 || cost.ci95[0] <= 0.0)
    }
}

const BELOW_RESOLUTION: &str = "a cost that comes out as nothing or less is below the resolution of this method: run it again while the machine is idle, with more --rounds";

/// How two rows compare.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Ratio {
    /// Cost of a small page over that of a huge one, round by round, where both are above zero.
    pub ratio: Option<Estimate>,
    /// Whether their two intervals do not overlap; never where there is no ratio.
    pub is_apart: bool,
}

/// Measures. After each event `on_event` decides whether to go on; what was measured so far is returned either way.
///
/// # Errors
/// Neither gup_test nor an estimate is possible here. That one kind of pages is unavailable is no error: its row says so.
pub fn measure(
    options: &GupOptions,
    machine: Machine,
    on_event: impl FnMut(Event<'_, Gup>) -> ControlFlow<()>,
) -> Result<Gup> {
    let mut warnings = Vec::new();
    let mut cpu = Some(options.run.cpus.0);
    if let Err(e) = sys::try_cpu(options.run.cpus.0) {
        warnings.push(format!("not bound to one CPU: {e}"));
        cpu = None;
    }
    let mut cases = Cases {
        options,
        head: Head::new(SCHEMA, options.run.label.clone(), machine),
        cpu,
        possible: Possible::find()?,
        warnings,
    };
    crate::rounds::measure(&mut cases, all_cases().len(), &options.run, on_event)
}

/// The kinds of pages, written before or not.
fn all_cases() -> Vec<(PageKind, bool)> {
    PageKind::ALL
        .into_iter()
        .flat_map(|kind| [(kind, true), (kind, false)])
        .collect()
}

struct Cases<'a> {
    options: &'a GupOptions,
    head: Head,
    cpu: Option<usize>,
    possible: Possible,
    warnings: Vec<String>,
}

impl Measurement for Cases<'_> {
    type Figures = Costs<f64>;
    type Run = Gup;
    const NOTHING: (&'static str, &'static str) = (
        "no kind of pages can be measured",
        "see what `fullbore doctor` says",
    );

    fn trial(&mut self, case: usize) -> Result<(Costs<f64>, Conditions)> {
        let (pages, touched) = all_cases()[case];
        let cpu = self.cpu.unwrap_or_default();
        let trial = GupTrial {
            source: self.possible.source,
            pages,
            touched,
        };
        let task = Task {
            order: Order {
                job: Job::Gup(trial),
                cpu: self.cpu,
                time: Time {
                    warm_up_s: 0.0,
                    until: Some(Until::Seconds(self.options.seconds)),
                },
            },
            descriptors: Vec::new(),
        };
        under_conditions((cpu, cpu), || {
            match Processes::run(&self.options.run.program, vec![task])?.first() {
                Some(Report::Gup(timing)) => Ok(*timing),
                other => Err(fullbore_sys::Error::new(
                    "a trial failed",
                    format!("its process reported {other:?}"),
                    "run it again",
                )),
            }
        })
    }

    fn run(&self, rounds_done: usize, measured: &[Measured<Costs<f64>>]) -> Gup {
        let options = self.options;
        let rows = all_cases().into_iter().zip(measured);
        let rows: Vec<_> = rows
            .map(|((kind, touched), m)| row(kind, touched, m.refused(), m.samples.clone()))
            .collect();
        let mut warnings = self.warnings.clone();
        if rows.iter().any(GupRow::is_below_resolution) {
            warnings.push(BELOW_RESOLUTION.to_owned());
        }
        Gup {
            head: self.head.clone(),
            method: GupMethod {
                source: self.possible.source,
                request_bytes: self.possible.request_bytes,
                no_gup_test: self.possible.no_gup_test.clone(),
                cpu: self.cpu,
                rounds: options.run.rounds,
                rounds_done,
                seconds: options.seconds,
                seed: options.run.seed,
                pages_per_call: PAGES_PER_CALL,
                page_bytes: rustix::param::page_size(),
            },
            small_to_huge: small_to_huge(&rows),
            rows,
            warnings,
        }
    }
}

fn row(
    kind: PageKind,
    touched: bool,
    refused: Option<String>,
    samples: Vec<Sample<Costs<f64>>>,
) -> GupRow {
    let of = |value: fn(&Costs<f64>) -> Option<f64>| {
        let values = samples.iter().map(|s| value(&s.figures));
        estimate(&values.collect::<Option<Vec<f64>>>()?)
    };
    GupRow {
        pages: kind,
        page_bytes: fullbore_sys::pages::page_size(kind).ok(),
        touched,
        costs: Costs {
            ns_per_page: of(|t| t.ns_per_page),
            beyond_tee_ns_per_page: of(|t| t.beyond_tee_ns_per_page),
            vmsplice_ns_per_page: of(|t| t.vmsplice_ns_per_page),
            tee_ns_per_page: of(|t| t.tee_ns_per_page),
            splice_ns_per_page: of(|t| t.splice_ns_per_page),
            put_ns_per_page: of(|t| t.put_ns_per_page),
        },
        samples,
        refused,
    }
}

fn small_to_huge(rows: &[GupRow]) -> Option<Ratio> {
    let touched = |kind| rows.iter().find(|row| row.pages == kind && row.touched);
    let (small, huge) = (touched(PageKind::Small)?, touched(PageKind::Huge)?);
    let (of_small, of_huge) = (small.costs.ns_per_page?, huge.costs.ns_per_page?);
    let ns = |t: &Costs<f64>| t.ns_per_page.unwrap_or_default();
    let pairs = sample::pairs(&small.samples, &huge.samples, ns, ns);
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
