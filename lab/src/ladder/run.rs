//! A run: all trials of one climb, and what they say. This is what is saved.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::rung::{Placement, Rung, Series};
use crate::machine::memory_rates::MemoryRates;
use crate::machine::state::{LineTravel, State};
use crate::rounds::Measured;
use crate::rounds::by_state::{ByState, prevailing, seen};
use crate::rounds::made::Made;
use crate::rounds::sample::{self, NOTICEABLE, Sample, in_rounds};
use crate::saved::head::Head;
use crate::stats::{self, Estimate, Verdict};
use crate::worker::pair::Reports;
use crate::worker::side::Path;
use crate::worker::side_report::SideReport;
use crate::worker::timing::Until;

/// Name and version of the saved form.
pub const SCHEMA: &str = "fullbore.ladder/2";

/// One climb of the ladder.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Run {
    /// Of the form [`SCHEMA`].
    #[serde(flatten)]
    pub head: Head,
    /// How trials were made.
    pub method: LadderMethod,
    /// Rates of memory without a pipe; absent where they were not measured.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub memory: Option<MemoryRates>,
    /// State of two CPUs in which most trials were made.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub prevailing: Option<State>,
    /// Results, lowest rung first.
    pub rungs: Vec<ByState<RungResult>>,
    /// What a reader of the whole run should know.
    pub warnings: Vec<String>,
}

impl Run {
    /// What was measured in other states than the one that prevailed, by state.
    pub fn apart(&self) -> BTreeMap<State, Vec<&RungResult>> {
        let mut states = BTreeMap::<_, Vec<_>>::new();
        for result in self.rungs.iter().flat_map(|r| &r.apart) {
            let state = result.state.unwrap_or(State::Unknown);
            states.entry(state).or_default().push(result);
        }
        states
    }
}

/// How the trials of a run were made.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LadderMethod {
    /// What is the same for every run.
    #[serde(flatten)]
    pub made: Made,
    /// CPUs of all pairs, where several ran at once.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub pairs: Vec<[usize; 2]>,
    /// End of the measured part of each trial.
    pub until: Until,
}

/// What one trial of a rung gave.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PairFigures {
    /// Rate of the reader, in GiB/s; of all readers together where several pairs ran at once.
    pub gib_per_s: f64,
    /// The writing side.
    pub writer: SideReport,
    /// The reading side.
    pub reader: SideReport,
    /// The other pairs that ran at the same time.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub others: Vec<Reports>,
}

impl PairFigures {
    /// What all pairs reported; `None` where there are none.
    pub(crate) fn new(reports: Vec<Reports>) -> Option<Self> {
        let mut reports = reports.into_iter();
        let Reports { writer, reader } = reports.next()?;
        let others: Vec<_> = reports.collect();
        let all: f64 = others.iter().map(|r| r.reader.gib_per_s()).sum();
        Some(Self {
            gib_per_s: reader.gib_per_s() + all,
            writer,
            reader,
            others,
        })
    }

    /// Both sides of every pair.
    fn pairs(&self) -> impl Iterator<Item = (&SideReport, &SideReport)> {
        let others = self.others.iter().map(|r| (&r.writer, &r.reader));
        std::iter::once((&self.writer, &self.reader)).chain(others)
    }

    /// What all sides together have of something, per GiB moved.
    fn per_gib(&self, value: impl Fn(&SideReport) -> f64) -> f64 {
        let (mut total, mut bytes) = (0.0, 0);
        for (writer, reader) in self.pairs() {
            // A writer's own bytes are a little ahead or behind.
            total +=
                value(writer) * reader.bytes as f64 / writer.bytes.max(1) as f64 + value(reader);
            bytes += reader.bytes;
        }
        total * (1u64 << 30) as f64 / bytes.max(1) as f64
    }

    /// CPU seconds of both sides per GiB moved.
    pub fn cpu_s_per_gib(&self) -> f64 {
        self.per_gib(|s| s.cpu_s)
    }

