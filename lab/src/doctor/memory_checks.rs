//! Huge pages, reserved pages, and how much memory this process may have.

use fullbore_sys::pages::{PageKind, Pages, Request};
use fullbore_sys::size::Size;

use super::Check;
use super::Presence;
use super::cgroup::{self, Limit};
use crate::machine::{Machine, read, read_number, value};

const THP: &str = "/sys/kernel/mm/transparent_hugepage";

pub(super) struct Facts {
    pub(super) thp: Presence,
    pub(super) enabled: Option<String>,
    pub(super) defrag: Option<String>,
    pub(super) huge_size: Option<u64>,
    pub(super) page_size: u64,
    /// Whether a huge page was had when one was asked for, and if not, why.
    pub(super) huge_page: Result<(), String>,
    /// prctl(PR_SET_THP_DISABLE), inherited from whoever started this.
    pub(super) is_off_for_process: bool,
    /// Free blocks of memory, by order.
    pub(super) free: Option<Vec<u64>>,
    pub(super) hugetlb: Option<Hugetlb>,
    /// Outer `None`: not known. Inner `None`: no limit.
    pub(super) cgroup: Option<Option<Limit>>,
}

/// Reserved huge pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hugetlb {
    /// Bytes of one; `None` where the kernel has none.
    pub(super) size: Option<u64>,
    pub(super) total: u64,
    pub(super) free: u64,
    /// May be made when asked for.
    pub(super) overcommit: u64,
}

impl Facts {
    pub(super) fn read(machine: &Machine, status: &str) -> Self {
        Self {
            thp: Presence::of(THP, "/sys/kernel/mm"),
            enabled: machine.thp_enabled.clone(),
            defrag: machine.thp_defrag.clone(),
            huge_size: machine.thp_size,
            page_size: machine.page_size as u64,
            huge_page: try_huge_page(),
            is_off_for_process: value(status, "THP_enabled") == Some("0"),
            free: read("/proc/buddyinfo").and_then(|text| free_blocks(&text)),
            hugetlb: read("/proc/meminfo").and_then(|text| {
                let overcommit = read_number("/proc/sys/vm/nr_overcommit_hugepages");
                hugetlb_pages(&text, overcommit.unwrap_or(0))
            }),
            cgroup: cgroup::memory(),
        }
    }
}

fn try_huge_page() -> Result<(), String> {
    let request = Request {
        len: 1,
        kind: PageKind::Huge,
        lock: false,
        fill: Some(1),
    };
    let text = |e: fullbore_sys::Error| e.to_string();
    Pages::map(&request)
        .and_then(|p| p.prove_huge())
        .map_err(text)
}

/// Adds up the zones of `/proc/buddyinfo`.
fn free_blocks(buddyinfo: &str) -> Option<Vec<u64>> {
    let mut free: Vec<u64> = Vec::new();
    for line in buddyinfo.lines() {
        // Node 0, zone   Normal   12748   4804 …
        let counts = line.split_once("zone")?.1.split_whitespace().skip(1);
        for (order, count) in counts.enumerate() {
            if free.len() <= order {
                free.push(0);
            }
            free[order] += count.parse::<u64>().ok()?;
        }
    }
    (!free.is_empty()).then_some(free)
}

/// How many blocks of `bytes` could be taken from the free memory as it lies.
fn blocks_of(free: &[u64], bytes: u64, page: u64) -> u64 {
    let order = (bytes / page).max(1).ilog2() as usize;
    let larger = free.iter().enumerate().skip(order);
    larger.map(|(at, count)| count << (at - order)).sum()
}

fn hugetlb_pages(meminfo: &str, overcommit: u64) -> Option<Hugetlb> {
    // Something that is always there tells an empty file from a kernel without these pages.
    value(meminfo, "MemTotal")?;
    let number = |key| value(meminfo, key).and_then(|v| v.parse().ok());
    let size = value(meminfo, "Hugepagesize").and_then(|v| v.strip_suffix(" kB")?.parse().ok());
    Some(Hugetlb {
        size: size.map(|kib: u64| kib << 10),
        total: number("HugePages_Total").unwrap_or(0),
        free: number("HugePages_Free").unwrap_or(0),
        overcommit,
    })
}

pub(super) fn judge(facts: &Facts) -> Vec<Check> {
    vec![
        huge_pages(facts),
        free_memory(facts),
        defrag(facts),
        hugetlb(facts.hugetlb),
        memory_cgroup(facts.cgroup),
    ]
}

const WITHOUT_HUGE: &str = "a reference to a small page costs several times as much (fullbore gup), new data is not lent but sent in fat slots, and rungs with huge pages measure small ones";

