//! Kernels that lack a system call, and sandboxes that refuse one.

use libc::{EINVAL, ENOSYS, EPERM};
use serde_json::Value;

use crate::answers::{GUP, doctor, measured_or_explained, run, state_of, unusable, usable};
use crate::support::{fullbore, seccomp, skip};

const ERRORS: [i32; 3] = [EPERM, ENOSYS, EINVAL];

/// Runs both commands with these system calls refused, in each way, and asserts a clear answer. Calls `look` with the
/// doctor's checks.
#[track_caller]
fn answer_without(calls: &[i64], look: impl Fn(&[Value])) {
    answer_without_by(calls, &ERRORS, look);
}

#[track_caller]
fn answer_without_by(calls: &[i64], errors: &[i32], look: impl Fn(&[Value])) {
    if let Some(why) = seccomp::refusal() {
        return skip(why);
    }
    for &errno in errors {
        let mut command = doctor();
        seccomp::refuse(&mut command, calls, errno);
        look(&usable(&run(command)));
        let mut command = fullbore(GUP);
        seccomp::refuse(&mut command, calls, errno);
        measured_or_explained(&run(command));
    }
}

fn missing(id: &'static str) -> impl Fn(&[Value]) {
    move |checks| assert_eq!(state_of(checks, id), "missing", "{id}")
}

#[test]
fn filter_is_seen() {
    answer_without_by(&[libc::SYS_acct], &[EPERM], |checks| {
        assert_eq!(state_of(checks, "seccomp"), "costs you");
    });
}

#[test]
fn answers_without_vmsplice() {
    answer_without(&[libc::SYS_vmsplice], |checks| {
        missing("vmsplice")(checks);
        missing("fresh")(checks);
        assert_eq!(state_of(checks, "vmsplice-by-reference"), "unknown");
    });
}

#[test]
fn answers_without_splice() {
    answer_without(&[libc::SYS_splice], |checks| {
        missing("splice")(checks);
        missing("fat-slots")(checks);
    });
}

#[test]
fn answers_without_tee() {
    answer_without(&[libc::SYS_tee], missing("tee"));
}

#[test]
fn answers_without_sockets() {
    let calls = [libc::SYS_socketpair, libc::SYS_socket];
    answer_without(&calls, missing("fat-slots"));
}

#[test]
fn answers_without_messages() {
    let calls = [libc::SYS_sendmmsg, libc::SYS_sendmsg];
    answer_without(&calls, missing("fat-slots"));
}

#[test]
fn answers_without_advice_on_memory() {
    answer_without(&[libc::SYS_madvise], |checks| {
        assert_ne!(state_of(checks, "fresh"), "ok");
    });
}

#[test]
fn answers_without_choosing_cpus() {
    answer_without(&[libc::SYS_sched_setaffinity], |checks| {
        assert_eq!(state_of(checks, "wake-up"), "unknown");
    });
    answer_without(&[libc::SYS_sched_getaffinity], |checks| {
        assert_eq!(state_of(checks, "cpus"), "unknown");
    });
}

#[test]
fn answers_without_perf_events() {
    answer_without(&[libc::SYS_perf_event_open], missing("perf-event-paranoid"));
}

#[test]
fn answers_without_ioctl() {
    answer_without(&[libc::SYS_ioctl], |_| {});
}

#[test]
fn answers_without_fcntl() {
    answer_without(&[libc::SYS_fcntl], missing("pipe-max-size"));
}

#[test]
fn answers_without_what_is_asked_about_this_process() {
    let calls = [
        libc::SYS_prctl,
        libc::SYS_getppid,
        libc::SYS_memfd_create,
        libc::SYS_getrusage,
        libc::SYS_mlock,
        libc::SYS_readlinkat,
    ];
    answer_without(&calls, |_| {});
}

#[test]
fn answers_without_poll() {
    // The start of every Rust program ends it where poll(2) fails in other ways than this.
    answer_without_by(&[libc::SYS_ppoll], &ERRORS, |_| {});
    #[cfg(target_arch = "x86_64")]
    answer_without_by(&[libc::SYS_poll], &[EINVAL], |_| {});
}

#[test]
fn answers_without_reserved_pages() {
    if let Some(why) = seccomp::refusal() {
        return skip(why);
    }
    let mut command = fullbore(GUP);
    let flag = libc::MAP_HUGETLB as u32;
    seccomp::refuse_flag(&mut command, libc::SYS_mmap, 3, flag, EPERM);
    let run = run(command);
    measured_or_explained(&run);
    if run.status.success() {
        let rows = run.json()["rows"].clone();
        let hugetlb = rows
            .as_array()
            .expect("rows")
            .iter()
            .filter(|r| r["pages"] == "hugetlb");
        assert!(hugetlb.clone().count() == 2);
        assert!(hugetlb.clone().all(|r| r["refused"].is_string()), "{run}");
    }
}

#[test]
fn without_pipes_doctor_says_that_nothing_works() {
    if let Some(why) = seccomp::refusal() {
        return skip(why);
    }
    #[cfg(target_arch = "x86_64")]
    let calls = [libc::SYS_pipe, libc::SYS_pipe2];
    #[cfg(not(target_arch = "x86_64"))]
    let calls = [libc::SYS_pipe2];
    for errno in ERRORS {
        let mut command = doctor();
        seccomp::refuse(&mut command, &calls, errno);
        missing("pipe")(&unusable(&run(command)));
        let mut command = fullbore(GUP);
        seccomp::refuse(&mut command, &calls, errno);
        measured_or_explained(&run(command));
    }
}

#[test]
fn without_processes_doctor_says_that_nothing_works() {
    if let Some(why) = seccomp::refusal() {
        return skip(why);
    }
    #[cfg(target_arch = "x86_64")]
    let calls = [
        libc::SYS_clone,
        libc::SYS_clone3,
        libc::SYS_fork,
        libc::SYS_vfork,
    ];
    #[cfg(not(target_arch = "x86_64"))]
    let calls = [libc::SYS_clone, libc::SYS_clone3];
    for errno in ERRORS {
        let mut command = doctor();
        seccomp::refuse(&mut command, &calls, errno);
        // Not even threads.
        missing("process")(&unusable(&run(command)));
        let mut command = fullbore(GUP);
        seccomp::refuse(&mut command, &calls, errno);
        measured_or_explained(&run(command));
    }
}

#[test]
fn the_call_that_is_refused_is_the_one_that_is_named() {
    if let Some(why) = seccomp::refusal() {
        return skip(why);
    }
    let calls = [
        ("vmsplice", libc::SYS_vmsplice),
        ("splice", libc::SYS_splice),
        ("tee", libc::SYS_tee),
        ("no pipe", libc::SYS_pipe2),
    ];
    for (name, call) in calls {
        let mut command = fullbore(GUP);
        seccomp::refuse(&mut command, &[call], EPERM);
        let run = run(command);
        // Where the kernel has gup_test it needs none of them.
        if !run.status.success() {
            assert!(run.err.starts_with(&format!("fullbore: {name}")), "{run}");
        }
    }
}
