//! `fullbore ring`: a pipe's ring, step by step.

mod ring_text;

use std::path::PathBuf;

use clap::Args;
use fullbore_lab::ring::ring_document::RingDocument;
use fullbore_lab::ring::{MOST_SLOTS, Pipes, Script, svg};

use crate::args::rungs::{print, print_json};
use crate::args::values::Color;
use crate::output::failure::{Failure, Outcome};
use crate::output::file;

/// Draw a pipe's ring of slots, step by step: what each call does to it, and what it returns.
#[derive(Args, Debug)]
#[command(after_help = "Calls, separated by `;`, none of which blocks:\n  \
    write N, read N              so many bytes\n  \
    vmsplice N [at OFFSET]       N bytes of own memory that begin OFFSET bytes into a page\n  \
    splice N, tee N              N slots to the second pipe (N bytes with a unit: splice 1000B)\n  \
    fat N                        N slots of 32 KiB, out of a socket\n  \
    resize N                     a ring of N slots (or bytes with a unit: resize 64K)\n  \
    second CALL                  the same on the second pipe; splice and tee then go back\n\n\
Examples:\n  \
    fullbore ring\n  \
    fullbore ring --slots 8 --do 'write 5000; read 1000; write 4096; splice 2'\n  \
    fullbore ring --do 'fat 2; tee 2; splice 1000B' --svg ring.svg\n  \
    fullbore ring --slots 2 --do 'vmsplice 1; vmsplice 1; write 1' --json")]
pub struct RingArgs {
    /// Slots of both pipes; the kernel makes a power of two of it
    #[arg(long, default_value_t = 8, allow_negative_numbers = true, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=MOST_SLOTS as i64))]
    pub slots: u32,
    /// What to do, one call after the other
    #[arg(
        long = "do",
        value_name = "CALLS",
        default_value = "write 5000; read 1000; write 4096; splice 2"
    )]
    pub script: String,
    /// Bytes in a page
    #[arg(long, default_value_t = 4096, value_parser = page_size, value_name = "SIZE")]
    pub page_size: usize,
    /// Draw an SVG picture into this file instead of text; - is standard output
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    pub svg: Option<PathBuf>,
    /// Print one JSON document instead of the drawing
    #[arg(long)]
    pub json: bool,
    /// Colours in the drawing
    #[arg(long, value_enum, default_value_t, value_name = "WHEN")]
    pub color: Color,
}

fn page_size(text: &str) -> Result<usize, String> {
    let size: fullbore_sys::size::Size = text
        .parse()
        .map_err(|e: fullbore_sys::size::ParseSizeError| e.to_string())?;
    usize::try_from(size.0)
        .ok()
        .filter(|n| n.is_power_of_two() && (4096..=1 << 20).contains(n))
        .ok_or_else(|| "no size of a page; use a power of two from 4K to 1M, such as 4K".to_owned())
}

pub fn run(args: &RingArgs) -> Outcome {
    let script: Script = args.script.parse().map_err(Failure::Usage)?;
    let steps = Pipes::new(args.page_size, args.slots as usize).run(&script);
    if args.json {
        return print_json(&RingDocument::new(args.page_size, &steps));
    }
    match &args.svg {
        Some(out) => file::write(out, svg(&steps)),
        None => print(&ring_text::steps(&steps), args.color),
    }
}
