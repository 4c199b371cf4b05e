//! The machine a run was made on: its kind, never its name or its owner's.
//!
//! Everything comes from `/proc` and `/sys`; a file that is missing leaves its field empty. Parsing is apart from reading.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;

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

/// A kind of hypervisor.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Hypervisor {
    /// KVM, with or without QEMU.
    Kvm,
    /// Xen.
    Xen,
    /// VMware.
    Vmware,
    /// Microsoft Hyper-V.
    HyperV,
    /// VirtualBox.
    VirtualBox,
    /// The processor says that there is one; nothing says which.
    Other,
}

/// Which CPUs may be used, and what they share.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Topology {
    /// CPUs that the calling thread may run on, ascending. Empty when the kernel does not say.
    pub cpus_allowed: Vec<usize>,
    /// Each last-level cache once. Empty when the kernel does not say.
    pub last_level_caches: Vec<Cache>,
    /// The hardware threads of each physical core. Empty when the kernel does not say.
    pub cores: Vec<Vec<usize>>,
}

/// A cache and the CPUs that share it.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Cache {
    /// 1 is nearest to the processor.
    pub level: u32,
    /// Bytes.
    pub size: Option<u64>,
    /// CPUs that share it, by number.
    pub cpus: Vec<usize>,
}

/// Where the two ends of a pipe run.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct CpuPair {
    /// CPU of the writer.
    pub writer: usize,
    /// CPU of the reader; the same one when there is no other.
    pub reader: usize,
    /// The cache through which two CPUs meet, such as `L3, 32 MiB`. `None` when they share none, when it is not known,
    /// or when both ends are on one CPU.
    pub shared_cache: Option<String>,
}

