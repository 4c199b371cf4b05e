//! What differs between machines and methods.

use std::collections::BTreeSet;

use fullbore_sys::size::Size;
use serde::Serialize;

use super::RunGroup;
use super::plain;
use crate::machine::Machine;
use crate::saved::load::Saved;
use crate::show::number::memory;
use crate::worker::timing::Until;

/// Something that is not the same in every group.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Difference {
    /// What it is.
    pub what: String,
    /// What it is in each group; several values of one group are separated by ` | `.
    pub values: Vec<String>,
}

/// What is looked at, and how it is shown. Texts come from a file: see [`plain`].
fn traits(run: &Saved) -> Vec<(String, String)> {
    let machine = &run.head().machine;
    let mut traits: Vec<(String, String)> = Vec::new();
    let mut push = |what: &str, value: String| traits.push((what.to_owned(), value));
    push("version of fullbore", plain(Some(&run.head().version)));
    push("kernel", plain(machine.kernel.as_deref()));
    hardware(machine, &mut push);
    settings(machine, &mut push);
    method(run, &mut push);
    for (name, state) in &machine.mitigations {
        let name = format!("mitigation of {}", plain(Some(name)));
        traits.push((name, plain(Some(state))));
    }
    traits
}

fn hardware(machine: &Machine, push: &mut impl FnMut(&str, String)) {
    push("CPU", plain(machine.cpu_model.as_deref()));
    push("architecture", plain(Some(&machine.arch)));
    let cpus = machine.cpus_online.as_ref().map(|c| c.len().to_string());
    push("CPUs online", plain(cpus.as_deref()));
    let caches = machine.topology.last_level_caches.iter();
    let mut caches: Vec<_> = caches
        .map(|c| {
            let size = c.size.map_or("?".into(), |s| Size(s).to_string());
            format!("L{} {size} for {} CPUs", c.level, c.cpus.len())
        })
        .collect();
    caches.sort_unstable();
    caches.dedup();
    push("last-level cache", caches.join(", "));
    push("memory", plain(machine.memory_total.map(memory).as_deref()));
    let hypervisor = match machine.hypervisor {
        None => "none seen".into(),
        Some(kind) => format!("{kind:?}").to_lowercase(),
    };
    push("hypervisor", hypervisor);
    push("page size", Size(machine.page_size as u64).to_string());
}

fn settings(machine: &Machine, push: &mut impl FnMut(&str, String)) {
    push(
        "CPUs allowed",
        machine.topology.cpus_allowed.len().to_string(),
    );
    push("governor", plain(machine.governor.as_deref()));
    push(
        "transparent huge pages",
        plain(machine.thp_enabled.as_deref()),
    );
    push("THP defrag", plain(machine.thp_defrag.as_deref()));
    push("THP size", size(machine.thp_size));
    push("fs.pipe-max-size", size(machine.pipe_max_size));
    let soft = machine.pipe_user_pages_soft.map(|n| n.to_string());
    push("fs.pipe-user-pages-soft", plain(soft.as_deref()));
}

fn method(run: &Saved, push: &mut impl FnMut(&str, String)) {
    let cpus = |[writer, reader]: [usize; 2]| format!("{writer}, {reader}");
    match run {
        Saved::Ladder(run) => {
            push("CPUs of writer and reader", cpus(run.method.made.cpus));
            push("pairs at once", (run.method.pairs.len() + 1).to_string());
            push("rounds", run.method.made.rounds_done.to_string());
            let each = match run.method.until {
                Until::Seconds(s) => format!("{s:.2} s"),
                Until::Bytes(n) => Size(n).to_string(),
            };
            push("length of a trial", each);
        }
        Saved::Sweep(sweep) => {
            let method = &sweep.method;
            push("CPUs of writer and reader", cpus(method.made.cpus));
            push("rounds", method.made.rounds_done.to_string());
            push("length of a trial", format!("{:.2} s", method.seconds));
            push("write method", method.write_with.to_string());
            push("read method", method.read_with.to_string());
            push("pages", method.pages.to_string());
            push("wait", method.wait.to_string());
        }
        Saved::Bandwidth(run) => {
            let method = &run.method;
            push("CPUs", cpus(method.made.cpus));
            push("rounds", method.made.rounds_done.to_string());
            push("length of a trial", format!("{:.2} s", method.seconds));
            push("message", Size(method.message_bytes).to_string());
            push("buffer", Size(method.memory_bytes).to_string());
            push("file system", plain(method.file_system.as_deref()));
        }
        Saved::Profile(_) => {}
    }
}

fn size(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| plain(None), |n| Size(n).to_string())
}

/// What is not the same in all groups.
pub(super) fn differences(groups: &[RunGroup]) -> Vec<Difference> {
    let traits: Vec<Vec<Vec<(String, String)>>> = groups
        .iter()
        .map(|g| g.runs.iter().map(traits).collect())
        .collect();
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in traits.iter().flatten().flatten() {
        if !names.contains(&&**name) {
            names.push(name);
        }
    }
    names
        .into_iter()
        .filter_map(|what| {
            let values: Vec<_> = traits.iter().map(|group| values(group, what)).collect();
            let differs = values.windows(2).any(|pair| pair[0] != pair[1]);
            differs.then(|| Difference {
                what: what.to_owned(),
                values,
            })
        })
        .collect()
}

/// Every value that the runs of a group have, each once.
fn values(group: &[Vec<(String, String)>], what: &str) -> String {
    let of = |run: &Vec<(String, String)>| {
        let found = run.iter().find(|(name, _)| name == what);
        found.map_or("–".to_owned(), |(_, value)| value.clone())
    };
    let values: BTreeSet<_> = group.iter().map(of).collect();
    Vec::from_iter(values).join(" | ")
}

/// The hardware that differs between groups, if any. Runs never say which machine they are from: equal hardware may
/// still be two machines.
pub(super) fn other_hardware(groups: &[RunGroup]) -> Option<String> {
    let mut names = Vec::new();
    let machine = &groups.first()?.runs.first()?.head().machine;
    hardware(machine, &mut |what, _| names.push(what.to_owned()));
    let differences = differences(groups);
    let differing: Vec<_> = differences
        .iter()
        .map(|d| &*d.what)
        .filter(|what| names.iter().any(|n| n == what))
        .collect();
    (!differing.is_empty()).then(|| differing.join(", "))
}