    /// The larger share of its time that a side could have run and was not let to.
    fn waited_for_cpu(&self) -> f64 {
        self.pairs()
            .flat_map(|(writer, reader)| [writer, reader])
            .map(|side| side.run_queue_wait_s.unwrap_or(0.0) / side.seconds.max(1e-9))
            .fold(0.0, f64::max)
    }
}

/// What the trials of one rung in one state say.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RungResult {
    /// Name.
    pub id: String,
    /// The part of the ladder that it belongs to; absent in older runs.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub series: Option<Series>,
    /// State of the machine in these trials.
    pub state: Option<State>,
    /// Rate.
    pub gib_per_s: Option<Estimate>,
    /// The trials of this state.
    pub samples: Vec<Sample<PairFigures>>,
    /// Against the first rung of the run, round by round.
    pub ratio_to_first: Option<Estimate>,
    /// The rung that this one changes. Absent where it changes none that was climbed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub baseline: Option<String>,
    /// Against that one, round by round.
    pub ratio_to_baseline: Option<Estimate>,
    /// What that ratio says.
    pub verdict: Option<Verdict>,
    /// Nanoseconds per 4096 bytes.
    pub ns_per_page: Option<f64>,
    /// CPU seconds of both sides per GiB.
    pub cpu_s_per_gib: Option<f64>,
    /// System calls of both sides per GiB.
    pub calls_per_gib: Option<f64>,
    /// Calls of both sides that found the pipe full or empty, per GiB.
    pub eagain_per_gib: Option<f64>,
    /// Context switches of both sides per GiB.
    pub context_switches_per_gib: Option<f64>,
    /// Whether the reader's CPU touches the data.
    pub touches_data: bool,
    /// Whether no reader ever sees a byte change.
    pub sound: bool,
    /// How bytes moved.
    pub path: Option<PathPair>,
    /// Medians.
    pub line_travel_ns: LineTravel,
    /// What is doubtful about these trials.
    pub warnings: Vec<String>,
    /// Why this machine cannot climb this rung.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub refused: Option<String>,
}

/// Path of both sides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PathPair {
    /// Write method.
    pub writer: Path,
    /// Read method.
    pub reader: Path,
}

/// Sums up what has been measured so far: `measured[i]` is of `rungs[i]`.
pub fn sum_up(
    rungs: &[Rung],
    measured: &[Measured<PairFigures>],
) -> (Option<State>, Vec<ByState<RungResult>>) {
    let main = prevailing(seen(measured));
    let results = rungs.iter().zip(measured).enumerate();
    let results = results.map(|(i, (rung, of_rung))| {
        let first = (i > 0).then_some(&measured[0].samples[..]);
        let baseline = rung.baseline_among(rungs);
        let baseline = baseline.map(|b| (&*rungs[b].id, &measured[b].samples[..]));
        let mut result = ByState::of(&of_rung.samples, main, |state, samples| {
            one_state(rung, samples, state, first, baseline)
        });
        result.refused = of_rung.refused();
        result.main.warnings.extend(of_rung.doubt());
        result
    });
    (main, results.collect())
}

