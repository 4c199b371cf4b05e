//! Medians, their intervals, ratios by round, and what may be concluded from them. Pure.
//!
//! Trials on a shared machine have long tails to one side, so nothing here assumes a normal distribution: the centre is
//! a median, its uncertainty comes from resampling, and an outlier is marked, never dropped.

use crate::rng::SplitMix64;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Enough that the ends of the interval do not depend visibly on the seed: they are order statistics of the samples.
const RESAMPLES: usize = 2000;
/// Fixed, so that the same samples always give the same interval.
const SEED: u64 = 0x0066_756c_6c62_6f72;
/// See [`verdict`].
const MIN_ROUNDS: usize = 5;
/// Modified z-score above which a sample is marked (Iglewicz and Hoaglin, 1993).
const OUTLIER_Z: f64 = 3.5;

/// A median with its 95 % interval, both in the unit of the samples (for a ratio: no unit).
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq)]
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
/// With one or two samples there is nothing to resample: the interval is [smallest, largest], and promises nothing.
/// With few samples no interval made from them alone can keep 95 %; this one holds the true median in 75 % of cases for
/// 3 samples, 94 % for 5, 87.5 % for 7, 96 % for 9 and for 15 (exact for continuous samples: its ends are then the
/// samples with rank 1, 1, 2, 2 and 4, counted from either end).
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

/// What a ratio of speeds allows to be said.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
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
/// Faster or slower only if the whole interval lies on one side of 1, and there are at least 5 rounds. With so few
/// rounds the interval is the whole range, and equally fast rungs leave 1 outside it with probability 2^(1 − rounds):
/// a coin that lands the same way every time. That is 25 % for 3 rounds, 12.5 % for 4, 6.25 % for 5.
/// For 7 rounds, where the interval leaves one sample out at either end, it is 12.5 % again; for 9 it is 4 %.
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

    #[test]
    fn interval_covers_the_true_median_of_skewed_samples() {
        let mut rng = SplitMix64::new(42);
        let covered = (0..300)
            .filter(|_| {
                // Exponential with mean 1: its median is ln 2.
                let samples: Vec<f64> = (0..15).map(|_| -(1.0 - unit(&mut rng)).ln()).collect();
                let [low, high] = estimate(&samples).unwrap().ci95;
                (low..=high).contains(&std::f64::consts::LN_2)
            })
            .count();
        assert!(covered >= 255, "{covered} of 300");
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
