//! The machine a run was made on: its kind, never its name or its owner's.
//!
//! Everything comes from `/proc` and `/sys`; a file that is missing leaves its field empty. Parsing is apart from reading.

pub mod conditions;
mod hypervisor;
pub mod memory_rates;
pub mod state;
mod steal;
mod topology;
pub mod travel;

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;

pub use hypervisor::Hypervisor;
pub use steal::{CpuTicks, cpu_ticks, steal_share};
pub use topology::{Cache, CpuPair, Topology, parse_cpu_list};

/// The kind of machine, as far as it bears on the speed of pipes.
#[derive(Serialize, Deserialize, Clone, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Machine {
    /// Kernel release, as `uname -r` says it.
    pub kernel: Option<String>,
    /// Instruction set, such as `x86_64` or `aarch64`.
    pub arch: String,
    /// Name of the processor; on ARM its implementer and part numbers, which is all the kernel says.
    pub cpu_model: Option<String>,
    /// CPUs that are online, by number.
    pub cpus_online: Option<Vec<usize>>,
    /// The CPUs this thread may use, and what they share.
    pub topology: Topology,
    /// Bytes of a base page.
    pub page_size: usize,
    /// The kind of hypervisor, when there are signs of one.
    pub hypervisor: Option<Hypervisor>,
    /// Transparent huge pages: `always`, `madvise` or `never`.
    pub thp_enabled: Option<String>,
    /// How hard the kernel looks for a huge page at a fault: `always`, `defer`, `defer+madvise`, `madvise` or `never`.
    pub thp_defrag: Option<String>,
    /// Bytes of a transparent huge page.
    pub thp_size: Option<u64>,
    /// Largest capacity of a pipe, in bytes, without CAP_SYS_RESOURCE.
    pub pipe_max_size: Option<u64>,
    /// Pages that the pipes of one user may hold before new ones are made small; 0 means no limit.
    pub pipe_user_pages_soft: Option<u64>,
    /// Bytes of memory.
    pub memory_total: Option<u64>,
    /// Processor vulnerability → how the kernel deals with it. Those that do not affect this processor are left out.
    pub mitigations: BTreeMap<String, String>,
    /// How the clock of the first allowed CPU is governed, such as `performance` or `schedutil`.
    pub governor: Option<String>,
}

impl Machine {
    /// Looks at this machine, through the eyes of the calling thread (its CPU affinity).
    pub fn detect() -> Self {
        let cpus_online = read("/sys/devices/system/cpu/online").and_then(|s| parse_cpu_list(&s));
        let topology = Topology::detect(cpus_online.as_deref().unwrap_or_default());
        let cpuinfo = read("/proc/cpuinfo").unwrap_or_default();
        let thp = |name| read(&format!("/sys/kernel/mm/transparent_hugepage/{name}"));
        let governor = topology.cpus_allowed.first().and_then(|cpu| {
            read(&format!(
                "/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor"
            ))
        });
        Self {
            kernel: read("/proc/sys/kernel/osrelease"),
            arch: std::env::consts::ARCH.to_owned(),
            cpu_model: cpu_model(&cpuinfo),
            cpus_online,
            topology,
            page_size: rustix::param::page_size(),
            hypervisor: hypervisor::detect(&cpuinfo),
            thp_enabled: thp("enabled").and_then(|s| chosen(&s)),
            thp_defrag: thp("defrag").and_then(|s| chosen(&s)),
            thp_size: thp("hpage_pmd_size").and_then(|s| s.parse().ok()),
            pipe_max_size: read_number("/proc/sys/fs/pipe-max-size"),
            pipe_user_pages_soft: read_number("/proc/sys/fs/pipe-user-pages-soft"),
            memory_total: read("/proc/meminfo").and_then(|s| memory_total(&s)),
            mitigations: mitigations(),
            governor,
        }
    }
}

/// Chooses two CPUs for a writer and a reader, among those allowed.
///
/// First those that share a last-level cache but no physical core; then hardware threads of one core; then cores that
/// share no cache; among equals the lowest numbers. With one CPU allowed both ends run there. `None` when it is not
/// known which are allowed.
pub fn choose_cpus(machine: &Machine) -> Option<CpuPair> {
    machine.topology.choose()
}

/// The value of the first `key : value` line of `/proc/cpuinfo` or `/proc/meminfo`.
pub(crate) fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    values(text, key).next()
}

