//! The two sides of a pair as processes of a trial. The reader decides, through the shared memory, when the warm-up and the
//! measured part are over; the writer follows.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use fullbore_sys::{Error, Result};

use super::config::Config;
use super::outcome::{Ready, Report};
use super::reader::Reader;
use super::side::{Counters, Path, Watch};
use super::side_report::Moment;
use super::timing::{BYTES_PER_LOOK, Time};
use super::writer::Writer;
use crate::sys::{Shared, SharedMemory};

/// Phases of a trial, in the shared memory.
const WARM_UP: u64 = 0;
const MEASURED: u64 = 1;
const OVER: u64 = 2;

/// Writes into the pipe until the reader has seen enough.
pub(super) fn write(
    config: &Config,
    [pipe, memory]: [OwnedFd; 2],
    ready: Ready<'_>,
) -> Result<Report> {
    let shared = open(memory)?;
    let mut writer = Writer::prepare(config, pipe.as_fd(), Some(&shared))?;
    ready()?;
    let mut watch = Following::new(&shared);
    let counters = writer.run(None, &mut watch)?;
    watch.span.close(&counters);
    Ok(watch
        .span
        .report(|start, end| writer.path_between(start, end)))
}

/// Reads from the pipe for as long as the trial lasts.
pub(super) fn read(
    config: &Config,
    [pipe, memory]: [OwnedFd; 2],
    time: Time,
    ready: Ready<'_>,
) -> Result<Report> {
    let shared = open(memory)?;
    let mut reader = Reader::prepare(config, pipe.as_fd(), Some(&shared))?;
    ready()?;
    let mut watch = Leading::new(&shared, time);
    reader.run(None, &mut watch)?;
    Ok(watch.span.report(|_, _| reader.path()))
}

fn open(memory: OwnedFd) -> Result<SharedMemory> {
    SharedMemory::open(memory).map_err(|e| Error::system("no shared memory", e, ""))
}

/// The measured part of one side: what it had done at its start and at its end.
#[derive(Debug, Default)]
struct Span {
    start: Option<Moment>,
    end: Option<Moment>,
}

impl Span {
    fn open(&mut self, counters: &Counters) {
        self.start = Some(Moment::now(counters));
    }

    fn close(&mut self, counters: &Counters) {
        if self.end.is_none() {
            self.end = Some(Moment::now(counters));
        }
    }

    /// Nothing where the other side ended before the warm-up was over.
    fn report(&self, path: impl FnOnce(&Counters, &Counters) -> Path) -> Report {
        match (&self.start, &self.end) {
            (Some(start), Some(end)) => {
                let path = path(&start.counters, &end.counters);
                Report::Moved(Box::new(start.until(end, path)))
            }
            _ => Report::Nothing,
        }
    }
}

/// The writer: measures while the reader does.
struct Following<'a> {
    shared: &'a SharedMemory,
    seen: u64,
    span: Span,
}

impl<'a> Following<'a> {
    fn new(shared: &'a SharedMemory) -> Self {
        Self {
            shared,
            seen: WARM_UP,
            span: Span::default(),
        }
    }
}

impl Watch for Following<'_> {
    #[inline]
    fn go_on(&mut self, counters: &Counters) -> bool {
        let phase = self.shared.number(Shared::Phase).load(Ordering::Relaxed);
        if phase != self.seen {
            self.seen = phase;
            match phase {
                MEASURED => self.span.open(counters),
                _ => self.span.close(counters),
            }
        }
        phase < OVER
    }
}

/// The reader: decides when warm-up and measured part are over.
struct Leading<'a> {
    shared: &'a SharedMemory,
    time: Time,
    began: Option<Instant>,
    look_at: u64,
    span: Span,
}

impl<'a> Leading<'a> {
    fn new(shared: &'a SharedMemory, time: Time) -> Self {
        Self {
            shared,
            time,
            began: None,
            look_at: 0,
            span: Span::default(),
        }
    }
}

impl Watch for Leading<'_> {
    #[inline]
    fn go_on(&mut self, counters: &Counters) -> bool {
        if counters.bytes < self.look_at {
            return true;
        }
        self.look_at = counters.bytes + BYTES_PER_LOOK;
        let began = *self.began.get_or_insert_with(Instant::now);
        let warm_up = Duration::from_secs_f64(self.time.warm_up_s);
        let phase = self.shared.number(Shared::Phase);
        if self.span.start.is_none() && began.elapsed() >= warm_up {
            self.span.open(counters);
            phase.store(MEASURED, Ordering::Relaxed);
        }
        if let Some(start) = &self.span.start
            && self.time.is_over(start, counters.bytes)
        {
            self.span.close(counters);
            phase.store(OVER, Ordering::Relaxed);
            return false;
        }
        true
    }
}
