//! `fullbore view`, and `pv` through a link of that name: moves data and shows how it gets on.
//!
//! The main path: [`typed`] (what may be typed) → [`options`] (what it means) → [`transfer`] (the data, on the main thread, by the
//! library's pump) → [`counters`] (atomics) → [`screen`] (a thread of its own) → [`meter`], [`display`], [`format`],
//! [`bar`], [`amount`] (pure: rates and strings).

mod amount;
mod bar;
mod counters;
mod cursor;
mod display;
mod format;
mod input;
mod limit;
mod meter;
mod number;
mod options;
mod remote;
mod screen;
mod signals;
mod skip;
mod terminal;
mod transfer;
mod typed;
mod voice;
mod watch;

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fullbore_lab::sys::start;

use counters::Counters;
use display::Form;
use fullbore_lab::show::escape::visible;
use options::{Job, Options};
use screen::{Screen, Settings, Start};
use transfer::{Transfer, TransferPlan};
pub use typed::ViewArgs;
use voice::{Complaint, Fault, ViewVoice};

/// Moves, watches or changes, and returns the exit code.
pub fn run(args: &ViewArgs) -> ExitCode {
    let voice = ViewVoice::of_this_process();
    let faults = Arc::new(AtomicU8::new(0));
    let complain = |complaint: Complaint| {
        faults.fetch_or(complaint.fault as u8, Ordering::Relaxed);
        terminal::print(&(voice.line(&complaint) + "\n"));
    };
    match args.options() {
        Err(complaint) => complain(complaint),
        Ok(options) => match with_pidfile(&options, || match &options.job {
            Job::Move => move_data(options.clone(), voice, &faults),
            Job::Watch(targets) => {
                signals::watch(signals::AtEnd {
                    voice,
                    screen: None,
                    line: !options.numeric && !options.quiet && terminal::is_terminal(),
                    faults: faults.clone(),
                    pidfile: options.pidfile.clone(),
                });
                watch::run(targets, &options, &form(&options, true), &complain);
                Ok(())
            }
            Job::Remote(pid) => remote::change(*pid, &options),
        }) {
            Ok(()) => {}
            Err(complaint) => complain(complaint),
        },
    }
    voice.exit_code(faults.load(Ordering::Relaxed))
}

/// Whether this process was called through a link named `pv`.
pub fn is_pv() -> bool {
    ViewVoice::of_this_process() == ViewVoice::Pv
}

/// What is said of a wrong command line through a link named `pv`.
pub fn misused_as_pv(message: &str) -> ExitCode {
    terminal::print(&format!(
        "pv: {}\nTry `pv --help' for more information.\n",
        visible(message)
    ));
    ViewVoice::Pv.exit_code(Fault::Usage as u8)
}

/// What is said where a link named `pv` cannot print its help.
pub fn failed_help_of_pv(error: io::Error) -> ExitCode {
    if error.kind() == io::ErrorKind::BrokenPipe {
        return ExitCode::SUCCESS;
    }
    let complaint = Complaint::system(Fault::Transfer, "write failed", error, "");
    terminal::print(&(ViewVoice::Pv.line(&complaint) + "\n"));
    ViewVoice::Pv.exit_code(complaint.fault as u8)
}

fn with_pidfile(
    options: &Options,
    work: impl FnOnce() -> Result<(), Complaint>,
) -> Result<(), Complaint> {
    let Some(file) = &options.pidfile else {
        return work();
    };
    std::fs::write(file, format!("{}\n", std::process::id())).map_err(|e| {
        let what = format!("-P: {}", file.display());
        Complaint::system(Fault::Remote, what, e, "name a file that can be written")
    })?;
    let result = work();
    let _ = std::fs::remove_file(file);
    result
}

/// What is shown, by the options.
fn form(options: &Options, has_end: bool) -> Form {
    let mut switches = options.switches;
    switches.eta &= has_end;
    switches.fineta &= has_end;
    let format = options
        .format
        .clone()
        .unwrap_or_else(|| switches.format(options.name.is_some(), options.numeric));
    let mut form = Form {
        pieces: Vec::new(),
        unit: options.unit(),
        bits: options.bits,
        numeric: options.numeric,
        gauge: options.gauge,
        name: options.name.clone(),
        style: options.style,
        utf8: terminal::is_utf8(),
        colour: terminal::has_colour(options.force),
    };
    form.set_format(&format);
    form
}

fn move_data(
    mut options: Options,
    voice: ViewVoice,
    faults: &Arc<AtomicU8>,
) -> Result<(), Complaint> {
    check_buffer(&options)?;
    let output = Output::of(&options)?;
    let files = if options.files.is_empty() {
        vec![OsString::from("-")]
    } else {
        std::mem::take(&mut options.files)
    };
    find_size(&mut options, &files, output.as_fd());
    let form = form(&options, options.size.is_some_and(|s| s > 0));
    let plan = plan(&options, &form);

    let counters = Arc::new(Counters::default());
    counters
        .rate_limit
        .store(options.rate_limit, Ordering::Relaxed);
    let settings = Arc::new(Mutex::new(Settings {
        form,
        size: options.size,
        interval: options.interval.unwrap_or(1.0),
        width: options.width,
        height: options.height,
    }));
    remote::listen(&settings, &counters);

    let screen = start_screen(&options, &plan, &output, &settings, &counters)?;
    signals::watch(signals::AtEnd {
        voice,
        screen: screen.as_ref().map(Screen::remote),
        line: false,
        faults: faults.clone(),
        pidfile: options.pidfile.clone(),
    });
    let say = |line: String| match &screen {
        Some(screen) => screen.say(line),
        None => terminal::print(&(line + "\n")),
    };
    let complain = |complaint: Complaint| say(voice.line(&complaint));
    let ended = Transfer::new(&plan, output.as_fd(), &counters, faults, &complain).run(&files);
    if let Some(screen) = screen {
        wait_until_taken(output.as_fd());
        // Whoever reads must not wait for the end while a stopped terminal keeps the display from showing it.
        output.close();
        screen.finish(!ended.write_failed);
    }
    if options.explain {
        for path in ended.paths {
            terminal::print(&format!("{}: {}\n", voice.name(), visible(&path)));
        }
    }
    Ok(())
}

