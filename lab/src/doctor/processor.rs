//! Processors: what they share, what they are slowed down by, and what a call and a wake-up cost on them.

use std::collections::BTreeMap;

use super::Check;
use super::Presence;
use super::cgroup;
use super::cost::{MeasuredCosts, steal_since_boot};
use crate::machine::travel::{Distance, LONGEST_TRAVEL_NS, distance};
use crate::machine::{CpuPair, Hypervisor, Machine, choose_cpus, read};
use crate::stats::Estimate;

pub(super) struct Facts {
    pub(super) allowed: usize,
    pub(super) pair: Option<CpuPair>,
    /// CPUs' worth of time that the cgroup may use; outer `None`: not known.
    pub(super) quota: Option<Option<f64>>,
    pub(super) mitigations: BTreeMap<String, String>,
    pub(super) tells_mitigations: bool,
    pub(super) hypervisor: Option<Hypervisor>,
    /// Whether anything was there to tell a hypervisor by.
    pub(super) tells_hypervisor: bool,
    /// Share of the time since boot.
    pub(super) steal: Option<f64>,
    pub(super) governor: Option<String>,
    pub(super) cpufreq: Presence,
    /// Share of the last 10 s in which somebody had to wait, by what for.
    pub(super) pressure: BTreeMap<&'static str, f64>,
}

impl Facts {
    pub(super) fn read(machine: &Machine) -> Self {
        let pair = choose_cpus(machine);
        let cpu = pair.as_ref().map(|pair| pair.writer);
        let pressure = ["cpu", "memory", "io"].into_iter().filter_map(|what| {
            let text = read(&format!("/proc/pressure/{what}"))?;
            Some((what, some_avg10(&text)?))
        });
        const CPU: &str = "/sys/devices/system/cpu";
        let cpufreq = cpu.map_or(Presence::Unseen, |cpu| {
            Presence::of(
                &format!("{CPU}/cpu{cpu}/cpufreq"),
                &format!("{CPU}/cpu{cpu}"),
            )
        });
        Self {
            allowed: machine.topology.cpus_allowed.len(),
            pair,
            quota: cgroup::cpus(),
            mitigations: machine.mitigations.clone(),
            tells_mitigations: std::path::Path::new(CPU).join("vulnerabilities").exists(),
            hypervisor: machine.hypervisor,
            tells_hypervisor: machine.cpu_model.is_some(),
            steal: cpu.and_then(steal_since_boot),
            governor: machine.governor.clone(),
            cpufreq,
            pressure: pressure.collect(),
        }
    }
}

/// `some avg10=47.78 avg60=…`: in percent.
fn some_avg10(pressure: &str) -> Option<f64> {
    let some = pressure
        .lines()
        .find_map(|line| line.strip_prefix("some "))?;
    let avg10 = some
        .split(' ')
        .find_map(|word| word.strip_prefix("avg10="))?;
    avg10.parse::<f64>().ok().map(|percent| percent / 100.0)
}

pub(super) fn judge(facts: &Facts, measured: &MeasuredCosts) -> Vec<Check> {
    vec![
        cpus(facts),
        quota_of(facts.quota),
        travel_time(facts, measured),
        wake_up(facts, measured),
        system_call(measured.system_call_ns),
        mitigations(facts),
        hypervisor(facts),
        steal(facts.steal, measured.steal),
        governor(facts),
        pressure(&facts.pressure),
    ]
}

fn cpus(facts: &Facts) -> Check {
    let id = "cpus";
    let Some(pair) = &facts.pair else {
        return Check::unknown(
            id,
            "the system does not say which CPUs this process may use",
        )
        .change("name two: fullbore ladder --cpus 0,1");
    };
    let (writer, reader) = (pair.writer, pair.reader);
    if writer == reader {
        return Check::slow(id, format!("only CPU {writer} may be used"))
            .costs("writer and reader take turns: rungs that spin are slow, and nothing runs at the same time")
            .change("taskset -c 0,1 fullbore, or docker run --cpuset-cpus 0,1");
    }
    let found = format!(
        "{} may be used; {writer} and {reader} are taken for a pair",
        facts.allowed
    );
    match &pair.shared_cache {
        Some(cache) => Check::ok(id, format!("{found}: they share a cache ({cache})")),
        None => Check::slow(
            id,
            format!("{found}: they share no cache, as far as the system says"),
        )
        .costs("every byte that both touch goes through memory or from cache to cache")
        .change("allow two CPUs of one socket: taskset -c, docker run --cpuset-cpus"),
    }
}

fn quota_of(quota: Option<Option<f64>>) -> Check {
    let id = "cpu-quota";
    match quota {
        None => Check::unknown(id, "/proc/self/cgroup or /sys/fs/cgroup cannot be read"),
        Some(None) => Check::ok(id, "no limit"),
        Some(Some(cpus)) if cpus >= 2.0 => Check::ok(id, format!("{cpus:.1} CPUs")),
        Some(Some(cpus)) => Check::slow(id, format!("{cpus:.1} CPUs"))
            .costs("two sides that run at once use it up and are then stopped for the rest of each 0.1 s")
            .change("docker run --cpus 2, or systemd-run -p CPUQuota=200%"),
    }
}

