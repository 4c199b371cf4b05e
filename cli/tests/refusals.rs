//! Every system call that we use, refused with every errno that a sandbox, a limit or an old kernel may have for it: what
//! arrives is right, or there is a clear error and exit code 1. Nothing hangs, and nothing is missing in silence.
//!
//! A filter refuses a call from the first instruction of the program, so a run is one call with one errno, for one job. The
//! calls are those that `strace -f` shows of these jobs, less the ones that cannot be refused without ending any program:
//!
//! | not refused | why |
//! | --- | --- |
//! | `execve`, `exit`, `exit_group`, `rt_sigreturn` | the process itself |
//! | `arch_prctl`, `set_tid_address`, `set_robust_list`, `rseq`, `access`, `pread64`, `brk`, `mmap`, `munmap`, `mprotect`, `mremap`; `openat`, `read`, `close`, `fstat` of other files than ours | the loader and the C library, before `main` |
//! | `rt_sigaction`, `poll` in other ways than `EINVAL`, `EAGAIN` and `ENOMEM` | Rust's start ends the process |
//! | `futex`, `clock_nanosleep` | every lock; Rust's `sleep` panics |
//! | any call with `EINTR` | means "again", and is repeated for ever by everyone |
//! | `read` and `write` with `EAGAIN` on a descriptor that blocks | means "later"; see `splice`, which is waited for a hundred times |

mod support;

#[path = "refusals/pairs.rs"]
mod pairs;
#[path = "refusals/tools.rs"]
mod tools;

use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use libc::{EACCES, EAGAIN, EINVAL, EIO, EMFILE, ENFILE, ENOBUFS, ENOMEM, ENOSYS, EPERM, ESRCH};

use support::seccomp;

/// What is refused.
#[derive(Clone, Copy, Debug)]
pub struct Refusal {
    name: &'static str,
    calls: &'static [i64],
    when: When,
    errors: &'static [i32],
}

/// Which of these calls.
#[derive(Clone, Copy, Debug)]
enum When {
    Always,
    /// Where this argument is this number, a descriptor for example.
    Is(u8, u32),
    /// Where this argument has one of these bits.
    Has(u8, u32),
}

const ANY: &[i32] = &[EPERM, EACCES, ENOSYS, ENOMEM, EAGAIN, EINVAL, EIO];
const NEW: &[i32] = &[
    EPERM, EACCES, ENOSYS, ENOMEM, EAGAIN, EINVAL, EMFILE, ENFILE,
];
const SEND: &[i32] = &[EPERM, EACCES, ENOSYS, ENOMEM, EAGAIN, EINVAL, ENOBUFS];
/// Of a descriptor that blocks.
const DATA: &[i32] = &[EPERM, EACCES, ENOSYS, ENOMEM, EINVAL, EIO];
const PID: &[i32] = &[EPERM, ENOSYS, EINVAL, ESRCH];

const fn refusal(
    name: &'static str,
    calls: &'static [i64],
    when: When,
    errors: &'static [i32],
) -> Refusal {
    Refusal {
        name,
        calls,
        when,
        errors,
    }
}

use When::{Always, Has, Is};

const WRITING: u32 = (libc::O_WRONLY | libc::O_RDWR | libc::O_CREAT) as u32;

