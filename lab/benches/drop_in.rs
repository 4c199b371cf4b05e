//! Programs that write through `fullbore::stdout()` against the same programs with the standard library's.
//!
//! ```text
//! cargo bench -p fullbore-lab --bench drop_in -- [ROUNDS] [SECONDS BETWEEN ROUNDS] [RAW.csv] [ONLY THESE, by a part of the name]
//! ```
//!
//! Each trial starts a fresh writer process (this program with the argument `writer`) on a default pipe, or another kind of output,
//! on CPUs of the same cache or both on one. Streams are read for 0.4 s after 0.1 s of warm-up; short jobs are done again and again
//! in one process, each with a writer of its own, or in a process each. Rounds are shuffled whole; ratios are taken
//! within a round, between trials that found the two CPUs in the same state (near or far), and never pooled with others.

use std::fmt::Write as _;
use std::io::{self, BufWriter, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use fullbore_lab::machine::state::{LineTravel, State};
use fullbore_lab::machine::travel;
use fullbore_lab::machine::{Machine, choose_cpus};
use fullbore_lab::rounds::plan;
use fullbore_lab::stats;
use fullbore_lab::sys;

const CHUNK: usize = 64 << 10;
const SOURCE: usize = 256 << 10;

/// Where a writer writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum To {
    /// A pipe whose reader copies into a buffer of 256 KiB.
    Pipe,
    /// The same, both on one CPU.
    OneCpu,
    /// A pipe whose reader splices to /dev/null.
    Splice,
    Socket,
    Terminal,
    /// Started anew for each output; what it writes is of a given length.
    File,
    Null,
    /// A pipe; many short jobs in one process.
    Fresh,
    /// A pipe; a process for each short job.
    Process,
}

/// What is compared: a writer, its rival, where they write, and the ratio to reach.
const COMPARISONS: [(&str, &str, To, f64); 29] = [
    ("lines", "std-lines", To::Pipe, 1.5),
    ("records", "std-records", To::Pipe, 2.2),
    ("chunks", "std-chunks", To::Pipe, 2.2),
    ("cow-lines", "std-lines", To::Pipe, 1.5),
    ("cow-records", "std-records", To::Pipe, 3.5),
    ("cow-chunks", "std-chunks", To::Pipe, 3.5),
    ("lines", "std-lines", To::OneCpu, 0.97),
    ("records", "std-records", To::OneCpu, 0.97),
    ("chunks", "std-chunks", To::OneCpu, 0.97),
    ("cow-chunks", "std-chunks", To::OneCpu, 0.97),
    ("lines", "std-lines", To::Splice, 0.97),
    ("chunks", "std-chunks", To::Splice, 0.97),
    ("in-place", "chunks", To::Pipe, 1.0),
    ("in-place", "chunks", To::Splice, 1.0),
    ("lines", "std-lines", To::Socket, 0.97),
    ("chunks", "std-chunks", To::Socket, 0.97),
    ("lines", "std-stdout", To::Terminal, 0.97),
    ("lines", "std-lines", To::File, 0.97),
    ("records", "std-records", To::File, 0.97),
    ("chunks", "std-chunks", To::File, 0.97),
    ("lines", "std-lines", To::Null, 0.97),
    ("chunks", "std-chunks", To::Null, 0.97),
    ("10-bytes", "std-10-bytes", To::Fresh, 0.97),
    ("8-KiB", "std-8-KiB", To::Fresh, 0.97),
    ("1-MiB", "std-1-MiB", To::Fresh, 0.97),
    ("4-MiB", "std-4-MiB", To::Fresh, 0.97),
    ("10-bytes", "std-10-bytes", To::Process, 0.97),
    ("8-KiB", "std-8-KiB", To::Process, 0.97),
    ("1-MiB", "std-1-MiB", To::Process, 0.97),
];

