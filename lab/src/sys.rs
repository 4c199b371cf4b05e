//! What only the lab needs of the system.
#![allow(unsafe_code)]

pub(crate) mod gup_pages;
pub(crate) mod mapping;
pub mod start;

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use fullbore_sys::pages::Pages;
use fullbore_sys::write::recycle::Recycle;
use fullbore_sys::{Error, Result};
use rustix::fs::MemfdFlags;
use rustix::mm::{MapFlags, ProtFlags};
use rustix::thread::CpuSet;
use rustix::time::ClockId;

/// What this process has used since it started.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// CPU time, user and system, and that of child processes that have ended: those that `cow` makes are part of its price.
    pub cpu: Duration,
    /// Context switches because it waited.
    pub voluntary_switches: u64,
    /// Context switches because something else ran.
    pub involuntary_switches: u64,
    /// Page faults without I/O.
    pub minor_faults: u64,
    /// Time it could have run and was not let to, where /proc/self/schedstat tells.
    pub run_queue_wait: Option<Duration>,
}

/// Reads what this process has used so far.
pub fn usage() -> Usage {
    let raw = rusage(libc::RUSAGE_SELF);
    let cpu = rustix::time::clock_gettime(ClockId::ProcessCPUTime);
    let children = rusage(libc::RUSAGE_CHILDREN);
    let of_children = [children.ru_utime, children.ru_stime]
        .map(|t| Duration::new(t.tv_sec as u64, t.tv_usec as u32 * 1000));
    Usage {
        cpu: Duration::new(cpu.tv_sec as u64, cpu.tv_nsec as u32)
            + of_children.iter().sum::<Duration>(),
        voluntary_switches: raw.ru_nvcsw as u64,
        involuntary_switches: raw.ru_nivcsw as u64,
        minor_faults: raw.ru_minflt as u64,
        run_queue_wait: std::fs::read_to_string("/proc/self/schedstat")
            .ok()
            .and_then(|text| run_queue_wait(&text)),
    }
}

fn rusage(who: libc::c_int) -> libc::rusage {
    let mut raw = MaybeUninit::<libc::rusage>::zeroed();
    // Only a sandbox refuses it; then it has counted nothing.
    // SAFETY: `raw` is large enough for what getrusage(2) writes.
    let _ = unsafe { libc::getrusage(who, raw.as_mut_ptr()) };
    // SAFETY: all integers, for which the zeros that they are at first are valid.
    unsafe { raw.assume_init() }
}

/// The registers EAX to EDX after the instruction CPUID; `None` where processors have none.
#[cfg(target_arch = "x86_64")]
#[allow(unused_unsafe, reason = "later versions of Rust call it safe")]
pub(crate) fn cpuid(leaf: u32) -> Option<[u32; 4]> {
    // SAFETY: every x86-64 processor has this instruction, and it changes nothing but these registers.
    let r = unsafe { core::arch::x86_64::__cpuid(leaf) };
    Some([r.eax, r.ebx, r.ecx, r.edx])
}

#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn cpuid(_: u32) -> Option<[u32; 4]> {
    None
}

/// The system's message, without Rust's `(os error N)`.
pub(crate) fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error")
        .next()
        .unwrap_or_default()
        .to_owned()
}

/// Now, in seconds since 1970 UTC: when a run began.
pub(crate) fn unix_s() -> u64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |d| d.as_secs())
}

/// Now, in ns of `CLOCK_MONOTONIC`: the clock that [`std::time::Instant`] and the records of perf share.
pub(crate) fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// CPU time and time waited for a CPU, both in ns, and how often it was given one. Before Linux 5.14 these were zeros after
/// a start with `nodelayacct`, unless CONFIG_SCHEDSTATS was set; a process that reads this has been given a CPU.
fn run_queue_wait(schedstat: &str) -> Option<Duration> {
    let mut fields = schedstat.split_whitespace().skip(1);
    let ns = fields.next()?.parse().ok()?;
    let times: u64 = fields.next()?.parse().ok()?;
    (times > 0).then_some(Duration::from_nanos(ns))
}

