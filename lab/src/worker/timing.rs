//! How a job is timed.

use std::io;
use std::time::Duration;

use fullbore_sys::{Error, Result};
use serde::{Deserialize, Serialize};

use super::outcome::Report;
use super::side::{Counters, Path};
use super::side_report::Moment;

/// When the measured part of a trial ends.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Until {
    /// After so many seconds.
    Seconds(f64),
    /// After so many bytes.
    Bytes(u64),
}

/// When to measure.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Time {
    /// Seconds that are not measured, at the start.
    pub warm_up_s: f64,
    /// End of the measured part; absent for a process that works until the other one has had enough.
    pub until: Option<Until>,
}

impl Time {
    /// Whether the measured part is over that began then, after so many bytes in all.
    pub(super) fn is_over(&self, start: &Moment, bytes: u64) -> bool {
        match self.until {
            Some(Until::Seconds(s)) => start.at.elapsed().as_secs_f64() >= s,
            Some(Until::Bytes(n)) => bytes - start.counters.bytes >= n,
            None => false,
        }
    }

    /// How long it may take at 16 MiB/s.
    pub(super) fn longest(&self) -> Duration {
        let measured = match self.until {
            Some(Until::Seconds(s)) => Duration::from_secs_f64(s),
            Some(Until::Bytes(n)) => Duration::from_secs(n >> 24),
            None => Duration::ZERO,
        };
        Duration::from_secs_f64(self.warm_up_s) + measured
    }
}

/// The clock is read once per so many bytes: at 100 GiB/s every 10 µs, at 1 GiB/s every millisecond.
pub(super) const BYTES_PER_LOOK: u64 = 1 << 20;

/// Repeats `step`, which returns how many bytes it moved, and measures after the warm-up. Without a time of its own it
/// goes on until the other side is gone, which is the end it reports then.
pub(super) fn timed(time: Time, mut step: impl FnMut() -> io::Result<usize>) -> Result<Report> {
    let moment = |bytes| {
        Moment::now(&Counters {
            bytes,
            ..Counters::default()
        })
    };
    let report = |start: &Moment, bytes| {
        let finished = start.until(&moment(bytes), Path::default());
        Ok(Report::Moved(Box::new(finished)))
    };
    let began = moment(0);
    let warm_up = Duration::from_secs_f64(time.warm_up_s);
    let mut start: Option<Moment> = None;
    let (mut bytes, mut look_at) = (0, 0);
    loop {
        if bytes >= look_at {
            look_at = bytes + BYTES_PER_LOOK;
            match &start {
                None if began.at.elapsed() >= warm_up => start = Some(moment(bytes)),
                Some(start) if time.is_over(start, bytes) => return report(start, bytes),
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
    if time.until.is_some() || bytes == 0 {
        return Ok(Report::Nothing);
    }
    // On a CPU that it shared, the own warm-up may have lasted until the other side had had enough.
    let start = start.filter(|start| bytes - start.counters.bytes >= BYTES_PER_LOOK);
    report(&start.unwrap_or(began), bytes)
}

/// What ends a sender whose receiver has seen enough. TCP resets a connection that is closed with data in it.
fn is_goodbye(e: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset};
    matches!(e.kind(), BrokenPipe | ConnectionReset)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Time = Time {
        warm_up_s: 0.0,
        until: Some(Until::Seconds(0.01)),
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
        let report = report.moved().unwrap();
        assert!(report.seconds >= 0.01, "{report:?}");
        assert!(report.bytes > 0 && report.bytes < all, "{report:?}");
    }

    #[test]
    fn an_end_is_a_report_only_for_those_who_wait_for_it() {
        let until_end = Time {
            until: None,
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
        assert_eq!(
            timed(until_end, ending()).unwrap().moved().unwrap().bytes,
            200
        );
        let still_warming_up = Time {
            warm_up_s: 60.0,
            ..until_end
        };
        assert_eq!(
            timed(still_warming_up, ending())
                .unwrap()
                .moved()
                .unwrap()
                .bytes,
            200
        );
        let too_early = timed(SHORT, ending()).unwrap();
        assert!(matches!(too_early, Report::Nothing), "{too_early:?}");
        let refused = timed(until_end, || Err(io::ErrorKind::PermissionDenied.into()));
        assert!(refused.is_err());
    }
}
