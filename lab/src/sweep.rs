//! A sweep: buffer size × capacity of the pipe, for one write and one read method. The saved form, and what it says.

use fullbore_sys::pages::PageKind;
use fullbore_sys::wait::Wait;
use serde::{Deserialize, Serialize};

use crate::machine::state::State;
use crate::rounds::Measured;
use crate::rounds::by_state::{ByState, prevailing, state_warnings};
use crate::rounds::made::Made;
use crate::rounds::sample::{Sample, pairs};
use crate::saved::by_name;
use crate::saved::head::Head;
use crate::stats::{self, Estimate, Verdict};
use crate::worker::config::{Config, ReadWith, WriteWith};
use crate::worker::outcome::RoundTrips;
use crate::worker::sizes::{BufSize, PipeSize};

mod cells;
#[cfg(test)]
mod tests;
pub use cells::{LATENCY_S, SweepOptions, WARM_UP_S, sweep};

/// Name and version of the saved form.
pub const SCHEMA: &str = "fullbore.sweep/2";

/// All trials of one sweep, and what they say.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Sweep {
    /// Of the form [`SCHEMA`].
    #[serde(flatten)]
    pub head: Head,
    /// How trials were made.
    pub method: SweepMethod,
    /// Sizes of a buffer in bytes, ascending: the columns.
    pub buffers: Vec<u64>,
    /// Capacities in bytes, ascending: the rows. As granted; as asked for where nothing was granted.
    pub capacities: Vec<u64>,
    /// State of two CPUs in which most trials were made.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub prevailing: Option<State>,
    /// Every combination, capacity by capacity.
    pub cells: Vec<ByState<Cell>>,
    /// What a reader of the whole sweep should know.
    pub warnings: Vec<String>,
}

/// How the trials of a sweep were made.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SweepMethod {
    /// What is the same for every run.
    #[serde(flatten)]
    pub made: Made,
    /// Seconds of the measured part of each trial.
    pub seconds: f64,
    /// Write method.
    pub write_with: WriteWith,
    /// Read method.
    pub read_with: ReadWith,
    /// Kind of pages that buffers are made of.
    #[serde(with = "by_name")]
    #[cfg_attr(test, schemars(with = "String"))]
    pub pages: PageKind,
    /// How both sides wait.
    #[serde(with = "by_name")]
    #[cfg_attr(test, schemars(with = "String"))]
    pub wait: Wait,
    /// The question that was asked by name, if one was.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub preset: Option<String>,
}

/// One buffer size with one capacity, in one state of the machine.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Cell {
    /// Bytes of a buffer.
    pub buffer: u64,
    /// Bytes of capacity.
    pub capacity: u64,
    /// State of the machine in these trials.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub state: Option<State>,
    /// Rate of the reader.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub gib_per_s: Option<Estimate>,
    /// Round trip of one byte through two pipes of this capacity. The buffer has no part in it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub latency_us: Option<Latency>,
    /// Against the smallest capacity with the same buffer, round by round.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ratio_to_smallest: Option<Estimate>,
    /// What that ratio says.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub verdict: Option<Verdict>,
    /// The trials of this state.
    pub samples: Vec<Sample<CellFigures>>,
    /// Why there is nothing here.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub refused: Option<String>,
}

/// Time of a round trip, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Latency {
    /// Median over the rounds of each round's median.
    pub median: f64,
    /// Median over the rounds of each round's 99th percentile.
    pub p99: f64,
}

/// What one trial of a cell gave.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CellFigures {
    /// Rate of the reader, in GiB/s.
    pub gib_per_s: f64,
    /// Round trips of one byte made just after the trial.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub round_trips: Option<RoundTrips>,
}

/// What has to be measured, as far as one cell is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Methods {
    /// Write method.
    pub write_with: WriteWith,
    /// Read method.
    pub read_with: ReadWith,
    /// Kind of pages that buffers are made of.
    pub pages: PageKind,
    /// How both sides wait.
    pub wait: Wait,
}

