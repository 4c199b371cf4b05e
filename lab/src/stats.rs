//! Medians, their intervals, ratios by round, and what may be concluded from them. Pure.
//!
//! Trials on a shared machine have long tails to one side, so nothing here assumes a normal distribution: the centre is
//! a median, its uncertainty comes from resampling, and an outlier is marked, never dropped.

pub(crate) mod rng;

use crate::stats::rng::SplitMix64;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Enough that the ends of the interval do not depend visibly on the seed: they are order statistics of the samples.
const RESAMPLES: usize = 2000;
/// Twice as many where two sides are drawn, and the ends of the interval lie further out.
const UNPAIRED_RESAMPLES: usize = 4000;
/// Fixed, so that the same samples always give the same interval.
const SEED: u64 = 0x0066_756c_6c62_6f72;
/// See [`verdict`].
const MIN_ROUNDS: usize = 5;
/// Modified z-score above which a sample is marked (Iglewicz and Hoaglin, 1993).
const OUTLIER_Z: f64 = 3.5;

/// A median with its 95 % interval, both in the unit of the samples (for a ratio: no unit).
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Estimate {
    /// The median of the samples.
    pub median: f64,
    /// Lower and upper end of the 95 % interval; see [`estimate`] for what it is worth when samples are few.
    pub ci95: [f64; 2],
}

/// The middle sample, or the mean of the middle two. `None` when there is no sample, or one is not finite.
pub fn median(samples: &[f64]) -> Option<f64> {
    sorted(samples).map(|sorted| middle(&sorted))
}

/// Estimates the median and its 95 % percentile bootstrap interval (2000 resamples, fixed seed).
///
/// `None` when there is no sample, or one is not finite. The order of the samples does not matter.
///
/// With one or two samples there is nothing to resample: the interval is [smallest, largest], and promises nothing. How often
/// it holds the true median with more of them stands in `docs/method.md`, and the tests here hold it to that.
pub fn estimate(samples: &[f64]) -> Option<Estimate> {
    let sorted = sorted(samples)?;
    let n = sorted.len();
    let ci95 = if n < 3 {
        [sorted[0], sorted[n - 1]]
    } else {
        bootstrap_interval(&sorted)
    };
    Some(Estimate {
        median: middle(&sorted),
        ci95,
    })
}

/// Estimates the ratio numerator / denominator from pairs measured in the same round.
///
/// The ratio is taken within each round, then its median and interval over the rounds: what slows a whole round down
/// cancels out. `None` when there is no pair, or a ratio is not finite (a denominator of 0).
pub fn paired_ratio(pairs: &[(f64, f64)]) -> Option<Estimate> {
    let ratios: Vec<f64> = pairs.iter().map(|(num, den)| num / den).collect();
    estimate(&ratios)
}

/// Estimates the ratio of two medians whose samples were *not* made in pairs: other runs, other machines.
///
/// Each side is a list of runs, each run a list of samples; its centre is the median over its runs of each run's median.
/// The interval is a percentile bootstrap (4000 resamples, fixed seed) that draws runs, and within a drawn run samples,
/// both with replacement and independently for either side: with several runs a side, what differs from run to run widens
/// it; with one run a side, only what differs from trial to trial can.
///
/// `together` is how many such ratios are judged side by side: the interval is widened (Bonferroni) so that *all* of them
/// hold at once in 95 % of cases, not each alone; among 20 ratios of equals one would otherwise seem to differ.
///
/// `None` when a side has no sample, one is not finite, or the ratio is not (a median of 0 below).
pub fn ratio_of_medians(
    numerator: &[&[f64]],
    denominator: &[&[f64]],
    together: usize,
) -> Option<Estimate> {
    let centre = |runs: &[&[f64]]| {
        let medians: Option<Vec<_>> = runs.iter().map(|run| median(run)).collect();
        median(&medians?)
    };
    let ratio = centre(numerator)? / centre(denominator)?;
    let mut rng = SplitMix64::new(SEED);
    let mut space = (Vec::new(), Vec::new());
    let mut ratios: Vec<f64> = (0..UNPAIRED_RESAMPLES)
        .map(|_| {
            resampled_centre(numerator, &mut rng, &mut space)
                / resampled_centre(denominator, &mut rng, &mut space)
        })
        .collect();
    ratios.sort_unstable_by(f64::total_cmp);
    let tail = UNPAIRED_RESAMPLES / 40 / together.max(1);
    let ci95 = [ratios[tail], ratios[UNPAIRED_RESAMPLES - 1 - tail]];
    // A few resamples of a side that is mostly zero may divide by it.
    let finite = ratio.is_finite() && ci95.iter().all(|end| end.is_finite());
    finite.then_some(Estimate {
        median: ratio,
        ci95,
    })
}