fn one_state(
    rung: &Rung,
    samples: Vec<Sample<PairFigures>>,
    state: Option<State>,
    first: Option<&[Sample<PairFigures>]>,
    baseline: Option<(&str, &[Sample<PairFigures>])>,
) -> RungResult {
    let rate = |f: &PairFigures| f.gib_per_s;
    let pairs = |others: &[Sample<PairFigures>]| sample::pairs(&samples, others, rate, rate);
    let median = |value: &dyn Fn(&PairFigures) -> f64| {
        stats::median(
            &samples
                .iter()
                .map(|s| value(&s.figures))
                .collect::<Vec<_>>(),
        )
    };
    let both = |value: fn(&SideReport) -> u64| median(&|f| f.per_gib(|side| value(side) as f64));
    let rates: Vec<_> = samples.iter().map(|s| s.figures.gib_per_s).collect();
    let gib_per_s = stats::estimate(&rates);
    let mut result = RungResult {
        id: rung.id.to_string(),
        series: Some(rung.series),
        state,
        ratio_to_first: first.and_then(|f| stats::paired_ratio(&pairs(f))),
        baseline: None,
        verdict: None,
        ratio_to_baseline: None,
        ns_per_page: gib_per_s.map(|e| 4096e9 / (e.median * (1u64 << 30) as f64)),
        cpu_s_per_gib: median(&PairFigures::cpu_s_per_gib),
        calls_per_gib: both(|s| s.calls),
        eagain_per_gib: both(|s| s.eagain),
        context_switches_per_gib: both(|s| s.voluntary_switches + s.involuntary_switches),
        gib_per_s,
        touches_data: rung.touches_data(),
        sound: rung.sound,
        path: samples.last().map(|s| PathPair {
            writer: s.figures.writer.path.clone(),
            reader: s.figures.reader.path.clone(),
        }),
        line_travel_ns: LineTravel::medians(samples.iter().map(|s| &s.line_travel_ns)),
        warnings: doubts(rung, &samples),
        samples,
        refused: None,
    };
    result.compare(baseline);
    result
}

impl RungResult {
    /// Compares it with a rung of this name and these trials.
    pub(crate) fn compare(&mut self, baseline: Option<(&str, &[Sample<PairFigures>])>) {
        let rate = |f: &PairFigures| f.gib_per_s;
        let pairs = baseline.map(|(_, b)| sample::pairs(&self.samples, b, rate, rate));
        let pairs = pairs.unwrap_or_default();
        self.baseline = baseline.map(|(id, _)| id.to_owned());
        self.ratio_to_baseline = stats::paired_ratio(&pairs);
        let verdict = |r| stats::verdict(&r, pairs.len());
        self.verdict = self.ratio_to_baseline.map(verdict);
    }
}

