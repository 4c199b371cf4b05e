//! The page: one file that needs nothing else, no network and no script.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::bandwidth_chart;
use super::chart;
use super::commands::command;
use super::ladder_chart::machine_line;
use super::samples::samples;
use super::sections;
use super::text::{bytes, safe};
use crate::machine::Machine;
use crate::saved::load::Saved;
use crate::show::number::{count, memory, when};

const STYLE: &str = include_str!("page.css");

/// What the page may load: its own style, and pictures that are part of it.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'";

/// A page of these runs, grouped by kernel and CPU.
pub fn page(runs: &[Saved]) -> String {
    let groups = groups(runs);
    let title = match &groups[..] {
        [(machine, _)] => format!("Linux pipes on {machine}"),
        _ => format!(
            "Linux pipes on {}",
            count(groups.len(), "kind") + " of machine"
        ),
    };
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="generator" content=(concat!("fullbore ", env!("CARGO_PKG_VERSION")));
                title { (title) }
                style { (PreEscaped(STYLE)) (PreEscaped(chart::STYLE)) }
            }
            body {
                header {
                    h1 { (title) }
                    p.soft { "How fast bytes move through a pipe, and why. Measured by Fullbore; made to be shared: this file needs nothing else." }
                    (contents(&groups))
                }
                main {
                    @for (g, (machine, members)) in groups.iter().enumerate() {
                        section id=(format!("m{g}")) {
                            @if groups.len() > 1 { h2 { (machine) } }
                            @for (i, saved) in members { (run(saved, &format!("r{i}"), groups.len() > 1)) }
                        }
                    }
                }
                footer {
                    p { "GiB is 2³⁰ bytes, MB is 10⁶ bytes, a page is 4096 bytes. Figures are medians; 95 % intervals are made by resampling the trials, and promise less where those are few. "
                        "Figures of two machines, or of one machine on two days, must not be compared; ratios within a run may." }
                    p { "Made by " (concat!("fullbore ", env!("CARGO_PKG_VERSION"))) "." }
                }
            }
        }
    }
    .into_string()
        + "\n"
}

type Group<'a> = (String, Vec<(usize, &'a Saved)>);

/// Runs by kernel and CPU, in the order in which each was first seen.
fn groups(runs: &[Saved]) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for (i, saved) in runs.iter().enumerate() {
        let name = machine_line(&saved.head().machine);
        match groups.iter_mut().find(|(known, _)| *known == name) {
            Some((_, members)) => members.push((i, saved)),
            None => groups.push((name, vec![(i, saved)])),
        }
    }
    groups
}

/// Where to find what, once there is more than one thing.
fn contents(groups: &[Group<'_>]) -> Markup {
    let all = groups
        .iter()
        .map(|(_, members)| members.len())
        .sum::<usize>();
    html! {
        @if all > 1 {
            nav aria-label="Contents" {
                ul {
                    @for (g, (machine, members)) in groups.iter().enumerate() {
                        li {
                            @if groups.len() > 1 { a href=(format!("#m{g}")) { (machine) } ": " }
                            @for (n, (i, saved)) in members.iter().enumerate() {
                                @if n > 0 { ", " }
                                a href=(format!("#r{i}")) { (name(saved)) }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn name(saved: &Saved) -> String {
    heading(saved).to_owned()
        + &saved
            .head()
            .label
            .as_deref()
            .map_or_else(String::new, |l| format!(" ({})", safe(l)))
}

fn heading(saved: &Saved) -> &'static str {
    match saved {
        Saved::Ladder(_) => "The ladder",
        Saved::Profile(_) => "Where the time goes",
        Saved::Sweep(_) => "Buffer size and capacity",
        Saved::Bandwidth(run) if bandwidth_chart::is_of_conduits(run) => "Conduits",
        Saved::Bandwidth(_) => "Bandwidth and latency",
    }
}

fn run(saved: &Saved, id: &str, deep: bool) -> Markup {
    html! {
        article id=(id) {
            @if deep { h3 { (heading(saved)) } } @else { h2 { (heading(saved)) } }
            p.soft {
                @if let Some(label) = &saved.head().label { strong { (safe(label)) } " · " }
                (when(saved.head().started_unix_s)) " · fullbore " (safe(&saved.head().version))
            }
            @match saved {
                Saved::Ladder(run) => (sections::of_ladder(run, id)),
                Saved::Profile(run) => (sections::of_profile(run, id)),
                Saved::Sweep(run) => (sections::of_sweep(run, id)),
                Saved::Bandwidth(run) => (sections::of_bandwidth(run, id)),
            }
            (samples(saved))
            details {
                summary { "The machine" }
                (machine(&saved.head().machine))
            }
            p.repeat { "To repeat it on that machine:" }
            pre tabindex="0" { code { (command(saved)) } }
        }
    }
}

/// The machine's kind as a list.
fn machine(machine: &Machine) -> Markup {
    let text = |value: &Option<String>| value.as_deref().map(safe);
    let size = |value: Option<u64>| value.map(bytes);
    let cpus = |cpus: &[usize]| {
        cpus.iter()
            .map(usize::to_string)
            .collect::<Vec<_>>()
            .join(", ")
    };
    let caches: Vec<_> = machine
        .topology
        .last_level_caches
        .iter()
        .map(|c| {
            let size = c
                .size
                .map_or_else(String::new, |s| format!(" {}", bytes(s)));
            format!("L{}{size} of CPUs {}", c.level, cpus(&c.cpus))
        })
        .collect();
    let facts: Vec<(&str, Option<String>)> = vec![
        ("CPU", text(&machine.cpu_model)),
        ("kernel", text(&machine.kernel)),
        ("instruction set", Some(safe(&machine.arch))),
        (
            "hypervisor",
            machine
                .hypervisor
                .as_ref()
                .map(|h| safe(&format!("{h:?}").to_lowercase())),
        ),
        ("CPUs online", machine.cpus_online.as_deref().map(cpus)),
        ("CPUs allowed", Some(cpus(&machine.topology.cpus_allowed))),
        ("last-level caches", Some(caches.join("; "))),
        ("page", Some(bytes(machine.page_size as u64))),
        ("transparent huge pages", text(&machine.thp_enabled)),
        ("their defragmentation", text(&machine.thp_defrag)),
        ("a huge page", size(machine.thp_size)),
        ("largest capacity of a pipe", size(machine.pipe_max_size)),
        (
            "pages in pipes of one user",
            machine.pipe_user_pages_soft.map(|n| n.to_string()),
        ),
        ("memory", machine.memory_total.map(memory)),
        ("clock governor", text(&machine.governor)),
    ];
    html! {
        dl {
            @for (name, value) in facts {
                @if let Some(value) = value.filter(|v| !v.is_empty()) { dt { (name) } dd { (value) } }
            }
            @for (name, value) in &machine.mitigations { dt { (safe(name)) } dd { (safe(value)) } }
        }
    }
}
