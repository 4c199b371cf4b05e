//! Programs that write through `fullbore::stdout()` against the same programs with `std`'s, and data generated in place
//! against data generated elsewhere and copied.
//!
//! ```text
//! cargo bench -p fullbore-lab --bench drop_in -- [ROUNDS] [SECONDS BETWEEN ROUNDS] [RAW.csv]
//! ```
//!
//! Each trial starts a fresh writer process (this program with the argument `writer`) on a default pipe and reads from
//! it for 0.4 s after 0.1 s of warm-up, on another CPU of the same cache. Rounds are shuffled whole; ratios are taken
//! within a round, between trials that found the two CPUs in the same state (near or far), and never pooled with others.

use std::fmt::Write as _;
use std::io::{self, BufWriter, Read, Write};
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use fullbore_lab::machine::{Machine, choose_cpus};
use fullbore_lab::run::{LineTravel, State};
use fullbore_lab::{plan, stats, sys, travel};

const CHUNK: usize = 64 << 10;
const SOURCE: usize = 256 << 10;

/// What is compared: name, writer, its rival, reader, ratio to reach.
const COMPARISONS: [(&str, &str, &str, &str, f64); 4] = [
    (
        "64 KiB chunks",
        "fullbore-chunks",
        "std-chunks",
        "read",
        4.0,
    ),
    (
        "100-byte lines",
        "fullbore-lines",
        "std-lines",
        "read",
        0.95,
    ),
    (
        "in place, copying reader",
        "in-place",
        "drop-in",
        "read",
        1.05,
    ),
    (
        "in place, splicing reader",
        "in-place",
        "drop-in",
        "splice",
        1.2,
    ),
];

fn main() {
    let args: Vec<_> = std::env::args()
        .skip(1)
        .filter(|a| a != "--bench")
        .collect();
    if let [role, writer, cpu] = &args[..]
        && role == "writer"
    {
        let _ = sys::pin_to_cpu(cpu.parse().unwrap_or(0));
        // Every writer ends with a broken pipe.
        let _ = write_forever(writer);
        return;
    }
    let number = |i: usize, default| args.get(i).and_then(|a| a.parse().ok()).unwrap_or(default);
    let (rounds, pause) = (number(0, 15), number(1, 0));
    let machine = Machine::detect();
    let Some(cpus) = choose_cpus(&machine) else {
        eprintln!("no CPUs to choose from");
        std::process::exit(1);
    };
    let mut trials: Vec<(&str, &str)> = COMPARISONS
        .iter()
        .flat_map(|c| [(c.1, c.3), (c.2, c.3)])
        .collect();
    trials.sort_unstable();
    trials.dedup();
    let mut rates = vec![Vec::new(); trials.len()];
    let mut raw =
        String::from("round,writer,reader,gib_per_s,state,travel_before_ns,travel_after_ns\n");
    sys::pin_to_cpu(cpus.reader).unwrap_or_else(|e| eprintln!("{e}"));
    let seed = Instant::now().elapsed().as_nanos() as u64 ^ u64::from(std::process::id());
    for (round, order) in plan::rounds(trials.len(), rounds, seed)
        .into_iter()
        .enumerate()
    {
        for i in order {
            let (writer, reader) = trials[i];
            let travel = || {
                travel::line_travel_ns(cpus.writer, cpus.reader)
                    .ok()
                    .flatten()
            };
            let before = travel();
            let rate = trial(writer, reader, cpus.writer).unwrap_or_else(|e| {
                eprintln!("{writer} | {reader}: {e}");
                std::process::exit(1);
            });
            let travel = LineTravel {
                before,
                after: travel(),
            };
            let state = travel.state();
            rates[i].push((rate, state));
            let ns = |ns: Option<f64>| ns.map_or(String::new(), |ns| format!("{ns:.0}"));
            let _ = writeln!(
                raw,
                "{},{writer},{reader},{rate:.4},{state},{},{}",
                round + 1,
                ns(travel.before),
                ns(travel.after)
            );
        }
        if round + 1 < rounds {
            std::thread::sleep(Duration::from_secs(pause as u64));
        }
    }
    if let Some(path) = args.get(2)
        && let Err(e) = std::fs::write(path, &raw)
    {
        eprintln!("{path}: {e}");
    }
    for state in [State::Near, State::Far, State::OneCpu, State::Unknown] {
        for (name, ours, theirs, reader, goal) in COMPARISONS {
            let of = |writer| {
                let i = trials.iter().position(|t| *t == (writer, reader));
                i.map_or(&[][..], |i| &rates[i])
            };
            let both = of(ours).iter().zip(of(theirs));
            let pairs: Vec<_> = both
                .filter(|(a, b)| a.1 == state && b.1 == state)
                .map(|(a, b)| (a.0, b.0))
                .collect();
            let (ours_only, theirs_only): (Vec<_>, Vec<_>) = pairs.iter().copied().unzip();
            let (Some(ratio), Some(a), Some(b)) = (
                stats::paired_ratio(&pairs),
                stats::median(&ours_only),
                stats::median(&theirs_only),
            ) else {
                continue;
            };
            println!(
                "{state}, {:>2} rounds: {name:<26} {ours} {a:.2} GiB/s, {theirs} {b:.2} GiB/s: × {:.2} [{:.2}, {:.2}], goal {goal}",
                pairs.len(),
                ratio.median,
                ratio.ci95[0],
                ratio.ci95[1]
            );
        }
    }
}

