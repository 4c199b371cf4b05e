//! Call chains of a running process, by `perf_event_open(2)`.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use fullbore_sys::{Error, Result};
use perf_event::events::{Hardware, Software};
use perf_event::{Builder, Clock, SampleFlag, Sampler};

/// What is counted between two samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counter {
    /// Cycles of the CPU.
    Cycles,
    /// The kernel's own clock, where no cycles are counted: in most virtual machines.
    CpuClock,
}

impl std::fmt::Display for Counter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Cycles => "cycles",
            Self::CpuClock => "cpu-clock",
        })
    }
}

/// How to sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampling {
    /// What is counted.
    pub event: Counter,
    /// Samples per second of CPU time.
    pub frequency_hz: u64,
    /// Whether the kernel's part is sampled, too.
    pub kernel: bool,
    /// Whether CPUs are sampled, and what is not of the two processes is left out. Otherwise the kernel stops the clock
    /// when a process goes to sleep, and sets it up when it comes back: in a guest some µs each, which a pair on two CPUs
    /// that sleeps and wakes all the time pays with a sixth of its rate.
    pub cpu_wide: bool,
}

/// What this process may sample on this CPU, the best first. A warning says what is missing and how to permit it.
///
/// # Errors
/// Nothing may be sampled; the message has the command that permits it.
pub fn permitted(frequency_hz: u64, cpu: usize) -> Result<(Sampling, Option<String>)> {
    let try_one = |event, kernel, cpu_wide| {
        let sampling = Sampling {
            event,
            frequency_hz,
            kernel,
            cpu_wide,
        };
        builder(sampling, cpu).build().map(|_| sampling)
    };
    let with_kernel = || {
        [
            (true, Counter::Cycles),
            (true, Counter::CpuClock),
            (false, Counter::Cycles),
            (false, Counter::CpuClock),
        ]
        .into_iter()
        .find_map(|(cpu_wide, event)| try_one(event, true, cpu_wide).ok())
    };
    let symbols_hidden = super::hidden::kernel_symbols_hidden();
    if !symbols_hidden && let Some(sampling) = with_kernel() {
        return Ok((sampling, None));
    }
    // The clock counts in ns, so that what it does not see is known, too.
    match try_one(Counter::CpuClock, false, false) {
        Ok(sampling) => {
            let why = if symbols_hidden {
                "the kernel hides its addresses: `sysctl kernel.kptr_restrict=0 kernel.perf_event_paranoid=1` as root shows them"
            } else {
                "the kernel's part may not be sampled: `sysctl kernel.perf_event_paranoid=1` as root permits it"
            };
            Ok((sampling, Some(format!("user code only: {why}"))))
        }
        Err(e) => Err(refused(e)),
    }
}

/// Whether the processes that run this program can be sampled so: events are dropped without a word when a process becomes
/// a program that its user may not read.
///
/// # Errors
/// They cannot; the message has the command that permits it.
pub fn may_be_read(program: &Path, sampling: Sampling) -> Result<()> {
    match File::open(program) {
        Err(e) if !sampling.cpu_wide && e.kind() == io::ErrorKind::PermissionDenied => {
            let what_to_do = format!(
                "sampling a program takes leave to read it: `chmod a+r {}`, or copy it",
                program.display()
            );
            Err(Error::system(REFUSED, e, what_to_do))
        }
        _ => Ok(()),
    }
}

const REFUSED: &str = "this process may not sample";

fn refused(e: io::Error) -> Error {
    let paranoid = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
    let paranoid = paranoid.ok().and_then(|p| p.trim().parse::<i32>().ok());
    let what_to_do = match (e.raw_os_error(), paranoid) {
        (Some(libc::EACCES | libc::EPERM), Some(3..) | None) => {
            "permit it with `sysctl kernel.perf_event_paranoid=1` as root"
        }
        (Some(libc::EACCES | libc::EPERM), _) => {
            "a sandbox refuses perf_event_open: run outside of it, or permit it, for example with `docker run --security-opt seccomp=unconfined --cap-add PERFMON`"
        }
        (Some(libc::ENOSYS), _) => {
            "this kernel has no perf events (CONFIG_PERF_EVENTS), or a sandbox hides them: run elsewhere"
        }
        _ => "run it again with another --frequency, or elsewhere",
    };
    Error::system(REFUSED, e, what_to_do)
}

