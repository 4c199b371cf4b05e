//! What this user may see of the kernel: samples, symbols, its own benchmark.

use std::fs::File;
use std::io::Read;

use perf_event::Builder;
use perf_event::events::Software;

use fullbore_sys::Error;

use super::Check;
use super::Presence;
use crate::machine::read_number;
use crate::worker::gup_trial::test_file;

pub(super) struct Facts {
    /// kernel.perf_event_paranoid
    pub(super) paranoid: Option<i32>,
    /// Whether this kernel has perf at all.
    pub(super) perf: Presence,
    /// Whether the kernel's side of this process may be sampled.
    pub(super) sampling: Result<(), String>,
    /// kernel.kptr_restrict
    pub(super) kptr_restrict: Option<u32>,
    /// Whether /proc/kallsyms shows addresses to this user; `None` where it cannot be read.
    pub(super) shows_addresses: Option<bool>,
    /// Bytes of gup_test's request, or why it is unavailable.
    pub(super) gup_test: Result<usize, Error>,
}

impl Facts {
    pub(super) fn read() -> Self {
        const PARANOID: &str = "/proc/sys/kernel/perf_event_paranoid";
        Self {
            paranoid: read_number(PARANOID),
            perf: Presence::of(PARANOID, "/proc/sys/kernel"),
            sampling: sample_kernel().map_err(|e| crate::sys::plain(&e)),
            kptr_restrict: read_number("/proc/sys/kernel/kptr_restrict"),
            shows_addresses: beginning_of("/proc/kallsyms").map(|text| has_addresses(&text)),
            gup_test: test_file::size_here(),
        }
    }
}

/// Opens a counter as a profile does, and closes it.
fn sample_kernel() -> std::io::Result<()> {
    let clock = Builder::new(Software::CPU_CLOCK).include_kernel().build();
    clock.map(drop)
}

/// A part says as much as the whole, which is 10 MiB.
fn beginning_of(path: &str) -> Option<String> {
    let mut text = Vec::new();
    let beginning = File::open(path).ok()?.take(1 << 18);
    { beginning }.read_to_end(&mut text).ok()?;
    (!text.is_empty()).then(|| String::from_utf8_lossy(&text).into_owned())
}

/// Hidden addresses are shown as zero. (Some symbols *are* at zero.)
fn has_addresses(kallsyms: &str) -> bool {
    let addresses = kallsyms.lines().filter_map(|line| line.split(' ').next());
    addresses.into_iter().any(|a| a.bytes().any(|b| b != b'0'))
}

pub(super) fn judge(facts: &Facts) -> Vec<Check> {
    vec![perf(facts), symbols(facts), gup_test(&facts.gup_test)]
}

fn perf(facts: &Facts) -> Check {
    let id = "perf-event-paranoid";
    let value = facts
        .paranoid
        .map_or("unknown".to_owned(), |v| v.to_string());
    let costs = "fullbore profile cannot see into the kernel, where a pipe's time goes";
    match &facts.sampling {
        Ok(()) => Check::ok(id, format!("{value}; the kernel's side may be sampled")),
        Err(why) => {
            let check = |found| Check::missing(id, found).costs(costs);
            let refused = format!("{value}; the kernel's side may not be sampled: {why}");
            match (facts.paranoid, facts.perf) {
                (_, Presence::Absent) => check("this kernel has no perf events".to_owned())
                    .change("boot a kernel built with CONFIG_PERF_EVENTS=y"),
                (Some(level), _) if level > 1 => check(refused)
                    .change("sudo sysctl kernel.perf_event_paranoid=1, or run as root"),
                _ => check(refused)
                    .change("docker run --security-opt seccomp=unconfined --cap-add PERFMON"),
            }
        }
    }
}

