//! The biggest cause of a rung in one sentence, and what the next rung does about it. Pure.

use super::cause::Cause;
use super::profiled::SideProfile;
use crate::ladder::rung;
use crate::profile::profiled::Role;

/// A side's name.
pub fn name(role: Role) -> &'static str {
    match role {
        Role::Writer => "writer",
        Role::Reader => "reader",
    }
}

/// Rungs that begin a new series: the one before does not lead to them.
const SERIES: [&str; 7] = [
    "one-core",
    "vmsplice-read-huge-busy",
    "copy-tuned",
    "copy-tuned-4m",
    "fat-constant-read",
    "shared-memory",
    "copy-one-core",
];

/// What takes most of the time of the side that has the most to do, and what the next rung changes.
pub fn sentence(id: &str, sides: &[SideProfile]) -> String {
    let busy = |s: &SideProfile| s.on_cpu_s / s.wall_s.max(1e-9);
    let Some(side) = sides.iter().max_by(|a, b| busy(a).total_cmp(&busy(b))) else {
        return String::new();
    };
    let who = name(side.side);
    let percent = |s: f64| format!("{:.0} %", s / side.wall_s.max(1e-9) * 100.0);
    let (blocked, runnable) = (side.blocked_s, side.runnable_s);
    let mut sentence = match side.causes.first() {
        _ if runnable > side.on_cpu_s.max(blocked) => {
            return format!(
                "the {who} waits for its CPU {} of the time: other work runs there, so this says little",
                percent(runnable)
            );
        }
        _ if blocked > side.on_cpu_s => format!(
            "both sides sleep most of the time (the {who} {}): each waits until the other one wakes it",
            percent(blocked)
        ),
        Some(biggest) => format!(
            "the {who} is the busier side and spends {:.0} % of its CPU time on {}: {}",
            biggest.share * 100.0,
            biggest.cause,
            why(biggest.cause, side.side)
        ),
        None => return "no sample was taken".to_owned(),
    };
    if let Some((next, explanation)) = next(id) {
        sentence += &format!(". Next, {next}: {explanation}");
    }
    sentence
}

fn why(cause: Cause, role: Role) -> &'static str {
    match (cause, role) {
        (Cause::Copy, Role::Writer) => "bytes go from its memory into the pipe's pages",
        (Cause::Copy, Role::Reader) => "bytes go from the pipe's pages into its memory",
        (Cause::Allocation, Role::Writer) => {
            "the kernel finds and clears pages for what is written"
        }
        (Cause::Allocation, Role::Reader) => "references to pages are dropped, and pages freed",
        (Cause::Accounting, _) => {
            "each page is charged to the memory cgroup and taken off it again"
        }
        (Cause::PageLookup, _) => {
            "each call finds the pages behind its addresses and takes a reference to each"
        }
        (Cause::Ring, _) => "slots are filled, passed on and emptied one by one",
        (Cause::Lock, _) => {
            "both sides want the pipe's mutex, which one of them holds for a whole call"
        }
        (Cause::Wake, _) => {
            "it goes to sleep and wakes the other side, which costs an interrupt between CPUs"
        }
        (Cause::Entry, _) => "system calls are entered and left, and move little each",
        (Cause::User, _) => "its own code touches every byte, or looks again and again",
        (Cause::Hidden, _) => "the kernel does not show what it does there",
        (Cause::Other, _) => "nothing known is seen there; the table names the functions",
    }
}

/// The rung after this one, where it goes on from there.
fn next(id: &str) -> Option<(String, &'static str)> {
    let ladder = rung::ladder();
    let at = ladder.iter().position(|r| r.id == id)?;
    let next = ladder.get(at + 1)?;
    (!SERIES.contains(&&*next.id)).then(|| (next.id.to_string(), next.explanation))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::profiled::CauseShare;

    fn side(role: Role, on_cpu_s: f64, cause: Cause) -> SideProfile {
        SideProfile {
            side: role,
            wall_s: 1.0,
            on_cpu_s,
            runnable_s: 0.0,
            blocked_s: 1.0 - on_cpu_s,
            unaccounted_s: 0.0,
            steal_s: None,
            pages: 1e6,
            samples: 100,
            lost: 0,
            causes: vec![CauseShare {
                cause,
                samples: 100,
                share: 0.6,
                ns_per_page: 1.0,
                ns_per_page_ci95: None,
                top: Vec::new(),
            }],
            folded: Vec::new(),
        }
    }

    #[test]
    fn busier_side_and_its_biggest_cause_are_named_with_the_next_rung() {
        let sides = [
            side(Role::Writer, 0.6, Cause::Copy),
            side(Role::Reader, 1.0, Cause::Lock),
        ];
        let text = sentence("large-pipe", &sides);
        assert!(
            text.contains("reader") && text.contains("60 %") && text.contains("mutex"),
            "{text}"
        );
        assert!(text.contains("Next, relay: "), "{text}");
    }

    #[test]
    fn sides_that_sleep_are_said_to_sleep() {
        let sides = [
            side(Role::Writer, 0.2, Cause::Copy),
            side(Role::Reader, 0.3, Cause::Copy),
        ];
        let text = sentence("write-read", &sides);
        assert!(text.contains("the reader 70 %"), "{text}");
    }

    #[test]
    fn a_shared_cpu_is_said_to_be_shared() {
        let mut shared = side(Role::Writer, 0.3, Cause::Copy);
        (shared.runnable_s, shared.blocked_s) = (0.6, 0.1);
        let text = sentence("write-read", &[shared]);
        assert!(text.contains("waits for its CPU 60 %"), "{text}");
    }

    #[test]
    fn last_rung_of_a_series_has_no_next_one() {
        for id in SERIES {
            assert!(rung::ladder().iter().any(|r| r.id == id), "{id}");
        }
        assert_eq!(next("fat-constant"), None);
        assert_eq!(next("auto-read"), None);
        let (id, how) = next("cow-read").unwrap();
        assert!(id == "cow-read-ahead" && how.contains("cache"), "{how}");
        assert_eq!(next("auto-read-one-core"), None);
    }
}