/// Those that no program can do without at its start are refused for our descriptors only.
pub const REFUSALS: &[Refusal] = &[
    refusal("splice", &[libc::SYS_splice], Always, ANY),
    refusal("tee", &[libc::SYS_tee], Always, ANY),
    refusal("vmsplice", &[libc::SYS_vmsplice], Always, DATA),
    refusal("copy_file_range", &[libc::SYS_copy_file_range], Always, ANY),
    refusal("read of 0", &[libc::SYS_read], Is(0, 0), DATA),
    refusal("write to 1", &[libc::SYS_write], Is(0, 1), DATA),
    refusal("write to 2", &[libc::SYS_write], Is(0, 2), DATA),
    refusal("pipe", &[libc::SYS_pipe2], Always, NEW),
    refusal("socketpair", &[libc::SYS_socketpair], Always, NEW),
    refusal("socket", &[libc::SYS_socket], Always, NEW),
    refusal("bind", &[libc::SYS_bind], Always, ANY),
    refusal("listen", &[libc::SYS_listen], Always, ANY),
    refusal("accept", &[libc::SYS_accept4], Always, ANY),
    refusal("sendmmsg", &[libc::SYS_sendmmsg], Always, SEND),
    refusal("sendto", &[libc::SYS_sendto], Always, SEND),
    refusal("recvfrom", &[libc::SYS_recvfrom], Always, ANY),
    refusal("setsockopt", &[libc::SYS_setsockopt], Always, ANY),
    refusal("getsockopt", &[libc::SYS_getsockopt], Always, ANY),
    refusal("madvise", &[libc::SYS_madvise], Always, ANY),
    refusal("mlock", &[libc::SYS_mlock], Always, ANY),
    refusal("ioctl", &[libc::SYS_ioctl], Always, ANY),
    refusal("fcntl", &[libc::SYS_fcntl], Always, ANY),
    refusal(
        "F_SETPIPE_SZ",
        &[libc::SYS_fcntl],
        Is(1, libc::F_SETPIPE_SZ as u32),
        ANY,
    ),
    refusal(
        "F_GETPIPE_SZ",
        &[libc::SYS_fcntl],
        Is(1, libc::F_GETPIPE_SZ as u32),
        ANY,
    ),
    refusal(
        "F_GETFL",
        &[libc::SYS_fcntl],
        Is(1, libc::F_GETFL as u32),
        ANY,
    ),
    refusal(
        "F_DUPFD_CLOEXEC",
        &[libc::SYS_fcntl],
        Is(1, libc::F_DUPFD_CLOEXEC as u32),
        NEW,
    ),
    refusal("ppoll", &[libc::SYS_ppoll], Always, ANY),
    #[cfg(target_arch = "x86_64")]
    refusal("poll", &[libc::SYS_poll], Always, &[EINVAL, EAGAIN, ENOMEM]),
    refusal("fadvise", &[libc::SYS_fadvise64], Always, ANY),
    refusal("lseek", &[libc::SYS_lseek], Always, ANY),
    refusal("statx", &[libc::SYS_statx], Always, ANY),
    refusal(
        "stat of 0",
        &[libc::SYS_fstat, libc::SYS_newfstatat],
        Is(0, 0),
        ANY,
    ),
    refusal(
        "stat of 1",
        &[libc::SYS_fstat, libc::SYS_newfstatat],
        Is(0, 1),
        ANY,
    ),
    refusal(
        "open for writing",
        &[libc::SYS_openat],
        Has(2, WRITING),
        NEW,
    ),
    refusal("readlink", &[libc::SYS_readlinkat], Always, ANY),
    refusal("prctl", &[libc::SYS_prctl], Always, ANY),
    refusal("prlimit", &[libc::SYS_prlimit64], Always, ANY),
    refusal("threads", &[libc::SYS_clone3, libc::SYS_clone], Always, ANY),
    refusal("wait", &[libc::SYS_wait4], Always, ANY),
    refusal("sigprocmask", &[libc::SYS_rt_sigprocmask], Always, ANY),
    refusal("sigaltstack", &[libc::SYS_sigaltstack], Always, ANY),
    refusal("getpid", &[libc::SYS_getpid, libc::SYS_gettid], Always, PID),
    refusal("getrandom", &[libc::SYS_getrandom], Always, ANY),
    refusal("getrusage", &[libc::SYS_getrusage], Always, ANY),
    refusal(
        "sched_getaffinity",
        &[libc::SYS_sched_getaffinity],
        Always,
        ANY,
    ),
    refusal("sched_yield", &[libc::SYS_sched_yield], Always, ANY),
    refusal("memfd_create", &[libc::SYS_memfd_create], Always, NEW),
    refusal("dup", &[libc::SYS_dup3], Always, NEW),
    refusal("unlink", &[libc::SYS_unlinkat], Always, ANY),
];

