//! Page faults of this process, counted by the kernel (`PERF_COUNT_SW_PAGE_FAULTS`).

use fullbore_sys::Error;
use perf_event::events::Software;
use perf_event::{Builder, Counter};

/// Counts the page faults of this process from its creation on.
pub struct FaultCounter {
    counter: Counter,
}

impl FaultCounter {
    /// Starts counting.
    ///
    /// # Errors
    /// Counting is not permitted here; the message says what permits it.
    pub fn start() -> Result<Self, Error> {
        let start = || {
            let mut counter = Builder::new(Software::PAGE_FAULTS).build()?;
            counter.enable()?;
            Ok(counter)
        };
        let counter = start().map_err(|e: std::io::Error| {
            Error::system(
                "page faults cannot be counted by perf",
                e,
                "permit it with `sysctl kernel.perf_event_paranoid=2` as root",
            )
        })?;
        Ok(Self { counter })
    }

    /// Page faults so far; `None` when the counter cannot be read.
    pub fn count(&mut self) -> Option<u64> {
        self.counter.read().ok()
    }
}