fn travel_time(facts: &Facts, measured: &MeasuredCosts) -> Check {
    let id = "line-travel";
    let is_one = facts
        .pair
        .as_ref()
        .is_some_and(|pair| pair.writer == pair.reader);
    match measured.line_travel_ns {
        Some(ns) if distance(ns) == Distance::Near => {
            Check::ok(id, format!("{ns:.0} ns from CPU to CPU: near"))
        }
        Some(ns) if ns > LONGEST_TRAVEL_NS => {
            Check::unknown(id, "not measured: the CPUs had other things to do")
        }
        Some(ns) => Check::slow(id, format!("{ns:.0} ns from CPU to CPU: far"))
            .costs("a pipe between two CPUs runs at a half to a quarter of what it would if they were near; on a guest this changes for minutes at a time")
            .change("choose others (fullbore ladder --cpus W,R), or one CPU for both; on the host, bind the guest's CPUs to cores under one cache"),
        None if is_one => Check::unknown(id, "there is only one CPU"),
        None => Check::unknown(id, "not measured: the CPUs had other things to do, or may not be chosen"),
    }
}

/// Of a wake-up, in microseconds. Bare metal needs 1 to 5; a guest whose idle CPU has to be started by its host needs tens.
const DEAR_WAKE_UP_US: f64 = 8.0;

fn wake_up(facts: &Facts, measured: &MeasuredCosts) -> Check {
    let id = "wake-up";
    let us = |e: Estimate| format!("{:.1} µs", e.median);
    let one = measured.wake_up_one_cpu_us;
    let two = measured.wake_up_two_cpus_us;
    let found = [
        one.map(|e| format!("{} on one CPU", us(e))),
        two.map(|e| format!("{} from CPU to CPU", us(e))),
    ];
    let found: Vec<_> = found.into_iter().flatten().collect();
    let Some(most) = [one, two]
        .into_iter()
        .flatten()
        .map(|e| e.median)
        .reduce(f64::max)
    else {
        let why = measured.refused.first().map_or("", String::as_str);
        return Check::unknown(id, format!("not measured: {why}"));
    };
    let found = found.join(", ");
    if most < DEAR_WAKE_UP_US {
        return Check::ok(id, found);
    }
    let check = Check::slow(id, found).costs(format!(
        "a pipe at 50 GiB/s moves {:.0} MiB in the time of one wake-up",
        (most * 1e-6 * 50.0 * 1024.0).max(1.0)
    ));
    if facts.hypervisor.is_some() {
        return check.change("wait by spinning (--wait spin, adaptive), or on one CPU; boot the guest with idle=poll or with cpuidle_haltpoll.force=1");
    }
    check.change(
        "wait by spinning (--wait spin, adaptive), or on one CPU; sudo cpupower idle-set -D 5",
    )
}

/// Of a call, in nanoseconds. Recent processors need 30 to 100 without mitigations; page tables switched at each call, or
/// a system call interface in user space, show.
const DEAR_CALL_NS: f64 = 250.0;
const INTERCEPTED_CALL_NS: f64 = 1000.0;

fn system_call(cost: Option<Estimate>) -> Check {
    let id = "system-call";
    let Some(cost) = cost else {
        return Check::unknown(id, "not measured");
    };
    let found = format!("{:.0} ns (getppid)", cost.median);
    match cost.median {
        ns if ns < DEAR_CALL_NS => Check::ok(id, found),
        ns if ns < INTERCEPTED_CALL_NS => Check::slow(id, found)
            .costs("with small buffers, entering and leaving the kernel takes longer than moving the data")
            .change("large buffers and pipes; see mitigations and seccomp"),
        _ => Check::slow(id, found)
            .costs("something looks at every call (gVisor, ptrace, an emulator): figures say little about Linux")
            .change("run outside of it"),
    }
}

/// What makes every system call, or every return from one, dearer: vulnerability, a mark in its state, why.
const DEAR: [(&str, &str, &str); 8] = [
    ("meltdown", "PTI", "page tables are switched at each call"),
    (
        "spectre_v2",
        "; IBRS",
        "indirect branches are restricted at each call",
    ),
    (
        "spectre_v2",
        "Mitigation: IBRS",
        "indirect branches are restricted at each call",
    ),
    (
        "retbleed",
        "IBRS",
        "indirect branches are restricted at each call",
    ),
    (
        "mds",
        "Clear CPU buffers",
        "buffers are cleared at each return",
    ),
    (
        "tsx_async_abort",
        "Clear CPU buffers",
        "buffers are cleared at each return",
    ),
    (
        "mmio_stale_data",
        "Clear CPU buffers",
        "buffers are cleared at each return",
    ),
    (
        "tsa",
        "Clear CPU buffers",
        "buffers are cleared at each return",
    ),
];