impl Methods {
    /// What the pair of one cell does, or why there can be no such pair.
    ///
    /// # Errors
    /// With vmsplice the capacity is half the buffer; and what [`Config::check`] finds.
    pub fn config(&self, buffer: u64, capacity: u64, page: usize) -> fullbore_sys::Result<Config> {
        let buf_size = BufSize(buffer);
        let vmsplice = self.write_with == WriteWith::Vmsplice;
        let is_half = buf_size == BufSize::for_lent_capacity(capacity);
        if vmsplice && !is_half {
            return Err(fullbore_sys::Error::new(
                "not possible with vmsplice",
                "the capacity is half the buffer, so that a buffer has been read before it is used again",
                "",
            ));
        }
        let config = Config {
            write_with: self.write_with,
            read_with: self.read_with,
            pages: self.pages,
            wait: self.wait,
            buf_size,
            pipe_size: if vmsplice {
                PipeSize::Leave
            } else {
                PipeSize::Exactly(capacity)
            },
            ..Config::default()
        };
        config.check(page)?;
        Ok(config)
    }
}

impl Sweep {
    /// Works out every estimate: what was measured of each of these cells.
    pub(crate) fn sum_up<'a>(
        &mut self,
        measured: impl Iterator<Item = (usize, &'a Measured<CellFigures>)> + Clone,
    ) {
        let samples = measured.clone().flat_map(|(_, m)| &m.samples);
        let seen = samples.map(|s| s.state);
        self.prevailing = prevailing(seen.clone());
        for (cell, measured) in measured {
            let Cell {
                buffer, capacity, ..
            } = *self.cells[cell];
            let refused = measured.refused();
            self.cells[cell] = ByState::of(&measured.samples, self.prevailing, |state, samples| {
                Cell::of(buffer, capacity, state, samples, refused.clone())
            });
        }
        self.compare();
        self.warnings = state_warnings(seen, "figures of two CPUs would be higher on near ones");
        let few = self.cells.iter().map(|c| c.samples.len()).min();
        if self.method.made.rounds_done < self.method.made.rounds {
            self.warnings.push(format!(
                "ended early: {} of {} rounds",
                self.method.made.rounds_done, self.method.made.rounds
            ));
        } else if few.is_some_and(|n| n > 0 && n < 3) {
            self.warnings
                .push("fewer than 3 trials in some cells: their intervals promise nothing".into());
        }
    }
}

impl Sweep {
    /// The state of the cells that say nothing else.
    pub fn state(&self) -> Option<State> {
        let first = || self.cells.iter().find_map(|c| c.state);
        self.prevailing.or_else(first)
    }

    /// Compares each cell with that of the smallest capacity and the same buffer.
    fn compare(&mut self) {
        let (smallest, others) = match self
            .cells
            .iter()
            .position(|c| c.capacity != self.cells[0].capacity)
        {
            Some(row) => self.cells.split_at_mut(row),
            None => return,
        };
        for cell in others {
            let Some(first) = smallest.iter().find(|c| c.buffer == cell.buffer) else {
                continue;
            };
            let rate = |f: &CellFigures| f.gib_per_s;
            let pairs = pairs(&cell.samples, &first.samples, rate, rate);
            cell.main.ratio_to_smallest = stats::paired_ratio(&pairs);
            let verdict = |r| stats::verdict(&r, pairs.len());
            cell.main.verdict = cell.ratio_to_smallest.map(verdict);
        }
    }
}

impl Cell {
    /// A cell without trials yet.
    fn new(buffer: u64, capacity: u64, refused: Option<String>) -> Self {
        Self::of(buffer, capacity, None, Vec::new(), refused)
    }

    /// What these trials say.
    fn of(
        buffer: u64,
        capacity: u64,
        state: Option<State>,
        samples: Vec<Sample<CellFigures>>,
        refused: Option<String>,
    ) -> Self {
        let rates: Vec<_> = samples.iter().map(|s| s.figures.gib_per_s).collect();
        let trips = samples.iter().filter_map(|s| s.figures.round_trips);
        let trips: Vec<_> = trips.collect();
        let median = |which: fn(&RoundTrips) -> f64| {
            stats::median(&trips.iter().map(which).collect::<Vec<_>>())
        };
        Self {
            buffer,
            capacity,
            state,
            gib_per_s: stats::estimate(&rates),
            latency_us: median(|t| t.median_us)
                .zip(median(|t| t.p99_us))
                .map(|(median, p99)| Latency { median, p99 }),
            ratio_to_smallest: None,
            verdict: None,
            samples,
            refused,
        }
    }
}