/// The centre of a side whose runs, and whose samples within each, were resampled. No run is empty.
fn resampled_centre(
    runs: &[&[f64]],
    rng: &mut SplitMix64,
    space: &mut (Vec<f64>, Vec<f64>),
) -> f64 {
    let (medians, samples) = space;
    medians.clear();
    for _ in runs {
        let run = runs[rng.below(runs.len())];
        samples.clear();
        samples.extend(run.iter().map(|_| run[rng.below(run.len())]));
        samples.sort_unstable_by(f64::total_cmp);
        medians.push(middle(samples));
    }
    medians.sort_unstable_by(f64::total_cmp);
    middle(medians)
}

/// What a ratio of speeds allows to be said.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub enum Verdict {
    /// The numerator is the faster one.
    #[serde(rename = "faster")]
    Faster,
    /// The numerator is the slower one.
    #[serde(rename = "slower")]
    Slower,
    /// These trials do not say which is faster. That is not the same as equally fast.
    #[serde(rename = "not distinguishable")]
    NotDistinguishable,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Faster => "faster",
            Self::Slower => "slower",
            Self::NotDistinguishable => "not distinguishable",
        })
    }
}

/// Judges a ratio of speeds that comes from `rounds` pairs (see [`paired_ratio`]).
///
/// Faster or slower only if the whole interval lies on one side of 1, and there are at least 5 rounds. How often equally fast
/// rungs seem to differ stands in `docs/method.md`.
pub fn verdict(ratio: &Estimate, rounds: usize) -> Verdict {
    let [low, high] = ratio.ci95;
    if rounds < MIN_ROUNDS {
        Verdict::NotDistinguishable
    } else if low > 1.0 {
        Verdict::Faster
    } else if high < 1.0 {
        Verdict::Slower
    } else {
        Verdict::NotDistinguishable
    }
}

/// Judges a ratio that comes from samples that were not made in pairs (see [`ratio_of_medians`]), one of `together`.
///
/// Faster or slower only if the whole interval lies on one side of 1, and there are enough samples a side that chance
/// would seldom separate equals completely: of n and m samples of one and the same thing, all of one side exceed all of the
/// other, or fall below, with probability 2 / C(n + m, n), which `together` times must not exceed 5 %. That takes 4 samples
/// a side for one ratio, 6 for 20, 7 for 80.
///
/// How often two equal runs seem to differ stands in `docs/method.md`.
pub fn unpaired_verdict(ratio: &Estimate, samples: [usize; 2], together: usize) -> Verdict {
    if enough(samples, together) {
        verdict(ratio, MIN_ROUNDS)
    } else {
        Verdict::NotDistinguishable
    }
}

/// Whether so many samples a side can tell any difference at all, among `together` ratios: see [`unpaired_verdict`].
pub fn enough([n, m]: [usize; 2], together: usize) -> bool {
    // C(n + m, n) as a product that never leaves the whole numbers by much, and soon is large enough.
    let ways = (1..=n.min(m)).fold(1.0, |ways, i| ways * (n.max(m) + i) as f64 / i as f64);
    2.0 * together.max(1) as f64 <= 0.05 * ways
}

/// Marks the samples that lie far from the rest, in the order given. They stay in every estimate.
///
/// Far: the modified z-score, 0.6745 × distance from the median / median absolute deviation, exceeds 3.5. When more than
/// half of the samples are equal that deviation is 0, and 1.2533 × the mean absolute deviation takes its place. A sample
/// that is not finite is always marked, and left out of the median.
pub fn outliers(samples: &[f64]) -> Vec<bool> {
    let finite: Vec<f64> = samples.iter().copied().filter(|x| x.is_finite()).collect();
    let Some(centre) = median(&finite) else {
        return vec![true; samples.len()];
    };
    let deviations: Vec<f64> = finite.iter().map(|x| (x - centre).abs()).collect();
    let mean = deviations.iter().sum::<f64>() / deviations.len() as f64;
    // Both factors make the deviation of normal samples equal to their standard deviation.
    let scale = match median(&deviations) {
        Some(mad) if mad > 0.0 => mad / 0.6745,
        _ => mean * 1.2533,
    };
    samples
        .iter()
        .map(|x| !x.is_finite() || (x - centre).abs() > OUTLIER_Z * scale)
        .collect()
}