/// What makes every function's return in the kernel dearer.
const DEAR_RETURNS: [(&str, &str); 4] = [
    ("retbleed", "untrained return thunk"),
    ("spec_rstack_overflow", "Safe RET"),
    ("spec_rstack_overflow", "IBPB"),
    ("reg_file_data_sampling", "Clear Register File"),
];

fn mitigations(facts: &Facts) -> Check {
    let id = "mitigations";
    if !facts.tells_mitigations {
        return Check::unknown(id, "/sys/devices/system/cpu/vulnerabilities cannot be read");
    }
    let has = |name: &str, mark: &str| {
        let state = facts.mitigations.get(name);
        // "Vulnerable: Safe RET, no microcode" has the cost as well.
        state.is_some_and(|state| state.contains(mark))
    };
    let mut found: Vec<String> = Vec::new();
    let mut costs: Vec<&str> = Vec::new();
    let returns = "each return of a function in the kernel takes longer";
    let returns = DEAR_RETURNS
        .iter()
        .map(|&(name, mark)| (name, mark, returns));
    for (name, mark, why) in DEAR.iter().copied().chain(returns) {
        if has(name, mark) {
            let what = format!(
                "{name}: {}",
                mark.trim_start_matches("; ")
                    .trim_start_matches("Mitigation: ")
            );
            if !found.contains(&what) {
                found.push(what);
            }
            if !costs.contains(&why) {
                costs.push(why);
            }
        }
    }
    if found.is_empty() {
        return Check::ok(id, "none that makes system calls dear");
    }
    Check::slow(id, found.join(", "))
        .costs(format!(
            "{}; see system-call for how much",
            costs.join("; ")
        ))
        .change("boot with mitigations=off, and only where you trust all that runs on this machine")
}

fn hypervisor(facts: &Facts) -> Check {
    let id = "hypervisor";
    let Some(kind) = facts.hypervisor else {
        if facts.tells_hypervisor {
            return Check::ok(id, "no sign of one");
        }
        return Check::unknown(id, "/proc/cpuinfo cannot be read");
    };
    let name = match kind {
        Hypervisor::Emulator => {
            return Check::slow(
                id,
                "none, but an emulator: a program carries out every instruction",
            )
            .costs("figures and their ratios say nothing about pipes on a real processor")
            .change("measure on hardware, or in a guest with KVM");
        }
        Hypervisor::Kvm => "KVM",
        Hypervisor::Xen => "Xen",
        Hypervisor::Vmware => "VMware",
        Hypervisor::HyperV => "Hyper-V",
        Hypervisor::VirtualBox => "VirtualBox",
        Hypervisor::Other => "there is one, of unknown kind",
    };
    Check::slow(id, name)
        .costs("waking another CPU goes through the host, and the host may move CPUs or take them away; often there are no hardware counters")
        .change("bare metal, or a guest with CPUs of its own")
}

fn steal(since_boot: Option<f64>, now: Option<f64>) -> Check {
    let id = "steal";
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    let found = [
        now.map(|share| format!("{} just now", percent(share))),
        since_boot.map(|share| format!("{} since boot", percent(share))),
    ];
    let found: Vec<_> = found.into_iter().flatten().collect();
    let Some(most) = [since_boot, now].into_iter().flatten().reduce(f64::max) else {
        return Check::unknown(id, "/proc/stat cannot be read");
    };
    if most < 0.01 {
        return Check::ok(id, found.join(", "));
    }
    Check::slow(id, found.join(", "))
        .costs("the host ran something else on your CPUs: trials are disturbed and flagged")
        .change("a guest with CPUs of its own, or another time of day")
}

fn governor(facts: &Facts) -> Check {
    let id = "governor";
    match (facts.governor.as_deref(), facts.cpufreq) {
        (Some("performance"), _) => Check::ok(id, "performance"),
        (Some(governor), _) => Check::slow(id, governor)
            .costs("the clock follows the load: short trials, and sides that sleep, run on a slow clock")
            .change("sudo cpupower frequency-set -g performance"),
        (None, Presence::Absent) => {
            Check::unknown(id, "this system does not govern the clock (usual in a guest)")
        }
        (None, _) => Check::unknown(id, "/sys/devices/system/cpu/*/cpufreq cannot be read"),
    }
}

fn pressure(pressure: &BTreeMap<&str, f64>) -> Check {
    let id = "pressure";
    if pressure.is_empty() {
        return Check::unknown(id, "this kernel does not say (/proc/pressure)")
            .change("boot with psi=1");
    }
    let found: Vec<_> = pressure
        .iter()
        .map(|(what, share)| format!("{what} {:.0} %", share * 100.0))
        .collect();
    let found = format!(
        "{} of the last 10 s with somebody waiting",
        found.join(", ")
    );
    let share = |what| pressure.get(what).copied().unwrap_or(0.0);
    if share("cpu") < 0.1 && share("memory") < 0.01 {
        return Check::ok(id, found);
    }
    Check::slow(id, found)
        .costs("others want the same CPUs or memory: trials are disturbed")
        .change("find them with top, and measure when they are done")
}

#[cfg(test)]
mod tests;
