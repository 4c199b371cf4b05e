//! What this machine allows, what it refuses, what that costs, and how to change it. Nothing here changes anything.
//!
//! One file for each group of checks. In each, reading is apart from judging, which is pure.

mod calls;
mod cgroup;
mod cost;
mod limits;
mod memory_checks;
mod processor;
mod visibility;

use std::path::PathBuf;

use rustix::io::Errno;
use serde::Serialize;

use crate::machine::{self, Machine};
use crate::saved::head::Head;
use crate::sys::plain;

pub use cost::MeasuredCosts;

/// What a check came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub enum CheckState {
    /// As it should be.
    #[serde(rename = "ok")]
    Ok,
    /// It works, and could be faster.
    #[serde(rename = "costs you")]
    Costs,
    /// It is not there, or refused.
    #[serde(rename = "missing")]
    Missing,
    /// This system does not say.
    #[serde(rename = "unknown")]
    Unknown,
}

impl CheckState {
    /// Every state.
    pub const ALL: [Self; 4] = [Self::Ok, Self::Costs, Self::Missing, Self::Unknown];

    /// For people, and the same word as in a document.
    pub fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Costs => "costs you",
            Self::Missing => "missing",
            Self::Unknown => "unknown",
        }
    }
}

/// One thing that was looked at.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Check {
    /// What was looked at; stays the same from version to version.
    pub id: &'static str,
    /// Result.
    pub state: CheckState,
    /// The value, or what a trial showed.
    pub found: String,
    /// What that costs.
    pub costs: Option<String>,
    /// The command, or what else changes it.
    pub change: Option<String>,
    /// Nothing works while this is so.
    pub is_fatal: bool,
}

impl Check {
    fn new(id: &'static str, state: CheckState, found: impl Into<String>) -> Self {
        Self {
            id,
            state,
            found: found.into(),
            costs: None,
            change: None,
            is_fatal: false,
        }
    }

    fn ok(id: &'static str, found: impl Into<String>) -> Self {
        Self::new(id, CheckState::Ok, found)
    }

    fn slow(id: &'static str, found: impl Into<String>) -> Self {
        Self::new(id, CheckState::Costs, found)
    }

    fn missing(id: &'static str, found: impl Into<String>) -> Self {
        Self::new(id, CheckState::Missing, found)
    }

    fn unknown(id: &'static str, found: impl Into<String>) -> Self {
        Self::new(id, CheckState::Unknown, found)
    }

    fn costs(mut self, costs: impl Into<String>) -> Self {
        self.costs = Some(costs.into());
        self
    }

    /// What would help; where descriptors ran out that is known, whatever the check was about.
    fn change(mut self, change: impl Into<String>) -> Self {
        self.change = Some(if self.found.contains(&plain(&Errno::MFILE.into())) {
            "raise the limit of open files (ulimit -n)".to_owned()
        } else {
            change.into()
        });
        self
    }

    fn fatal(mut self) -> Self {
        self.is_fatal = true;
        self
    }
}

/// Checks that belong together.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CheckGroup {
    /// What they are about.
    pub title: &'static str,
    /// The checks.
    pub checks: Vec<Check>,
}

/// Name and version of the form of a report.
pub const SCHEMA: &str = "fullbore.doctor/1";

/// Everything that was found.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DoctorReport {
    /// Of the form [`SCHEMA`].
    #[serde(flatten)]
    pub head: Head,
    /// Whether Fullbore can do its job here at all.
    pub is_usable: bool,
    /// What was measured.
    pub measured: MeasuredCosts,
    /// The checks.
    pub groups: Vec<CheckGroup>,
}

impl DoctorReport {
    /// All checks, in order.
    pub fn checks(&self) -> impl Iterator<Item = &Check> {
        self.groups.iter().flat_map(|group| &group.checks)
    }
}

/// Looks at this machine through the eyes of this process: its user, its sandbox, its CPUs. Takes a fraction of a second.
///
/// `program` is this program's own file where that is known: the lab starts its trials from it.
pub fn examine(program: Option<PathBuf>) -> DoctorReport {
    let head = Head::new(SCHEMA, None, Machine::detect());
    let machine = &head.machine;
    let status = machine::read("/proc/self/status").unwrap_or_default();
    // Costs first: what follows would disturb them.
    let measured = cost::measure(machine);
    let groups = vec![
        CheckGroup {
            title: "System calls",
            checks: calls::judge(&calls::Facts::read(machine, &status, program)),
        },
        CheckGroup {
            title: "Memory",
            checks: memory_checks::judge(&memory_checks::Facts::read(machine, &status)),
        },
        CheckGroup {
            title: "Limits on pipes",
            checks: limits::judge(&limits::Facts::read(machine)),
        },
        CheckGroup {
            title: "Processors",
            checks: processor::judge(&processor::Facts::read(machine), &measured),
        },
        CheckGroup {
            title: "What may be watched",
            checks: visibility::judge(&visibility::Facts::read()),
        },
    ];
    let is_fatal = |group: &CheckGroup| group.checks.iter().any(|check| check.is_fatal);
    DoctorReport {
        is_usable: !groups.iter().any(is_fatal),
        measured,
        groups,
        head,
    }
}

/// How to let a container make the system calls that its sandbox refuses.
const ALLOW_CALLS: &str =
    "docker run --security-opt seccomp=unconfined, or a seccomp profile that allows the call";

/// Whether something is there: a file that is absent from a directory that can be seen is missing, otherwise nobody knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Presence {
    There,
    Absent,
    Unseen,
}

impl Presence {
    fn of(path: &str, among: &str) -> Self {
        let is_there = |path: &str| std::path::Path::new(path).exists();
        match (is_there(path), is_there(among)) {
            (true, _) => Self::There,
            (false, true) => Self::Absent,
            (false, false) => Self::Unseen,
        }
    }
}

#[cfg(test)]
mod tests;