fn doubts(rung: &Rung, samples: &[Sample<PairFigures>]) -> Vec<String> {
    let trials =
        |which: Vec<bool>, what| in_rounds(samples.iter().map(|s| s.round).zip(which), what);
    let mut doubts = sample::doubts(samples, |f| f.gib_per_s);
    if rung.place == Placement::TwoCpus {
        let shared = samples
            .iter()
            .map(|s| s.state != State::OneCpu && s.figures.waited_for_cpu() > NOTICEABLE);
        doubts.extend(trials(
            shared.collect(),
            "a pinned CPU was shared with other work",
        ));
    }
    let asked = rung.config.write_with.to_string();
    let writers =
        |s: &Sample<PairFigures>| Path::of_all(s.figures.pairs().map(|(writer, _)| &writer.path));
    let of_trials: Vec<_> = samples.iter().map(writers).collect();
    let last = samples.last().map(|s| &s.figures);
    let note = |side: fn(&PairFigures) -> &SideReport, name| {
        let note = side(last?).path.note.as_ref()?;
        Some(format!("{name}: {note}"))
    };
    match Path::of_all(&of_trials).left(&asked) {
        Some(left) => {
            let which = of_trials.iter().map(|p| p.left(&asked).is_some());
            doubts.extend(trials(which.collect(), &format!("writer: {left},")));
        }
        None => doubts.extend(note(|f| &f.writer, "writer")),
    }
    doubts.extend(note(|f| &f.reader, "reader"));
    doubts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ladder::rung::ladder;
    use crate::machine::conditions::Conditions;

    fn sample(round: usize, gib_per_s: f64, ns: f64) -> Sample<PairFigures> {
        let side = SideReport {
            seconds: 1.0,
            bytes: (gib_per_s * (1u64 << 30) as f64) as u64,
            cpu_s: 0.5,
            ..SideReport::default()
        };
        let travel = LineTravel {
            before: Some(ns),
            after: Some(ns),
        };
        let reports = Reports {
            writer: side.clone(),
            reader: side,
        };
        let conditions = Conditions {
            state: travel.state(),
            line_travel_ns: travel,
            steal: [Some(0.0); 2],
        };
        Sample::new(round, conditions, PairFigures::new(vec![reports]).unwrap())
    }

    fn measured(samples: Vec<Sample<PairFigures>>) -> Measured<PairFigures> {
        Measured {
            samples,
            failures: Vec::new(),
        }
    }

    #[test]
    fn states_are_never_pooled() {
        let rungs: Vec<_> = ladder()
            .into_iter()
            .filter(|r| r.id == "write-read" || r.id == "vmsplice-read")
            .collect();
        let mut samples = vec![Vec::new(), Vec::new()];
        for round in 0..9 {
            let (scale, ns) = if round < 6 { (1.0, 60.0) } else { (0.1, 900.0) };
            samples[0].push(sample(round, 2.0 * scale, ns));
            samples[1].push(sample(round, 6.0 * scale, ns));
        }
        let measured: Vec<_> = samples.into_iter().map(measured).collect();
        let (prevailing, results) = sum_up(&rungs, &measured);
        assert_eq!(prevailing, Some(State::Near));
        assert_eq!(results[1].state, Some(State::Near));
        assert_eq!(results[1].samples.len(), 6);
        assert!((results[1].gib_per_s.unwrap().median - 6.0).abs() < 1e-6);
        let far = &results[1].apart[0];
        assert_eq!((far.state, far.samples.len()), (Some(State::Far), 3));
        assert!((far.gib_per_s.unwrap().median - 0.6).abs() < 1e-6);
        assert!((far.ratio_to_first.unwrap().median - 3.0).abs() < 1e-6);
        assert_eq!(far.baseline.as_deref(), Some("write-read"));
    }

    #[test]
    fn figures_per_gib_and_per_page_follow_from_the_reports() {
        let results = sum_up(&ladder()[..1], &[measured(vec![sample(0, 4.0, 60.0)])]).1;
        let result = &results[0];
        assert!((result.cpu_s_per_gib.unwrap() - 0.25).abs() < 1e-6);
        assert!((result.ns_per_page.unwrap() - 953.67).abs() < 0.1);
        assert!(result.ratio_to_first.is_none() && result.verdict.is_none());
    }

    #[test]
    fn bytes_that_went_another_way_are_named() {
        let rungs = ladder();
        let rung = rungs.iter().find(|r| r.id == "fresh-read").unwrap();
        let mut samples: Vec<_> = (0..3).map(|r| sample(r, 4.0, 60.0)).collect();
        for (sample, by_write) in samples.iter_mut().zip([0, 1 << 30, 0]) {
            let path = &mut sample.figures.writer.path;
            path.bytes_by.insert("fresh".into(), 2 << 30);
            if by_write > 0 {
                path.bytes_by.insert("write".into(), by_write);
                path.note = Some("huge pages refused".into());
            }
        }
        let result = &sum_up(std::slice::from_ref(rung), &[measured(samples)]).1[0];
        assert_eq!(
            result.warnings,
            ["writer: 1GiB of 7GiB went by write, not fresh: huge pages refused, in round 2"]
        );
    }

    #[test]
    fn stolen_time_and_shared_cpus_are_flagged_not_dropped() {
        let mut samples: Vec<_> = (0..7).map(|r| sample(r, 4.0, 60.0)).collect();
        samples[2].steal = Some(0.1);
        samples[4].figures.reader.run_queue_wait_s = Some(0.3);
        let result = &sum_up(&ladder()[..1], &[measured(samples)]).1[0];
        assert_eq!(result.samples.len(), 7);
        let text = result.warnings.join("; ");
        assert!(
            text.contains("stolen by the hypervisor in round 3"),
            "{text}"
        );
        assert!(text.contains("shared with other work in round 5"), "{text}");
    }
}
