//! How fast FizzBuzz is made, and how fast it goes through a pipe.
//!
//! ```text
//! cargo bench -p fullbore-cli --bench fizzbuzz -- [ROUNDS] [RAW.csv] [OTHER PROGRAM]
//! ```
//!
//! First the text alone, in memory, by one thread. Then processes on two CPUs: `fizzbuzz`, `fizzbuzz --recycle`, a plain
//! program with a `BufWriter`, and another program if one is given, each into `fullbore read` that reads, and into one
//! that splices to /dev/null and spins. Every round runs all of them once, in an order of its own, for half a second.
//! Needs `taskset`, and nothing else running.

#[allow(dead_code)]
#[path = "../src/tools/fizzbuzz/lines.rs"]
mod lines;
#[allow(dead_code)]
#[path = "../src/tools/fizzbuzz/thousands.rs"]
mod thousands;
#[allow(dead_code)]
#[path = "../src/tools/fizzbuzz/vector.rs"]
mod vector;

use std::fmt::Write as _;
use std::io::{self, BufWriter, Write};
use std::process::{Command, Stdio};
use std::time::Instant;

use fullbore_lab::rounds::plan;
use fullbore_lab::stats;
use thousands::{PHASES, SLACK, Thousands, cycle_bytes};
use vector::Vectors;

const FULLBORE: &str = env!("CARGO_BIN_EXE_fullbore");
const READERS: [(&str, &str); 2] = [
    ("splices", "--read-with splice --wait spin"),
    ("reads", "--read-with read --wait spin"),
];

fn main() -> io::Result<()> {
    let args: Vec<_> = std::env::args()
        .skip(1)
        .filter(|a| a != "--bench")
        .collect();
    if args.first().is_some_and(|a| a == "plain") {
        return plain();
    }
    for width in [8, 10, 12, 18] {
        in_memory(width);
    }
    let rounds = args.first().and_then(|a| a.parse().ok()).unwrap_or(9);
    let me = std::env::current_exe()?.display().to_string();
    let mut writers = vec![
        ("sound", format!("{FULLBORE} fizzbuzz")),
        ("recycled", format!("{FULLBORE} fizzbuzz --recycle")),
        ("BufWriter", format!("{me} plain")),
    ];
    if let Some(other) = args.get(2) {
        writers.push(("other", other.clone()));
    }
    let trials: Vec<_> = READERS
        .iter()
        .flat_map(|reader| writers.iter().map(move |writer| (reader, writer)))
        .collect();
    let mut rates = vec![Vec::new(); trials.len()];
    let mut raw = String::from("round,reader,writer,gib_per_s\n");
    for (round, order) in plan::rounds(trials.len(), rounds, 1)
        .into_iter()
        .enumerate()
    {
        for i in order {
            let ((reader, read), (writer, line)) = trials[i];
            let rate = through_a_pipe(line, read)?;
            rates[i].push(rate);
            let _ = writeln!(raw, "{},{reader},{writer},{rate:.4}", round + 1);
        }
    }
    if let Some(path) = args.get(1) {
        std::fs::write(path, raw)?;
    }
    for (i, ((reader, _), (writer, _))) in trials.iter().enumerate() {
        let median = stats::median(&rates[i]).unwrap_or_default();
        print!("reader {reader}, {writer}: {median:.2} GiB/s");
        let (row, column) = (i / writers.len(), i % writers.len());
        for (to, (name, _)) in writers.iter().enumerate().skip(2) {
            let pairs = rates[i].iter().zip(&rates[row * writers.len() + to]);
            let pairs: Vec<_> = pairs.map(|(a, b)| (*a, *b)).collect();
            if let Some(ratio) = stats::paired_ratio(&pairs)
                && column != to
            {
                let [low, high] = ratio.ci95;
                print!(", × {:.2} [{low:.2}, {high:.2}] of {name}", ratio.median);
            }
        }
        println!();
    }
    Ok(())
}

/// What one writes without thinking of pipes.
fn plain() -> io::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    for n in 1u64.. {
        let written = match (n % 3, n % 5) {
            (0, 0) => writeln!(out, "FizzBuzz"),
            (0, _) => writeln!(out, "Fizz"),
            (_, 0) => writeln!(out, "Buzz"),
            _ => writeln!(out, "{n}"),
        };
        if written.is_err() {
            break; // the reader has seen enough
        }
    }
    std::process::exit(0) // without writing what is left in the buffer
}

/// GiB/s of a pipe, as its reader measures it.
fn through_a_pipe(writer: &str, read: &str) -> io::Result<f64> {
    let (read_end, write_end) = io::pipe()?;
    let pinned = |cpu: &str, line: &str| {
        let mut command = Command::new("taskset");
        command
            .args(["-c", cpu])
            .args(line.split(' '))
            .stderr(Stdio::null());
        command
    };
    let mut writer = pinned("0", writer).stdout(write_end).spawn()?;
    let read = format!("{FULLBORE} read {read} --seconds 0.5 --json");
    let output = pinned("1", &read).stdin(read_end).output()?;
    writer.wait()?;
    let result: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    Ok(result["gib_per_s"].as_f64().unwrap_or_default())
}

/// Prints how fast text is made anew, by each way, and how fast old text is changed into new.
fn in_memory(width: usize) {
    const BLOCK: usize = 1 << 20;
    let first = 10u64.pow(width as u32 - 4).next_multiple_of(30);
    let ways = [("stores", None), ("AVX2", Vectors::detect())];
    for (name, vectors) in ways {
        if name == "AVX2" && vectors.is_none() {
            println!("SKIPPED AVX2: this CPU has none");
            continue;
        }
        let mut thousands = Thousands::new(width, vectors);
        let count = (BLOCK / cycle_bytes(width) * PHASES) as u64;
        let mut text = vec![0; BLOCK + SLACK];
        let mut head = first;
        let rate = best_rate(|| {
            head += count;
            thousands.fill(head..head + count, &mut text)
        });
        println!("{width} digits, made by {name}: {rate:.1} GiB/s");
    }
    let mut thousands = Thousands::new(width, None);
    let count = 30;
    let mut text = vec![0; thousands.bytes(&(0..count)) + SLACK];
    let mut head = first;
    let len = thousands.fill(head..head + count, &mut text);
    let rate = best_rate(|| {
        thousands.update(head..head + count, head + 2 * count, &mut text[..len]);
        head += 2 * count;
        len
    });
    println!("{width} digits, changed in place: {rate:.1} GiB/s");
}

/// GiB/s of the quickest of many calls, which return how many bytes they made.
fn best_rate(mut make: impl FnMut() -> usize) -> f64 {
    let rate = |_| {
        let start = Instant::now();
        let bytes = make();
        bytes as f64 / start.elapsed().as_secs_f64() / (1u64 << 30) as f64
    };
    (0..500).map(rate).fold(0.0, f64::max)
}
