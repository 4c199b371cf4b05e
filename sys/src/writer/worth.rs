//! Whether lending is worth its turn: by what turns and copies have taken so far.

use std::time::{Duration, Instant};

use crate::reason::Reason;

/// A turn may take this part of the time of copying.
const TURN_OF_COPY: u32 = 3;
/// Seconds that a byte takes to copy, until that is known: 4 GiB/s.
const COPY: f64 = 1.0 / (4u64 << 30) as f64;
/// A new figure counts so much in a mean.
const NEW: f64 = 0.25;
/// The other way must be faster by so much to be taken, so that chance alone does not decide.
const MARGIN: f64 = 1.1;
/// A turn, or a call, counts as no longer than so many times the mean: another process may have had the CPU, or the caller
/// may have waited for something.
const AT_MOST: f64 = 1.5;
/// Calls of a trial of the other way. The first one shows nothing: the memory is as the way before has left it.
const TRIAL: u32 = 2;
/// Calls between two trials, at first and later: 1.6 % of the calls are trials.
const BETWEEN: [u32; 2] = [16, 126];
/// How long after a turn that was too dear another one is made to see, at first and at most: the faults that come of it may
/// take many times as long.
const AGAIN: [Duration; 2] = [Duration::from_secs(5), Duration::from_secs(300)];

#[derive(Debug)]
pub(super) struct Worth {
    /// Mean time of a turn; `None` where it is to be found out.
    turn: Option<Duration>,
    measured: Option<Instant>,
    again: Duration,
    /// Mean seconds for a byte that is copied.
    copy: f64,
    lends: bool,
    /// Mean seconds for a byte from one call to the next, where this copies and where it lends: all that it brings about is in
    /// there, faults of the caller, too.
    round: [Option<f64>; 2],
    /// When the last call ended, and whether it lent.
    last: Option<(Instant, bool)>,
    /// Calls that are left of a trial.
    trial: u32,
    until_trial: u32,
}

impl Default for Worth {
    fn default() -> Self {
        Self {
            turn: None,
            measured: None,
            again: AGAIN[0],
            copy: COPY,
            lends: true,
            round: [None; 2],
            last: None,
            trial: 0,
            until_trial: BETWEEN[0],
        }
    }
}

impl Worth {
    /// Whether it is known how long a turn takes.
    pub(super) fn is_known(&self) -> bool {
        self.turn.is_some()
    }

    /// Bytes below which lending is not worth its turn.
    pub(super) fn least(&self) -> usize {
        let turn = self.turn.unwrap_or_default() * TURN_OF_COPY;
        (turn.as_secs_f64() / self.copy) as usize
    }

    /// Why this many bytes are not lent, which are fewer than the [`least`](Self::least).
    pub(super) fn too_costly(&self, bytes: usize) -> Reason {
        Reason::TooCostly {
            takes: self.turn.unwrap_or_default(),
            sending: Duration::try_from_secs_f64(self.copy * bytes as f64).unwrap_or_default(),
        }
    }

    /// Lets the time of a turn be found out again, where it was too long some time ago.
    pub(super) fn ask_again(&mut self, now: Instant) {
        let measured = self.measured.get_or_insert(now);
        if now.saturating_duration_since(*measured) > self.again {
            self.again = (self.again * 2).min(AGAIN[1]);
            self.turn = None;
        }
    }

    /// A turn has taken so long.
    pub(super) fn turned(&mut self, took: Duration, now: Instant) {
        let mean =
            |mean: Duration| mean.mul_f64(1.0 - NEW) + took.min(mean.mul_f64(AT_MOST)).mul_f64(NEW);
        if self.turn.is_some() {
            self.again = AGAIN[0]; // it was worth it
        }
        self.turn = Some(self.turn.map_or(took, mean));
        self.measured = Some(now);
    }

    /// So many bytes were copied in this time.
    pub(super) fn copied(&mut self, bytes: usize, took: Duration) {
        if bytes > 0 {
            self.copy += NEW * (took.as_secs_f64() / bytes as f64 - self.copy);
        }
    }

    /// Whether the next call is to lend.
    pub(super) fn lends(&self) -> bool {
        self.lends != (self.trial > 0)
    }

