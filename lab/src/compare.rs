//! Several saved runs side by side: what differs between them, and which of it is more than noise. Pure.

use std::collections::BTreeMap;

use fullbore_sys::{Error, Result};
use serde::Serialize;

use crate::machine::state::State;
use crate::saved::load::{Kind, Saved};
use crate::show::escape::shown;
use crate::stats::{self, Estimate, Verdict};

mod differences;
mod rows;
mod series;
pub use differences::Difference;
use rows::{keys, row};
use series::{ComparedSeries, series};

/// Name and version of the form of a comparison.
pub const SCHEMA: &str = "fullbore.compare/1";

/// Runs that stand for one thing: a single run, or those of many hosts of one kind.
#[derive(Clone, Debug)]
pub struct RunGroup {
    /// What it is called. May hold anything: see [`shown`].
    pub name: String,
    /// Its runs, at least one, all of the same [`Kind`].
    pub runs: Vec<Saved>,
}

/// All groups against the first.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Comparison {
    /// [`SCHEMA`].
    pub schema: String,
    /// Version of Fullbore.
    pub version: String,
    /// Kind of the runs.
    pub kind: String,
    /// What is compared; the first is the base.
    pub groups: Vec<GroupSummary>,
    /// What differs between machines and methods, other than speed.
    pub differences: Vec<Difference>,
    /// Every other group against the first.
    pub comparisons: Vec<Against>,
    /// What a reader should know.
    pub warnings: Vec<String>,
}

/// What is said of a group.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct GroupSummary {
    /// Its letter: A is the base.
    pub letter: String,
    /// Its name.
    pub name: String,
    /// Kernel and CPU, such as `Linux 6.18, AMD EPYC`.
    pub machine: String,
    /// Number of runs.
    pub runs: usize,
    /// Start of each run, in seconds since 1970 UTC.
    pub started_unix_s: Vec<u64>,
    /// Labels of its runs, each once.
    pub labels: Vec<String>,
}

/// One group against the base.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Against {
    /// Its letter.
    pub letter: String,
    /// What was measured, in the order of the base.
    pub rows: Vec<ComparedRow>,
}

/// What a figure is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub enum Unit {
    /// Larger is better.
    #[serde(rename = "GiB/s")]
    GibPerS,
    /// Smaller is better.
    #[serde(rename = "µs")]
    Us,
}

/// One thing that was measured, in one state of the machine.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ComparedRow {
    /// Its name: a rung, a column, buffer and capacity.
    pub id: String,
    /// What its figures are in.
    pub unit: Unit,
    /// The state; trials of different states are never compared.
    pub state: State,
    /// In the base.
    pub base: Option<Figure>,
    /// In the other group.
    pub other: Option<Figure>,
    /// Ratio of speeds: other / base of rates, base / other of times. The interval holds for all rows of the comparison at
    /// once.
    pub ratio: Option<Estimate>,
    /// What the ratio allows to be said; absent where there is none.
    pub verdict: Option<Verdict>,
    /// `other.to_first / base.to_first`: the same with what slows a whole run down cancelled out.
    pub ratio_of_ratios: Option<Estimate>,
    /// What that allows to be said.
    pub verdict_inside: Option<Verdict>,
}

impl ComparedRow {
    /// Whether both sides have samples enough for a difference to be called, among `together` rows. Where groups have
    /// several runs, each counts as one sample.
    fn has_enough(&self, several: bool, together: usize) -> bool {
        let (Some(a), Some(b)) = (&self.base, &self.other) else {
            return false;
        };
        let n = if several {
            [a.runs, b.runs]
        } else {
            [a.trials, b.trials]
        };
        stats::enough(n, together)
    }
}

/// What one group says of one thing.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Figure {
    /// Of a single run the median of its trials; of several the median of the runs' medians.
    pub value: Estimate,
    /// Trials in this state, of all runs.
    pub trials: usize,
    /// Runs that have such trials.
    pub runs: usize,
    /// Ratio to the first rate measured in the same run, round by round.
    pub to_first: Option<Estimate>,
}

