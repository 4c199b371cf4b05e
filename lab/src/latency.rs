//! How long one byte takes through a pipe and back.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use fullbore::{Error, Result, capacity};
use serde::{Deserialize, Serialize};

use crate::sys;

/// Round trips that are made and not counted: both threads are on their CPUs, clocks have risen.
const WARM_UP: usize = 50;
/// Round trips that are counted; fewer where they take longer than [`MEASURE`]. The 99th percentile is then the
/// 20th slowest.
const TRIPS: usize = 2000;
/// No further round trip begins after this much measuring.
const MEASURE: Duration = Duration::from_millis(60);

/// What many round trips took.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RoundTrips {
    /// How many were counted.
    pub count: usize,
    /// Median, in microseconds.
    pub median_us: f64,
    /// 99th percentile, in microseconds.
    pub p99_us: f64,
}

impl RoundTrips {
    /// What these times say; `None` where there are none.
    #[must_use]
    pub fn of(mut times: Vec<Duration>) -> Option<Self> {
        times.sort_unstable();
        let last = times.len().checked_sub(1)?;
        let us = |rank: usize| times[rank].as_secs_f64() * 1e6;
        Some(Self {
            count: times.len(),
            median_us: us(last / 2),
            // The smallest time that at least 99 % do not exceed.
            p99_us: us((times.len() * 99).div_ceil(100) - 1),
        })
    }
}

/// Sends one byte through a pipe of this capacity to another thread, and back through a second one, many times: the
/// "hot potato" of lmbench's `lat_pipe`, with blocking `write(2)` and `read(2)`.
///
/// Two threads of one process rather than two processes: where both run on one CPU, this spares the switch of the address
/// space, about a microsecond of some five; on two CPUs there is no difference.
///
/// # Errors
/// The capacity is not granted, or a CPU may not be used.
pub fn round_trips(capacity: u64, cpus: (usize, usize)) -> Result<RoundTrips> {
    let there = pipe_of(capacity)?;
    let back = pipe_of(capacity)?;
    std::thread::scope(|scope| {
        // Each thread owns the ends it uses: when one ends, the other sees end of file or EPIPE and ends, too.
        let (answer_in, answer_out) = (there.0, back.1);
        let answer = scope.spawn(move || {
            sys::pin_to_cpu(cpus.1)?;
            answer_all(&answer_in, &answer_out).map_err(broken)
        });
        let (ask_out, ask_in) = (there.1, back.0);
        let ask = scope.spawn(move || {
            sys::pin_to_cpu(cpus.0)?;
            ask_many(&ask_out, &ask_in).map_err(broken)
        });
        let times = ask.join().map_err(|_| given_up())?;
        let answered = answer.join().map_err(|_| given_up())?;
        // Where both fail, the one that could not start is the reason.
        answered?;
        RoundTrips::of(times?).ok_or_else(given_up)
    })
}

fn given_up() -> Error {
    Error::new(
        "latency cannot be measured",
        "no round trip was finished",
        "run it again",
    )
}

fn broken(e: io::Error) -> Error {
    Error::system("latency cannot be measured", e, "run it again")
}

fn pipe_of(bytes: u64) -> Result<(OwnedFd, OwnedFd)> {
    let ends = fullbore::sys::pipe().map_err(broken)?;
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    capacity::set(&ends.1, bytes)?;
    Ok(ends)
}

fn answer_all(from: impl AsFd, to: impl AsFd) -> io::Result<()> {
    let mut byte = [0];
    while fullbore::sys::read(&from, &mut byte)? == 1 {
        match fullbore::sys::write(&to, &byte) {
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => break, // they have had enough
            other => other?,
        };
    }
    Ok(())
}

fn ask_many(to: impl AsFd, from: impl AsFd) -> io::Result<Vec<Duration>> {
    let mut byte = [1];
    let mut trip = || {
        fullbore::sys::write(&to, &byte)?;
        match fullbore::sys::read(&from, &mut byte)? {
            1 => Ok::<_, io::Error>(()),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    };
    for _ in 0..WARM_UP {
        trip()?;
    }
    let mut times = Vec::with_capacity(TRIPS);
    let mut before = Instant::now();
    let end = before + MEASURE;
    while times.len() < TRIPS && before < end {
        trip()?;
        let now = Instant::now();
        times.push(now - before);
        before = now;
    }
    Ok(times)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{Machine, choose_cpus};

    #[test]
    fn percentile_is_a_time_that_occurred() {
        let times = |n: u64| (1..=n).rev().map(Duration::from_micros).collect();
        let of = RoundTrips::of(times(200)).unwrap();
        assert_eq!((of.count, of.median_us, of.p99_us), (200, 100.0, 198.0));
        let of = RoundTrips::of(times(1)).unwrap();
        assert_eq!((of.median_us, of.p99_us), (1.0, 1.0));
        assert_eq!(RoundTrips::of(Vec::new()), None);
    }

    #[test]
    fn a_byte_goes_there_and_back_through_one_page() {
        let cpus = choose_cpus(&Machine::detect()).unwrap();
        for cpus in [(cpus.writer, cpus.reader), (cpus.writer, cpus.writer)] {
            let trips = round_trips(4096, cpus).unwrap();
            assert!(trips.count > 0 && trips.median_us > 0.0, "{trips:?}");
            assert!(trips.p99_us >= trips.median_us, "{trips:?}");
        }
    }

    #[test]
    fn a_cpu_that_cannot_be_had_is_named_whichever_side_it_is_on() {
        let cpu = Machine::detect().topology.cpus_allowed[0];
        for cpus in [(cpu, 99_999), (99_999, cpu)] {
            let error = round_trips(65536, cpus).unwrap_err().to_string();
            assert!(error.starts_with("CPU 99999 refused"), "{error}");
        }
    }
}
