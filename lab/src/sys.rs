//! What only the lab needs of the system.
#![allow(unsafe_code)]

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use fullbore::pages::Pages;
use fullbore::write::recycle::Recycle;
use fullbore::{Error, Result};
use rustix::fs::MemfdFlags;
use rustix::mm::{MapFlags, ProtFlags};
use rustix::thread::CpuSet;
use rustix::time::ClockId;

/// What this process has used since it started.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// CPU time, user and system.
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
#[must_use]
pub fn usage() -> Usage {
    let mut raw = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: `raw` is large enough for what getrusage(2) writes.
    let result = unsafe { libc::getrusage(libc::RUSAGE_SELF, raw.as_mut_ptr()) };
    debug_assert_eq!(result, 0, "getrusage of this process cannot fail");
    // SAFETY: all integers, for which zeroes are valid, and getrusage has filled them in.
    let raw = unsafe { raw.assume_init() };
    let cpu = rustix::time::clock_gettime(ClockId::ProcessCPUTime);
    Usage {
        cpu: Duration::new(cpu.tv_sec as u64, cpu.tv_nsec as u32),
        voluntary_switches: raw.ru_nvcsw as u64,
        involuntary_switches: raw.ru_nivcsw as u64,
        minor_faults: raw.ru_minflt as u64,
        run_queue_wait: std::fs::read_to_string("/proc/self/schedstat")
            .ok()
            .and_then(|text| run_queue_wait(&text)),
    }
}

fn run_queue_wait(schedstat: &str) -> Option<Duration> {
    let ns = schedstat.split_whitespace().nth(1)?.parse().ok()?;
    Some(Duration::from_nanos(ns))
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

/// One number that processes share, in a page of shared memory.
#[derive(Debug)]
pub struct SharedNumber {
    page: NonNull<AtomicU32>,
    memory: OwnedFd,
}

// SAFETY: all access is atomic, and the mapping lasts as long as the value.
unsafe impl Send for SharedNumber {}
// SAFETY: as above.
unsafe impl Sync for SharedNumber {}

impl SharedNumber {
    /// Creates one, with value zero.
    ///
    /// # Errors
    /// No memory or no descriptors left.
    pub fn create() -> io::Result<Self> {
        let memory = rustix::fs::memfd_create(c"fullbore", MemfdFlags::CLOEXEC)?;
        rustix::fs::ftruncate(&memory, rustix::param::page_size() as u64)?;
        Self::open(memory)
    }

    /// Maps one that another process has created.
    ///
    /// # Errors
    /// The descriptor cannot be mapped.
    pub fn open(memory: OwnedFd) -> io::Result<Self> {
        let len = rustix::param::page_size();
        if rustix::fs::fstat(&memory)?.st_size < len as i64 {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a fresh mapping at an address of the kernel's choice.
        let page = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                len,
                access,
                MapFlags::SHARED,
                &memory,
                0,
            )
        }?;
        let page = NonNull::new(page.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { page, memory })
    }

    /// The descriptor to hand to the other process.
    pub fn descriptor(&self) -> impl AsFd + '_ {
        &self.memory
    }

    /// The number.
    #[must_use]
    pub fn get(&self) -> &AtomicU32 {
        // SAFETY: the page is mapped until drop, aligned, never truncated by us or our own child processes, and only
        // ever used as this atomic number.
        unsafe { self.page.as_ref() }
    }
}

impl Drop for SharedNumber {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and no reference outlives `self`.
        let result =
            unsafe { rustix::mm::munmap(self.page.as_ptr().cast(), rustix::param::page_size()) };
        debug_assert!(result.is_ok(), "munmap of our own mapping: {result:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn shared_number_is_seen_through_another_mapping() {
        let one = SharedNumber::create().unwrap();
        let fd = rustix::io::dup(one.descriptor()).unwrap();
        let two = SharedNumber::open(fd).unwrap();
        one.get().store(7, Ordering::Release);
        assert_eq!(two.get().load(Ordering::Acquire), 7);
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
    }
}