fn values<'a>(text: &'a str, key: &str) -> impl Iterator<Item = &'a str> {
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .filter_map(move |(k, v)| (k.trim() == key).then_some(v.trim()))
}

fn cpu_model(cpuinfo: &str) -> Option<String> {
    if let Some(name) = value(cpuinfo, "model name") {
        return Some(name.to_owned());
    }
    // ARM: no name, and machines with two kinds of core have two kinds of part.
    let mut kinds: Vec<String> = Vec::new();
    for (who, what) in values(cpuinfo, "CPU implementer").zip(values(cpuinfo, "CPU part")) {
        let kind = format!("implementer {who} part {what}");
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    (!kinds.is_empty()).then(|| kinds.join(", "))
}

/// The word in brackets, in files that list every choice: `always [madvise] never`.
fn chosen(text: &str) -> Option<String> {
    let (_, rest) = text.split_once('[')?;
    let (word, _) = rest.split_once(']')?;
    Some(word.to_owned())
}

fn memory_total(meminfo: &str) -> Option<u64> {
    let kib = value(meminfo, "MemTotal")?.strip_suffix("kB")?;
    kib.trim().parse::<u64>().ok()?.checked_mul(1024)
}

fn mitigations() -> BTreeMap<String, String> {
    let Ok(files) = fs::read_dir("/sys/devices/system/cpu/vulnerabilities") else {
        return BTreeMap::new();
    };
    files
        .flatten()
        .filter_map(|file| {
            let state = read(file.path().to_str()?)?;
            let name = file.file_name().into_string().ok()?;
            (state != "Not affected").then_some((name, state))
        })
        .collect()
}

/// The text of a file without the white space around it; `None` when it cannot be read.
pub(crate) fn read(path: &str) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

pub(crate) fn read_number<T: std::str::FromStr>(path: &str) -> Option<T> {
    read(path)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const X86: &str = "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 17\n\
        model name\t: AMD EPYC\nstepping\t: 1\nflags\t\t: fpu vme x2apic hypervisor lahf_lm\n\n\
        processor\t: 1\nmodel name\t: AMD EPYC\n";
    const ARM: &str = "processor\t: 0\nBogoMIPS\t: 243.75\nFeatures\t: fp asimd evtstrm aes\n\
        CPU implementer\t: 0x41\nCPU architecture: 8\nCPU variant\t: 0x3\nCPU part\t: 0xd0c\nCPU revision\t: 1\n\n\
        processor\t: 1\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n";

    #[test]
    fn processor_is_named_or_numbered() {
        assert_eq!(cpu_model(X86).as_deref(), Some("AMD EPYC"));
        assert_eq!(
            cpu_model(ARM).as_deref(),
            Some("implementer 0x41 part 0xd0c")
        );
        let big_little = ARM.replacen("0xd0c", "0xd05", 1);
        assert_eq!(
            cpu_model(&big_little).as_deref(),
            Some("implementer 0x41 part 0xd05, implementer 0x41 part 0xd0c")
        );
        assert_eq!(cpu_model(""), None);
    }

    #[test]
    fn settings_are_read_from_recorded_text() {
        assert_eq!(
            chosen("always defer defer+madvise [madvise] never").as_deref(),
            Some("madvise")
        );
        assert_eq!(chosen("always never"), None);
        let meminfo = "MemTotal:        8148404 kB\nMemFree:         5000000 kB\n";
        assert_eq!(memory_total(meminfo), Some(8_148_404 * 1024));
        assert_eq!(memory_total("MemFree: 1 kB"), None);
    }

    #[test]
    fn this_machine_is_detected_and_survives_a_saved_run() {
        let machine = Machine::detect();
        assert!(machine.page_size >= 4096);
        assert!(machine.kernel.is_some());
        let pair = choose_cpus(&machine).unwrap();
        assert!(machine.topology.cpus_allowed.contains(&pair.writer));
        assert!(machine.topology.cpus_allowed.contains(&pair.reader));
        assert!(cpu_ticks(pair.writer).unwrap().total > 0);
        let json = serde_json::to_string(&machine).unwrap();
        let read_back: Machine = serde_json::from_str(&json).unwrap();
        assert_eq!(serde_json::to_string(&read_back).unwrap(), json);
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_without_panic(text in "[a-z0-9:,\\-\\[\\]KM \n\t]{0,80}") {
            let _ = (cpu_model(&text), chosen(&text), memory_total(&text));
        }
    }
}