/// Samples one CPU: of all that runs there, or of what the calling thread starts.
fn builder(sampling: Sampling, cpu: usize) -> Builder<'static> {
    let mut builder = match sampling.event {
        Counter::Cycles => Builder::new(Hardware::CPU_CYCLES),
        Counter::CpuClock => Builder::new(Software::CPU_CLOCK),
    };
    builder
        .sample_frequency(sampling.frequency_hz.min(max_rate()))
        .sample(SampleFlag::TID)
        .sample(SampleFlag::TIME)
        .sample(SampleFlag::PERIOD)
        .sample(SampleFlag::CALLCHAIN)
        .clockid(Clock::MONOTONIC)
        .exclude_kernel(!sampling.kernel)
        .exclude_hv(true)
        .one_cpu(cpu);
    if sampling.cpu_wide {
        builder.any_pid();
    } else {
        // Processes that inherited the same events hand them to each other, still running, when one follows the other on
        // a CPU. Events of their own would be stopped and set up each time: a pair that shares a CPU and switches 100,000
        // times a second would lose more than half of its rate.
        builder.observe_self().inherit(true);
    }
    builder
}

/// The kernel refuses more, and lowers it where samples take too long.
fn max_rate() -> u64 {
    let text = std::fs::read_to_string("/proc/sys/kernel/perf_event_max_sample_rate");
    text.ok()
        .and_then(|t| t.trim().parse().ok())
        .unwrap_or(u64::MAX)
}

/// One sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedSample {
    /// When, in ns of `CLOCK_MONOTONIC`.
    pub time_ns: u64,
    /// What was counted since the sample before: ns with [`Counter::CpuClock`].
    pub period: u64,
    /// Addresses in the kernel, innermost first.
    pub kernel: Vec<u64>,
    /// Addresses in the program, innermost first.
    pub user: Vec<u64>,
}

/// What was recorded of one process.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    /// Samples in order.
    pub samples: Vec<RecordedSample>,
    /// Samples that the kernel had no room for.
    pub lost: u64,
}

/// Records both sides of a pair until it is stopped.
#[derive(Debug)]
pub struct Recorder {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<[Recording; 2]>,
}

/// The buffer is emptied so often: at the highest frequency deep call chains fill 2 MiB in 20 ms.
const PAUSE: Duration = Duration::from_millis(10);

/// The events of a pair that is still to be started.
pub struct Events(Vec<MappedRing>);

impl Events {
    /// Prepares to record the two processes that the calling thread starts next, of one thread each, on these CPUs.
    ///
    /// # Errors
    /// The kernel refuses to sample them.
    pub fn open(cpus: [usize; 2], sampling: Sampling) -> Result<Self> {
        let mut sources = vec![MappedRing::open(0, cpus[0], sampling).map_err(refused)?];
        // A CPU that both share is recorded once.
        if cpus[0] != cpus[1] {
            sources.push(MappedRing::open(1, cpus[1], sampling).map_err(refused)?);
        }
        Ok(Self(sources))
    }
}

impl Recorder {
    /// Starts recording the two processes, which are on their CPUs.
    ///
    /// # Errors
    /// The kernel refuses to sample them.
    pub fn start(events: Events, processes: [u32; 2]) -> Result<Self> {
        let Events(mut sources) = events;
        for source in &mut sources {
            source.samples.enable().map_err(refused)?;
        }
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let record = move || {
            let mut recordings = [Recording::default(), Recording::default()];
            loop {
                // Looked at first, so that what came before the stop is taken.
                let last = stopped.load(Ordering::Acquire);
                for source in &mut sources {
                    source.drain(processes, &mut recordings);
                }
                if last {
                    return recordings;
                }
                std::thread::sleep(PAUSE);
            }
        };
        let thread = std::thread::Builder::new()
            .name("recorder".into())
            .spawn(record)
            .map_err(|e| Error::system("no thread to record with", e, "end other programs"))?;
        Ok(Self { stop, thread })
    }

