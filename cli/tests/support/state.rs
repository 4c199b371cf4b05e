//! What a process that goes on is doing: tests wait for that, never for some time.

use std::cell::Cell;
use std::fs;
use std::os::fd::AsFd;

use rustix::process::Pid;

use super::until;

/// So much CPU time, in ticks of 10 ms, without any progress is spinning: more than any tool needs to start.
const SPINNING: u64 = 3;

/// State and CPU time of each thread of a process, by its lines in /proc; none where it is gone.
fn threads(pid: Pid) -> Vec<(char, u64)> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{}/task", pid.as_raw_pid())) else {
        return Vec::new();
    };
    // A thread may end while this looks.
    let stats = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("stat")).ok());
    stats.filter_map(|stat| thread(&stat)).collect()
}

fn thread(stat: &str) -> Option<(char, u64)> {
    // After the name, which may hold anything: the state, and ten fields on user and system time.
    let fields: Vec<_> = stat.rsplit_once(") ")?.1.split(' ').collect();
    let ticks = |field: usize| fields.get(field)?.parse::<u64>().ok();
    Some((fields.first()?.chars().next()?, ticks(11)? + ticks(12)?))
}

/// CPU time of a process so far, in ticks of 10 ms.
pub fn ticks(pid: Pid) -> u64 {
    threads(pid).iter().map(|(_, ticks)| ticks).sum()
}

/// Waits until a signal has stopped a process, or it has ended before.
#[track_caller]
pub fn until_stopped(pid: Pid) {
    until("the process to stop", || {
        let threads = threads(pid);
        threads
            .iter()
            .all(|(state, _)| matches!(state, 'T' | 'Z' | 'X'))
    });
}

/// Waits until a process waits for the other side of its pipes: it sleeps in two looks, or it spins, and `progress`, such as
/// the bytes in its pipe, stays the same. One that has ended is not waited for: why it did is for the test to find out.
#[track_caller]
pub fn until_it_waits(pid: Pid, progress: impl Fn() -> u64) {
    let before = Cell::new((u64::MAX, 0, false));
    until("the process to wait", || {
        let (reached, since, slept) = before.get();
        let (now, threads) = (progress(), threads(pid));
        let used = threads.iter().map(|(_, ticks)| ticks).sum();
        let sleeps = threads
            .iter()
            .all(|(state, _)| matches!(state, 'S' | 'Z' | 'X'));
        if now != reached {
            before.set((now, used, false));
            return false;
        }
        before.set((reached, since, sleeps));
        sleeps && slept || used >= since + SPINNING
    });
}

/// Bytes that lie in a pipe.
pub fn waiting(pipe: impl AsFd) -> u64 {
    rustix::io::ioctl_fionread(pipe).expect("a pipe")
}