impl Comparison {
    /// Whether there is anything that could be judged.
    pub fn has_ratios(&self) -> bool {
        self.rows().any(|(_, row)| row.ratio.is_some())
    }

    /// What of each group cannot be judged against the base, by letter and name, and why: a gate that passed over it would pass
    /// a rung that has vanished.
    pub fn unjudged(&self) -> Vec<(&str, &str, &'static str)> {
        let several = self.groups.iter().any(|g| g.runs > 1);
        let shared = |row: &ComparedRow| row.base.is_some() && row.other.is_some();
        let together = self.rows().filter(|(_, row)| shared(row)).count();
        let is_judged =
            |row: &ComparedRow| row.ratio.is_some() && row.has_enough(several, together);
        let mut unjudged = Vec::new();
        for Against { letter, rows, .. } in &self.comparisons {
            for (i, row) in rows.iter().enumerate() {
                // One line may have a row for each state.
                let same = |other: &&ComparedRow| other.id == row.id && other.unit == row.unit;
                let mut of_it = rows.iter().filter(same);
                if rows[..i].iter().any(|other| same(&other)) || of_it.clone().any(is_judged) {
                    continue;
                }
                let why = match (
                    of_it.clone().any(|r| r.base.is_some()),
                    of_it.clone().any(|r| r.other.is_some()),
                ) {
                    (_, false) => "it was measured in A only",
                    (false, _) => "it was not measured in A",
                    _ if of_it.any(shared) => "there are too few samples",
                    _ => "the CPUs were in another state",
                };
                unjudged.push((&**letter, &*row.id, why));
            }
        }
        unjudged
    }

    /// Every row with the letter of its group.
    pub fn rows(&self) -> impl Iterator<Item = (&str, &ComparedRow)> {
        self.comparisons
            .iter()
            .flat_map(|c| c.rows.iter().map(|row| (&*c.letter, row)))
    }

    /// The rows that are slower than the base, beyond noise, by more than so many percent: the *upper* end of the
    /// interval is below 1 − percent / 100.
    pub fn slower_by(&self, percent: f64) -> impl Iterator<Item = (&str, &ComparedRow)> {
        let limit = 1.0 - percent / 100.0;
        self.rows().filter(move |(_, row)| {
            let beyond = row.ratio.is_some_and(|r| r.ci95[1] < limit);
            beyond && row.verdict == Some(Verdict::Slower)
        })
    }
}

/// Puts runs of many hosts into groups by kernel and CPU, in the order of their names.
pub fn group_by_machine(runs: Vec<Saved>) -> Vec<RunGroup> {
    let mut groups = BTreeMap::<String, Vec<Saved>>::new();
    for run in runs {
        groups.entry(kind_of_machine(&run)).or_default().push(run);
    }
    let groups = groups.into_iter();
    groups.map(|(name, runs)| RunGroup { name, runs }).collect()
}

/// Kernel and CPU.
pub fn kind_of_machine(run: &Saved) -> String {
    let machine = &run.head().machine;
    format!(
        "Linux {}, {}",
        machine.kernel.as_deref().unwrap_or("of unknown release"),
        machine.cpu_model.as_deref().unwrap_or("unknown CPU"),
    )
}

/// Compares every group with the first.
///
/// # Errors
/// Fewer than two groups, runs of different kinds, or of a kind that says nothing about speed.
pub fn compare(groups: &[RunGroup]) -> Result<Comparison> {
    let kind = common_kind(groups)?;
    let measured: Vec<Vec<Vec<ComparedSeries>>> = groups
        .iter()
        .map(|g| g.runs.iter().map(series).collect())
        .collect();
    let (base, others) = measured
        .split_first()
        .ok_or_else(|| Error::new("nothing to compare", "no run was named", ""))?;
    let keys: Vec<_> = others.iter().map(|other| keys(base, other)).collect();
    let together = keys.iter().flatten().filter(|key| key.in_both).count();
    let comparisons: Vec<_> = keys
        .iter()
        .zip(others)
        .enumerate()
        .map(|(i, (keys, other))| Against {
            letter: letter(i + 1),
            rows: keys
                .iter()
                .map(|key| row(key, base, other, together))
                .collect(),
        })
        .collect();
    let mut comparison = Comparison {
        schema: SCHEMA.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        kind: kind.to_string(),
        groups: groups
            .iter()
            .enumerate()
            .map(|(i, g)| summary(i, g))
            .collect(),
        differences: differences::differences(groups),
        comparisons,
        warnings: Vec::new(),
    };
    comparison.warnings = warnings(groups, &measured, &comparison, together);
    Ok(comparison)
}

