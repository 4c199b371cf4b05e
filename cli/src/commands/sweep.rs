//! `fullbore sweep`: buffer size × capacity of the pipe.

use clap::{Args, ValueEnum};
use fullbore_lab::machine::Machine;
use fullbore_lab::sweep::{LATENCY_S, Methods, Sweep, SweepOptions, WARM_UP_S};
use fullbore_lab::worker::config::{ReadWith, WriteWith};
use fullbore_lab::worker::sizes::BufSize;
use fullbore_sys::pages::PageKind;
use fullbore_sys::wait::Wait;
use fullbore_sys::{Error, Result, capacity};

use crate::args::rungs::cpus;
use crate::args::values::{pages, read_method, size, trial_seconds, two_cpus, wait, write_method};
use crate::output::failure::{Failure, Outcome};
use crate::output::session::{RunArgs, Session};

mod map;
mod pages_in_flight;
mod sweep_csv;

/// Measure buffer size × capacity of the pipe, for one write method and one read method: a heat map, and a saved run.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    fullbore sweep\n  \
    fullbore sweep --write-with vmsplice --read-with splice --pages huge --wait spin\n  \
    fullbore sweep --buf-size 8K,64K,1M --pipe-size 4K,64K,1M --rounds 15\n  \
    fullbore sweep --preset pages-in-flight")]
