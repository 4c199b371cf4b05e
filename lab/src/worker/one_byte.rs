//! One byte there and back: `lat_pipe`, `lat_unix`, `lat_tcp`, each trip timed by itself.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use fullbore_sys::{Error, Result};

use super::order::{Ready, Report};
use super::round_trip::{RoundTrips, answer_all, ns, trip};
use super::side_report::{Finished, SideReport};
use super::timing::{Time, Until};

/// Trips kept at most: a second of the fastest ones.
const MOST: usize = 1 << 20;

/// Sends a byte, waits for it to come back, and again.
pub(super) fn ping([to, from]: [OwnedFd; 2], time: Time, ready: Ready<'_>) -> Result<Report> {
    let mut trips = Vec::with_capacity(MOST);
    ready()?;
    let trip = || {
        let start = Instant::now();
        trip(&to, &from).map(|()| start.elapsed()).map_err(failed)
    };
    let warm_up = Duration::from_secs_f64(time.warm_up_s);
    let began = Instant::now();
    // At least one: both sides are there then.
    loop {
        trip()?;
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
        let took = trip()?;
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
    let bytes = answer_all(from, to).map_err(failed)?;
    let report = SideReport {
        bytes,
        ..SideReport::default()
    };
    Ok(Report::Moved(Box::new(Finished {
        report,
        measured_ns: [0; 2],
    })))
}

fn failed(e: std::io::Error) -> Error {
    Error::system("a round trip failed", e, "")
}