fn common_kind(groups: &[RunGroup]) -> Result<Kind> {
    let mut kinds: Vec<_> = groups
        .iter()
        .flat_map(|g| &g.runs)
        .map(Saved::kind)
        .collect();
    kinds.sort_unstable();
    kinds.dedup();
    match kinds[..] {
        [Kind::Profile] => Err(Error::new(
            "profiles cannot be compared",
            "one run under a profiler says nothing about noise",
            "compare runs of fullbore ladder",
        )),
        [_] if groups.len() < 2 => Err(Error::new(
            "nothing to compare",
            "there is only one run",
            "name another one, for example: fullbore compare last~1 last",
        )),
        [kind] => Ok(kind),
        _ => {
            let names: Vec<_> = kinds.iter().map(Kind::to_string).collect();
            Err(Error::new(
                "these runs cannot be compared",
                format!("they are of different kinds: {}", names.join(", ")),
                "choose one with --kind, or name runs of one kind",
            ))
        }
    }
}

fn letter(index: usize) -> String {
    match u8::try_from(index) {
        Ok(i @ 0..26) => char::from(b'A' + i).to_string(),
        _ => format!("#{}", index + 1),
    }
}

fn summary(index: usize, group: &RunGroup) -> GroupSummary {
    let mut labels: Vec<_> = group
        .runs
        .iter()
        .filter_map(|r| r.head().label.clone())
        .collect();
    labels.sort_unstable();
    labels.dedup();
    GroupSummary {
        letter: letter(index),
        name: group.name.clone(),
        machine: group.runs.first().map(kind_of_machine).unwrap_or_default(),
        runs: group.runs.len(),
        started_unix_s: group.runs.iter().map(|r| r.head().started_unix_s).collect(),
        labels,
    }
}

fn warnings(
    groups: &[RunGroup],
    measured: &[Vec<Vec<ComparedSeries>>],
    comparison: &Comparison,
    together: usize,
) -> Vec<String> {
    let mut warnings = Vec::new();
    if let Some(what) = differences::other_hardware(groups) {
        warnings.push(format!(
            "the machines differ ({what}): their absolute figures compare machines, not ways through a pipe; the ratios inside each run, on the right, are what carries over"
        ));
    }
    let several = groups.iter().any(|g| g.runs.len() > 1);
    let few = comparison.rows().filter(|(_, row)| {
        row.base.is_some() && row.other.is_some() && !row.has_enough(several, together)
    });
    let needed = (1..)
        .find(|&n| stats::enough([n, n], together))
        .unwrap_or(0);
    match few.count() {
        0 => {}
        n if several => warnings.push(format!(
            "too few runs in {n} of {together} lines for any difference to be called: where groups have several runs, each counts as one sample, and {needed} of either group are needed"
        )),
        n => warnings.push(format!(
            "too few trials in {n} of {together} lines for any difference to be called: {needed} in each run and state are needed; use more --rounds"
        )),
    }
    for (group, runs) in comparison.groups.iter().zip(measured) {
        for (state, why) in [
            (State::Moved, "in which the two CPUs moved"),
            (
                State::Unknown,
                "of which it is not known how far apart the CPUs were",
            ),
        ] {
            let all = runs.iter().flatten().filter(|s| s.state == state);
            let trials: usize = all.map(|s| s.values.len()).sum();
            if trials > 0 {
                warnings.push(format!(
                    "{}: {trials} trials {why} are not compared",
                    group.letter
                ));
            }
        }
    }
    warnings
}

/// A name for a terminal.
fn plain(text: Option<&str>) -> String {
    text.map_or_else(|| "not known".to_owned(), shown)
}

#[cfg(test)]
mod tests;