pub struct SweepArgs {
    /// Sizes of a buffer, separated by commas [default: 1, 4, 16, 64 and 256 pages; with vmsplice twice the capacities]
    #[arg(long, alias = "buffers", value_delimiter = ',', value_parser = size, value_name = "SIZE,SIZE")]
    buf_size: Vec<u64>,
    /// Capacities of the pipe, separated by commas [default: from one page to the largest granted, 1M at most, doubling]
    #[arg(long, alias = "capacities", value_delimiter = ',', value_parser = size, value_name = "SIZE,SIZE")]
    pipe_size: Vec<u64>,
    /// A question with its own sizes and methods
    #[arg(long, value_enum, value_name = "NAME", conflicts_with_all = ["buf_size", "pipe_size", "write_with", "read_with", "pages", "wait"])]
    preset: Option<Preset>,
    /// How data is written into the pipe [default: write]
    #[arg(long, value_parser = write_method(), value_name = "METHOD")]
    write_with: Option<WriteWith>,
    /// How data is read from the pipe [default: read]
    #[arg(long, value_parser = read_method(), value_name = "METHOD")]
    read_with: Option<ReadWith>,
    /// Kind of pages buffers are made of [default: small]
    #[arg(long, value_parser = pages(), value_name = "KIND")]
    pages: Option<PageKind>,
    /// How to wait [default: block]
    #[arg(long, value_parser = wait(), value_name = "HOW")]
    wait: Option<Wait>,
    /// Rounds; each runs every cell once, in an order of its own [default: 5; of a preset 9]
    #[arg(long, allow_negative_numbers = true, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rounds: Option<u32>,
    /// Seconds of each trial [default: as many as fit in 45 s altogether, at least 0.1]
    #[arg(long, value_parser = trial_seconds, allow_negative_numbers = true, value_name = "S")]
    seconds: Option<f64>,
    /// CPUs of writer and reader [default: two that share a cache]
    #[arg(long, value_parser = two_cpus, value_name = "W,R")]
    cpus: Option<(usize, usize)>,
    #[command(flatten)]
    run: RunArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Preset {
    /// What is a pipe of many pages worth against one of a single page? The question of 2005, with write(2) and read(2)
    /// that block: bandwidth with 8 KiB and 64 KiB writes, and the round trip of one byte
    #[value(alias = "2005")]
    PagesInFlight,
}

/// As it is typed.
fn name(preset: &Preset) -> Option<String> {
    Some(preset.to_possible_value()?.get_name().to_owned())
}

/// The default sweep takes about so many seconds.
const BUDGET_S: f64 = 45.0;
/// A trial costs so many seconds beyond its measured part: warm-up, two processes to start, looks at the machine.
const OVERHEAD_S: f64 = WARM_UP_S + 0.04;

pub fn run(args: &SweepArgs) -> Outcome {
    let machine = Machine::detect();
    let cpus = cpus(args.cpus, &machine)?;
    let page = machine.page_size as u64;
    let methods = Methods {
        write_with: args.write_with.unwrap_or_default(),
        read_with: args.read_with.unwrap_or_default(),
        pages: args.pages.unwrap_or_default(),
        wait: args.wait.unwrap_or_default(),
    };
    let (buffers, capacities) = sizes(args, methods, page)?;
    let rounds = args
        .rounds
        .unwrap_or(if args.preset.is_some() { 9 } else { 5 });
    let cells = if methods.write_with == WriteWith::Vmsplice {
        capacities.len() // the others cannot be
    } else {
        buffers.len() * capacities.len()
    };
    let options = SweepOptions {
        run: args.run.options(rounds, cpus)?,
        seconds: args.seconds.unwrap_or_else(|| {
            let overhead = OVERHEAD_S + args.preset.map_or(0.0, |_| LATENCY_S);
            (BUDGET_S / cells as f64 / f64::from(rounds) - overhead).clamp(0.1, 1.0)
        }),
        buffers,
        capacities,
        methods,
        latency: args.preset.is_some(),
        preset: args.preset.as_ref().and_then(name),
    };
    let session = args.run.session("sweep")?;

    let sweep = sweep_and_save(&options, machine, &session)?;
    session.show(&sweep, &args.run, || {
        Ok(match args.preset {
            Some(Preset::PagesInFlight) => pages_in_flight::draw(&sweep),
            None => map::draw(&sweep, map::shades(args.run.color)),
        })
    })
}

/// Buffers and capacities that were asked for, or those that suit this machine.
fn sizes(
    args: &SweepArgs,
    methods: Methods,
    page: u64,
) -> std::result::Result<(Vec<u64>, Vec<u64>), Failure> {
    let doubling = |largest: u64| {
        let sizes = std::iter::successors(Some(page), |s| s.checked_mul(2));
        sizes.take_while(|s| *s <= largest).collect::<Vec<_>>()
    };
    if let Some(Preset::PagesInFlight) = args.preset {
        return Ok((vec![8 << 10, 64 << 10], doubling(256 * page)));
    }
    for (option, sizes) in [
        ("--buf-size", &args.buf_size),
        ("--pipe-size", &args.pipe_size),
    ] {
        if sizes.contains(&0) {
            return Err(Failure::Usage(Error::new(
                format!("{option} 0"),
                "nothing fits in there",
                format!("use for example {option} 4K,64K,1M"),
            )));
        }
    }
    let capacities = match &args.pipe_size[..] {
        [] => doubling(largest_granted()?),
        asked => asked.to_vec(),
    };
    let buffers = match (&args.buf_size[..], methods.write_with) {
        ([], WriteWith::Vmsplice) => lent(&capacities),
        ([], _) => [1, 4, 16, 64, 256].map(|pages| pages * page).to_vec(),
        (asked, _) => asked.to_vec(),
    };
    Ok((buffers, capacities))
}

/// The buffers of these capacities, where pages are lent.
fn lent(capacities: &[u64]) -> Vec<u64> {
    let buffers = capacities.iter().map(|c| BufSize::for_lent_capacity(*c).0);
    buffers.collect()
}

fn largest_granted() -> Result<u64> {
    let (_, end) = fullbore_sys::calls::pipe()
        .map_err(|e| Error::system("a pipe cannot be made", e, "close other programs' pipes"))?;
    Ok(capacity::largest(end)?.granted as u64)
}

fn sweep_and_save(options: &SweepOptions, machine: Machine, session: &Session) -> Result<Sweep> {
    session.saved_as_it_goes(
        sweep_csv::tables,
        |_| String::new(),
        |on_event| fullbore_lab::sweep::sweep(options, machine, on_event),
    )
}
