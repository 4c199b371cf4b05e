//! A sweep: buffer size × capacity of the pipe, for one way in and one way out. The saved form, and what it says.

use fullbore_sys::pages::PageKind;
use fullbore_sys::wait::Wait;
use serde::{Deserialize, Serialize};

use crate::ladder::run::{LineTravel, State, prevailing, state_warnings, states};
use crate::saved::by_name;
use crate::saved::head::Head;
use crate::stats::{self, Estimate};
use crate::worker::config::{Config, PipeSize, ReadWith, WriteWith};
use crate::worker::round_trip::RoundTrips;

mod cells;
#[cfg(test)]
mod tests;
pub use cells::{Event, Options, WARM_UP_S, sweep};

/// Name and version of the saved form.
pub const SCHEMA: &str = "fullbore.sweep/1";

/// All trials of one sweep, and what they say.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Sweep {
    /// Of the form [`SCHEMA`].
    #[serde(flatten)]
    pub head: Head,
    /// How trials were made.
    pub method: Method,
    /// Sizes of a buffer in bytes, ascending: the columns.
    pub buffers: Vec<u64>,
    /// Capacities in bytes, ascending: the rows. As granted; as asked for where nothing was granted.
    pub capacities: Vec<u64>,
    /// Every combination, capacity by capacity.
    pub cells: Vec<Cell>,
    /// What a reader of the whole sweep should know.
    pub warnings: Vec<String>,
}

/// How the trials of a sweep were made.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Method {
    /// CPUs of writer and reader.
    pub cpus: [usize; 2],
    /// Rounds asked for. Each runs every cell once, in an order of its own.
    pub rounds: usize,
    /// Rounds finished.
    pub rounds_done: usize,
    /// Seconds at the start of each trial that are not measured.
    pub warm_up_s: f64,
    /// Seconds of the measured part of each trial.
    pub seconds: f64,
    /// Seed of the order of trials.
    pub seed: u64,
    /// Way in.
    pub write_with: WriteWith,
    /// Way out.
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

/// One buffer size with one capacity.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Cell {
    /// Bytes of a buffer.
    pub buffer: u64,
    /// Bytes of capacity.
    pub capacity: u64,
    /// State of the machine that `gib_per_s` is of: the one that prevailed in the sweep, where this cell has trials of it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub state: Option<State>,
    /// Rate of the reader in that state.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub gib_per_s: Option<Estimate>,
    /// Round trip of one byte through two pipes of this capacity, in the same state. The buffer has no part in it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub latency_us: Option<Latency>,
    /// Every trial, of every state.
    pub samples: Vec<Sample>,
    /// Rates in other states, never pooled with the above.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub apart: Vec<Apart>,
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

/// A rate in another state than the prevailing one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Apart {
    /// The state.
    pub state: State,
    /// The rate in it.
    pub gib_per_s: Estimate,
}

/// One trial of one cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Sample {
    /// Round, from 0.
    pub round: usize,
    /// Rate of the reader, in GiB/s.
    pub gib_per_s: f64,
    /// State of the machine.
    pub state: State,
    /// Travel time of a cache line.
    pub line_travel_ns: LineTravel,
    /// Round trips of one byte made just after the trial.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub round_trips: Option<RoundTrips>,
}

/// What has to be measured, as far as one cell is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ways {
    /// Way in.
    pub write_with: WriteWith,
    /// Way out.
    pub read_with: ReadWith,
    /// Kind of pages that buffers are made of.
    pub pages: PageKind,
    /// How both sides wait.
    pub wait: Wait,
}

impl Ways {
    /// What the pair of one cell does, or why there can be no such pair.
    ///
    /// # Errors
    /// With vmsplice the capacity is half the buffer; and what [`Config::check`] finds.
    pub fn config(&self, buffer: u64, capacity: u64, page: usize) -> fullbore_sys::Result<Config> {
        let is_half = buffer == capacity.saturating_mul(2);
        let vmsplice = self.write_with == WriteWith::Vmsplice;
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
            buf_size: buffer,
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
    /// Works out every estimate from the samples.
    fn summarise(&mut self) {
        let seen = self.cells.iter().flat_map(|c| &c.samples).map(|s| s.state);
        let main = prevailing(seen.clone());
        let states = states(seen);
        for cell in &mut self.cells {
            cell.summarise(main);
        }
        self.warnings = state_warnings(&states, "figures of two CPUs would be higher on near ones");
        let few = self.cells.iter().map(|c| c.of(c.state).count()).min();
        if self.method.rounds_done < self.method.rounds {
            self.warnings.push(format!(
                "ended early: {} of {} rounds",
                self.method.rounds_done, self.method.rounds
            ));
        } else if few.is_some_and(|n| n > 0 && n < 3) {
            self.warnings
                .push("fewer than 3 trials in some cells: their intervals promise nothing".into());
        }
    }
}

impl Cell {
    /// A cell without trials yet.
    fn new(buffer: u64, capacity: u64, refused: Option<String>) -> Self {
        Self {
            buffer,
            capacity,
            state: None,
            gib_per_s: None,
            latency_us: None,
            samples: Vec::new(),
            apart: Vec::new(),
            refused,
        }
    }

    fn of(&self, state: Option<State>) -> impl Iterator<Item = &Sample> {
        self.samples.iter().filter(move |s| Some(s.state) == state)
    }

    fn summarise(&mut self, main: Option<State>) {
        let states = states(self.samples.iter().map(|s| s.state));
        let mine = states.iter().copied().find(|s| Some(*s) == main);
        self.state = mine.or(states.first().copied());
        let rate = |state| {
            let rates: Vec<_> = self.of(Some(state)).map(|s| s.gib_per_s).collect();
            stats::estimate(&rates)
        };
        let gib_per_s = self.state.and_then(rate);
        let apart = states.iter().filter(|s| Some(**s) != self.state);
        let apart = apart
            .filter_map(|&state| {
                let gib_per_s = rate(state)?;
                Some(Apart { state, gib_per_s })
            })
            .collect();
        (self.gib_per_s, self.apart) = (gib_per_s, apart);
        let trips: Vec<_> = self.of(self.state).filter_map(|s| s.round_trips).collect();
        let median = |which: fn(&RoundTrips) -> f64| {
            stats::median(&trips.iter().map(which).collect::<Vec<_>>())
        };
        self.latency_us = median(|t| t.median_us)
            .zip(median(|t| t.p99_us))
            .map(|(median, p99)| Latency { median, p99 });
    }
}
