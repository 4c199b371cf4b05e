//! How large pipes may be, and how much memory all pipes of a user may hold.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use fullbore_sys::size::Size;
use fullbore_sys::{calls, capacity};

use super::Check;
use crate::machine::{Machine, read_number};

/// A new pipe has so many slots, unless its user holds too much already.
const SLOTS: u64 = 16;
/// What everything here was measured with.
const LARGE: u64 = 1 << 20;

pub(super) struct Facts {
    pub(super) page_size: u64,
    /// fs.pipe-max-size
    pub(super) max_size: Option<u64>,
    /// Bytes that a new pipe has.
    pub(super) new_pipe: Result<u64, String>,
    /// Bytes that it was granted when as much as possible was asked for, and why not more.
    pub(super) granted: Result<(u64, Option<String>), String>,
    /// fs.pipe-user-pages-soft and -hard, in pages; 0 is no limit.
    pub(super) soft: Option<u64>,
    pub(super) hard: Option<u64>,
    pub(super) in_use: Option<InUse>,
}

/// The pipes of this user that can be seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct InUse {
    pub(super) pipes: usize,
    /// Processes of this user whose descriptors were looked at.
    pub(super) processes: usize,
    /// Those that do not let us.
    pub(super) hidden: usize,
}

impl Facts {
    pub(super) fn read(machine: &Machine) -> Self {
        let pipe = calls::pipe().map_err(|e| crate::sys::plain(&e));
        let end = pipe.as_ref().map(|(_, write)| write);
        let error = |e: fullbore_sys::Error| e.to_string();
        let new_pipe = end
            .map_err(Clone::clone)
            .and_then(|end| capacity::get(end).map_err(error));
        let granted = end
            .map_err(Clone::clone)
            .and_then(|end| capacity::largest(end).map_err(error));
        Self {
            page_size: machine.page_size as u64,
            max_size: machine.pipe_max_size,
            new_pipe: new_pipe.map(|bytes| bytes as u64),
            granted: granted.map(|g| (g.granted as u64, g.refusal.map(|e| e.to_string()))),
            soft: machine.pipe_user_pages_soft,
            hard: read_number("/proc/sys/fs/pipe-user-pages-hard"),
            in_use: pipes_in_use(),
        }
    }
}

/// Looks at the descriptors of this user's processes, for a fifth of a second at most. No pipe is opened: that would
/// make us one of its readers.
fn pipes_in_use() -> Option<InUse> {
    let deadline = Instant::now() + Duration::from_millis(200);
    let own = rustix::process::geteuid().as_raw();
    let mut pipes = HashSet::new();
    let mut found = InUse::default();
    for entry in fs::read_dir("/proc").ok()?.flatten() {
        let is_process = entry.file_name().as_encoded_bytes()[0].is_ascii_digit();
        let is_own = || entry.metadata().is_ok_and(|m| m.uid() == own);
        if !is_process || !is_own() {
            continue;
        }
        let Ok(descriptors) = fs::read_dir(entry.path().join("fd")) else {
            found.hidden += 1;
            continue;
        };
        if Instant::now() > deadline {
            found.hidden += 1;
            continue;
        }
        found.processes += 1;
        let targets = descriptors
            .flatten()
            .filter_map(|fd| fs::read_link(fd.path()).ok());
        pipes.extend(targets.filter(|t| t.as_os_str().as_encoded_bytes().starts_with(b"pipe:")));
    }
    found.pipes = pipes.len();
    // Not even our own: this is not the /proc of this process.
    (found.processes > 0).then_some(found)
}

pub(super) fn judge(facts: &Facts) -> Vec<Check> {
    vec![capacity_of_one(facts), pages_of_user(facts)]
}

fn capacity_of_one(facts: &Facts) -> Check {
    let id = "pipe-max-size";
    let limit = facts
        .max_size
        .map_or("unknown".to_owned(), |bytes| Size(bytes).to_string());
    let costs = "large pipes are what makes most rungs fast: with 64 KiB each side waits for the other 16 times as often";
    match &facts.granted {
        Err(why) => Check::missing(
            id,
            format!("limit {limit}; no capacity could be asked for: {why}"),
        )
        .costs(costs)
        .change(super::ALLOW_CALLS),
        Ok((granted, why)) if *granted < LARGE => {
            let why = why.as_ref().map_or(String::new(), |why| format!(": {why}"));
            Check::slow(
                id,
                format!("limit {limit}, granted {}{why}", Size(*granted)),
            )
            .costs(costs)
            .change("sudo sysctl fs.pipe-max-size=1048576, and see pipe-user-pages")
        }
        Ok((granted, _)) => Check::ok(id, format!("limit {limit}, granted {}", Size(*granted))),
    }
}