fn main() {
    let args: Vec<_> = std::env::args()
        .skip(1)
        .filter(|a| a != "--bench")
        .collect();
    if let [role, writer, cpu, times] = &args[..]
        && role == "writer"
    {
        let _ = sys::pin_to_cpu(cpu.parse().unwrap_or(0));
        // Every endless writer ends with a broken pipe.
        let _ = write(writer, times.parse().unwrap_or(0));
        return;
    }
    let number = |i: usize, default| args.get(i).and_then(|a| a.parse().ok()).unwrap_or(default);
    let (rounds, pause) = (number(0, 15), number(1, 0));
    let machine = Machine::detect();
    let Some(cpus) = choose_cpus(&machine) else {
        eprintln!("no CPUs to choose from");
        std::process::exit(1);
    };
    let only = args.get(3).map_or("", String::as_str);
    let comparisons: Vec<_> = COMPARISONS
        .into_iter()
        .filter(|c| format!("{} {:?}", c.0, c.2).contains(only))
        .collect();
    let mut trials: Vec<(&str, To)> = comparisons
        .iter()
        .flat_map(|c| [(c.0, c.2), (c.1, c.2)])
        .collect();
    trials.sort_unstable_by_key(|t| (t.0, t.1 as usize));
    trials.dedup();
    let mut rates = vec![Vec::new(); trials.len()];
    let mut raw = String::from("round,writer,to,rate,state,travel_before_ns,travel_after_ns\n");
    let seed = Instant::now().elapsed().as_nanos() as u64 ^ u64::from(std::process::id());
    for (round, order) in plan::rounds(trials.len(), rounds, seed)
        .into_iter()
        .enumerate()
    {
        for i in order {
            let (writer, to) = trials[i];
            let one = to == To::OneCpu;
            let reader = if one { cpus.writer } else { cpus.reader };
            let travel = || {
                travel::line_travel_ns(cpus.writer, cpus.reader)
                    .ok()
                    .flatten()
            };
            let before = travel();
            sys::pin_to_cpu(reader).unwrap_or_else(|e| eprintln!("{e}"));
            let rate = trial(writer, to, cpus.writer).unwrap_or_else(|e| {
                eprintln!("{writer} to {to:?}: {e}");
                std::process::exit(1);
            });
            let travel = LineTravel {
                before,
                after: travel(),
            };
            let state = if one { State::OneCpu } else { travel.state() };
            rates[i].push((rate, state));
            let ns = |ns: Option<f64>| ns.map_or(String::new(), |ns| format!("{ns:.0}"));
            let _ = writeln!(
                raw,
                "{},{writer},{to:?},{rate:.4},{state},{},{}",
                round + 1,
                ns(travel.before),
                ns(travel.after)
            );
        }
        if round + 1 < rounds {
            std::thread::sleep(Duration::from_secs(pause as u64));
        }
    }
    if let Some(path) = args.get(2).filter(|p| !p.is_empty())
        && let Err(e) = std::fs::write(path, &raw)
    {
        eprintln!("{path}: {e}");
    }
    println!("GiB/s, or short jobs per ms; ratios within a round, with 95 % intervals");
    for state in [State::Near, State::Far, State::OneCpu, State::Unknown] {
        for &(ours, theirs, to, goal) in &comparisons {
            let of = |writer| {
                let i = trials.iter().position(|t| *t == (writer, to));
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
                "{state}, {:>2} rounds, to {:<9} {ours:<12} {a:>7.2}, {theirs:<12} {b:>7.2}: × {:.2} [{:.2}, {:.2}], goal {goal}",
                pairs.len(),
                format!("{to:?}:"),
                ratio.median,
                ratio.ci95[0],
                ratio.ci95[1]
            );
        }
    }
}

/// Pieces of a size, from a table of different ones.
fn table(len: usize) -> Vec<Vec<u8>> {
    let count = CHUNK.div_ceil(len).max(2);
    let piece = |i: usize| {
        let mut piece = vec![b'a' + (i % 26) as u8; len - 1];
        piece.push(b'\n');
        piece
    };
    (0..count).map(piece).collect()
}

/// Writes so many pieces, or without end where it is 0.
fn write(writer: &str, times: u64) -> io::Result<()> {
    let (ours, what) = match writer.split_once('-') {
        Some(("std", what)) => ("std", what),
        Some(("cow", what)) => ("cow", what),
        _ => ("", writer),
    };
    let short = |len: usize, piece: usize| {
        let pieces = table(piece);
        for _ in 0..times.max(1) {
            match ours {
                "std" => {
                    let mut out = BufWriter::new(io::stdout().lock());
                    short(&mut out, &pieces, len)?;
                }
                _ => short(&mut fullbore::stdout(), &pieces, len)?,
            }
        }
        Ok(())
    };
    let pieces = match what {
        "lines" | "stdout" => table(100),
        "records" => table(4 << 10),
        "chunks" => table(CHUNK),
        "10-bytes" => return short(10, 10),
        "8-KiB" => return short(8 << 10, 128),
        "1-MiB" => return short(1 << 20, 128),
        "4-MiB" => return short(4 << 20, 128),
        "in-place" => return generate_in_place(),
        other => return Err(io::Error::other(format!("unknown writer {other}"))),
    };
    if writer == "std-stdout" {
        return repeat(io::stdout().lock(), &pieces, times); // flushes each line
    }
    match ours {
        "std" => repeat(BufWriter::new(io::stdout().lock()), &pieces, times),
        "cow" => repeat(fullbore::stdout().copy_on_write(), &pieces, times),
        _ => repeat(fullbore::stdout(), &pieces, times),
    }
}

