//! The display: a thread of its own, so that a slow or stopped terminal never holds up the data.

use std::io;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fullbore_lab::show::wrap::columns;

use super::counters::Counters;
use super::cursor::Cursor;
use super::display::{Form, Moment};
use super::meter::{Meter, Rates, Reading};
use super::terminal;

/// What another instance may change while this one runs.
#[derive(Clone, Debug)]
pub struct Settings {
    pub form: Form,
    pub size: Option<u64>,
    pub interval: f64,
    pub width: Option<usize>,
    pub height: Option<usize>,
}

/// What the display needs to know at its start.
#[derive(Debug)]
pub struct Start {
    pub settings: Arc<Mutex<Settings>>,
    pub counters: Arc<Counters>,
    /// Whether standard output is a pipe: what waits in it has not arrived.
    pub into_pipe: bool,
    /// Bytes of the transfer buffer, where there is one.
    pub buffer: Option<u64>,
    /// Of a line, where lines are counted.
    pub lines: bool,
    pub json: bool,
    pub force: bool,
    pub wait: bool,
    pub delay_start: f64,
    pub window: u32,
    pub stats: bool,
    /// `--quiet`, but `--stats` is wanted.
    pub hidden: bool,
    pub cursor: bool,
}

enum Event {
    Say(String),
    /// The process was stopped for so long.
    Stopped(Duration),
    /// Ends, and shows how it ended or leaves the line as it is.
    Finish(bool),
    /// Leave the line as it is, and reply.
    Abort(Sender<()>),
}

/// The handle that the others hold.
#[derive(Debug)]
pub struct Screen {
    events: Sender<Event>,
    thread: Option<JoinHandle<()>>,
}

/// For the thread that waits for signals.
#[derive(Clone, Debug)]
pub struct Remote(Sender<Event>);

impl std::fmt::Debug for Event {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Event")
    }
}

/// A stopped terminal must not keep the process from ending.
const PATIENCE_AT_ABORT: Duration = Duration::from_millis(200);

impl Remote {
    /// Ends the line where it is.
    pub fn abort(&self) {
        let (reply, replied) = mpsc::channel();
        if self.0.send(Event::Abort(reply)).is_ok() {
            let _ = replied.recv_timeout(PATIENCE_AT_ABORT);
        }
    }

    pub fn stopped(&self, time: Duration) {
        let _ = self.0.send(Event::Stopped(time));
    }
}

impl Screen {
    pub fn start(start: Start) -> io::Result<Self> {
        let (events, received) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("display".into())
            .spawn(move || Display::new(start).run(&received))?;
        Ok(Self {
            events,
            thread: Some(thread),
        })
    }

    pub fn remote(&self) -> Remote {
        Remote(self.events.clone())
    }

    /// Prints a line of its own, before the next update.
    pub fn say(&self, line: String) {
        let _ = self.events.send(Event::Say(line));
    }

    /// Ends the display and waits until it has ended; shows how the transfer ended, unless that failed.
    pub fn finish(mut self, shows: bool) {
        let _ = self.events.send(Event::Finish(shows));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Takes the lock also where a thread panicked with it: the settings are whole at any time.
pub fn lock(settings: &Mutex<Settings>) -> MutexGuard<'_, Settings> {
    settings.lock().unwrap_or_else(PoisonError::into_inner)
}

/// At most so many blanks wipe out the rest of a longer line, as with pv.
const MOST_BLANKS: usize = 15;

struct Display {
    start: Start,
    began: Instant,
    stopped: Duration,
    meter: Meter,
    /// Columns of the line before, and of the terminal then.
    previous: (usize, usize),
    produced: bool,
    cursor: Option<Cursor>,
}

impl Display {
    fn new(start: Start) -> Self {
        Self {
            meter: Meter::new(start.window, 0),
            cursor: if start.cursor { Cursor::new() } else { None },
            start,
            began: Instant::now(),
            stopped: Duration::ZERO,
            previous: (0, 0),
            produced: false,
        }
    }

    fn run(mut self, events: &Receiver<Event>) {
        let interval = lock(&self.start.settings).interval;
        let mut next = self.began + Duration::from_secs_f64(interval.max(self.start.delay_start));
        loop {
            let left = next.saturating_duration_since(Instant::now());
            match events.recv_timeout(left) {
                Err(RecvTimeoutError::Timeout) => {
                    if !self.waits() {
                        self.draw(false);
                    }
                    let interval = lock(&self.start.settings).interval;
                    next = (next + Duration::from_secs_f64(interval)).max(Instant::now());
                }
                Ok(Event::Say(line)) => {
                    let numeric = lock(&self.start.settings).form.numeric;
                    let in_line = self.produced && !numeric && self.cursor.is_none();
                    let newline = if in_line { "\n" } else { "" };
                    terminal::print(&format!("{newline}{line}\n"));
                    (self.previous, self.produced) = ((0, 0), self.produced && !in_line);
                }
                Ok(Event::Stopped(time)) => self.stopped += time,
                Ok(Event::Finish(shows)) => return self.finish(shows),
                Err(RecvTimeoutError::Disconnected) => return self.finish(true),
                Ok(Event::Abort(reply)) => {
                    self.end_line();
                    let _ = reply.send(());
                    return;
                }
            }
        }
    }

