//! How long one byte takes through a pipe and back.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use fullbore_sys::{Error, Result, capacity};
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
    /// What these times say, each made by [`ns`]; `None` where there are none.
    #[must_use]
    pub(crate) fn of(mut times: Vec<u32>) -> Option<Self> {
        times.sort_unstable();
        let last = times.len().checked_sub(1)?;
        let us = |rank: usize| f64::from(times[rank]) / 1000.0;
        Some(Self {
            count: times.len(),
            median_us: us(last / 2),
            // The smallest time that at least 99 % do not exceed.
            p99_us: us((times.len() * 99).div_ceil(100) - 1),
        })
    }
}

/// A time in nanoseconds, as small as it can be kept; 4.3 s stand for all that is longer.
pub(crate) fn ns(time: Duration) -> u32 {
    u32::try_from(time.as_nanos()).unwrap_or(u32::MAX)
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
    let pipes = [pipe_of(capacity)?, pipe_of(capacity)?];
    let times = between_threads(pipes, cpus, ask_many)?;
    RoundTrips::of(times).ok_or_else(|| {
        Error::new(
            "latency cannot be measured",
            "no round trip was finished",
            "run it again",
        )
    })
}

/// Has `ask`, on the first CPU, send bytes to a thread on the second one, which sends them back. It is given the ends to
/// write to and to read from.
///
/// # Errors
/// A CPU may not be used, or what `ask` reports.
pub(crate) fn between_threads<T: Send>(
    [there, back]: [(OwnedFd, OwnedFd); 2],
    cpus: (usize, usize),
    ask: impl FnOnce(&OwnedFd, &OwnedFd) -> io::Result<T> + Send,
) -> Result<T> {
    std::thread::scope(|scope| {
        // Each thread owns the ends it uses: when one ends, the other sees end of file or EPIPE and ends, too.
        let (answer_in, answer_out) = (there.0, back.1);
        let answer = std::thread::Builder::new()
            .spawn_scoped(scope, move || {
                sys::pin_to_cpu(cpus.1)?;
                answer_all(&answer_in, &answer_out).map_err(broken)
            })
            .map_err(broken)?;
        let (ask_out, ask_in) = (there.1, back.0);
        let ask = std::thread::Builder::new()
            .spawn_scoped(scope, move || {
                sys::pin_to_cpu(cpus.0)?;
                ask(&ask_out, &ask_in).map_err(broken)
            })
            .map_err(broken)?;
        let asked = ask
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let answered = answer
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        // Where both fail, the one that could not start is the reason.
        answered?;
        asked
    })
}

fn broken(e: io::Error) -> Error {
    Error::system("latency cannot be measured", e, "run it again")
}

fn pipe_of(bytes: u64) -> Result<(OwnedFd, OwnedFd)> {
    let ends = fullbore_sys::calls::pipe().map_err(broken)?;
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    capacity::set(&ends.1, bytes)?;
    Ok(ends)
}

/// Sends a byte and waits for it to come back.
pub(crate) fn trip(to: impl AsFd, from: impl AsFd) -> io::Result<()> {
    let mut byte = [0];
    fullbore_sys::calls::write(to, &byte)?;
    match fullbore_sys::calls::read(from, &mut byte)? {
        1 => Ok(()),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// Sends every byte back until there are no more, or nobody wants any; returns how many it were.
pub(crate) fn answer_all(from: impl AsFd, to: impl AsFd) -> io::Result<u64> {
    let mut byte = [0];
    let mut answered = 0;
    loop {
        let back = match fullbore_sys::calls::read(&from, &mut byte) {
            Ok(0) => return Ok(answered),
            Ok(_) => fullbore_sys::calls::write(&to, &byte),
            Err(e) => Err(e),
        };
        match back.map_err(|e| (e.kind(), e)) {
            Ok(n) => answered += n as u64,
            // They have measured enough.
            Err((io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset, _)) => {
                return Ok(answered);
            }
            Err((_, e)) => return Err(e),
        }
    }
}

fn ask_many(to: &OwnedFd, from: &OwnedFd) -> io::Result<Vec<u32>> {
    for _ in 0..WARM_UP {
        trip(to, from)?;
    }
    let mut times = Vec::with_capacity(TRIPS);
    let mut before = Instant::now();
    let end = before + MEASURE;
    while times.len() < TRIPS && before < end {
        trip(to, from)?;
        let now = Instant::now();
        times.push(ns(now - before));
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
        let times = |n: u64| {
            (1..=n)
                .rev()
                .map(|us| ns(Duration::from_micros(us)))
                .collect()
        };
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