fn huge_pages(facts: &Facts) -> Check {
    let id = "huge-pages";
    let size = facts
        .huge_size
        .map_or(String::new(), |s| format!(" of {}", Size(s)));
    let enabled = facts.enabled.as_deref();
    match (facts.thp, enabled, &facts.huge_page) {
        (Presence::Absent, ..) => Check::missing(id, "this kernel has no transparent huge pages")
            .costs(WITHOUT_HUGE)
            .change("boot a kernel built with CONFIG_TRANSPARENT_HUGEPAGE=y"),
        (_, Some("never"), _) => Check::missing(id, "never")
            .costs(WITHOUT_HUGE)
            .change(format!("echo madvise | sudo tee {THP}/enabled")),
        (_, _, Err(_)) if facts.is_off_for_process => Check::missing(
            id,
            "switched off for this process (prctl PR_SET_THP_DISABLE)",
        )
        .costs(WITHOUT_HUGE)
        .change("start it from a shell or service that does not disable them"),
        (_, enabled, Ok(())) => {
            let enabled = enabled.map_or(String::new(), |word| format!("{word}; "));
            Check::ok(id, format!("{enabled}one{size} was had at once"))
        }
        (Presence::Unseen, _, Err(why)) => {
            Check::unknown(id, format!("{THP} cannot be seen; {why}"))
                .change("mount -t sysfs sysfs /sys")
        }
        (_, enabled, Err(why)) => {
            let enabled = enabled.unwrap_or("setting unknown");
            Check::slow(
                id,
                format!("{enabled}, but a page that was asked for was not had: {why}"),
            )
            .costs(WITHOUT_HUGE)
            .change("echo 1 | sudo tee /proc/sys/vm/compact_memory, or close what uses much memory")
        }
    }
}

fn free_memory(facts: &Facts) -> Check {
    let id = "free-huge-pages";
    let (Some(free), Some(size)) = (&facts.free, facts.huge_size) else {
        let what = match facts.free {
            None => "/proc/buddyinfo cannot be read",
            Some(_) => "the size of a huge page is not known",
        };
        return Check::unknown(id, what);
    };
    let huge = blocks_of(free, size, facts.page_size);
    let fat = blocks_of(free, 32 << 10, facts.page_size);
    let found = format!(
        "free memory has room for {huge} huge pages and {fat} fat slots of {} without compaction",
        Size(32 << 10)
    );
    // One writer has at most a few in flight.
    if huge >= 8 && fat >= 256 {
        return Check::ok(id, found);
    }
    Check::slow(id, found)
        .costs("memory is fragmented: whoever asks has to wait for compaction, or gets small pages")
        .change("echo 1 | sudo tee /proc/sys/vm/compact_memory")
}

fn defrag(facts: &Facts) -> Check {
    let id = "defrag";
    match facts.defrag.as_deref() {
        None => Check::unknown(id, format!("{THP}/defrag cannot be read")),
        Some(word @ ("never" | "defer")) => Check::slow(id, word)
            .costs("a huge page is had only where one lies free: in fragmented memory, small ones take its place")
            .change(format!("echo madvise | sudo tee {THP}/defrag")),
        Some(word) => Check::ok(id, format!("{word}: memory is compacted for those who ask")),
    }
}

fn hugetlb(pages: Option<Hugetlb>) -> Check {
    let id = "hugetlb";
    let costs = "--pages hugetlb is refused; nothing else needs them";
    let reserve = "sudo sysctl vm.nr_hugepages=8";
    match pages {
        None => Check::unknown(id, "/proc/meminfo cannot be read"),
        Some(Hugetlb { size: None, .. }) => Check::missing(id, "this kernel has none")
            .costs(costs)
            .change("boot a kernel built with CONFIG_HUGETLBFS=y"),
        Some(Hugetlb {
            total: 0,
            overcommit: 0,
            ..
        }) => Check::missing(id, "none reserved")
            .costs(costs)
            .change(reserve),
        Some(Hugetlb {
            total,
            free: 0,
            overcommit: 0,
            ..
        }) => Check::missing(id, format!("all {total} in use"))
            .costs(costs)
            .change(reserve),
        Some(Hugetlb {
            size,
            total,
            free,
            overcommit,
        }) => {
            let size = size.map_or(String::new(), |s| format!(" of {}", Size(s)));
            let more = match overcommit {
                0 => String::new(),
                n => format!(", and {n} more when asked for"),
            };
            Check::ok(id, format!("{free} of {total}{size} free{more}"))
        }
    }
}

/// What a ladder needs beside the program: buffers, pipes, pages in flight.
const ENOUGH: u64 = 256 << 20;

fn memory_cgroup(limit: Option<Option<Limit>>) -> Check {
    let id = "memory-cgroup";
    let round = |bytes: u64| format!("{} MiB", bytes >> 20);
    match limit {
        None => Check::unknown(id, "/proc/self/cgroup or /sys/fs/cgroup cannot be read"),
        Some(None) => Check::ok(id, "no limit"),
        Some(Some(Limit { most, used })) => {
            let in_use = used.map_or("use unknown".to_owned(), |used| {
                format!("{} in use", round(used))
            });
            let found = format!("limit {}, {in_use}", round(most));
            if most >= ENOUGH {
                return Check::ok(id, found);
            }
            Check::slow(id, found)
                .costs("pages in flight are charged to it, lent ones 2 MiB at a time even where they no longer show in RSS: the process may be killed")
                .change("docker run --memory 1g, or systemd-run -p MemoryMax=1G")
        }
    }
}

#[cfg(test)]
mod tests;