impl Machine {
    /// Looks at this machine, through the eyes of the calling thread (its CPU affinity).
    pub fn detect() -> Self {
        let cpus_online = read("/sys/devices/system/cpu/online").and_then(|s| parse_cpu_list(&s));
        let topology = Topology::detect(cpus_online.as_deref().unwrap_or_default());
        let cpuinfo = read("/proc/cpuinfo").unwrap_or_default();
        let dmi = ["sys_vendor", "product_name"]
            .iter()
            .filter_map(|name| read(&format!("/sys/class/dmi/id/{name}")))
            .collect::<Vec<_>>()
            .join(" ");
        let hypervisor_type = read("/sys/hypervisor/type").unwrap_or_default();
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
            hypervisor: hypervisor(&cpuinfo, &hypervisor_type, &dmi),
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

impl Topology {
    /// Reads what the CPUs in `online` share.
    fn detect(online: &[usize]) -> Self {
        let mut found = Self {
            cpus_allowed: cpus_allowed(),
            ..Self::default()
        };
        for cpu in online {
            if let Some(cache) = last_level_cache(*cpu)
                && !found.last_level_caches.contains(&cache)
            {
                found.last_level_caches.push(cache);
            }
            let siblings =
                format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
            if let Some(core) = read(&siblings).and_then(|s| parse_cpu_list(&s))
                && !found.cores.contains(&core)
            {
                found.cores.push(core);
            }
        }
        found
    }

    /// Two CPUs for a pair: see [`choose_cpus`].
    pub fn choose(&self) -> Option<CpuPair> {
        let cache_of = |cpu| {
            self.last_level_caches
                .iter()
                .find(|c| c.cpus.contains(&cpu))
        };
        let core_of = |cpu| self.cores.iter().position(|core| core.contains(&cpu));
        let known: Vec<_> = self
            .cpus_allowed
            .iter()
            .map(|&cpu| (cpu, cache_of(cpu), core_of(cpu)))
            .collect();
        let mut best: Option<(u8, CpuPair)> = None;
        for (i, &(writer, cache, core)) in known.iter().enumerate() {
            for &(reader, other_cache, other_core) in &known[i + 1..] {
                let shared = cache.filter(|_| cache == other_cache);
                let apart = core.is_none() || core != other_core;
                let score = 2 * u8::from(shared.is_some()) + u8::from(apart);
                if best.as_ref().is_none_or(|(most, _)| score > *most) {
                    let shared_cache = shared.map(Cache::describe);
                    let pair = CpuPair {
                        writer,
                        reader,
                        shared_cache,
                    };
                    best = Some((score, pair));
                }
            }
        }
        let alone = || {
            self.cpus_allowed.first().map(|&cpu| CpuPair {
                writer: cpu,
                reader: cpu,
                shared_cache: None,
            })
        };
        best.map(|(_, pair)| pair).or_else(alone)
    }
}

impl Cache {
    fn describe(&self) -> String {
        const KIB: u64 = 1 << 10;
        const MIB: u64 = 1 << 20;
        match self.size {
            Some(size) if size % MIB == 0 => format!("L{}, {} MiB", self.level, size / MIB),
            Some(size) => format!("L{}, {} KiB", self.level, size / KIB),
            None => format!("L{}", self.level),
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

/// Reads a list as the kernel writes it, such as `0-3,8,10-11`, in the order written; an empty one is empty.
/// `None` when it is not such a list, or names a CPU above 65535.
pub fn parse_cpu_list(text: &str) -> Option<Vec<usize>> {
    let text = text.trim();
    let mut cpus = Vec::new();
    if text.is_empty() {
        return Some(cpus);
    }
    for range in text.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (parse_cpu(first)?, parse_cpu(last)?);
        if first > last {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus)
}

/// Digits only: `usize` itself would accept a sign.
fn parse_cpu(text: &str) -> Option<usize> {
    let digits = text.bytes().all(|b| b.is_ascii_digit());
    let number = text.parse::<u16>().ok().filter(|_| digits)?;
    Some(number.into())
}

/// The time that one CPU has spent since boot, in clock ticks (1/100 s on almost every kernel).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuTicks {
    /// Ticks during which this CPU was ready to run and the hypervisor ran something else.
    pub steal: u64,
    /// All ticks, idle ones included.
    pub total: u64,
}

/// Reads the ticks of one CPU from `/proc/stat`. `None` when it is offline, or the kernel does not say.
pub fn cpu_ticks(cpu: usize) -> Option<CpuTicks> {
    parse_ticks(&read("/proc/stat")?, cpu)
}

/// The share of the time between two readings of the same CPU that the hypervisor took, 0 to 1.
///
/// A tick is 10 ms: over 0.15 s the share comes in steps of 1/15. 0 when no tick passed.
pub fn steal_share(before: &CpuTicks, after: &CpuTicks) -> f64 {
    let total = after.total.saturating_sub(before.total);
    let steal = after.steal.saturating_sub(before.steal).min(total);
    if total == 0 {
        0.0
    } else {
        steal as f64 / total as f64
    }
}

/// The larger [`steal_share`] of some CPUs, each read before and after; `None` where none could be read.
pub fn larger_steal(before: &[Option<CpuTicks>], after: &[Option<CpuTicks>]) -> Option<f64> {
    before
        .iter()
        .zip(after)
        .filter_map(|(before, after)| Some(steal_share(before.as_ref()?, after.as_ref()?)))
        .reduce(f64::max)
}

fn parse_ticks(stat: &str, cpu: usize) -> Option<CpuTicks> {
    let name = format!("cpu{cpu}");
    let mut words = stat
        .lines()
        .map(str::split_ascii_whitespace)
        .find_map(|mut words| (words.next() == Some(&name)).then_some(words))?;
    // user nice system idle iowait irq softirq steal; the two guest times that follow are already part of user and nice.
    let mut times = [0_u64; 8];
    for time in &mut times {
        *time = words.next()?.parse().ok()?;
    }
    Some(CpuTicks {
        steal: times[7],
        total: times.iter().sum(),
    })
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

/// Tells the kind of hypervisor from the processor's flags, `/sys/hypervisor/type` and the firmware's product names.
/// Only the kind: product names may say more about their owner than they should.
fn hypervisor(cpuinfo: &str, hypervisor_type: &str, dmi: &str) -> Option<Hypervisor> {
    if hypervisor_type == "xen" {
        return Some(Hypervisor::Xen);
    }
    let flagged = value(cpuinfo, "flags")
        .is_some_and(|flags| flags.split_whitespace().any(|flag| flag == "hypervisor"));
    let named = [
        ("KVM", Hypervisor::Kvm),
        ("QEMU", Hypervisor::Kvm),
        ("VMware", Hypervisor::Vmware),
        ("VirtualBox", Hypervisor::VirtualBox),
        ("Microsoft Corporation Virtual Machine", Hypervisor::HyperV),
        ("HVM domU", Hypervisor::Xen),
    ]
    .iter()
    .find_map(|(mark, kind)| dmi.contains(mark).then_some(*kind));
    named.or(flagged.then_some(Hypervisor::Other))
}

/// The word in brackets, in files that list every choice: `always [madvise] never`.
fn chosen(text: &str) -> Option<String> {
    let (_, rest) = text.split_once('[')?;
    let (word, _) = rest.split_once(']')?;
    Some(word.to_owned())
}

/// A size as `/sys` writes it, such as `32768K`, in bytes.
fn parse_size(text: &str) -> Option<u64> {
    let (number, unit) = match text.as_bytes().last()? {
        b'K' => (&text[..text.len() - 1], 1 << 10),
        b'M' => (&text[..text.len() - 1], 1 << 20),
        _ => (text, 1),
    };
    number.parse::<u64>().ok()?.checked_mul(unit)
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

fn cpus_allowed() -> Vec<usize> {
    use rustix::thread::{CpuSet, sched_getaffinity};
    sched_getaffinity(None).map_or_else(
        |_| Vec::new(),
        |set| {
            (0..CpuSet::MAX_CPU)
                .filter(|&cpu| set.is_set(cpu))
                .collect()
        },
    )
}

fn last_level_cache(cpu: usize) -> Option<Cache> {
    (0..)
        .map_while(|index| {
            let dir = format!("/sys/devices/system/cpu/cpu{cpu}/cache/index{index}");
            let level: u32 = read_number(&format!("{dir}/level"))?;
            Some((dir, level))
        })
        .filter(|(dir, _)| read(&format!("{dir}/type")).as_deref() != Some("Instruction"))
        .max_by_key(|&(_, level)| level)
        .and_then(|(dir, level)| {
            Some(Cache {
                level,
                size: read(&format!("{dir}/size")).and_then(|s| parse_size(&s)),
                cpus: parse_cpu_list(&read(&format!("{dir}/shared_cpu_list"))?)?,
            })
        })
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
    const X86_BARE: &str = "model name\t: 12th Gen Intel(R) Core(TM) i7-12700K\n\
        flags\t\t: fpu vme vmx\nvmx flags\t: vnmi hypervisor\n";
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
    fn hypervisor_is_told_by_kind_only() {
        assert_eq!(hypervisor(X86, "", ""), Some(Hypervisor::Other));
        assert_eq!(
            hypervisor(X86, "", "QEMU Standard PC (Q35 + ICH9, 2009)"),
            Some(Hypervisor::Kvm)
        );
        assert_eq!(
            hypervisor(ARM, "", "QEMU KVM Virtual Machine"),
            Some(Hypervisor::Kvm)
        );
        assert_eq!(
            hypervisor(X86, "", "Microsoft Corporation Virtual Machine"),
            Some(Hypervisor::HyperV)
        );
        assert_eq!(
            hypervisor(X86, "xen", "Xen HVM domU"),
            Some(Hypervisor::Xen)
        );
        assert_eq!(hypervisor(X86_BARE, "", "ASUS System Product Name"), None);
        assert_eq!(hypervisor("", "", ""), None);
    }

    #[test]
    fn cpu_list_is_read_as_the_kernel_writes_it() {
        assert_eq!(
            parse_cpu_list("0-3,8,10-11\n"),
            Some(vec![0, 1, 2, 3, 8, 10, 11])
        );
        assert_eq!(parse_cpu_list("5"), Some(vec![5]));
        assert_eq!(parse_cpu_list("3,1"), Some(vec![3, 1]));
        assert_eq!(parse_cpu_list("\n"), Some(vec![]));
        for wrong in ["3-1", "a", "1,", "-1", "+1", "1-", "0-99999999", "1 2"] {
            assert_eq!(parse_cpu_list(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn settings_are_read_from_recorded_text() {
        assert_eq!(
            chosen("always defer defer+madvise [madvise] never").as_deref(),
            Some("madvise")
        );
        assert_eq!(chosen("always never"), None);
        assert_eq!(parse_size("32768K"), Some(32 << 20));
        assert_eq!(parse_size("8M"), Some(8 << 20));
        assert_eq!(parse_size(""), None);
        let meminfo = "MemTotal:        8148404 kB\nMemFree:         5000000 kB\n";
        assert_eq!(memory_total(meminfo), Some(8_148_404 * 1024));
        assert_eq!(memory_total("MemFree: 1 kB"), None);
    }

    #[test]
    fn ticks_are_those_of_the_cpu_asked_for() {
        let stat = "cpu  14 0 4 200 4 0 2 24 10 0\ncpu0 1 0 1 50 1 0 1 0 0 0\n\
            cpu1 3 0 1 50 1 0 0 4 1 0\ncpu10 10 0 2 100 2 0 1 20 9 0\nintr 1 2\n";
        let ticks = |steal, total| Some(CpuTicks { steal, total });
        assert_eq!(parse_ticks(stat, 1), ticks(4, 59));
        assert_eq!(parse_ticks(stat, 10), ticks(20, 135));
        assert_eq!(parse_ticks(stat, 2), None);
        assert_eq!(parse_ticks("cpu0 1 2 3", 0), None);
    }

    #[test]
    fn steal_is_a_share_of_the_time_between() {
        let ticks = |steal, total| CpuTicks { steal, total };
        assert_eq!(steal_share(&ticks(4, 100), &ticks(9, 120)), 0.25);
        assert_eq!(steal_share(&ticks(4, 100), &ticks(4, 100)), 0.0);
        // Counters of an idle CPU have been seen to step back.
        assert_eq!(steal_share(&ticks(4, 100), &ticks(3, 110)), 0.0);
    }

    fn topology(allowed: &str, caches: &[&str], cores: &[&str]) -> Topology {
        let list = |s: &&str| parse_cpu_list(s).unwrap();
        Topology {
            cpus_allowed: list(&allowed),
            last_level_caches: caches
                .iter()
                .map(|s| Cache {
                    level: 3,
                    size: Some(32 << 20),
                    cpus: list(s),
                })
                .collect(),
            cores: cores.iter().map(list).collect(),
        }
    }

    fn pair(writer: usize, reader: usize, shared: bool) -> Option<CpuPair> {
        Some(CpuPair {
            writer,
            reader,
            shared_cache: shared.then(|| "L3, 32 MiB".to_owned()),
        })
    }

    #[test]
    fn two_cores_under_one_cache_are_chosen_first() {
        // Hardware threads numbered next to each other, then in two halves.
        let adjacent = topology("0-7", &["0-3", "4-7"], &["0-1", "2-3", "4-5", "6-7"]);
        assert_eq!(adjacent.choose(), pair(0, 2, true));
        let halves = topology(
            "0-7",
            &["0-1,4-5", "2-3,6-7"],
            &["0,4", "1,5", "2,6", "3,7"],
        );
        assert_eq!(halves.choose(), pair(0, 1, true));
        // CPU 0 has nobody to share with.
        let lonely = topology("0,4-6", &["0-3", "4-7"], &["0-1", "2-3", "4-5", "6-7"]);
        assert_eq!(lonely.choose(), pair(4, 6, true));
    }

    #[test]
    fn next_best_are_threads_of_one_core_then_cores_without_shared_cache() {
        let cores = ["0-1", "2-3", "4-5"];
        let siblings = topology("0,4-5", &["0-3", "4-7"], &cores);
        assert_eq!(siblings.choose(), pair(4, 5, true));
        let far = topology("0,4", &["0-3", "4-7"], &cores);
        assert_eq!(far.choose(), pair(0, 4, false));
    }

    #[test]
    fn unknown_topology_still_gives_two_cpus_and_one_cpu_gives_itself() {
        assert_eq!(topology("2,5,7", &[], &[]).choose(), pair(2, 5, false));
        assert_eq!(topology("3", &["0-3"], &["3"]).choose(), pair(3, 3, false));
        assert_eq!(topology("", &["0-3"], &[]).choose(), None);
    }

    #[test]
    fn cache_says_its_level_and_size() {
        let cache = |size| Cache {
            level: 2,
            size,
            cpus: vec![0],
        };
        assert_eq!(cache(Some(512 << 10)).describe(), "L2, 512 KiB");
        assert_eq!(cache(Some(2 << 20)).describe(), "L2, 2 MiB");
        assert_eq!(cache(None).describe(), "L2");
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
        fn cpu_list_reads_back_every_list_of_numbers(cpus in prop::collection::vec(0_usize..65536, 0..20)) {
            let text: Vec<String> = cpus.iter().map(usize::to_string).collect();
            prop_assert_eq!(parse_cpu_list(&text.join(",")), Some(cpus));
        }

        #[test]
        fn any_text_is_parsed_without_panic(text in "[a-z0-9:,\\-\\[\\]KM \n\t]{0,80}") {
            let _ = (parse_cpu_list(&text), cpu_model(&text), chosen(&text), parse_size(&text));
            let _ = (memory_total(&text), parse_ticks(&text, 0), hypervisor(&text, &text, &text));
        }

        #[test]
        fn chosen_cpus_are_allowed_and_two_when_there_are_two(allowed in prop::collection::btree_set(0_usize..12, 1..12)) {
            let topology = Topology {
                cpus_allowed: allowed.iter().copied().collect(),
                ..topology("", &["0-3", "4-7", "8-11"], &["0-1", "2-3", "4-5", "6-7"])
            };
            let pair = topology.choose().unwrap();
            prop_assert!(allowed.contains(&pair.writer) && allowed.contains(&pair.reader));
            prop_assert_eq!(pair.writer != pair.reader, allowed.len() > 1);
        }
    }
}
