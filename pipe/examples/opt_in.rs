//! What `Unbuffered::copy_on_write` gains or loses in a process of a size:
//!
//! ```text
//! cargo run --release -p fullbore --example opt_in -- MIB [ROUNDS]
//! ```
//!
//! Touches so many MiB of small pages first. Then sends 2 GiB of new data to a thread that reads, with and without leave to
//! make memory copy-on-write, alternately, and prints GiB/s of both, the median of their ratios, and which ways were taken. The
//! pages are written once more after each, as a program that has them would do, and how long that takes is printed, too.

use std::io::Write;
use std::time::Instant;

use fullbore_sys::pages::{PageKind, Pages, Request};
use fullbore_sys::writer::Unbuffered;
use fullbore_sys::writer::Way;

const TOTAL: usize = 2 << 30;
const GIB: f64 = (1u64 << 30) as f64;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let mib: usize = args.next().ok_or("how many MiB?")?.parse()?;
    let rounds: usize = args.next().map_or(Ok(7), |a| a.parse())?;
    let mut memory = Pages::map(&Request {
        len: mib << 20,
        kind: PageKind::Small,
        lock: false,
        fill: Some(1),
    })?;
    let mut ratios = Vec::new();
    for round in 0..rounds {
        let mut rates = [0.0; 2];
        for i in 0..2 {
            let opted_in = (i + round) % 2 == 1;
            let (rate, path, by) = send(opted_in)?;
            let start = Instant::now();
            for byte in memory.iter_mut().step_by(4096) {
                *byte = byte.wrapping_add(1);
            }
            let us = start.elapsed().as_micros();
            rates[usize::from(opted_in)] = rate;
            println!(
                "opted in: {opted_in}, {rate:.2} GiB/s, {path}; MiB by each way {by:?}; pages written once: {us} µs"
            );
        }
        ratios.push(rates[1] / rates[0]);
    }
    ratios.sort_by(f64::total_cmp);
    println!(
        "with over without, median {:.2}, {:.2} to {:.2}",
        ratios[rounds / 2],
        ratios[0],
        ratios[rounds - 1]
    );
    Ok(())
}

/// Sends new data from a source of 256 KiB to a thread that copies it out.
fn send(opted_in: bool) -> std::io::Result<(f64, String, [u64; Way::ALL.len()])> {
    let (mut reader, pipe) = std::io::pipe()?;
    let reader = std::thread::spawn(move || {
        let mut buffer = vec![0; 256 << 10];
        while std::io::Read::read(&mut reader, &mut buffer).is_ok_and(|n| n > 0) {}
    });
    let mut writer = Unbuffered::new(pipe).fill_ahead();
    if opted_in {
        writer = writer.copy_on_write();
    }
    let source = vec![b'x'; 256 << 10];
    let start = Instant::now();
    for _ in 0..TOTAL / source.len() {
        writer.write_all(&source)?;
    }
    writer.flush()?;
    let rate = TOTAL as f64 / start.elapsed().as_secs_f64() / GIB;
    let by = Way::ALL.map(|way| writer.bytes_by(way) >> 20);
    let path = writer.path().to_string();
    drop(writer);
    let _ = reader.join();
    Ok((rate, path, by))
}
