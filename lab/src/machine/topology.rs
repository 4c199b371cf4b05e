//! Which CPUs may be used, what they share, and which two suit a pair.

use serde::{Deserialize, Serialize};

use super::read;
use super::read_number;

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

impl Topology {
    /// Reads what the CPUs in `online` share.
    pub(super) fn detect(online: &[usize]) -> Self {
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

    /// Two CPUs for a pair: see [`choose_cpus`](super::choose_cpus).
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

/// A size as `/sys` writes it, such as `32768K`, in bytes.
fn parse_size(text: &str) -> Option<u64> {
    let (number, unit) = match text.as_bytes().last()? {
        b'K' => (&text[..text.len() - 1], 1 << 10),
        b'M' => (&text[..text.len() - 1], 1 << 20),
        _ => (text, 1),
    };
    number.parse::<u64>().ok()?.checked_mul(unit)
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
    fn size_is_read_as_sys_writes_it() {
        assert_eq!(parse_size("32768K"), Some(32 << 20));
        assert_eq!(parse_size("8M"), Some(8 << 20));
        assert_eq!(parse_size(""), None);
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

    proptest! {
        #[test]
        fn cpu_list_reads_back_every_list_of_numbers(cpus in prop::collection::vec(0_usize..65536, 0..20)) {
            let text: Vec<String> = cpus.iter().map(usize::to_string).collect();
            prop_assert_eq!(parse_cpu_list(&text.join(",")), Some(cpus));
        }

        #[test]
        fn any_text_is_parsed_without_panic(text in "[a-z0-9:,\\-\\[\\]KM \n\t]{0,80}") {
            let _ = (parse_cpu_list(&text), parse_size(&text));
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