    /// A call that might have lent has sent so many bytes, and ends now.
    pub(super) fn sent(&mut self, lent: bool, bytes: usize, now: Instant) {
        let is_trial = self.trial > 0;
        if let Some((before, lent_before)) = self.last.replace((now, lent))
            && lent_before == lent
            && bytes > 0
        {
            let took = now.saturating_duration_since(before).as_secs_f64() / bytes as f64;
            let new = if is_trial { 0.5 } else { NEW };
            let mean = self.round[usize::from(lent)].get_or_insert(took);
            *mean += new * (took.min(*mean * AT_MOST) - *mean);
        }
        if is_trial {
            self.trial -= 1;
        } else if self.until_trial > 0 {
            self.until_trial -= 1;
        } else {
            (self.trial, self.until_trial) = (TRIAL, BETWEEN[1]);
        }
        if let ([Some(copied), Some(lent)], 0) = (self.round, self.trial) {
            let (taken, other) = if self.lends {
                (lent, copied)
            } else {
                (copied, lent)
            };
            if other * MARGIN < taken {
                self.lends = !self.lends;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEN: usize = 6 << 20;

    /// Calls of 6 MiB that take so many µs where they copy and where they lend. Returns how many have lent.
    fn spend(worth: &mut Worth, now: &mut Instant, calls: usize, us: [u64; 2]) -> usize {
        let mut lent = 0;
        for _ in 0..calls {
            let lends = worth.lends();
            lent += usize::from(lends);
            *now += Duration::from_micros(us[usize::from(lends)]);
            worth.sent(lends, LEN, *now);
        }
        lent
    }

    #[test]
    fn turn_must_be_a_third_of_a_copy() {
        let (mut worth, now) = (Worth::default(), Instant::now());
        assert!(!worth.is_known());
        worth.turned(Duration::from_micros(100), now);
        assert!((1 << 20..2 << 20).contains(&worth.least()), "{worth:?}");
        for _ in 0..50 {
            worth.turned(Duration::from_micros(1000), now);
        }
        assert!((11 << 20..13 << 20).contains(&worth.least()), "{worth:?}");
        for _ in 0..50 {
            worth.copied(1 << 20, Duration::from_millis(1)); // 1 GiB/s
        }
        assert!((2 << 20..4 << 20).contains(&worth.least()), "{worth:?}");
    }

    #[test]
    fn turn_that_was_too_dear_is_made_again_ever_less_often() {
        let (mut worth, mut now) = (Worth::default(), Instant::now());
        let mut again = 0;
        for _ in 0..1000 {
            if !worth.is_known() {
                worth.turned(Duration::from_secs(1), now);
                again += 1;
            }
            now += Duration::from_millis(500);
            worth.ask_again(now);
        }
        assert!((5..20).contains(&again), "{again} turns in 500 s");
    }

    #[test]
    fn whichever_is_faster_is_taken_and_the_other_is_tried_seldom() {
        for us in [[2200, 900], [900, 2200]] {
            let (mut worth, mut now) = (Worth::default(), Instant::now());
            spend(&mut worth, &mut now, 200, us);
            let lent = spend(&mut worth, &mut now, 10_000, us);
            let other = if us[1] < us[0] { 10_000 - lent } else { lent };
            assert!(other > 0 && other <= 200, "{us:?}: {other} of 10000 calls");
        }
    }

    #[test]
    fn change_is_noticed() {
        let (mut worth, mut now) = (Worth::default(), Instant::now());
        for us in [[2200, 900], [900, 2200], [2200, 900]] {
            spend(&mut worth, &mut now, 1000, us);
            let lent = spend(&mut worth, &mut now, 1000, us);
            assert_eq!(lent > 500, us[1] < us[0], "{us:?}: {lent} of 1000 calls");
        }
    }

    #[test]
    fn caller_that_pauses_now_and_then_goes_on_lending() {
        let (mut worth, mut now) = (Worth::default(), Instant::now());
        let mut lent = 0;
        for _ in 0..300 {
            lent += spend(&mut worth, &mut now, 9, [2200, 900]);
            now += Duration::from_secs(1);
            lent += spend(&mut worth, &mut now, 1, [2200, 900]);
        }
        assert!(lent > 2900, "{lent} of 3000 calls");
    }
}