/// Refuses a buffer that cannot be had, before anything is opened or moved. What asks for the memory later would abort.
fn check_buffer(options: &Options) -> Result<(), Complaint> {
    let mut buffer = Vec::<u8>::new();
    let result = if options.no_splice {
        buffer.try_reserve_exact(options.buffer_size)
    } else {
        Ok(())
    };
    // What nobody looks at need not be asked for at all.
    std::hint::black_box(&buffer);
    result.map_err(|_| {
        Complaint::system(
            Fault::Usage,
            "buffer allocation failed",
            rustix::io::Errno::NOMEM,
            "use a smaller one, for example -B 1M",
        )
    })
}

/// Standard output, or the file of `--output`.
enum Output {
    Standard,
    File(File),
}

impl Output {
    fn of(options: &Options) -> Result<Self, Complaint> {
        let null = OsString::from("/dev/null");
        let name = match &options.output {
            _ if options.discard => &null,
            Some(name) => name,
            None if start::was_closed(1) => {
                return Err(Complaint::system(
                    Fault::Access,
                    "failed to stat output file",
                    rustix::io::Errno::BADF,
                    "open standard output, or use -o",
                ));
            }
            None => return Ok(Self::Standard),
        };
        File::create(name).map(Self::File).map_err(|e| {
            let what = format!("-o: {}", name.to_string_lossy());
            Complaint::system(Fault::Access, what, e, "name a file that can be written")
        })
    }

    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Standard => rustix::stdio::stdout(),
            Self::File(file) => file.as_fd(),
        }
    }

    /// Closes it for those who read it.
    fn close(self) {
        if let Self::Standard = self
            && let Ok(null) = File::create("/dev/null")
        {
            let _ = rustix::stdio::dup2_stdout(null);
        }
    }
}

/// Finds out how much there will be, unless that was said.
fn find_size(options: &mut Options, files: &[OsString], output: BorrowedFd<'_>) {
    // As with pv, a size of 0 is none, except that --stop-at-size then moves nothing.
    if options.size.is_some_and(|s| s > 0 || options.stop_at_size) {
        return;
    }
    options.size = match options.separator {
        Some(separator) => input::total_lines(files, separator),
        None => input::total(files),
    };
    if options.size.is_none() && options.separator.is_none() {
        options.size = input::output_size(output);
        // No more than that can be written.
        options.stop_at_size |= options.size.is_some();
    }
}

fn plan(options: &Options, form: &Form) -> TransferPlan {
    TransferPlan {
        separator: options.separator,
        shows_data: form.shows_data(),
        buffer: options.no_splice.then_some(options.buffer_size),
        stop_at: options.size.filter(|_| options.stop_at_size),
        skip_errors: options.skip_errors,
        error_skip_block: options.error_skip_block,
        sync: options.sync,
    }
}

fn start_screen(
    options: &Options,
    plan: &TransferPlan,
    output: &Output,
    settings: &Arc<Mutex<Settings>>,
    counters: &Arc<Counters>,
) -> Result<Option<Screen>, Complaint> {
    let empty = options.format.as_deref() == Some("");
    let can_show = options.force || options.numeric || terminal::is_terminal();
    let hidden = options.quiet || empty || !can_show;
    if hidden && !options.stats {
        return Ok(None);
    }
    let start = Start {
        settings: settings.clone(),
        counters: counters.clone(),
        into_pipe: matches!(output, Output::Standard)
            && fullbore_sys::calls::is_pipe(output.as_fd()),
        buffer: plan.buffer.map(|size| size as u64),
        lines: plan.separator.is_some(),
        json: options.json,
        force: options.force,
        wait: options.wait,
        delay_start: options.delay_start,
        window: options.window,
        stats: options.stats,
        hidden,
        cursor: options.cursor && !hidden && !options.numeric,
    };
    let failed = |e| {
        Complaint::system(
            Fault::Transfer,
            "no thread for the display",
            e,
            "use -q, or raise ulimit -u",
        )
    };
    Screen::start(start).map(Some).map_err(failed)
}

/// Waits until what is in the output pipe was taken, or nobody is left who could take it: only then it has arrived.
fn wait_until_taken(output: BorrowedFd<'_>) {
    if !fullbore_sys::calls::is_pipe(output) {
        return;
    }
    let mut pause = Duration::from_millis(1);
    while fullbore_sys::calls::bytes_in_pipe(output).is_ok_and(|bytes| bytes > 0)
        && fullbore_sys::calls::reader_is_gone(output).is_ok_and(|gone| !gone)
    {
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}
