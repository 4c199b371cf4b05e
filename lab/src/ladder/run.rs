//! A run: all trials of one climb, and what they say. This is what is saved.

use serde::{Deserialize, Serialize};

use fullbore_sys::Error;

use super::rung::{Place, Rung};
use crate::machine::memory_rates::MemoryRates;
pub use crate::machine::state::{LineTravel, State};
pub(crate) use crate::machine::state::{prevailing, state_warnings, states};
use crate::saved::head::Head;
use crate::stats::{self, Estimate, Verdict};
use crate::worker::pair::Reports;
use crate::worker::side::Path;
use crate::worker::trial::{SideReport, Until};

/// Name and version of the saved form.
pub const SCHEMA: &str = "fullbore.ladder/1";

/// One climb of the ladder.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Run {
    /// Of the form [`SCHEMA`].
    #[serde(flatten)]
    pub head: Head,
    /// How trials were made.
    pub method: Method,
    /// Rates of memory without a pipe; absent where they were not measured.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub memory: Option<MemoryRates>,
    /// Results, lowest rung first.
    pub rungs: Vec<RungResult>,
    /// What a reader of the whole run should know.
    pub warnings: Vec<String>,
}

/// How the trials of a run were made.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Method {
    /// CPUs of writer and reader.
    pub cpus: [usize; 2],
    /// CPUs of all pairs, where several ran at once.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub pairs: Vec<[usize; 2]>,
    /// Rounds asked for.
    pub rounds: usize,
    /// Rounds finished.
    pub rounds_done: usize,
    /// Seconds at the start of each trial that are not measured.
    pub warm_up_s: f64,
    /// End of the measured part of each trial.
    pub until: Until,
    /// Seed of the order of trials.
    pub seed: u64,
}

/// One trial of one rung.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Sample {
    /// Round, from 0.
    pub round: usize,
    /// Rate of the reader, in GiB/s; of all readers together where several pairs ran at once.
    pub gib_per_s: f64,
    /// State of the machine.
    pub state: State,
    /// Travel time of a cache line.
    pub line_travel_ns: LineTravel,
    /// Share of time that the hypervisor took from the two CPUs, the larger of both.
    pub steal: Option<f64>,
    /// The writing side.
    pub writer: SideReport,
    /// The reading side.
    pub reader: SideReport,
    /// The other pairs that ran at the same time.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub others: Vec<Reports>,
}

impl Sample {
    /// A sample of what both sides reported on these CPUs.
    #[must_use]
    pub fn new(
        round: usize,
        cpus: (usize, usize),
        reports: Reports,
        others: Vec<Reports>,
        line_travel_ns: LineTravel,
        steal: Option<f64>,
    ) -> Self {
        let rate = |r: &SideReport| r.bytes as f64 / (1u64 << 30) as f64 / r.seconds.max(1e-9);
        let all = others.iter().map(|r| rate(&r.reader)).sum::<f64>();
        Self {
            round,
            gib_per_s: rate(&reports.reader) + all,
            state: if cpus.0 == cpus.1 {
                State::OneCpu
            } else {
                line_travel_ns.state()
            },
            line_travel_ns,
            steal,
            writer: reports.writer,
            reader: reports.reader,
            others,
        }
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
    #[must_use]
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
    /// State of the machine in these trials.
    pub state: Option<State>,
    /// Rate.
    pub gib_per_s: Option<Estimate>,
    /// The trials of this state.
    pub samples: Vec<Sample>,
    /// Against the first rung of the run, round by round.
    pub ratio_to_first: Option<Estimate>,
    /// Against the rung before.
    pub ratio_to_previous: Option<Estimate>,
    /// What the ratio to the rung before says.
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
    /// Trials of the same rung while the machine was in another state.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub apart: Vec<RungResult>,
}

/// Path of both sides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PathPair {
    /// Way in.
    pub writer: Path,
    /// Way out.
    pub reader: Path,
}

/// More than this share of stolen or waited-for time is flagged.
pub(crate) const NOTICEABLE: f64 = 0.02;