fn short(out: &mut impl Write, pieces: &[Vec<u8>], len: usize) -> io::Result<()> {
    for piece in pieces.iter().cycle().take(len / pieces[0].len()) {
        out.write_all(piece)?;
    }
    out.flush()
}

fn repeat(mut out: impl Write, pieces: &[Vec<u8>], times: u64) -> io::Result<()> {
    let mut written = 0;
    loop {
        for piece in pieces {
            out.write_all(piece)?;
            written += 1;
            if written == times {
                return out.flush();
            }
        }
    }
}

/// Stores 32 new bytes at a time.
fn generate_in_place() -> io::Result<()> {
    let mut out = fullbore::stdout();
    let mut state = [1_u64, 2, 3, 4];
    loop {
        let mut block = out.block(SOURCE)?;
        for piece in block.as_chunks_mut::<32>().0 {
            for (word, bytes) in state.iter_mut().zip(piece.as_chunks_mut::<8>().0) {
                *word = word.wrapping_add(0x9E37_79B9_7F4A_7C15);
                *bytes = word.to_le_bytes();
            }
        }
        let len = block.len();
        block.commit(len)?;
    }
}

fn start(writer: &str, cpu: usize, times: u64, to: impl Into<Stdio>) -> io::Result<Child> {
    Command::new(std::env::current_exe()?)
        .args(["writer", writer, &cpu.to_string(), &times.to_string()])
        .stdout(to)
        .spawn()
}

fn trial(writer: &str, to: To, cpu: usize) -> io::Result<f64> {
    match to {
        To::Pipe | To::OneCpu | To::Splice => {
            let mut child = start(writer, cpu, 0, Stdio::piped())?;
            let pipe = child.stdout.take().ok_or(io::ErrorKind::NotFound)?;
            let rate = stream(OwnedFd::from(pipe), to == To::Splice);
            let _ = child.wait();
            rate
        }
        To::Socket => {
            let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
            let mut child = start(writer, cpu, 0, OwnedFd::from(theirs))?;
            let rate = stream(ours.into(), false);
            let _ = child.wait();
            rate
        }
        To::Terminal => {
            let ours = rustix::pty::openpt(rustix::pty::OpenptFlags::RDWR)?;
            rustix::pty::unlockpt(&ours)?;
            let name = rustix::pty::ptsname(&ours, Vec::new())?;
            let open = || {
                let name = std::path::Path::new(name.to_str().map_err(io::Error::other)?);
                std::fs::File::options().read(true).write(true).open(name)
            };
            let _kept = open()?;
            let mut child = start(writer, cpu, 0, open()?)?;
            let rate = stream(ours, false);
            let _ = child.kill();
            let _ = child.wait();
            rate
        }
        To::File | To::Null => {
            let piece = match writer.rsplit('-').next() {
                Some("lines") => 100,
                Some("records") => 4 << 10,
                _ => CHUNK,
            };
            let bytes: u64 = if to == To::File { 256 << 20 } else { 1 << 30 };
            let file = match to {
                To::File => tempfile::tempfile_in("/dev/shm").or_else(|_| tempfile::tempfile())?,
                _ => std::fs::File::options().write(true).open("/dev/null")?,
            };
            let begun = Instant::now();
            let mut child = start(writer, cpu, bytes / piece as u64, file)?;
            child.wait()?;
            Ok(bytes as f64 / (1u64 << 30) as f64 / begun.elapsed().as_secs_f64())
        }
        To::Fresh | To::Process => {
            let (jobs, processes) = match (to, writer.ends_with("MiB")) {
                (To::Fresh, true) => (100, 1),
                (To::Fresh, false) => (20_000, 1),
                _ => (1, 50),
            };
            let begun = Instant::now();
            for _ in 0..processes {
                let mut child = start(writer, cpu, jobs, Stdio::piped())?;
                let mut pipe = child.stdout.take().ok_or(io::ErrorKind::NotFound)?;
                let mut buffer = vec![0; SOURCE];
                while pipe.read(&mut buffer)? > 0 {}
                child.wait()?;
            }
            Ok((jobs * processes) as f64 / 1e3 / begun.elapsed().as_secs_f64())
        }
    }
}

/// GiB/s that arrive.
fn stream(from: OwnedFd, splice: bool) -> io::Result<f64> {
    let null = std::fs::File::options().write(true).open("/dev/null")?;
    let mut buffer = vec![0; SOURCE];
    let mut from = std::fs::File::from(from);
    let mut take = || {
        if splice {
            let flags = fullbore_sys::calls::SpliceFlags::empty();
            return fullbore_sys::calls::splice(from.as_fd(), &null, 1 << 30, flags);
        }
        from.read(&mut buffer)
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
    read_for(Duration::from_millis(400))
}
