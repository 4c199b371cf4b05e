//! `fullbore fizzbuzz`: FizzBuzz without end, as fast as a pipe takes it.

mod lines;
mod output;
mod plan;
mod recycle;
mod thousands;
mod turn;
mod vector;

use clap::Args;
use fullbore::{Error, PipeWriter, capacity, probe, sys};

use crate::failure::{Failure, Outcome, complain};
use output::{Output, Sink, thousands_in, thousands_in_block};
use plan::Plan;
use recycle::Ring;
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
    #[arg(long, default_value_t = 1, value_name = "NUMBER")]
    pub from: u64,
    /// End after so many lines [default: end with the line of 18446744073709551615]
    #[arg(long, value_name = "LINES")]
    pub count: Option<u64>,
    /// Threads that make text [default: one for each CPU but one, at most 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub threads: Option<u16>,
    /// Write buffers again once they have left the pipe: faster, and right only if every reader copies
    #[arg(long)]
    pub recycle: bool,
    /// Say on standard error at the end how the bytes moved, and why so
    #[arg(long)]
    pub explain: bool,
}

pub fn run(args: &FizzbuzzArgs) -> Outcome {
    let out = rustix::stdio::stdout();
    let last = match args.count {
        Some(0) => return Ok(()),
        Some(count) => args.from.saturating_add(count - 1),
        None => u64::MAX,
    };
    let vectors = if std::env::var_os("FB_NOVEC").is_some() { None } else { Vectors::detect() };
    let env = |n: &str, d: usize| std::env::var(n).ok().and_then(|v| v.parse().ok()).unwrap_or(d);
    let threads = args.threads.unwrap_or(1);
    let (plan, mut sinks);
    if args.recycle {
        let buf = env("FB_BUF", 256 << 10);
        let pairs = env("FB_PAIRS", 1);
        capacity::set(out, env("FB_CAP", 256 << 10))?;
        plan = Plan::new(args.from..=last, |w| thousands_in(buf, w)).in_phase();
        sinks = (0..threads).map(|_| Ok(Sink::Recycled(Ring::new(pairs, buf)?))).collect::<Result<Vec<_>, Error>>()?;
    } else {
        plan = Plan::new(args.from..=last, thousands_in_block);
        sinks = (0..threads).map(|_| Sink::Sound(Box::new(PipeWriter::new(out)))).collect();
    }
    let output = Output::new(out, plan, vectors);
    let done = output.run(&mut sinks);
    if args.explain {
        let (lines, bytes) = output.sent();
        if let Sink::Sound(w) = &mut sinks[0] { complain(&format!("{}", w.path())); }
        complain(&format!("{lines} lines, {bytes} bytes"));
    }
    match done {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => Err(Failure::Work(Error::system("fizzbuzz", e, "x"))),
        _ => Ok(()),
    }
}