/// The samples in ascending order; `None` when there is none, or one is not finite.
fn sorted(samples: &[f64]) -> Option<Vec<f64>> {
    if samples.is_empty() || samples.iter().any(|x| !x.is_finite()) {
        return None;
    }
    let mut sorted = samples.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    Some(sorted)
}

/// The median of samples that are in order, and not empty.
fn middle(sorted: &[f64]) -> f64 {
    let n = sorted.len();
    f64::midpoint(sorted[(n - 1) / 2], sorted[n / 2])
}

/// The middle 95 % of the medians of `RESAMPLES` resamples, drawn with replacement from samples that are in order.
fn bootstrap_interval(sorted: &[f64]) -> [f64; 2] {
    let mut rng = SplitMix64::new(SEED);
    let mut resample = vec![0.0; sorted.len()];
    let mut medians: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            for x in &mut resample {
                *x = sorted[rng.below(sorted.len())];
            }
            resample.sort_unstable_by(f64::total_cmp);
            middle(&resample)
        })
        .collect();
    medians.sort_unstable_by(f64::total_cmp);
    let tail = RESAMPLES / 40; // 2.5 % of the medians on either side
    [medians[tail], medians[RESAMPLES - 1 - tail]]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ranks(n: u32) -> Vec<f64> {
        (1..=n).map(f64::from).collect()
    }

    fn unit(rng: &mut SplitMix64) -> f64 {
        (rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    #[test]
    fn median_of_known_samples() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[4.0]), Some(4.0));
        assert_eq!(median(&[9.0, 1.0, 5.0]), Some(5.0));
        assert_eq!(median(&[9.0, 1.0, 5.0, 6.0]), Some(5.5));
        assert_eq!(median(&[1.0, f64::NAN]), None);
        assert_eq!(median(&[f64::MAX, f64::MAX]), Some(f64::MAX));
    }

    #[test]
    fn one_or_two_samples_give_their_range() {
        assert_eq!(estimate(&[]), None);
        assert_eq!(estimate(&[1.0, f64::INFINITY]), None);
        assert_eq!(estimate(&[3.0]).unwrap().ci95, [3.0, 3.0]);
        assert_eq!(estimate(&[5.0, 3.0]).unwrap().ci95, [3.0, 5.0]);
    }

    #[test]
    fn interval_ends_at_the_ranks_the_documentation_names() {
        for (n, rank) in [(3, 1.0), (5, 1.0), (7, 2.0), (9, 2.0), (15, 4.0)] {
            let ci95 = estimate(&ranks(n)).unwrap().ci95;
            assert_eq!(ci95, [rank, f64::from(n) + 1.0 - rank], "{n} samples");
        }
    }

    /// How many of the 2^n ways in which n samples lie about the true median have so many below it.
    fn choose(n: usize, k: usize) -> f64 {
        (0..k).fold(1.0, |ways, i| ways * (n - i) as f64 / (i + 1) as f64)
    }

    #[test]
    fn interval_covers_the_true_median_as_often_as_the_documentation_says() {
        // The ends are samples of the ranks above, so only how many samples lie below the true median matters.
        for (n, documented) in [(3, 0.75), (5, 0.94), (7, 0.875), (9, 0.96), (15, 0.96)] {
            let [low, high] = estimate(&ranks(n)).unwrap().ci95;
            let n = n as usize;
            let covered: f64 = (low as usize..high as usize).map(|k| choose(n, k)).sum();
            let share = covered / 2_f64.powi(n as i32);
            // As exact as it is written, in per cent and halves.
            assert!((share - documented).abs() <= 0.005, "{n} samples: {share}");
        }
    }

    #[test]
    fn interval_covers_the_true_median_of_skewed_samples() {
        let mut rng = SplitMix64::new(42);
        let covered = (0..600)
            .filter(|_| {
                // Exponential with mean 1: its median is ln 2.
                let samples: Vec<f64> = (0..15).map(|_| -(1.0 - unit(&mut rng)).ln()).collect();
                let [low, high] = estimate(&samples).unwrap().ci95;
                (low..=high).contains(&std::f64::consts::LN_2)
            })
            .count();
        // 96.48 % of 600 are 578.9, with a standard deviation of 4.5; three of them are allowed either way.
        assert!((566..=592).contains(&covered), "{covered} of 600");
    }

    #[test]
    fn equally_fast_rungs_seem_to_differ_as_often_as_the_documentation_says() {
        for (n, documented) in [(5, 0.0625), (7, 0.125), (9, 0.04)] {
            // Only how many of the rounds one of them wins matters, and each wins a round in half of the cases.
            let alarms: f64 = (0..=n)
                .filter(|&won| {
                    let pairs: Vec<_> = (0..n)
                        .map(|i| (if i < won { 2.0 } else { 0.5 } + i as f64 / 100.0, 1.0))
                        .collect();
                    verdict(&paired_ratio(&pairs).unwrap(), n) != Verdict::NotDistinguishable
                })
                .map(|won| choose(n, won))
                .sum();
            let share = alarms / 2_f64.powi(n as i32);
            assert!((share - documented).abs() <= 0.005, "{n} rounds: {share}");
        }
    }

    #[test]
    fn ratio_is_taken_within_each_round() {
        // The machine is four times slower in every second round; the ratio is 2 throughout.
        let pairs = [(8.0, 4.0), (2.0, 1.0), (8.0, 4.0), (2.0, 1.0), (8.0, 4.0)];
        let ratio = paired_ratio(&pairs).unwrap();
        assert_eq!(ratio.median, 2.0);
        assert_eq!(ratio.ci95, [2.0, 2.0]);
        assert_eq!(paired_ratio(&[(1.0, 0.0)]), None);
        assert_eq!(paired_ratio(&[]), None);
    }

    /// How often a ratio of two equal runs of `n` samples, an odd number, seems to differ: exactly, since the medians are
    /// then samples, and only the order of all samples matters, in which each choice of `n` places for one side is as
    /// likely as another.
    fn false_alarms(n: usize, together: usize) -> f64 {
        let (mut orders, mut alarms) = (0, 0);
        let gap = n / 2 + usize::from(together > 1);
        for order in (0_u32..1 << (2 * n)).filter(|order| order.count_ones() as usize == n) {
            orders += 1;
            let (b, a): (Vec<usize>, _) = (0..2 * n).partition(|place| order & (1 << place) != 0);
            // Where these overlap, too many resamples have their medians the other way round: that saves most of the time.
            let apart = |low: &[usize], high: &[usize]| (1..=2).all(|i| high[i] > low[i + gap]);
            if !apart(&a, &b) && !apart(&b, &a) {
                continue;
            }
            let [a, b] =
                [a, b].map(|side| side.iter().map(|i| 1.0 + *i as f64).collect::<Vec<_>>());
            let ratio = ratio_of_medians(&[&b], &[&a], together).unwrap();
            alarms += usize::from(
                unpaired_verdict(&ratio, [n, n], together) != Verdict::NotDistinguishable,
            );
        }
        alarms as f64 / f64::from(orders)
    }

    #[test]
    fn two_equal_runs_seem_to_differ_as_often_as_the_documentation_says() {
        for (n, together, documented) in [(5, 1, 0.032), (7, 20, 0.046), (9, 20, 0.038)] {
            let alone = false_alarms(n, together);
            let any = 1.0 - (1.0 - alone).powi(together as i32);
            assert!((any - documented).abs() <= 0.0005, "{n}, {together}: {any}");
        }
    }

    #[test]
    fn a_true_difference_of_runs_is_seen() {
        let slow = ranks(9).iter().map(|r| 10.0 + 0.01 * r).collect::<Vec<_>>();
        let fast = slow.iter().map(|x| 1.1 * x).collect::<Vec<_>>();
        let ratio = ratio_of_medians(&[&fast], &[&slow], 20).unwrap();
        assert!((ratio.median - 1.1).abs() < 1e-9);
        assert!(ratio.ci95[0] > 1.08 && ratio.ci95[1] < 1.12, "{ratio:?}");
        assert_eq!(unpaired_verdict(&ratio, [9, 9], 20), Verdict::Faster);
    }

    #[test]
    fn what_differs_from_run_to_run_counts_against_a_difference() {
        // Three hosts a side, each with samples as like as peas; one host of either side is far off.
        let near = |x: f64| vec![x, x * 1.001, x * 0.999, x * 1.002, x * 0.998];
        let (a, b) = (
            [near(10.0), near(10.1), near(14.0)],
            [near(8.0), near(11.9), near(12.0)],
        );
        let side = |runs: &[Vec<f64>; 3]| runs.clone();
        let (a, b) = (side(&a), side(&b));
        let (a, b): (Vec<&[f64]>, Vec<&[f64]>) = (
            a.iter().map(|r| &r[..]).collect(),
            b.iter().map(|r| &r[..]).collect(),
        );
        let ratio = ratio_of_medians(&b, &a, 1).unwrap();
        assert!((ratio.median - 11.9 / 10.1).abs() < 1e-9);
        assert_eq!(
            unpaired_verdict(&ratio, [15, 15], 1),
            Verdict::NotDistinguishable
        );
        let one = ratio_of_medians(&b[1..2], &a[1..2], 1).unwrap();
        assert_eq!(unpaired_verdict(&one, [5, 5], 1), Verdict::Faster);
    }

    #[test]
    fn samples_are_enough_as_the_documentation_says() {
        for (n, together) in [(4, 1), (6, 20), (7, 80)] {
            assert!(enough([n, n], together), "{n} for {together}");
            assert!(!enough([n - 1, n - 1], together), "{n} for {together}");
        }
        assert!(!enough([1, 30], 1) && enough([1, 39], 1));
        assert!(enough([1000, 1000], 1000) && !enough([0, 1000], 1));
    }

    #[test]
    fn ratio_of_medians_needs_samples_that_can_be_divided() {
        assert_eq!(ratio_of_medians(&[], &[&[1.0]], 1), None);
        assert_eq!(ratio_of_medians(&[&[1.0]], &[&[]], 1), None);
        assert_eq!(ratio_of_medians(&[&[1.0]], &[&[0.0]], 1), None);
        assert_eq!(ratio_of_medians(&[&[f64::NAN]], &[&[1.0]], 1), None);
        let one = ratio_of_medians(&[&[3.0]], &[&[2.0]], 0).unwrap();
        assert_eq!((one.median, one.ci95), (1.5, [1.5, 1.5]));
    }

    #[test]
    fn verdict_needs_five_rounds_and_an_interval_clear_of_one() {
        let ratio = |low, high| Estimate {
            median: f64::midpoint(low, high),
            ci95: [low, high],
        };
        assert_eq!(verdict(&ratio(1.1, 1.3), 5), Verdict::Faster);
        assert_eq!(verdict(&ratio(0.7, 0.9), 5), Verdict::Slower);
        assert_eq!(verdict(&ratio(1.1, 1.3), 4), Verdict::NotDistinguishable);
        assert_eq!(verdict(&ratio(0.9, 1.3), 9), Verdict::NotDistinguishable);
        assert_eq!(verdict(&ratio(1.0, 1.3), 9), Verdict::NotDistinguishable);
        assert_eq!(verdict(&ratio(0.8, 1.0), 9), Verdict::NotDistinguishable);
    }

    #[test]
    fn verdict_is_shown_and_saved_in_the_same_words() {
        for (verdict, words) in [
            (Verdict::Faster, "faster"),
            (Verdict::Slower, "slower"),
            (Verdict::NotDistinguishable, "not distinguishable"),
        ] {
            assert_eq!(verdict.to_string(), words);
            let json = serde_json::to_string(&verdict).unwrap();
            assert_eq!(json, format!("\"{words}\""));
            assert_eq!(serde_json::from_str::<Verdict>(&json).unwrap(), verdict);
        }
    }

    #[test]
    fn outlier_is_marked_where_it_stands() {
        assert_eq!(outliers(&[]), Vec::<bool>::new());
        assert_eq!(outliers(&[1.0]), [false]);
        assert_eq!(outliers(&[1.0, 100.0]), [false, false]);
        // Median 5, deviation 1: the limit is 5 ± 5.19.
        assert_eq!(
            outliers(&[4.0, 11.0, 5.0, 6.0, 5.0, 4.0, 10.0]),
            [false, true, false, false, false, false, false]
        );
        assert_eq!(outliers(&[1.0, f64::NAN, 1.1]), [false, true, false]);
    }

    #[test]
    fn equal_samples_hide_no_outlier_and_are_none() {
        assert_eq!(outliers(&[5.0; 6]), [false; 6]);
        let mut samples = [5.0; 7];
        samples[3] = 6.0;
        let marked: Vec<usize> = (0..7).filter(|&i| outliers(&samples)[i]).collect();
        assert_eq!(marked, [3]);
    }

    // Whole numbers and powers of two keep the arithmetic exact.
    fn whole() -> impl Strategy<Value = Vec<f64>> {
        prop::collection::vec((-1000_i32..1000).prop_map(f64::from), 1..25)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn interval_holds_the_median_and_stays_within_the_samples(samples in whole()) {
            let Estimate { median, ci95: [low, high] } = estimate(&samples).unwrap();
            prop_assert!(low <= median && median <= high);
            prop_assert!(samples.iter().any(|&x| x <= low) && samples.iter().any(|&x| x >= high));
        }

        #[test]
        fn order_of_the_samples_does_not_matter(samples in whole(), by in 0_usize..25) {
            let mut turned = samples.clone();
            turned.rotate_left(by % samples.len());
            prop_assert_eq!(estimate(&turned), estimate(&samples));
            turned.reverse();
            prop_assert_eq!(estimate(&turned), estimate(&samples));
        }

        #[test]
        fn estimate_scales_and_shifts_with_the_samples(samples in whole(), power in -8_i32..8, by in -1000_i32..1000) {
            let change = |x: f64| x * 2_f64.powi(power) + f64::from(by);
            let changed: Vec<f64> = samples.iter().copied().map(change).collect();
            let before = estimate(&samples).unwrap();
            let after = Estimate { median: change(before.median), ci95: before.ci95.map(change) };
            prop_assert_eq!(estimate(&changed).unwrap(), after);
            prop_assert_eq!(outliers(&changed), outliers(&samples));
        }

        #[test]
        fn copies_of_one_sample_leave_no_doubt(x in -1e9_f64..1e9, n in 1_usize..20) {
            prop_assert_eq!(estimate(&vec![x; n]).unwrap(), Estimate { median: x, ci95: [x, x] });
        }

        #[test]
        fn ratio_of_medians_lies_in_its_interval_which_widens_with_company(
            a in prop::collection::vec(1_u32..1000, 1..12), b in prop::collection::vec(1_u32..1000, 1..12), many in 2_usize..100,
        ) {
            let [a, b] = [a, b].map(|s| s.into_iter().map(f64::from).collect::<Vec<_>>());
            let alone = ratio_of_medians(&[&a], &[&b], 1).unwrap();
            let together = ratio_of_medians(&[&a], &[&b], many).unwrap();
            prop_assert_eq!(alone.median, together.median);
            prop_assert!(alone.ci95[0] <= alone.median && alone.median <= alone.ci95[1]);
            prop_assert!(together.ci95[0] <= alone.ci95[0] && alone.ci95[1] <= together.ci95[1]);
        }

        #[test]
        fn exchanging_the_two_sides_exchanges_the_verdict(
            pairs in prop::collection::vec((1_u32..100, 1_u32..100), 5..16),
        ) {
            // Odd counts only: the median of an even count averages, and 1/mean is not the mean of 1/x.
            let pairs = &pairs[..pairs.len() - (pairs.len() + 1) % 2];
            let forth: Vec<_> = pairs.iter().map(|&(a, b)| (f64::from(a), f64::from(b))).collect();
            let back: Vec<_> = forth.iter().map(|&(a, b)| (b, a)).collect();
            let judge = |pairs: &[_]| verdict(&paired_ratio(pairs).unwrap(), pairs.len());
            let expected = match judge(&forth) {
                Verdict::Faster => Verdict::Slower,
                Verdict::Slower => Verdict::Faster,
                Verdict::NotDistinguishable => Verdict::NotDistinguishable,
            };
            prop_assert_eq!(judge(&back), expected);
        }
    }
}
