//! What lending saves: a buffer is filled, sent, and filled again, by each way in turn.
//!
//! ```text
//! cargo run --release --example lend -- [MiB] [read|splice] [huge|small] [way ...]
//! ```
//!
//! The ways are `lend` ([`Unbuffered::lend`]), `write` (`write(2)`), `auto` (`Unbuffered` without lending) and `vmsplice`,
//! which is **unsound**: what a reader still holds changes when the buffer is filled again. Prints GiB/s, medians of five
//! shuffled rounds, and each way's ratio to `write`.
#![allow(unsafe_code)]

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::time::Instant;

use fullbore_sys::calls::{self, SpliceFlags};
use fullbore_sys::capacity;
use fullbore_sys::pages::{PageKind, Pages, Request};
use fullbore_sys::writer::Unbuffered;
use fullbore_sys::writer::Way;

const ROUNDS: usize = 5;
/// Bytes of each way in each round.
const BYTES: usize = 2 << 30;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let mib: usize = args.next().map_or(Ok(6), |mib| mib.parse())?;
    let splices = args.next().is_some_and(|reader| reader == "splice");
    let kind = args
        .next()
        .map_or(Ok(PageKind::Huge), |kind| kind.parse())?;
    let mut ways: Vec<String> = args.collect();
    if ways.is_empty() {
        ways = ["write", "auto", "lend", "vmsplice"]
            .map(String::from)
            .to_vec();
    }
    let mut buffer = Pages::map(&Request {
        len: mib << 20,
        kind,
        lock: false,
        fill: Some(0),
    })?;
    let mut rates = vec![Vec::new(); ways.len()];
    for round in 0..ROUNDS {
        for i in 0..ways.len() {
            let way = (i + round) % ways.len();
            rates[way].push(rate(&ways[way], &mut buffer, splices)?);
        }
    }
    let medians: Vec<f64> = rates.iter_mut().map(|rates| median(rates)).collect();
    let write = ways.iter().position(|way| way == "write");
    for (way, median) in ways.iter().zip(&medians) {
        let ratio = write.map_or(String::new(), |w| format!("  {:.2} ×", median / medians[w]));
        println!("{way:<9}{median:6.2} GiB/s{ratio}");
    }
    Ok(())
}

fn median(rates: &mut [f64]) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

/// Fills and sends the buffer again and again; returns GiB/s.
fn rate(way: &str, buffer: &mut [u8], splices: bool) -> Result<f64, Box<dyn std::error::Error>> {
    let (read_end, write_end) = calls::pipe()?;
    capacity::largest(&write_end)?;
    let reader = std::thread::spawn(move || read(&read_end, splices));
    let mut out = Unbuffered::new(write_end).copy_on_write();
    if way == "write" {
        out = out.with_way(Way::Copy);
    }
    let times = BYTES / buffer.len();
    let start = Instant::now();
    for time in 0..times {
        buffer.fill(time as u8);
        match way {
            "lend" => assert_eq!(out.lend(buffer)?, buffer.len()),
            "write" | "auto" => out.write_all(buffer)?,
            "vmsplice" => vmsplice_all(&out, buffer)?,
            _ => return Err(format!("{way}: use lend, write, auto or vmsplice").into()),
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    if way == "lend" && (out.bytes_lent() as usize) < times * buffer.len() / 10 * 9 {
        eprintln!(
            "lend: {} of {} MiB; {}",
            out.bytes_lent() >> 20,
            (times * buffer.len()) >> 20,
            out.path()
        );
    }
    drop(out);
    reader.join().expect("no panic")?;
    Ok((times * buffer.len()) as f64 / seconds / (1u64 << 30) as f64)
}

/// Unsound as it is used here: the buffer is filled again while the pipe still holds its last MiB.
fn vmsplice_all(pipe: &Unbuffered<OwnedFd>, buffer: &mut [u8]) -> io::Result<()> {
    let mut sent = 0;
    while sent < buffer.len() {
        // SAFETY: none, see above. The reader of this program does not mind.
        sent += unsafe { calls::vmsplice(pipe, &mut buffer[sent..], SpliceFlags::empty()) }?;
    }
    Ok(())
}

fn read(pipe: &OwnedFd, splices: bool) -> io::Result<()> {
    if !splices {
        let mut buffer = vec![0; 256 << 10];
        while calls::read(pipe, &mut buffer)? > 0 {}
        return Ok(());
    }
    let null = File::options().write(true).open("/dev/null")?;
    while calls::splice(pipe, &null, 1 << 20, SpliceFlags::empty())? > 0 {}
    Ok(())
}