    /// Ends recording: both processes have ended.
    ///
    /// # Errors
    /// The recording thread failed.
    pub fn stop(self) -> Result<[Recording; 2]> {
        self.stop.store(true, Ordering::Release);
        self.thread
            .join()
            .map_err(|_| Error::new("the recording is lost", "its thread failed", "run it again"))
    }
}

/// The events of a CPU.
struct MappedRing {
    /// The side that is told what was lost.
    side: usize,
    samples: Sampler,
}

/// Bytes for samples; without privilege `perf_event_mlock_kb` (516 KiB per CPU) limits all buffers together, so less is
/// tried next.
const SIZES: [usize; 3] = [2 << 20, 128 << 10, 32 << 10];

impl MappedRing {
    fn open(side: usize, cpu: usize, sampling: Sampling) -> io::Result<Self> {
        let builder = builder(sampling, cpu);
        let mut error = io::ErrorKind::Unsupported.into();
        for bytes in SIZES {
            match builder.build().and_then(|counter| counter.sampled(bytes)) {
                Ok(samples) => return Ok(Self { side, samples }),
                Err(e) => error = e,
            }
        }
        Err(error)
    }

    /// Hands what was recorded to whom it belongs to; what else ran on the CPU belongs to nobody.
    fn drain(&mut self, processes: [u32; 2], recordings: &mut [Recording; 2]) {
        let side = |pid| processes.iter().position(|p| *p == pid);
        while let Some(record) = self.samples.next_record() {
            match record.parse_record() {
                Ok(perf_event::data::Record::Sample(sample)) => {
                    if let Some(i) = sample.pid().and_then(side) {
                        let (kernel, user) = chains(sample.callchain().unwrap_or(&[]));
                        recordings[i].samples.push(RecordedSample {
                            time_ns: sample.time().unwrap_or(0),
                            period: sample.period().unwrap_or(0),
                            kernel,
                            user,
                        });
                    }
                }
                Ok(perf_event::data::Record::Lost(lost)) => recordings[self.side].lost += lost.lost,
                _ => {}
            }
        }
    }
}

/// Numbers above this mark what follows in a call chain.
const PERF_CONTEXT_MAX: u64 = -4095i64 as u64;
const PERF_CONTEXT_KERNEL: u64 = -128i64 as u64;
const PERF_CONTEXT_USER: u64 = -512i64 as u64;

/// The parts of a call chain in the kernel and in the program.
fn chains(chain: &[u64]) -> (Vec<u64>, Vec<u64>) {
    let (mut kernel, mut user) = (Vec::new(), Vec::new());
    let mut context = 0;
    for &address in chain {
        if address >= PERF_CONTEXT_MAX {
            context = address;
            continue;
        }
        match context {
            PERF_CONTEXT_KERNEL => kernel.push(address),
            PERF_CONTEXT_USER => user.push(address),
            _ => {}
        }
    }
    (kernel, user)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn call_chain_is_split_at_its_marks() {
        let chain = [
            PERF_CONTEXT_KERNEL,
            0xffff_0001,
            0xffff_0002,
            PERF_CONTEXT_USER,
            0x1000,
        ];
        assert_eq!(
            chains(&chain),
            (vec![0xffff_0001, 0xffff_0002], vec![0x1000])
        );
        assert_eq!(chains(&[]), (vec![], vec![]));
    }

    #[test]
    fn own_process_can_be_recorded_or_says_why_not() {
        match permitted(999, 0) {
            Ok((sampling, warning)) => assert_eq!(sampling.kernel, warning.is_none()),
            Err(e) => assert!(
                e.to_string().starts_with("this process may not sample"),
                "{e}"
            ),
        }
    }
}
