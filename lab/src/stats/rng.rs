//! A small seeded generator: the same seed gives the same plan and the same intervals everywhere.

/// SplitMix64 (Steele, Lea and Flood, 2014): 64 bits of state, one output per step.
///
/// Good enough to shuffle and to resample, and short enough to need no dependency. Not for secrets.
#[derive(Clone, Debug)]
pub struct SplitMix64 {
    state: u64,
}

impl SplitMix64 {
    /// A generator whose whole sequence follows from `seed`. Every seed is as good as another, 0 included.
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A whole number from 0 up to, not including, `bound`.
    ///
    /// The high half of a 64 × 64 bit product; the bias is below `bound` / 2⁶⁴, which no run of ours can show.
    ///
    /// # Panics
    ///
    /// When `bound` is 0: there is no such number.
    pub fn below(&mut self, bound: usize) -> usize {
        assert!(bound > 0, "no number is below 0");
        ((u128::from(self.next_u64()) * bound as u128) >> 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sequence_is_the_published_one() {
        // From the reference implementation in C, seed 1234567.
        let mut rng = SplitMix64::new(1_234_567);
        let first: Vec<u64> = (0..3).map(|_| rng.next_u64()).collect();
        assert_eq!(
            first,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423
            ]
        );
    }

    #[test]
    fn below_reaches_every_number_about_equally_often() {
        let mut rng = SplitMix64::new(7);
        let mut seen = [0_u32; 6];
        for _ in 0..6000 {
            seen[rng.below(6)] += 1;
        }
        assert!(seen.iter().all(|n| (850..1150).contains(n)), "{seen:?}");
    }

    proptest! {
        #[test]
        fn below_stays_below(seed: u64, bound in 1_usize..) {
            prop_assert!(SplitMix64::new(seed).below(bound) < bound);
        }
    }
}
