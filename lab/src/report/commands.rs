//! The command that repeats a run.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::bandwidth_chart::is_of_conduits;
use super::text::safe;
use crate::bandwidth::{self, column::columns};
use crate::ladder::run::Run;
use crate::ladder::rung;
use crate::profile::profiled::Profile;
use crate::saved::load::Saved;
use crate::show::number::typed_size;
use crate::sweep::Sweep;
use crate::worker::timing::Until;

/// The command that repeats a run on the same machine: same CPUs, same order of trials.
pub fn command(saved: &Saved) -> String {
    let mut command = match saved {
        Saved::Ladder(run) => ladder(run),
        Saved::Profile(run) => profile(run),
        Saved::Sweep(run) => sweep(run),
        Saved::Bandwidth(run) => of_bandwidth(run),
    };
    if let Some(label) = &saved.head().label {
        let _ = write!(command, " --label {}", quoted(label));
    }
    command
}

fn ladder(run: &Run) -> String {
    let method = &run.method;
    let mut command = String::from("fullbore ladder");
    // With several pairs each rung stands there twice, the second time with its number of pairs in its name.
    let ids = run.rungs.iter().map(|r| r.id.as_str());
    let ids: Vec<_> = ids
        .filter(|id| method.pairs.is_empty() || is_rung(id))
        .collect();
    command += &rungs(&ids);
    let _ = write!(command, " --rounds {}", method.made.rounds);
    match method.until {
        Until::Seconds(s) => drop(write!(command, " --seconds {s}")),
        Until::Bytes(n) => drop(write!(command, " --bytes {n}")),
    }
    match method.pairs.len() {
        0 => command += &cpus(method.made.cpus),
        pairs => drop(write!(command, " --pairs {pairs}")),
    }
    let _ = write!(command, " --seed {}", method.made.seed);
    command
}

fn profile(run: &Profile) -> String {
    let ids: Vec<_> = run.rungs.iter().map(|r| r.id.as_str()).collect();
    format!(
        "fullbore profile{} --rounds {} --seconds {} --frequency {}{}",
        rungs(&ids),
        run.method.rounds,
        run.method.seconds,
        run.method.frequency_hz,
        cpus(run.method.cpus)
    )
}

fn sweep(run: &Sweep) -> String {
    let method = &run.method;
    let ways = match &method.preset {
        Some(preset) => format!(" --preset {}", quoted(preset)),
        None => {
            let list = |sizes: &[u64]| {
                sizes
                    .iter()
                    .map(|n| typed_size(*n))
                    .collect::<Vec<_>>()
                    .join(",")
            };
            format!(
                " --buf-size {} --pipe-size {} --write-with {} --read-with {} --pages {} --wait {}",
                list(&run.buffers),
                list(&run.capacities),
                method.write_with,
                method.read_with,
                method.pages,
                method.wait
            )
        }
    };
    format!(
        "fullbore sweep{ways} --rounds {} --seconds {}{} --seed {}",
        method.made.rounds,
        method.seconds,
        cpus(method.made.cpus),
        method.made.seed
    )
}

fn of_bandwidth(run: &bandwidth::result::BandwidthRun) -> String {
    let method = &run.method;
    let rates = run.columns.iter().map(|c| c.id.as_str());
    let measured: Vec<_> = rates
        .chain(run.latencies.iter().map(|l| l.id.as_str()))
        .collect();
    let all = columns(is_of_conduits(run));
    let columns = if all.iter().map(|c| c.id).eq(measured.iter().copied()) {
        String::new()
    } else {
        // A round trip has the id of what it goes through.
        let ids: BTreeSet<_> = measured.into_iter().collect();
        let ids: Vec<_> = ids.into_iter().collect();
        format!(" --columns {}", quoted(&ids.join(",")))
    };
    format!(
        "fullbore bandwidth{}{columns} --rounds {} --seconds {}{} --seed {}",
        if is_of_conduits(run) {
            " --conduits"
        } else {
            ""
        },
        method.made.rounds,
        method.seconds,
        cpus(method.made.cpus),
        method.made.seed
    )
}

fn is_rung(id: &str) -> bool {
    rung::ladder().iter().any(|r| r.id == id)
}

/// Nothing where a run has the rungs that it has without an option.
fn rungs(ids: &[&str]) -> String {
    let all = rung::ladder();
    let has = |rungs: &mut dyn Iterator<Item = &rung::Rung>| {
        rungs.map(|r| &*r.id).eq(ids.iter().copied())
    };
    if has(&mut all.iter().filter(|r| r.by_default)) {
        return String::new();
    }
    if has(&mut all.iter()) {
        return " --all".into();
    }
    format!(" --rungs {}", quoted(&ids.join(",")))
}

fn cpus([writer, reader]: [usize; 2]) -> String {
    format!(" --cpus {writer},{reader}")
}

/// A word for a shell, quoted where it has to be.
fn quoted(text: &str) -> String {
    let text = safe(text);
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.,/:=+".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text;
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::saved::load::load;

    #[test]
    fn command_of_a_saved_run_repeats_it() {
        let run = load(include_str!("../../tests/data/ladder.json")).unwrap();
        let command = command(&run);
        let (rungs, rest) = command.split_once(" --rounds ").unwrap();
        assert_eq!(
            rungs,
            "fullbore ladder --rungs write-read,write-read-huge,vmsplice-splice,vmsplice-splice-huge,busy-loop,\
             large-pipe,relay,copy-one-core,fresh-read-one-core"
        );
        assert_eq!(
            rest,
            "5 --seconds 0.9 --cpus 0,1 --seed 1795241060653272834 --label '2-CPU KVM guest'"
        );
    }

    #[test]
    fn rungs_are_named_only_where_they_have_to_be() {
        let all = rung::ladder();
        let ids = |all: &[rung::Rung], by_default: bool| {
            let rungs = all.iter().filter(|r| r.by_default || !by_default);
            let ids: Vec<_> = rungs.map(|r| r.id.as_ref()).collect();
            super::rungs(&ids)
        };
        assert_eq!(ids(&all, true), "");
        assert_eq!(ids(&all, false), " --all");
        assert_eq!(ids(&all[..2], false), " --rungs write-read,write-read-huge");
    }

    #[test]
    fn whatever_a_name_holds_it_stays_one_word() {
        assert_eq!(quoted("busy-loop,relay"), "busy-loop,relay");
        assert_eq!(quoted("$(reboot) 'x"), r"'$(reboot) '\''x'");
        assert_eq!(quoted(""), "''");
        assert_eq!(quoted("a\nb"), "'a\\nb'");
    }
}
