//! One byte there and back: `lat_pipe`, `lat_unix`, `lat_tcp`, each trip timed by itself.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use fullbore::{Error, Result, sys};

use super::work::{Ready, Report, RoundTrip, Time};

/// Trips kept at most: a second of the fastest ones.
const MOST: usize = 1 << 20;

/// Sends a byte, waits for it to come back, and again.
pub(super) fn ping([to, from]: [OwnedFd; 2], time: Time, ready: Ready<'_>) -> Result<Report> {
    let mut trips = Vec::with_capacity(MOST);
    ready()?;
    let mut byte = [0];
    let mut trip = || -> io::Result<Duration> {
        let start = Instant::now();
        sys::write(&to, &byte)?;
        match sys::read(&from, &mut byte)? {
            1 => Ok(start.elapsed()),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    };
    let failed = |e| Error::system("a round trip failed", e, "");
    let warm_up = Duration::from_secs_f64(time.warm_up_s);
    let measured = Duration::from_secs_f64(time.measured_s.unwrap_or(0.0));
    let began = Instant::now();
    // At least one: both sides are there then.
    loop {
        trip().map_err(failed)?;
        if began.elapsed() >= warm_up {
            break;
        }
    }
    let start = Instant::now();
    let cpu = crate::sys::usage().cpu;
    loop {
        let took = trip().map_err(failed)?;
        if trips.len() < MOST {
            trips.push(u32::try_from(took.as_nanos()).unwrap_or(u32::MAX));
        }
        if start.elapsed() >= measured {
            break;
        }
    }
    Ok(Report {
        bytes: trips.len() as u64,
        seconds: start.elapsed().as_secs_f64(),
        cpu_s: crate::sys::usage().cpu.saturating_sub(cpu).as_secs_f64(),
        round_trip: Some(summary(&mut trips)),
    })
}

/// Sends every byte back until there are no more.
pub(super) fn pong([to, from]: [OwnedFd; 2], ready: Ready<'_>) -> Result<Report> {
    ready()?;
    let mut report = Report::default();
    let mut byte = [0];
    loop {
        let back = match sys::read(&from, &mut byte) {
            Ok(0) => return Ok(report),
            Ok(_) => sys::write(&to, &byte),
            Err(e) => Err(e),
        };
        match back {
            Ok(n) => report.bytes += n as u64,
            // The other side has measured enough.
            Err(e)
                if matches!(
                    e.kind(),
                    io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset
                ) =>
            {
                return Ok(report);
            }
            Err(e) => return Err(Error::system("a round trip failed", e, "")),
        }
    }
}

/// Of times in ns, of which there is at least one.
fn summary(trips: &mut [u32]) -> RoundTrip {
    trips.sort_unstable();
    let rank = |share: f64| {
        let at = (share * trips.len() as f64).ceil() as usize;
        f64::from(trips[at.clamp(1, trips.len()) - 1]) / 1000.0
    };
    RoundTrip {
        median_us: rank(0.5),
        p99_us: rank(0.99),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_trips_that_happened() {
        let mut trips: Vec<u32> = (1..=200).rev().map(|n| n * 1000).collect();
        let trip = summary(&mut trips);
        assert_eq!((trip.median_us, trip.p99_us), (100.0, 198.0));
        let one = summary(&mut [1500]);
        assert_eq!((one.median_us, one.p99_us), (1.5, 1.5));
    }
}
