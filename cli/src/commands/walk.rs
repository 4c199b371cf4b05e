//! `fullbore walk`: decode an address; show the pages behind a real buffer.

mod walk_table;

use std::path::PathBuf;

use clap::Args;
use fullbore_lab::walk::pagemap::{Look, Process, look};
use fullbore_lab::walk::walk_document::{PagesDocument, WalkDocument};
use fullbore_lab::walk::{self, Decoded, Leaf, Levels, parse_address, svg};
use fullbore_sys::Error;
use fullbore_sys::pages::{PageKind, Pages, Request, page_size};
use fullbore_sys::size::{ParseSizeError, Size};

use crate::args::rungs::{print, print_json};
use crate::args::values::{Color, pages};
use crate::output::failure::{Failure, Outcome};
use crate::output::file;

/// Decode an address as the page-table walk does, or show the pages behind a real buffer.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    fullbore walk 0x0000f2705af953c0                     the article's address\n  \
    fullbore walk 0x7f705af953c0 --page-size 2M          were it in a huge page\n  \
    fullbore walk 0x7f705af953c0 --levels 5 --svg walk.svg\n  \
    fullbore walk --pages huge --size 10000              a buffer of 10000 bytes, page by page\n  \
    fullbore walk --pid $$ --address 0x$(grep -m1 stack /proc/$$/maps | cut -d- -f1)")]
pub struct WalkArgs {
    /// Address to decode
    #[arg(value_parser = parse_address, value_name = "ADDRESS", conflicts_with_all = ["pages", "pid"])]
    pub decode: Option<u64>,
    /// Levels of the page table: 4, or 5 where the processor has la57
    #[arg(long, default_value_t = 4, allow_negative_numbers = true, value_name = "N", value_parser = clap::value_parser!(u8).range(4..=5), conflicts_with_all = ["pages", "pid"], requires = "decode")]
    pub levels: u8,
    /// Page that the walk ends at: 4K, 2M or 1G
    #[arg(long, default_value = "4K", value_parser = leaf, value_name = "SIZE", conflicts_with_all = ["pages", "pid"], requires = "decode")]
    pub page_size: Leaf,
    /// Draw the walk as an SVG picture into this file; - is standard output
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["json", "pages", "pid"],
        requires = "decode"
    )]
    pub svg: Option<PathBuf>,
    /// Allocate a buffer of this kind of pages and show it
    #[arg(long, value_parser = pages(), value_name = "KIND", conflicts_with = "pid")]
    pub pages: Option<PageKind>,
    /// Show pages of this process
    #[arg(long, value_name = "PID", requires = "address", value_parser = clap::value_parser!(u32).range(1..), allow_negative_numbers = true)]
    pub pid: Option<u32>,
    /// Where to begin in the memory of that process
    #[arg(long, value_parser = parse_address, value_name = "ADDRESS", requires = "pid")]
    pub address: Option<u64>,
    /// Bytes to show [default: one page]
    #[arg(long, value_parser = shown_size, value_name = "SIZE", conflicts_with = "decode")]
    pub size: Option<usize>,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
    /// Colours in the table
    #[arg(long, value_enum, default_value_t, value_name = "WHEN")]
    pub color: Color,
}

fn leaf(text: &str) -> Result<Leaf, &'static str> {
    match text.parse() {
        Ok(Size(0x1000)) => Ok(Leaf::Small),
        Ok(Size(0x20_0000)) => Ok(Leaf::Huge),
        Ok(Size(0x4000_0000)) => Ok(Leaf::Gigantic),
        _ => Err("no page of an x86-64 processor; use 4K, 2M or 1G"),
    }
}

/// More bytes than this are not shown.
const MOST: u64 = 1 << 30;

fn shown_size(text: &str) -> Result<usize, String> {
    match text.parse().map_err(|e: ParseSizeError| e.to_string())? {
        Size(0) => Err("nothing would be shown; use for example 10000".to_owned()),
        Size(n) if n > MOST => Err("too much to look at; use at most 1G".to_owned()),
        Size(n) => usize::try_from(n).map_err(|e| e.to_string()),
    }
}

pub fn run(args: &WalkArgs) -> Outcome {
    match (args.decode, args.pages, args.pid.zip(args.address)) {
        (Some(address), ..) => decode(args, address),
        (_, Some(kind), _) => buffer(args, kind),
        (.., Some((pid, address))) => {
            let size = args.size.unwrap_or(1);
            let end = address.saturating_add(size as u64);
            let look = look(Process::Other(pid), address..end)?;
            let what = format!("process {pid}, {} at {address:#x}", Size(size as u64));
            show(args, &what, look)
        }
        _ => Err(Failure::Usage(Error::new(
            "walk",
            "there is nothing to look at",
            "give an address to decode, --pages KIND, or --pid PID with --address ADDRESS; see fullbore walk --help",
        ))),
    }
}

fn decode(args: &WalkArgs, address: u64) -> Outcome {
    let levels = match args.levels {
        5 => Levels::Five,
        _ => Levels::Four,
    };
    let decoded = Decoded::of(address, levels, args.page_size);
    if args.json {
        return print_json(&WalkDocument::from(decoded));
    }
    if let Some(out) = &args.svg {
        return file::write(out, svg(&decoded));
    }
    let mut text = walk::picture(&decoded);
    if !cfg!(target_arch = "x86_64") {
        text += &format!(
            "\nThis is how an x86-64 processor reads it; the one here ({}) may have other levels and pages.\n",
            std::env::consts::ARCH
        );
    }
    print(&text, args.color)
}

fn buffer(args: &WalkArgs, kind: PageKind) -> Outcome {
    let len = match args.size {
        Some(size) => size,
        None => page_size(kind)?,
    };
    let pages = Pages::map(&Request {
        len,
        kind,
        lock: false,
        fill: Some(1),
    })?;
    let start = pages.as_ptr() as u64;
    let look = look(Process::Own, start..start + len as u64)?;
    let what = format!(
        "a buffer of {}, {kind} pages, at {start:#x}",
        Size(len as u64)
    );
    show(args, &what, look)
}

fn show(args: &WalkArgs, what: &str, look: Look) -> Outcome {
    if args.json {
        return print_json(&PagesDocument::new(args.pages, args.pid, look));
    }
    print(&walk_table::draw(what, &look), args.color)
}