    /// Whether `--wait` still waits for the first byte. Time is counted from there.
    fn waits(&mut self) -> bool {
        if !self.start.wait {
            return false;
        }
        match self.start.counters.first() {
            None => true,
            Some(first) => {
                self.start.wait = false;
                self.began = first;
                self.stopped = Duration::ZERO;
                false
            }
        }
    }

    fn finish(mut self, shows: bool) {
        self.waits();
        if shows && (self.produced || self.start.delay_start <= 0.0) {
            self.draw(true);
        }
        self.end_line();
        if self.start.stats {
            let bits = lock(&self.start.settings).form.bits;
            terminal::print(&stats(&self.meter.rates, bits));
        }
    }

    fn end_line(&mut self) {
        if let Some(cursor) = self.cursor.take() {
            cursor.finish();
        } else if self.produced && !lock(&self.start.settings).form.numeric {
            terminal::print("\n");
        }
    }

    fn draw(&mut self, last: bool) {
        let settings = lock(&self.start.settings).clone();
        let elapsed = self
            .began
            .elapsed()
            .saturating_sub(self.stopped)
            .as_secs_f64();
        let counters = &self.start.counters;
        let transferred = if self.start.lines {
            counters.lines()
        } else {
            counters.bytes().saturating_sub(self.waiting_in_output())
        };
        let reading = self.meter.update(elapsed, transferred, settings.size, last);
        if self.start.hidden || settings.form.pieces.is_empty() && !self.start.json {
            return;
        }
        if self.start.json {
            terminal::print(&(json(&reading, &settings, self.start.lines) + "\n"));
            return;
        }
        let moment = self.moment(&settings, &reading);
        let mut line = settings.form.line(&reading, &moment);
        if settings.form.numeric {
            terminal::print(&(line + "\n"));
            self.produced = true;
            return;
        }
        if !self.start.force && !terminal::in_foreground() {
            return;
        }
        let shown = columns(&line);
        let (before, terminal_before) = self.previous;
        let mut padded = shown;
        if shown < before && moment.width >= terminal_before {
            let blanks = (before - shown).min(MOST_BLANKS);
            line.push_str(&" ".repeat(blanks));
            padded += blanks;
        }
        self.previous = (padded, moment.width);
        match &self.cursor {
            Some(cursor) => cursor.draw(&line),
            None => terminal::print(&(line + "\r")),
        }
        self.produced = true;
    }

    fn waiting_in_output(&self) -> u64 {
        // Not a copy of the descriptor: that would keep the pipe open when the data has ended.
        let in_pipe = || fullbore_sys::calls::bytes_in_pipe(rustix::stdio::stdout());
        if self.start.into_pipe {
            in_pipe().unwrap_or(0)
        } else {
            0
        }
    }

    fn moment(&self, settings: &Settings, reading: &Reading) -> Moment {
        let form = &settings.form;
        let buffered = self.start.counters.buffered() as f64;
        let tail = if form.shows_data() {
            self.start.counters.tail()
        } else {
            Default::default()
        };
        Moment {
            size: settings.size,
            width: settings.width.or_else(terminal::width).unwrap_or(80),
            buffer_percent: self.start.buffer.map(|size| 100.0 * buffered / size as f64),
            last_written: tail.last.into(),
            previous_line: tail.line,
            finish_time: reading
                .left
                .map_or_else(String::new, terminal::local_time_in),
        }
    }
}

fn stats(rates: &Rates, bits: bool) -> String {
    if rates.count == 0 {
        return "rate not measured\n".into();
    }
    let (unit, times) = if bits { ("b/s", 8.0) } else { ("B/s", 1.0) };
    format!(
        "rate min/avg/max/mdev = {:.3}/{:.3}/{:.3}/{:.3} {unit}\n",
        times * rates.min,
        times * rates.mean(),
        times * rates.max,
        times * rates.deviation(),
    )
}

/// One line of `--numeric --json`. Rates are per second; `lines` where lines are counted, `bytes` else.
fn json(reading: &Reading, settings: &Settings, lines: bool) -> String {
    let counted = if lines { "lines" } else { "bytes" };
    let size = settings.size.filter(|&s| s > 0);
    let value = serde_json::json!({
        "elapsed_s": reading.elapsed,
        counted: reading.transferred,
        "per_s": reading.rate,
        "average_per_s": reading.average,
        "size": size,
        "percent": size.map(|_| reading.percentage),
        "left_s": reading.left.filter(|_| size.is_some()),
        "stalled_s": reading.stalled,
        "last": reading.last,
    });
    value.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stats_name_the_four_rates() {
        let mut meter = Meter::new(30, 0);
        meter.update(1.0, 100, None, false);
        meter.update(2.0, 400, None, false);
        assert_eq!(
            stats(&meter.rates, false),
            "rate min/avg/max/mdev = 100.000/200.000/300.000/100.000 B/s\n"
        );
        assert!(stats(&meter.rates, true).contains(" = 800.000/1600.000/"));
        assert_eq!(stats(&Rates::default(), false), "rate not measured\n");
    }
}
