//! How a job is timed, and what it reports.

use std::io;
use std::time::{Duration, Instant};

use fullbore_sys::{Error, Result};
use serde::{Deserialize, Serialize};

use super::round_trip::RoundTrips;
use crate::sys::{self, Usage};

/// When to measure.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Time {
    /// Seconds that are not measured, at the start.
    pub warm_up_s: f64,
    /// Seconds that are; absent for a process that works until the other one has had enough.
    pub measured_s: Option<f64>,
}

/// What a process measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Bytes moved.
    pub bytes: u64,
    /// Seconds, CLOCK_MONOTONIC.
    pub seconds: f64,
    /// CPU seconds used.
    pub cpu_s: f64,
    /// Round trips, where that was the job.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub round_trips: Option<RoundTrips>,
}

/// What a job calls once its memory is ready; returns when all processes of the trial are.
pub(crate) type Ready<'a> = &'a mut dyn FnMut() -> Result<()>;

/// What a process says whose partner is gone: the partner's own message explains it.
pub(crate) const NOTHING: &str = "a trial measured nothing";

/// The clock is read once per so many bytes: at 100 GiB/s every 10 µs, at 1 GiB/s every millisecond.
const BYTES_PER_LOOK: u64 = 1 << 20;

/// Repeats `step`, which returns how many bytes it moved, and measures after the warm-up. Without a time of its own it
/// goes on until the other side is gone, which is the end it reports then.
pub(crate) fn timed(time: Time, mut step: impl FnMut() -> io::Result<usize>) -> Result<Report> {
    let began = Mark::now(0);
    let warm_up = Duration::from_secs_f64(time.warm_up_s);
    let measured = time.measured_s.map(Duration::from_secs_f64);
    let mut start: Option<Mark> = None;
    let (mut bytes, mut look_at) = (0, 0);
    loop {
        if bytes >= look_at {
            look_at = bytes + BYTES_PER_LOOK;
            match &start {
                None if began.at.elapsed() >= warm_up => start = Some(Mark::now(bytes)),
                Some(mark) if measured.is_some_and(|m| mark.at.elapsed() >= m) => {
                    return Ok(mark.report(bytes));
                }
                _ => {}
            }
        }
        match step() {
            Ok(0) => break,
            Ok(n) => bytes += n as u64,
            Err(e) if is_goodbye(&e) => break,
            Err(e) => return Err(Error::system("moving bytes failed", e, "")),
        }
    }
    if measured.is_some() || bytes == 0 {
        return Err(Error::new(
            NOTHING,
            "the other side ended before its time",
            "look at its own message",
        ));
    }
    // On a CPU that it shared, the own warm-up may have lasted until the other side had had enough.
    let start = start.filter(|mark| bytes - mark.bytes >= BYTES_PER_LOOK);
    Ok(start.unwrap_or(began).report(bytes))
}

/// What ends a sender whose receiver has seen enough. TCP resets a connection that is closed with data in it.
fn is_goodbye(e: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset};
    matches!(e.kind(), BrokenPipe | ConnectionReset)
}

/// The beginning of the measured part.
struct Mark {
    usage: Usage,
    bytes: u64,
    at: Instant,
}

impl Mark {
    fn now(bytes: u64) -> Self {
        Self {
            usage: sys::usage(),
            bytes,
            at: Instant::now(),
        }
    }

    fn report(&self, bytes: u64) -> Report {
        let seconds = self.at.elapsed().as_secs_f64();
        Report {
            bytes: bytes - self.bytes,
            seconds,
            cpu_s: sys::usage()
                .cpu
                .saturating_sub(self.usage.cpu)
                .as_secs_f64(),
            round_trips: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Time = Time {
        warm_up_s: 0.0,
        measured_s: Some(0.01),
    };

    #[test]
    fn the_measured_part_is_as_long_as_asked_and_counts_its_own_bytes_only() {
        let mut all = 0;
        let report = timed(
            Time {
                warm_up_s: 0.01,
                ..SHORT
            },
            || {
                all += 1 << 20;
                std::thread::sleep(Duration::from_micros(100));
                Ok(1 << 20)
            },
        )
        .unwrap();
        assert!(report.seconds >= 0.01, "{report:?}");
        assert!(report.bytes > 0 && report.bytes < all, "{report:?}");
    }

    #[test]
    fn an_end_is_a_report_only_for_those_who_wait_for_it() {
        let until_end = Time {
            measured_s: None,
            ..SHORT
        };
        let ending = || {
            let mut left = 3;
            move || {
                left -= 1;
                if left == 0 {
                    Err(io::ErrorKind::BrokenPipe.into())
                } else {
                    Ok(100)
                }
            }
        };
        assert_eq!(timed(until_end, ending()).unwrap().bytes, 200);
        let still_warming_up = Time {
            warm_up_s: 60.0,
            ..until_end
        };
        assert_eq!(timed(still_warming_up, ending()).unwrap().bytes, 200);
        let text = timed(SHORT, ending()).unwrap_err().to_string();
        assert!(text.contains("ended before its time"), "{text}");
        let refused = timed(until_end, || Err(io::ErrorKind::PermissionDenied.into()));
        assert!(refused.is_err());
    }
}