fn pages_of_user(facts: &Facts) -> Check {
    let id = "pipe-user-pages";
    let limit = |pages: Option<u64>| match pages {
        None => "unknown".to_owned(),
        Some(0) => "none".to_owned(),
        Some(pages) => format!("{pages} pages ({})", Size(pages * facts.page_size)),
    };
    let in_use = facts.in_use.map_or("use unknown".to_owned(), |in_use| {
        let InUse {
            pipes,
            processes,
            hidden,
        } = in_use;
        let unseen = match hidden {
            0 => String::new(),
            n => format!(" ({n} more cannot be seen)"),
        };
        format!(
            "{pipes} pipes open in {processes} processes of this user{unseen}, {} pages where they are of the usual size",
            pipes as u64 * SLOTS
        )
    });
    let found = format!(
        "soft limit {}, hard limit {}; {in_use}",
        limit(facts.soft),
        limit(facts.hard)
    );
    match facts.new_pipe {
        Ok(bytes) if bytes < SLOTS * facts.page_size => Check::slow(
            id,
            format!(
                "a new pipe has only {}: this user's pipes are over the limit; {found}",
                Size(bytes)
            ),
        )
        .costs("every new pipe is that small: writer and reader take turns for every few KiB")
        .change("close pipes, or sudo sysctl fs.pipe-user-pages-soft=0 (no limit)"),
        Ok(_) if facts.soft.is_none() && facts.hard.is_none() => Check::unknown(id, found),
        Ok(_) => Check::ok(id, found),
        Err(ref why) => Check::unknown(id, format!("no pipe to try ({why}); {found}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::CheckState;

    fn facts() -> Facts {
        Facts {
            page_size: 4096,
            max_size: Some(1 << 20),
            new_pipe: Ok(64 << 10),
            granted: Ok((1 << 20, None)),
            soft: Some(16384),
            hard: Some(0),
            in_use: Some(InUse {
                pipes: 3,
                processes: 2,
                hidden: 1,
            }),
        }
    }

    #[test]
    fn ordinary_limits_are_in_order_and_told_with_what_is_in_use() {
        assert_eq!(capacity_of_one(&facts()).found, "limit 1MiB, granted 1MiB");
        let check = pages_of_user(&facts());
        assert_eq!(check.state, CheckState::Ok);
        assert_eq!(
            check.found,
            "soft limit 16384 pages (64MiB), hard limit none; 3 pipes open in 2 processes of this user (1 more cannot \
             be seen), 48 pages where they are of the usual size"
        );
    }

    #[test]
    fn small_pipes_cost_wherever_the_limit_is() {
        let small = Facts {
            granted: Ok((64 << 10, Some("EPERM".into()))),
            ..facts()
        };
        assert_eq!(capacity_of_one(&small).state, CheckState::Costs);
        let over_the_limit = Facts {
            new_pipe: Ok(8192),
            ..facts()
        };
        let check = pages_of_user(&over_the_limit);
        assert_eq!(check.state, CheckState::Costs);
        assert!(check.found.starts_with("a new pipe has only 8KiB"));
        // 16 slots of 64 KiB pages.
        let arm = Facts {
            page_size: 64 << 10,
            new_pipe: Ok(1 << 20),
            ..facts()
        };
        assert_eq!(pages_of_user(&arm).state, CheckState::Ok);
    }

    #[test]
    fn what_cannot_be_read_is_unknown() {
        let nothing = Facts {
            max_size: None,
            soft: None,
            hard: None,
            in_use: None,
            ..facts()
        };
        assert_eq!(pages_of_user(&nothing).state, CheckState::Unknown);
        assert_eq!(
            capacity_of_one(&nothing).found,
            "limit unknown, granted 1MiB"
        );
        let refused = Facts {
            granted: Err("EPERM".into()),
            new_pipe: Err("EPERM".into()),
            ..facts()
        };
        assert_eq!(capacity_of_one(&refused).state, CheckState::Missing);
        assert_eq!(pages_of_user(&refused).state, CheckState::Unknown);
    }

    #[test]
    fn pipes_of_this_process_are_seen() {
        let Some(before) = pipes_in_use() else {
            return crate::testing::skip(
                "pipes_of_this_process_are_seen",
                "/proc shows no processes",
            );
        };
        let pipes: Vec<_> = (0..200).map(|_| calls::pipe().unwrap()).collect();
        let during = pipes_in_use().unwrap();
        // Others of this user come and go, but not so many.
        if during.hidden == 0 {
            assert!(during.pipes > before.pipes + 100, "{before:?} {during:?}");
        }
        drop(pipes);
    }
}