/// Enters the kernel and leaves it again (`getppid(2)`), past the C library and the vDSO.
///
/// # Errors
/// A sandbox refuses even that.
pub(crate) fn enter_kernel() -> io::Result<()> {
    // SAFETY: the call has no arguments and touches no memory.
    let parent = unsafe { libc::syscall(libc::SYS_getppid) };
    if parent < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Lets the calling thread run on one CPU only.
///
/// # Errors
/// There is no such CPU, or this process may not use it.
pub fn pin_to_cpu(cpu: usize) -> Result<()> {
    let refused = |error: io::Error| {
        Error::system(
            format!("CPU {cpu} refused"),
            error,
            "choose one that `nproc` and /sys/devices/system/cpu/online show, and that this process may use (taskset -p $$)",
        )
    };
    if cpu >= CpuSet::MAX_CPU {
        return Err(refused(io::Error::from_raw_os_error(libc::EINVAL)));
    }
    let mut set = CpuSet::new();
    set.set(cpu);
    rustix::thread::sched_setaffinity(None, &set).map_err(|e| refused(e.into()))
}

/// Two buffers of the pair's `vmsplice` writer: separate ones, or the halves of one.
pub(crate) fn recycled_buffers(first: Pages, second: Option<Pages>) -> Recycle {
    match second {
        // SAFETY: this is the lab, whose user owns both ends and chose vmsplice by name; the pair's readers read or
        // drop. Buffers are written again only with `--verify`, after `has_left` said that their data left the pipe.
        Some(second) => unsafe { Recycle::separate(first, second) },
        // SAFETY: as above.
        None => unsafe { Recycle::halves(first) },
    }
}

/// The pool of the pair's `reuse` writer, in pieces of `len` bytes.
pub(crate) fn recycled_pool(memory: Pages, len: usize) -> Recycle {
    // SAFETY: this is the lab, whose user owns both ends and chose reuse by name; the pair's readers read or drop. A piece is
    // written again after at least the pipe's capacity was lent since, which `Config::fits_into_pool` makes sure of, and with
    // `--verify` only after `has_left` has said so, too. Without it the same bytes are written again, so that a reader who
    // breaks these rules sees none of them change.
    unsafe { Recycle::pool(memory, len) }
}

/// Does some work on a thread of its own, so that the caller stays on its CPUs.
///
/// # Errors
/// There is no further thread, or what `work` says.
pub fn on_own_thread<T: Send>(work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().spawn_scoped(scope, work);
        thread
            .map_err(|e| Error::system("no thread", e, "raise the limit (ulimit -u)"))?
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Whether this process may run on this CPU.
///
/// # Errors
/// It may not.
pub fn try_cpu(cpu: usize) -> Result<()> {
    on_own_thread(|| pin_to_cpu(cpu))
}

/// Memory that the processes of a trial share: the phase of the trial, and a ring of blocks that needs no kernel.
#[derive(Debug)]
pub struct SharedMemory {
    start: NonNull<u8>,
    memory: OwnedFd,
}

// SAFETY: access is atomic or follows the ring's protocol, and the mapping lasts as long as the value.
unsafe impl Send for SharedMemory {}
// SAFETY: as above.
unsafe impl Sync for SharedMemory {}

/// One number, alone in its cache lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shared {
    /// Phase of the trial.
    Phase = 0,
    /// Blocks that the writer has put into the ring since the start.
    Written = 256,
    /// Blocks that the reader has taken out.
    Read = 512,
}

/// Bytes of a block of the ring.
pub const BLOCK: usize = 128 << 10;
/// Blocks in the ring.
pub const BLOCKS: usize = 16;
/// The ring begins here, on a page boundary of any page size.
const RING: usize = 64 << 10;
const SHARED_LEN: usize = RING + BLOCK * BLOCKS;

impl SharedMemory {
    /// Creates it, all zero.
    ///
    /// # Errors
    /// No memory or no descriptors left.
    pub fn create() -> io::Result<Self> {
        let memory = rustix::fs::memfd_create(c"fullbore", MemfdFlags::CLOEXEC)?;
        rustix::fs::ftruncate(&memory, SHARED_LEN as u64)?;
        Self::open(memory)
    }

    /// Maps what another process has created.
    ///
    /// # Errors
    /// The descriptor cannot be mapped.
    pub fn open(memory: OwnedFd) -> io::Result<Self> {
        if rustix::fs::fstat(&memory)?.st_size < SHARED_LEN as i64 {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let null = std::ptr::null_mut();
        // SAFETY: a fresh mapping at an address of the kernel's choice.
        let start =
            unsafe { rustix::mm::mmap(null, SHARED_LEN, access, MapFlags::SHARED, &memory, 0) }?;
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, memory })
    }

    /// A descriptor to hand to another process.
    ///
    /// # Errors
    /// No descriptors left.
    pub fn duplicate(&self) -> io::Result<OwnedFd> {
        self.memory.try_clone()
    }

    /// One of the numbers.
    pub fn number(&self, which: Shared) -> &AtomicU64 {
        // SAFETY: the offset is inside the mapping.
        let at = unsafe { self.start.add(which as usize) };
        // SAFETY: mapped until drop, aligned, never truncated by us or our own child processes, and these bytes are only
        // ever used as this atomic number.
        unsafe { at.cast().as_ref() }
    }

    fn block(&self, index: u64) -> *mut u8 {
        let index = (index % BLOCKS as u64) as usize;
        // SAFETY: inside the mapping.
        unsafe { self.start.as_ptr().add(RING + index * BLOCK) }
    }

    /// Copies up to one block into the ring, once there is room: the block must not hold what was not read yet.
    pub(crate) fn put(&self, index: u64, bytes: &[u8]) {
        let len = bytes.len().min(BLOCK);
        // SAFETY: the block is inside the mapping, apart from `bytes`, and the reader does not look at it before
        // `Written` says so.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.block(index), len) };
    }

    /// Copies up to one block out of the ring, which the writer must have put there.
    pub(crate) fn take(&self, index: u64, buffer: &mut [u8]) {
        let len = buffer.len().min(BLOCK);
        // SAFETY: the block is inside the mapping, apart from `buffer`, and the writer does not touch it before `Read`
        // says so.
        unsafe { std::ptr::copy_nonoverlapping(self.block(index), buffer.as_mut_ptr(), len) };
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and no reference outlives `self`.
        let result = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), SHARED_LEN) };
        debug_assert!(result.is_ok(), "munmap of our own mapping: {result:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn shared_memory_is_seen_through_another_mapping() {
        let one = SharedMemory::create().unwrap();
        let fd = one.duplicate().unwrap();
        let two = SharedMemory::open(fd).unwrap();
        one.put(BLOCKS as u64 + 3, b"seven");
        one.number(Shared::Written).store(7, Ordering::Release);
        assert_eq!(two.number(Shared::Written).load(Ordering::Acquire), 7);
        assert_eq!(two.number(Shared::Read).load(Ordering::Acquire), 0);
        let mut got = [0; 5];
        two.take(3, &mut got);
        assert_eq!(&got, b"seven");
    }

    #[test]
    fn time_of_children_that_have_ended_counts() {
        let own = || {
            let now = rustix::time::clock_gettime(ClockId::ProcessCPUTime);
            Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
        };
        let (own_before, before) = (own(), usage().cpu);
        let work = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";
        let child = std::process::Command::new("sh").args(["-c", work]).status();
        assert!(child.unwrap().success());
        let (after, own_after) = (usage().cpu, own());
        assert!(after - before > own_after - own_before);
    }

    #[test]
    fn a_cpu_that_does_not_exist_is_named() {
        for cpu in [1023, 99_999, usize::MAX] {
            let text = pin_to_cpu(cpu).unwrap_err().to_string();
            assert!(text.starts_with(&format!("CPU {cpu} refused")), "{text}");
        }
    }

    #[test]
    fn schedstat_second_number_is_the_wait() {
        assert_eq!(
            run_queue_wait("5 1500 9\n"),
            Some(Duration::from_nanos(1500))
        );
        assert_eq!(run_queue_wait(""), None);
        assert_eq!(run_queue_wait("0 0 0\n"), None, "not kept");
    }
}
