//! Which rung runs when: rounds of shuffled trials, and how long each trial may take. Pure.

use crate::stats::rng::SplitMix64;

/// Seconds of a trial that are not measured because speed has not settled yet.
const WARM_UP_S: f64 = 0.1;
/// Seconds to start two processes, prepare their memory and collect their reports (estimate).
const SPAWN_S: f64 = 0.03;
/// Below this many seconds the clock tick of the CPU times (10 ms) and single wake-ups show.
const SHORTEST_TRIAL_S: f64 = 0.15;
/// Above this many seconds a further round says more than a longer trial.
const LONGEST_TRIAL_S: f64 = 1.0;

/// Orders the trials: `rounds` rounds, each a random permutation of the rungs `0..rungs`.
///
/// Every rung runs once per round, so that rungs are compared within a round, under the same state of the machine;
/// and in a new order each time, so that no rung always runs after the same neighbour. The same seed gives the same plan.
pub fn rounds(rungs: usize, rounds: usize, seed: u64) -> Vec<Vec<usize>> {
    let mut rng = SplitMix64::new(seed);
    (0..rounds)
        .map(|_| {
            let mut order: Vec<usize> = (0..rungs).collect();
            // Fisher–Yates: each permutation is equally likely.
            for last in (1..rungs).rev() {
                order.swap(last, rng.below(last + 1));
            }
            order
        })
        .collect()
}

/// Seconds to measure in each trial so that `rounds` rounds of `rungs` rungs take about `budget_s` seconds together.
///
/// What a trial costs beyond its measured time (0.1 s of warm-up, 0.03 s to start) is subtracted first; the answer is
/// always between 0.15 and 1.0, so a budget that is too small is exceeded rather than filled with useless trials.
pub fn seconds_per_trial(rungs: usize, rounds: usize, budget_s: f64) -> f64 {
    let trials = (rungs as f64 * rounds as f64).max(1.0);
    let measured_s = budget_s / trials - (WARM_UP_S + SPAWN_S);
    measured_s.clamp(SHORTEST_TRIAL_S, LONGEST_TRIAL_S)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn trial_time_is_the_budget_less_overhead_within_its_limits() {
        // 60 s over 100 trials: 0.6 s each, of which 0.13 s is overhead.
        assert!((seconds_per_trial(10, 10, 60.0) - 0.47).abs() < 1e-9);
        assert_eq!(seconds_per_trial(18, 7, 10.0), SHORTEST_TRIAL_S);
        assert_eq!(seconds_per_trial(1, 7, 60.0), LONGEST_TRIAL_S);
        assert_eq!(seconds_per_trial(0, 0, 60.0), LONGEST_TRIAL_S);
        assert_eq!(seconds_per_trial(3, 3, f64::INFINITY), LONGEST_TRIAL_S);
    }

    #[test]
    fn every_permutation_of_three_rungs_is_about_equally_frequent() {
        let mut seen = std::collections::BTreeMap::new();
        for order in rounds(3, 6000, 11) {
            *seen.entry(order).or_insert(0) += 1;
        }
        assert_eq!(seen.len(), 6);
        assert!(seen.values().all(|n| (850..1150).contains(n)), "{seen:?}");
    }

    proptest! {
        #[test]
        fn each_round_is_a_permutation_of_the_rungs(rungs in 0_usize..40, count in 0_usize..20, seed: u64) {
            let plan = rounds(rungs, count, seed);
            prop_assert_eq!(plan.len(), count);
            for mut order in plan {
                order.sort_unstable();
                prop_assert_eq!(order, (0..rungs).collect::<Vec<_>>());
            }
        }

        #[test]
        fn same_seed_gives_the_same_plan_and_more_rounds_only_append(seed: u64, rungs in 0_usize..40) {
            let plan = rounds(rungs, 9, seed);
            prop_assert_eq!(&plan, &rounds(rungs, 9, seed));
            prop_assert_eq!(&plan[..4], &rounds(rungs, 4, seed)[..]);
        }

        // From 14 rungs on (8.7e10 orders) two equal ones by chance are out of the question.
        #[test]
        fn no_two_rounds_and_no_two_seeds_share_an_order(seed: u64, rungs in 14_usize..40) {
            let mut orders = rounds(rungs, 9, seed);
            orders.extend(rounds(rungs, 9, seed ^ 1));
            orders.sort_unstable();
            orders.dedup();
            prop_assert_eq!(orders.len(), 18);
        }
    }
}
