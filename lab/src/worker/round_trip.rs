//! One byte there and back, each trip timed by itself: `lat_pipe`, `lat_unix`, `lat_tcp`.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use fullbore_sys::{Error, Result};

use super::outcome::{Ready, Report, RoundTrips};
use super::side_report::{Finished, SideReport};
use super::timing::{Time, Until};

impl RoundTrips {
    /// What these times say, each `None` where there are none.
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

/// Trips kept at most: a second of the fastest ones.
const MOST: usize = 1 << 20;

/// Sends a byte, waits for it to come back, and again.
pub(super) fn ping([to, from]: [OwnedFd; 2], time: Time, ready: Ready<'_>) -> Result<Report> {
    let mut trips = Vec::with_capacity(MOST);
    ready()?;
    let timed = || {
        let start = Instant::now();
        trip(&to, &from).map(|()| start.elapsed()).map_err(failed)
    };
    let warm_up = Duration::from_secs_f64(time.warm_up_s);
    let began = Instant::now();
    // At least one: both sides are there then.
    loop {
        timed()?;
        if began.elapsed() >= warm_up {
            break;
        }
    }
    let start = Instant::now();
    let is_over = || match time.until {
        Some(Until::Seconds(s)) => start.elapsed().as_secs_f64() >= s,
        _ => true,
    };
    loop {
        let took = timed()?;
        if trips.len() < MOST {
            trips.push(ns(took));
        }
        if is_over() {
            break;
        }
    }
    Ok(RoundTrips::of(trips).map_or(Report::Nothing, Report::RoundTrips))
}

/// Sends every byte back until there are no more.
pub(super) fn pong([to, from]: [OwnedFd; 2], ready: Ready<'_>) -> Result<Report> {
    ready()?;
    let bytes = echo(from, to).map_err(failed)?;
    let report = SideReport {
        bytes,
        ..SideReport::default()
    };
    Ok(Report::Moved(Box::new(Finished {
        report,
        measured_ns: [0; 2],
    })))
}

fn failed(e: io::Error) -> Error {
    Error::system("a round trip failed", e, "")
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
pub(crate) fn echo(from: impl AsFd, to: impl AsFd) -> io::Result<u64> {
    let mut byte = [0];
    let mut echoed = 0;
    loop {
        let back = match fullbore_sys::calls::read(&from, &mut byte) {
            Ok(0) => return Ok(echoed),
            Ok(_) => fullbore_sys::calls::write(&to, &byte),
            Err(e) => Err(e),
        };
        match back.map_err(|e| (e.kind(), e)) {
            Ok(n) => echoed += n as u64,
            // They have measured enough.
            Err((io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset, _)) => {
                return Ok(echoed);
            }
            Err((_, e)) => return Err(e),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
