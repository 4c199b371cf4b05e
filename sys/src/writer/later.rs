//! Ways that were refused for a reason that may pass: when to ask for each again.

use std::time::{Duration, Instant};

use super::Way;

/// How long after a refusal a way is asked for again, in the beginning and at most: twice as long after each. To ask takes
/// some 100 µs.
const AT_FIRST: Duration = Duration::from_millis(50);
const AT_MOST: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
pub(super) struct Later {
    asks: Vec<Ask>,
}

#[derive(Debug)]
struct Ask {
    way: Way,
    /// `None` while the way is taken.
    due: Option<Instant>,
    pause: Duration,
}

impl Later {
    /// Remembers a way that was refused at `now`.
    pub(super) fn put_off(&mut self, way: Way, now: Instant) {
        if let Some(ask) = self.asks.iter_mut().find(|a| a.way == way) {
            ask.pause = (ask.pause * 2).min(AT_MOST);
            ask.due = Some(now + ask.pause);
            return;
        }
        self.asks.push(Ask {
            way,
            due: Some(now + AT_FIRST),
            pause: AT_FIRST,
        });
    }

    /// A way that is to be asked for now. It is not named again before it was refused again.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<Way> {
        let is_due = |a: &&mut Ask| a.due.is_some_and(|due| due <= now);
        let ask = self.asks.iter_mut().find(is_due)?;
        ask.due = None;
        Some(ask.way)
    }

    /// Whether nothing was put off, so that the time need not be looked at.
    pub(super) fn is_empty(&self) -> bool {
        self.asks.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_doubles_the_pause_up_to_a_bound() {
        let (mut later, mut now) = (Later::default(), Instant::now());
        let mut pauses = Vec::new();
        for _ in 0..10 {
            later.put_off(Way::Fresh, now);
            assert_eq!(later.take_due(now), None);
            let refused = now;
            while later.take_due(now).is_none() {
                now += Duration::from_millis(10);
            }
            pauses.push(now - refused);
            assert_eq!(later.take_due(now), None, "it was named already");
        }
        let mut expected = AT_FIRST;
        for pause in pauses {
            assert_eq!(pause, expected);
            expected = (expected * 2).min(AT_MOST);
        }
    }

    #[test]
    fn ways_wait_on_their_own() {
        let (mut later, now) = (Later::default(), Instant::now());
        later.put_off(Way::Fresh, now);
        later.put_off(Way::Fat, now + AT_FIRST);
        let after = now + AT_FIRST;
        assert_eq!(later.take_due(after), Some(Way::Fresh));
        assert_eq!(later.take_due(after), None);
        assert_eq!(later.take_due(after + AT_FIRST), Some(Way::Fat));
    }
}
