//! `fullbore fizzbuzz`: FizzBuzz without end, as fast as a pipe takes it.

mod lines;
mod plan;
mod recycle;
mod sequencer;
mod sink;
#[cfg(test)]
mod tests;
mod thousands;
mod vector;

use std::io::ErrorKind;
use std::num::{IntErrorKind, ParseIntError};
use std::os::fd::BorrowedFd;

use clap::Args;
use fullbore::PipeWriter;
use fullbore_sys::size::Size;
use fullbore_sys::writer::LARGE;
use fullbore_sys::{Error, calls, capacity, probe};

use crate::output::failure::{Failure, Outcome, complain, must_be_open};
use plan::Plan;
use recycle::{Ring, thousands_in_buffer};
use sink::{Output, Sink, thousands_in_block};
use vector::Vectors;

/// Print FizzBuzz without end, as fast as the output takes it.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    fullbore fizzbuzz | head -100\n  \
    fullbore fizzbuzz --from 4294967290 --count 12\n  \
    fullbore fizzbuzz --explain | fullbore read --bytes 100G\n  \
    fullbore fizzbuzz --recycle | fullbore read --bytes 100G")]
pub struct FizzbuzzArgs {
    /// Begin with this number
    #[arg(
        long,
        default_value_t = 1,
        allow_negative_numbers = true,
        value_parser = number,
        value_name = "NUMBER"
    )]
    pub from: u64,
    /// End after so many lines [default: end with the line of 18446744073709551615]
    #[arg(long, allow_negative_numbers = true, value_parser = number, value_name = "LINES")]
    pub count: Option<u64>,
    /// Threads that make text [default: one for each CPU but one, at most 4]
    #[arg(long, allow_negative_numbers = true, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub threads: Option<u16>,
    /// Write buffers again once they have left the pipe: faster, and right only if every reader copies
    #[arg(long)]
    pub recycle: bool,
    /// Say on standard error at the end which route the bytes took, and why
    #[arg(long)]
    pub explain: bool,
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|e: ParseIntError| match e.kind() {
        IntErrorKind::PosOverflow => format!("the largest number is {}", u64::MAX),
        _ => format!("{e}; use a number from 0 to {}", u64::MAX),
    })
}

/// The capacity in bytes that `--recycle` asks for. A reader that copies is half as fast again as with a half of it, as
/// measured; to one that only drops pages it is all the same.
const RECYCLED_CAPACITY: usize = 1 << 20;
/// With more threads than that, the pipe is what they wait for.
const THREADS_AT_MOST: usize = 4;

pub fn run(args: &FizzbuzzArgs) -> Outcome {
    must_be_open(1)?;
    let last = match args.count {
        Some(0) => return Ok(()),
        Some(count) => args.from.saturating_add(count - 1),
        None => u64::MAX,
    };
    let numbers = args.from..=last;
    let out = rustix::stdio::stdout();
    let threads = args.threads.map_or_else(default_threads, usize::from);
    let mut refusal = None;
    if args.recycle {
        refusal = recycle_refusal(out);
    }
    let recycled = args.recycle && refusal.is_none();
    let (plan, mut sinks): (_, Vec<_>) = if recycled {
        complain(
            "--recycle: every reader must copy (read, not splice or tee) and nobody else may write, or bytes change after they were written; leave it out where that is unknown",
        );
        let _ = capacity::set(out, RECYCLED_CAPACITY); // what was granted is read back
        let capacity = capacity::get(out)?;
        let ring = |_| Ok(Sink::Recycled(Box::new(Ring::new(capacity)?)));
        (
            Plan::new(numbers, |width| thousands_in_buffer(capacity, width)).in_phase(),
            (0..threads).map(ring).collect::<Result<_, Error>>()?,
        )
    } else {
        let writer = |_| {
            let mut writer = PipeWriter::new(out).copy_on_write();
            if threads > 1 {
                writer = writer.unbuffered(); // what waits in one would have to go before what others send
            }
            Sink::Sound(Box::new(writer))
        };
        (
            Plan::new(numbers, thousands_in_block),
            (0..threads).map(writer).collect(),
        )
    };
    let vectors = Vectors::detect();
    let output = Output::new(out, plan, vectors);
    let (threads, done) = output.run(&mut sinks);
    let (lines, bytes) = output.sent();
    if args.explain {
        let path = match &mut sinks[0] {
            Sink::Sound(_) if bytes < LARGE as u64 => {
                format!("write, as for all that is less than {}", Size(LARGE as u64))
            }
            Sink::Sound(writer) => writer.path().to_string(),
            Sink::Recycled(ring) => ring.path(out),
        };
        let refusal = refusal.map_or(String::new(), |why| format!("; not recycled: {why}"));
        let text = match (recycled, vectors) {
            (true, _) => "only the digits that change are stored",
            (false, Some(_)) => "text by AVX2",
            (false, None) => "text by stores, since this CPU has no AVX2",
        };
        complain(&format!(
            "fizzbuzz: {path}{refusal}; {text}, {threads} thread{}; {lines} lines, {bytes} bytes",
            if threads == 1 { "" } else { "s" }
        ));
    }
    match done {
        // The reader has seen enough.
        Err(e) if e.kind() == ErrorKind::BrokenPipe => Ok(()),
        Err(e) => Err(Failure::Work(Error::system(
            format!("standard output failed after {bytes} bytes or more"),
            e,
            "send it somewhere else",
        ))),
        Ok(()) => Ok(()),
    }
}

/// The reader needs a CPU, too.
fn default_threads() -> usize {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    (cpus - 1).clamp(1, THREADS_AT_MOST)
}

/// Why buffers cannot be recycled here.
fn recycle_refusal(out: BorrowedFd<'_>) -> Option<String> {
    if !calls::is_pipe(out) {
        return Some("the output is not a pipe".into());
    }
    probe::fresh_refusal().map(|why| why.to_string())
}