fn symbols(facts: &Facts) -> Check {
    let id = "kptr-restrict";
    let value = facts
        .kptr_restrict
        .map_or("unknown".to_owned(), |v| v.to_string());
    match facts.shows_addresses {
        None => Check::unknown(id, format!("{value}; /proc/kallsyms cannot be read")),
        Some(true) => Check::ok(id, format!("{value}; the kernel's symbols are shown")),
        Some(false) => Check::missing(
            id,
            format!("{value}; the kernel's symbols are shown without addresses"),
        )
        .costs("fullbore profile cannot name the kernel's functions")
        .change(match facts.kptr_restrict {
            // Then kallsyms asks whether this user may sample the kernel (kernel source, `kallsyms_show_value`).
            Some(0) => "sudo sysctl kernel.perf_event_paranoid=1, or run as root",
            _ => "sudo sysctl kernel.kptr_restrict=0 kernel.perf_event_paranoid=1, or run as root",
        }),
    }
}

fn gup_test(found: &Result<usize, Error>) -> Check {
    let id = "gup-test";
    match found {
        Ok(bytes) => Check::ok(id, format!("there, in its form of {bytes} bytes")),
        Err(e) => {
            let found = format!("{}: {}", e.what(), e.why());
            let check = Check::missing(id, found).costs(
                "fullbore gup estimates from the outside, by vmsplice against splice and tee",
            );
            match e.what_to_do() {
                "" => check,
                change => check.change(change),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::CheckState;

    fn facts() -> Facts {
        Facts {
            paranoid: Some(2),
            perf: Presence::There,
            sampling: Err("Permission denied".into()),
            kptr_restrict: Some(1),
            shows_addresses: Some(false),
            gup_test: Err(Error::new("no gup_test", "not here", "boot another kernel")),
        }
    }

    #[test]
    fn advice_fits_what_stands_in_the_way() {
        let advice = |facts: Facts| perf(&facts).change.unwrap();
        assert!(advice(facts()).contains("perf_event_paranoid=1"));
        let sandboxed = Facts {
            paranoid: Some(-1),
            ..facts()
        };
        assert!(advice(sandboxed).contains("seccomp"));
        let masked = Facts {
            paranoid: None,
            perf: Presence::Unseen,
            ..facts()
        };
        assert!(advice(masked).contains("seccomp"));
        let without = Facts {
            paranoid: None,
            perf: Presence::Absent,
            ..facts()
        };
        assert!(advice(without).contains("CONFIG_PERF_EVENTS"));
        // Root may, whatever the setting says.
        let root = Facts {
            paranoid: Some(4),
            sampling: Ok(()),
            ..facts()
        };
        assert_eq!(perf(&root).state, CheckState::Ok);
    }

    #[test]
    fn hidden_addresses_are_told_from_those_that_are_zero() {
        let hidden = "0000000000000000 A fixed_percpu_data\n0000000000000000 T _text\n";
        assert!(!has_addresses(hidden));
        let shown = "0000000000000000 A fixed_percpu_data\nffffffff81000000 T _text\n";
        assert!(has_addresses(shown));
        assert!(!has_addresses(""));
        assert_eq!(symbols(&facts()).state, CheckState::Missing);
        let change = |kptr_restrict| {
            let facts = Facts {
                kptr_restrict,
                ..facts()
            };
            symbols(&facts).change.unwrap()
        };
        assert!(change(Some(1)).contains("kptr_restrict=0"));
        assert!(!change(Some(0)).contains("kptr_restrict"));
        let unreadable = Facts {
            shows_addresses: None,
            ..facts()
        };
        assert_eq!(symbols(&unreadable).state, CheckState::Unknown);
    }

    #[test]
    fn missing_gup_test_says_how_to_get_it() {
        let check = gup_test(&facts().gup_test);
        assert_eq!(check.found, "no gup_test: not here");
        assert_eq!(check.change.as_deref(), Some("boot another kernel"));
        assert_eq!(gup_test(&Ok(80)).state, CheckState::Ok);
    }
}