/// Sums up what has been measured so far. `samples[i]` and the errors in `failures[i]` belong to `rungs[i]`.
#[must_use]
pub fn summarise(
    rungs: &[Rung],
    samples: &[Vec<Sample>],
    failures: &[Vec<Error>],
) -> Vec<RungResult> {
    let main = prevailing_state(samples);
    let mut results = Vec::new();
    for (i, rung) in rungs.iter().enumerate() {
        let previous = i.checked_sub(1).map(|p| &samples[p][..]);
        let of_state = |state| {
            let first = (i > 0).then(|| &samples[0][..]);
            one_state(rung, &samples[i], state, first, previous)
        };
        // Where both sides share a CPU, the distance to another one does not matter.
        let states = states(samples[i].iter().map(|s| s.state));
        let mine = states
            .iter()
            .copied()
            .find(|s| Some(*s) == main || *s == State::OneCpu);
        let mine = mine.or(states.first().copied());
        let mut result = of_state(mine);
        result.apart = states
            .into_iter()
            .filter(|s| Some(*s) != mine)
            .map(|s| of_state(Some(s)))
            .collect();
        match failures.get(i).and_then(|f| Some((f.len(), f.last()?))) {
            Some((_, e)) if result.samples.is_empty() => result.refused = Some(e.to_string()),
            Some((n, why)) => result
                .warnings
                .push(format!("failed trials: {n}, the last because {why}")),
            None => {}
        }
        results.push(result);
    }
    results
}

/// What a reader of the whole run should know.
#[must_use]
pub fn warnings(samples: &[Vec<Sample>]) -> Vec<String> {
    let states = states(samples.iter().flatten().map(|s| s.state));
    state_warnings(&states, "figures of two CPUs would be higher on near ones")
}

/// The state of most trials on two CPUs.
fn prevailing_state(samples: &[Vec<Sample>]) -> Option<State> {
    prevailing(samples.iter().flatten().map(|s| s.state))
}

fn one_state(
    rung: &Rung,
    samples: &[Sample],
    state: Option<State>,
    first: Option<&[Sample]>,
    previous: Option<&[Sample]>,
) -> RungResult {
    let samples: Vec<_> = samples
        .iter()
        .filter(|s| Some(s.state) == state)
        .cloned()
        .collect();
    let rates: Vec<_> = samples.iter().map(|s| s.gib_per_s).collect();
    let gib_per_s = stats::estimate(&rates);
    let median = |value: &dyn Fn(&Sample) -> f64| {
        stats::median(&samples.iter().map(value).collect::<Vec<_>>())
    };
    let both = |value: fn(&SideReport) -> u64| median(&|s| s.per_gib(|side| value(side) as f64));
    let travel = |which: fn(&LineTravel) -> Option<f64>| {
        let times: Vec<_> = samples
            .iter()
            .filter_map(|s| which(&s.line_travel_ns))
            .collect();
        stats::median(&times)
    };
    let to_previous = previous.map(|p| pairs(&samples, p)).unwrap_or_default();
    let ratio_to_previous = stats::paired_ratio(&to_previous);
    RungResult {
        id: rung.id.to_string(),
        state,
        ratio_to_first: first.and_then(|f| stats::paired_ratio(&pairs(&samples, f))),
        verdict: ratio_to_previous.map(|r| stats::verdict(&r, to_previous.len())),
        ratio_to_previous,
        ns_per_page: gib_per_s.map(|e| 4096e9 / (e.median * (1u64 << 30) as f64)),
        cpu_s_per_gib: median(&Sample::cpu_s_per_gib),
        calls_per_gib: both(|s| s.calls),
        eagain_per_gib: both(|s| s.eagain),
        context_switches_per_gib: both(|s| s.voluntary_switches + s.involuntary_switches),
        gib_per_s,
        touches_data: rung.touches_data(),
        sound: rung.sound,
        path: samples.last().map(|s| PathPair {
            writer: s.writer.path.clone(),
            reader: s.reader.path.clone(),
        }),
        line_travel_ns: LineTravel {
            before: travel(|t| t.before),
            after: travel(|t| t.after),
        },
        warnings: doubts(rung, &samples, &rates),
        samples,
        refused: None,
        apart: Vec::new(),
    }
}

/// Pairs of the same round. A rung on one CPU is compared whatever the distance to the other CPU was.
fn pairs(samples: &[Sample], others: &[Sample]) -> Vec<(f64, f64)> {
    let comparable = |a: &Sample, b: &Sample| {
        a.round == b.round
            && (a.state == b.state || a.state == State::OneCpu || b.state == State::OneCpu)
    };
    samples
        .iter()
        .filter_map(|s| {
            let other = others.iter().find(|o| comparable(s, o))?;
            Some((s.gib_per_s, other.gib_per_s))
        })
        .collect()
}

/// `what`, and in which of the trials, each given by its round, if in any.
pub(crate) fn in_rounds(trials: impl Iterator<Item = (usize, bool)>, what: &str) -> Option<String> {
    let rounds: Vec<_> = trials
        .filter(|(_, doubtful)| *doubtful)
        .map(|(round, _)| (round + 1).to_string())
        .collect();
    let noun = if rounds.len() == 1 { "round" } else { "rounds" };
    (!rounds.is_empty()).then(|| format!("{what} in {noun} {}", rounds.join(", ")))
}

