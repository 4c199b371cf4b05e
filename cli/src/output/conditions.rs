//! On what, where and in which state something was measured, in words.

use fullbore_lab::machine::state::State;
use fullbore_lab::machine::travel::LONGEST_TRAVEL_NS;

/// Where writer and reader ran, and how far apart that was.
pub fn place([writer, reader]: [usize; 2], travel: Option<(f64, State)>) -> String {
    if writer == reader {
        return format!("writer and reader share CPU {writer}");
    }
    format!(
        "writer on CPU {writer}, reader on CPU {reader}{}",
        distance(travel)
    )
}

/// Fewer trials than that have no interval worth the name.
pub const INTERVAL_FROM: usize = 3;

/// How far apart two CPUs were, where that is known.
pub fn distance(travel: Option<(f64, State)>) -> String {
    travel.map_or(String::new(), |(ns, state)| {
        if ns > LONGEST_TRAVEL_NS {
            return " (how far apart is not known: the CPUs were busy)".to_owned();
        }
        format!(" ({state}: a cache line travels {ns:.0} ns)")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_that_only_a_busy_cpu_explains_is_no_distance() {
        let near = distance(Some((31.0, State::Near)));
        assert_eq!(near, " (near: a cache line travels 31 ns)");
        let busy = distance(Some((34_997.0, State::Far)));
        assert!(busy.contains("busy") && !busy.contains("34997"), "{busy}");
    }
}