impl Refusal {
    fn install(&self, command: &mut Command, errno: i32) {
        match self.when {
            Always => seccomp::refuse(command, self.calls, errno),
            Is(argument, value) => {
                for &call in self.calls {
                    seccomp::refuse_value(command, call, argument, value, errno);
                }
            }
            Has(argument, mask) => {
                for &call in self.calls {
                    seccomp::refuse_flag(command, call, argument, mask, errno);
                }
            }
        }
    }
}

/// A refusal with one errno.
#[derive(Clone, Copy)]
pub struct Refused {
    refusal: &'static Refusal,
    errno: i32,
}

impl Refused {
    fn apply(self, command: &mut Command) {
        self.refusal.install(command, self.errno);
    }

    /// Whether nobody can be told anything.
    fn is_mute(self) -> bool {
        self.refusal.name == "write to 2"
    }
}

/// How much of the matrix is run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Extent {
    /// Each job with each call, by `EPERM` and by another errno in turn.
    Some,
    /// Each job with each call by each errno.
    All,
}

/// Runs `check` for each of so many jobs with each refusal, on all CPUs, and panics with whatever was wrong.
fn each(extent: Extent, jobs: usize, check: impl Fn(usize, Refused) -> Result<(), String> + Sync) {
    if let Some(why) = seccomp::refusal() {
        return support::skip(why);
    }
    let mut cases = Vec::new();
    for job in 0..jobs {
        for (i, refusal) in REFUSALS.iter().enumerate() {
            let turn = 1 + (job + i) % (refusal.errors.len() - 1);
            for (n, &errno) in refusal.errors.iter().enumerate() {
                if extent == Extent::All || n == 0 || n == turn {
                    cases.push((job, Refused { refusal, errno }));
                }
            }
        }
    }
    let (next, wrong) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some(&(job, refused)) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
            if let Err(why) = check(job, refused) {
                let errno = std::io::Error::from_raw_os_error(refused.errno);
                let line = format!("{} ({errno}): {why}", refused.refusal.name);
                wrong.lock().expect("no panic").push(line);
            }
        }
    };
    std::thread::scope(|scope| {
        let cpus = std::thread::available_parallelism().map_or(2, usize::from);
        for _ in 0..cpus {
            scope.spawn(work);
        }
    });
    let wrong = wrong.into_inner().expect("no panic");
    assert!(
        wrong.is_empty(),
        "{} of {} runs were wrong:\n{}",
        wrong.len(),
        cases.len(),
        wrong.join("\n")
    );
}

/// How long a run may take: it takes milliseconds, but the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(30);

/// Waits for its end; `None` if that did not come, and it was killed.
fn ended(child: &mut Child) -> Option<ExitStatus> {
    let since = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("its status") {
            return Some(status);
        }
        if since.elapsed() > PATIENCE {
            let _ = child.kill();
            let _ = child.wait();
            return None;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Whether it ended as it may: 0, or 1 with a clear error. Returns whether it was 0.
fn ended_well(
    what: &str,
    status: Option<ExitStatus>,
    said: &str,
    is_mute: bool,
) -> Result<bool, String> {
    let Some(status) = status else {
        return Err(format!("{what}: does not end; {said:?}"));
    };
    if let Some(signal) = status.signal() {
        return Err(format!("{what}: died by signal {signal}; {said:?}"));
    }
    let is_told = said
        .lines()
        .any(|line| line.starts_with("fullbore: ") && line.matches(": ").count() >= 2);
    match status.code() {
        Some(0) => Ok(true),
        Some(1) if is_told || is_mute => Ok(false),
        code => Err(format!("{what}: exit code {code:?}; {said:?}")),
    }
}
