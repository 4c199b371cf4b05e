//! What a call chain spends its time for.

use serde::{Deserialize, Serialize};

/// What CPU time is spent for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// Copying bytes between user space and the kernel.
    Copy,
    /// Allocating, clearing and releasing pages.
    Allocation,
    /// Charging memory to its cgroup.
    Accounting,
    /// Finding the pages behind an address (`get_user_pages`).
    PageLookup,
    /// Filling, passing on and emptying slots.
    Ring,
    /// Waiting for a mutex or a spin lock.
    Lock,
    /// Going to sleep, and waking the other side.
    Wake,
    /// Entering and leaving the kernel.
    Entry,
    /// The program's own code.
    User,
    /// What is not recognised.
    Other,
}
