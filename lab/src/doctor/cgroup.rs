//! Limits of the control groups this process is in, of either version. Their names stay here: they may say whose they are.

use std::path::Path;

use crate::machine::{read, read_number};

/// Bytes that the memory cgroup may use, and uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limit {
    pub(super) most: u64,
    pub(super) used: Option<u64>,
}

/// The tightest limit of memory. Outer `None`: not known. Inner `None`: no limit.
pub(super) fn memory() -> Option<Option<Limit>> {
    tightest("memory", |directory| {
        let [limit, usage] = if directory.is_unified {
            ["memory.max", "memory.current"]
        } else {
            ["memory.limit_in_bytes", "memory.usage_in_bytes"]
        };
        // "max" is no number, and the first version's "none" is about 2⁶³.
        let most = read_number::<u64>(&directory.file(limit)).filter(|&most| most < 1 << 62)?;
        let used = read_number(&directory.file(usage));
        Some((most as f64, Limit { most, used }))
    })
}

/// The tightest quota of time, in CPUs. `None` as in [`memory`].
pub(super) fn cpus() -> Option<Option<f64>> {
    tightest("cpu", |directory| {
        let text = if directory.is_unified {
            read(&directory.file("cpu.max"))?
        } else {
            let file = |name| read(&directory.file(name));
            format!(
                "{} {}",
                file("cpu.cfs_quota_us")?,
                file("cpu.cfs_period_us")?
            )
        };
        cpus_of(&text).map(|cpus| (cpus, cpus))
    })
}

/// `200000 100000`: so many of so many microseconds. No limit is `max` or -1.
fn cpus_of(quota_and_period: &str) -> Option<f64> {
    let (quota, period) = quota_and_period.split_once(' ')?;
    let (quota, period) = (quota.parse::<u32>().ok()?, period.parse::<u32>().ok()?);
    (period > 0).then(|| f64::from(quota) / f64::from(period))
}

/// The limit with the smallest key, among those of this process's cgroup and of those around it.
fn tightest<T>(
    controller: &str,
    limit: impl Fn(&Directory) -> Option<(f64, T)>,
) -> Option<Option<T>> {
    let directories = directories(&read("/proc/self/cgroup")?, controller);
    let is_known = directories.iter().any(|d| Path::new(&d.path).exists());
    let limits = directories.iter().filter_map(limit);
    let tightest = limits.min_by(|(one, _), (other, _)| one.total_cmp(other));
    is_known.then(|| tightest.map(|(_, limit)| limit))
}

#[derive(Debug, PartialEq, Eq)]
struct Directory {
    path: String,
    /// Of the second version.
    is_unified: bool,
}

impl Directory {
    fn file(&self, name: &str) -> String {
        format!("{}/{name}", self.path)
    }
}

/// Where the files of a controller may be, from the innermost cgroup outwards.
fn directories(cgroup: &str, controller: &str) -> Vec<Directory> {
    let mut found = Vec::new();
    for line in cgroup.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else {
            continue;
        };
        let is_unified = controllers.is_empty();
        let root = if is_unified {
            "/sys/fs/cgroup".to_owned()
        } else if controllers.split(',').any(|c| c == controller) {
            format!("/sys/fs/cgroup/{controller}")
        } else {
            continue;
        };
        found.extend(Path::new(path).ancestors().map(|path| Directory {
            path: format!("{root}{}", path.to_string_lossy().trim_end_matches('/')),
            is_unified,
        }));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_are_looked_at_from_the_inside_out() {
        let text = "9:name=systemd:/\n4:memory,hugetlb:/a/b\n2:cpu,cpuacct:/\n0::/c\n";
        let paths = |controller| -> Vec<String> {
            let found = directories(text, controller).into_iter();
            found.map(|d| d.path).collect()
        };
        let memory = [
            "/sys/fs/cgroup/memory/a/b",
            "/sys/fs/cgroup/memory/a",
            "/sys/fs/cgroup/memory",
            "/sys/fs/cgroup/c",
            "/sys/fs/cgroup",
        ];
        assert_eq!(paths("memory"), memory);
        let cpu = ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/c", "/sys/fs/cgroup"];
        assert_eq!(paths("cpu"), cpu);
        assert!(directories("nonsense\n", "cpu").is_empty());
    }

    #[test]
    fn quota_is_read_in_both_forms() {
        assert_eq!(cpus_of("150000 100000"), Some(1.5));
        for none in ["max 100000", "-1 100000", "1 0", "", "1"] {
            assert_eq!(cpus_of(none), None, "{none}");
        }
    }
}
