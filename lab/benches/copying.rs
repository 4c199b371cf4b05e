//! `fullbore::copy` against `std::io::copy`, from a file to a pipe and from pipe to pipe.
//!
//! ```text
//! cargo bench -p fullbore-lab --bench copying -- [ROUNDS] [RAW.csv]
//! ```
//!
//! The copier is a thread; what feeds it and what drains it are threads, too. The drain splices to /dev/null, so that the
//! copier is the bottleneck. Each trial moves 1 GiB (file) or 2 GiB (pipe); rounds are shuffled whole.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, PipeReader, Seek, Write};
use std::thread;
use std::time::Instant;

use fullbore_lab::rounds::plan;
use fullbore_lab::stats;
use fullbore_sys::calls::{SpliceFlags, splice};

const FILE: u64 = 1 << 30;
const PIPE: u64 = 2 << 30;
const TRIALS: [(&str, &str); 4] = [
    ("file to pipe", "fullbore"),
    ("file to pipe", "std"),
    ("pipe to pipe", "fullbore"),
    ("pipe to pipe", "std"),
];

fn main() -> io::Result<()> {
    let args: Vec<_> = std::env::args()
        .skip(1)
        .filter(|a| a != "--bench")
        .collect();
    let rounds = args.first().and_then(|a| a.parse().ok()).unwrap_or(15);
    let mut file = tempfile::tempfile()?;
    let block = vec![b'x'; 1 << 20];
    for _ in 0..FILE >> 20 {
        file.write_all(&block)?;
    }
    let mut rates = vec![Vec::new(); TRIALS.len()];
    let mut raw = String::from("round,what,copier,gib_per_s\n");
    for (round, order) in plan::rounds(TRIALS.len(), rounds, 1)
        .into_iter()
        .enumerate()
    {
        for i in order {
            let (what, copier) = TRIALS[i];
            let rate = match what {
                "file to pipe" => from_file(&mut file, copier)?,
                _ => from_pipe(copier)?,
            };
            rates[i].push(rate);
            let _ = writeln!(raw, "{},{what},{copier},{rate:.4}", round + 1);
        }
    }
    if let Some(path) = args.get(1) {
        std::fs::write(path, raw)?;
    }
    for i in [0, 2] {
        let pairs: Vec<_> = rates[i]
            .iter()
            .copied()
            .zip(rates[i + 1].iter().copied())
            .collect();
        if let (Some(ratio), Some(ours), Some(theirs)) = (
            stats::paired_ratio(&pairs),
            stats::median(&rates[i]),
            stats::median(&rates[i + 1]),
        ) {
            println!(
                "{}: fullbore {ours:.2} GiB/s, std {theirs:.2} GiB/s: × {:.2} [{:.2}, {:.2}], goal 1.5",
                TRIALS[i].0, ratio.median, ratio.ci95[0], ratio.ci95[1]
            );
        }
    }
    Ok(())
}

fn drain(pipe: PipeReader) -> thread::JoinHandle<io::Result<u64>> {
    thread::spawn(move || {
        let null = File::options().write(true).open("/dev/null")?;
        let mut bytes = 0;
        loop {
            match splice(&pipe, &null, 1 << 30, SpliceFlags::empty())? {
                0 => return Ok(bytes),
                n => bytes += n as u64,
            }
        }
    })
}

/// Runs a copy whose output is drained; returns GiB/s.
fn timed(bytes: u64, copy: impl FnOnce(io::PipeWriter) -> io::Result<u64>) -> io::Result<f64> {
    let (reader, writer) = io::pipe()?;
    let drained = drain(reader);
    let start = Instant::now();
    let copied = copy(writer)?;
    let seconds = start.elapsed().as_secs_f64();
    let arrived = drained
        .join()
        .map_err(|_| io::Error::other("the drain panicked"))??;
    if copied != bytes || arrived != bytes {
        return Err(io::Error::other(format!(
            "{copied} copied and {arrived} arrived of {bytes}"
        )));
    }
    Ok(bytes as f64 / (1u64 << 30) as f64 / seconds)
}

fn from_file(file: &mut File, copier: &str) -> io::Result<f64> {
    file.rewind()?;
    timed(FILE, |mut out| match copier {
        "std" => io::copy(file, &mut out),
        _ => fullbore::copy(&*file, &out).map(|c| c.bytes),
    })
}

fn from_pipe(copier: &str) -> io::Result<f64> {
    let (mut reader, writer) = io::pipe()?;
    thread::spawn(move || fullbore::Constant::new(b"x").write_all(&writer, PIPE));
    timed(PIPE, |mut out| match copier {
        "std" => io::copy(&mut reader, &mut out),
        _ => fullbore::copy(&reader, &out).map(|c| c.bytes),
    })
}
