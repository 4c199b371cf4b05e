//! Time that the hypervisor took from a CPU.

use super::read;

/// The time that one CPU has spent since boot, in clock ticks (1/100 s on almost every kernel).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuTicks {
    /// Ticks during which this CPU was ready to run and the hypervisor ran something else.
    pub steal: u64,
    /// All ticks, idle ones included.
    pub total: u64,
}

/// Reads the ticks of one CPU from `/proc/stat`. `None` when it is offline, or the kernel does not say.
pub fn cpu_ticks(cpu: usize) -> Option<CpuTicks> {
    parse_ticks(&read("/proc/stat")?, cpu)
}

/// The share of the time between two readings of the same CPU that the hypervisor took, 0 to 1.
///
/// A tick is 10 ms: over 0.15 s the share comes in steps of 1/15. 0 when no tick passed.
pub fn steal_share(before: &CpuTicks, after: &CpuTicks) -> f64 {
    let total = after.total.saturating_sub(before.total);
    let steal = after.steal.saturating_sub(before.steal).min(total);
    if total == 0 {
        0.0
    } else {
        steal as f64 / total as f64
    }
}

fn parse_ticks(stat: &str, cpu: usize) -> Option<CpuTicks> {
    let name = format!("cpu{cpu}");
    let mut words = stat
        .lines()
        .map(str::split_ascii_whitespace)
        .find_map(|mut words| (words.next() == Some(&name)).then_some(words))?;
    // user nice system idle iowait irq softirq steal; the two guest times that follow are already part of user and nice.
    let mut times = [0_u64; 8];
    for time in &mut times {
        *time = words.next()?.parse().ok()?;
    }
    Some(CpuTicks {
        steal: times[7],
        total: times.iter().sum(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ticks_are_those_of_the_cpu_asked_for() {
        let stat = "cpu  14 0 4 200 4 0 2 24 10 0\ncpu0 1 0 1 50 1 0 1 0 0 0\n\
            cpu1 3 0 1 50 1 0 0 4 1 0\ncpu10 10 0 2 100 2 0 1 20 9 0\nintr 1 2\n";
        let ticks = |steal, total| Some(CpuTicks { steal, total });
        assert_eq!(parse_ticks(stat, 1), ticks(4, 59));
        assert_eq!(parse_ticks(stat, 10), ticks(20, 135));
        assert_eq!(parse_ticks(stat, 2), None);
        assert_eq!(parse_ticks("cpu0 1 2 3", 0), None);
    }

    #[test]
    fn steal_is_a_share_of_the_time_between() {
        let ticks = |steal, total| CpuTicks { steal, total };
        assert_eq!(steal_share(&ticks(4, 100), &ticks(9, 120)), 0.25);
        assert_eq!(steal_share(&ticks(4, 100), &ticks(4, 100)), 0.0);
        // Counters of an idle CPU have been seen to step back.
        assert_eq!(steal_share(&ticks(4, 100), &ticks(3, 110)), 0.0);
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_without_panic(text in "[cpu0-9 \n]{0,80}") {
            let _ = parse_ticks(&text, 0);
        }
    }
}