fn write_forever(writer: &str) -> io::Result<()> {
    let chunk = vec![b'x'; CHUNK];
    let mut line = vec![b'x'; 99];
    line.push(b'\n');
    match writer {
        "std-chunks" => repeat(io::stdout().lock(), &chunk),
        "fullbore-chunks" => repeat(fullbore::stdout(), &chunk),
        "std-lines" => repeat(BufWriter::new(io::stdout().lock()), &line),
        "fullbore-lines" => repeat(BufWriter::new(fullbore::stdout()), &line),
        "drop-in" => {
            let mut out = fullbore::stdout();
            let mut buffer = vec![0; SOURCE];
            let mut state = [1, 2, 3, 4];
            loop {
                generate(&mut buffer, &mut state);
                out.write_all(&buffer)?;
            }
        }
        "in-place" => {
            let mut out = fullbore::stdout();
            let mut state = [1, 2, 3, 4];
            loop {
                let block = out.block(SOURCE);
                let len = block.len();
                generate(block, &mut state);
                out.commit(len)?;
            }
        }
        other => Err(io::Error::other(format!("unknown writer {other}"))),
    }
}

fn repeat(mut out: impl Write, bytes: &[u8]) -> io::Result<()> {
    loop {
        out.write_all(bytes)?;
    }
}

/// Stores 32 new bytes at a time.
fn generate(buffer: &mut [u8], state: &mut [u64; 4]) {
    for piece in buffer.as_chunks_mut::<32>().0 {
        for (word, bytes) in state.iter_mut().zip(piece.as_chunks_mut::<8>().0) {
            *word = word.wrapping_add(0x9E37_79B9_7F4A_7C15);
            *bytes = word.to_le_bytes();
        }
    }
}

fn trial(writer: &str, reader: &str, cpu: usize) -> io::Result<f64> {
    let mut child = Command::new(std::env::current_exe()?)
        .args(["writer", writer, &cpu.to_string()])
        .stdout(Stdio::piped())
        .spawn()?;
    let mut pipe = child.stdout.take().ok_or(io::ErrorKind::NotFound)?;
    let null = std::fs::File::options().write(true).open("/dev/null")?;
    let mut buffer = vec![0; SOURCE];
    let mut take = || match reader {
        "splice" => fullbore_sys::calls::splice(
            pipe.as_fd(),
            &null,
            1 << 30,
            fullbore_sys::calls::SpliceFlags::empty(),
        ),
        _ => pipe.read(&mut buffer),
    };
    let mut read_for = |time| {
        let start = Instant::now();
        let mut bytes = 0;
        while start.elapsed() < time {
            match take()? {
                0 => return Err(io::Error::other("the writer ended")),
                n => bytes += n,
            }
        }
        Ok(bytes as f64 / (1u64 << 30) as f64 / start.elapsed().as_secs_f64())
    };
    read_for(Duration::from_millis(100))?;
    let rate = read_for(Duration::from_millis(400));
    drop(pipe);
    let _ = child.wait();
    rate
}