fn doubts(rung: &Rung, samples: &[Sample], rates: &[f64]) -> Vec<String> {
    let trials =
        |which: Vec<bool>, what| in_rounds(samples.iter().map(|s| s.round).zip(which), what);
    let mut doubts = Vec::new();
    doubts.extend(trials(stats::outliers(rates), "outlier"));
    let stolen = samples.iter().map(|s| s.steal.unwrap_or(0.0) > NOTICEABLE);
    doubts.extend(trials(stolen.collect(), "time stolen by the hypervisor"));
    if rung.place == Place::TwoCpus {
        let shared = samples
            .iter()
            .map(|s| s.state != State::OneCpu && s.waited_for_cpu() > NOTICEABLE);
        doubts.extend(trials(
            shared.collect(),
            "a pinned CPU was shared with other work",
        ));
    }
    let asked = rung.config.write_with.to_string();
    let writers = |s: &Sample| Path::of_all(s.pairs().map(|(writer, _)| &writer.path));
    let of_trials: Vec<_> = samples.iter().map(writers).collect();
    let note = |path: &Path| path.note.clone();
    let last = samples.last();
    match Path::of_all(&of_trials).left(&asked) {
        Some(left) => {
            let which = of_trials.iter().map(|p| p.left(&asked).is_some());
            doubts.extend(trials(which.collect(), &format!("writer: {left},")));
        }
        None => doubts.extend(
            last.and_then(|s| note(&s.writer.path))
                .map(|n| format!("writer: {n}")),
        ),
    }
    doubts.extend(
        last.and_then(|s| note(&s.reader.path))
            .map(|n| format!("reader: {n}")),
    );
    doubts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ladder::rung::ladder;

    fn sample(round: usize, gib_per_s: f64, ns: f64) -> Sample {
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
        Sample::new(round, (0, 1), reports, Vec::new(), travel, Some(0.0))
    }

    #[test]
    fn states_are_never_pooled() {
        let rungs = &ladder()[..2];
        let mut samples = vec![Vec::new(), Vec::new()];
        for round in 0..9 {
            let (scale, ns) = if round < 6 { (1.0, 60.0) } else { (0.1, 900.0) };
            samples[0].push(sample(round, 2.0 * scale, ns));
            samples[1].push(sample(round, 6.0 * scale, ns));
        }
        let results = summarise(rungs, &samples, &[]);
        assert_eq!(results[1].state, Some(State::Near));
        assert_eq!(results[1].samples.len(), 6);
        assert!((results[1].gib_per_s.unwrap().median - 6.0).abs() < 1e-6);
        let far = &results[1].apart[0];
        assert_eq!((far.state, far.samples.len()), (Some(State::Far), 3));
        assert!((far.gib_per_s.unwrap().median - 0.6).abs() < 1e-6);
        assert!((far.ratio_to_first.unwrap().median - 3.0).abs() < 1e-6);
        assert_eq!(warnings(&samples).len(), 1);
    }

    #[test]
    fn a_trial_in_which_the_cpus_moved_stands_alone() {
        let mut moved = sample(0, 1.0, 60.0);
        moved.line_travel_ns.after = Some(900.0);
        assert_eq!(moved.line_travel_ns.state(), State::Moved);
    }

    #[test]
    fn figures_per_gib_and_per_page_follow_from_the_reports() {
        let results = summarise(&ladder()[..1], &[vec![sample(0, 4.0, 60.0)]], &[]);
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
            let path = &mut sample.writer.path;
            path.bytes_by.insert("fresh".into(), 2 << 30);
            if by_write > 0 {
                path.bytes_by.insert("write".into(), by_write);
                path.note = Some("huge pages refused".into());
            }
        }
        let result = &summarise(std::slice::from_ref(rung), &[samples], &[])[0];
        assert_eq!(
            result.warnings,
            ["writer: 1GiB of 7GiB went by write, not fresh: huge pages refused, in round 2"]
        );
    }

    #[test]
    fn stolen_time_and_shared_cpus_are_flagged_not_dropped() {
        let mut samples: Vec<_> = (0..7).map(|r| sample(r, 4.0, 60.0)).collect();
        samples[2].steal = Some(0.1);
        samples[4].reader.run_queue_wait_s = Some(0.3);
        let result = &summarise(&ladder()[..1], &[samples], &[])[0];
        assert_eq!(result.samples.len(), 7);
        let text = result.warnings.join("; ");
        assert!(
            text.contains("stolen by the hypervisor in round 3"),
            "{text}"
        );
        assert!(text.contains("shared with other work in round 5"), "{text}");
    }
}
