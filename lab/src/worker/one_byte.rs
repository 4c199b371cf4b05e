//! One byte there and back: `lat_pipe`, `lat_unix`, `lat_tcp`, each trip timed by itself.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use fullbore_sys::{Error, Result};

use super::round_trip::{RoundTrips, answer_all, ns, trip};
use super::timing::{Ready, Report, Time};

/// Trips kept at most: a second of the fastest ones.
const MOST: usize = 1 << 20;

/// Sends a byte, waits for it to come back, and again.
pub(crate) fn ping([to, from]: [OwnedFd; 2], time: Time, ready: Ready<'_>) -> Result<Report> {
    let mut trips = Vec::with_capacity(MOST);
    ready()?;
    let trip = || {
        let start = Instant::now();
        trip(&to, &from).map(|()| start.elapsed()).map_err(failed)
    };
    let warm_up = Duration::from_secs_f64(time.warm_up_s);
    let measured = Duration::from_secs_f64(time.measured_s.unwrap_or(0.0));
    let began = Instant::now();
    // At least one: both sides are there then.
    loop {
        trip()?;
        if began.elapsed() >= warm_up {
            break;
        }
    }
    let start = Instant::now();
    let cpu = crate::sys::usage().cpu;
    loop {
        let took = trip()?;
        if trips.len() < MOST {
            trips.push(ns(took));
        }
        if start.elapsed() >= measured {
            break;
        }
    }
    Ok(Report {
        bytes: trips.len() as u64,
        seconds: start.elapsed().as_secs_f64(),
        cpu_s: crate::sys::usage().cpu.saturating_sub(cpu).as_secs_f64(),
        round_trips: RoundTrips::of(trips),
    })
}

/// Sends every byte back until there are no more.
pub(crate) fn pong([to, from]: [OwnedFd; 2], ready: Ready<'_>) -> Result<Report> {
    ready()?;
    Ok(Report {
        bytes: answer_all(from, to).map_err(failed)?,
        ..Report::default()
    })
}

fn failed(e: std::io::Error) -> Error {
    Error::system("a round trip failed", e, "")
}
