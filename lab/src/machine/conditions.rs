//! The conditions under which a trial ran: what is looked at just before it and just after.

use fullbore_sys::Result;

use super::state::{LineTravel, State};
use super::travel::line_travel_ns;
use super::{cpu_ticks, steal_share};

/// The conditions of a trial.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Conditions {
    /// State of the machine.
    pub state: State,
    /// Travel time of a cache line.
    pub line_travel_ns: LineTravel,
    /// Share of time that the hypervisor took from each of the two.
    pub steal: [Option<f64>; 2],
}

impl Conditions {
    /// The larger share of both; `None` where neither is known.
    pub fn larger_steal(&self) -> Option<f64> {
        self.steal.into_iter().flatten().reduce(f64::max)
    }
}

/// Does some work on these two CPUs, which may be one, and looks at the machine before and after.
///
/// # Errors
/// What `work` says.
pub(crate) fn under_conditions<T>(
    (one, other): (usize, usize),
    work: impl FnOnce() -> Result<T>,
) -> Result<(T, Conditions)> {
    let alone = one == other;
    let travel = || match alone {
        true => None,
        false => line_travel_ns(one, other).ok().flatten(),
    };
    let ticks = || [one, other].map(cpu_ticks);
    let (before, ticks_before) = (travel(), ticks());
    let result = work()?;
    let ticks_after = ticks();
    let steal = [0, 1].map(|i| {
        let (before, after) = (ticks_before[i]?, ticks_after[i]?);
        Some(steal_share(&before, &after))
    });
    let line_travel_ns = LineTravel {
        before,
        after: travel(),
    };
    let state = match alone {
        true => State::OneCpu,
        false => line_travel_ns.state(),
    };
    let conditions = Conditions {
        state,
        line_travel_ns,
        steal,
    };
    Ok((result, conditions))
}
