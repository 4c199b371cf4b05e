//! The ways into a pipe that are ready, those that were refused, and why.

use std::os::fd::BorrowedFd;
use std::time::Instant;

use rustix::fs::OFlags;

use super::Way;
use super::choice::{Choice, Limits};
use super::later::Later;
use crate::error::{Error, Result};
use crate::reason::Reason;
use crate::route::Route;
use crate::write::Lender;
use crate::write::cow::Cow;
use crate::write::fat::Fat;
use crate::write::fresh::{Fresh, Paused};
use crate::{calls, capacity, probe};

#[derive(Debug)]
pub(super) struct Ways {
    /// One way was asked for, whatever it costs.
    pinned: bool,
    cow: Option<Cow>,
    fresh: Option<Fresh>,
    /// What is remembered of it while it is given back.
    paused: Paused,
    pub(super) fat: Option<Fat>,
    /// When the first of the memory was had that is lent.
    pub(super) memory_since: Option<Instant>,
    pub(super) choice: Choice,
    pub(super) fallbacks: Vec<(Route, Reason)>,
    later: Later,
    pub(super) capacity: Option<usize>,
    /// Why nothing but `write(2)` can be taken, whatever the kernel allows.
    pub(super) only_write: Option<Reason>,
}

impl Ways {
    /// Finds out what can be done with this descriptor.
    pub(super) fn of(
        fd: BorrowedFd<'_>,
        allowed: impl Fn(Way) -> bool,
        keep_capacity: bool,
        limits: Limits,
    ) -> Self {
        let mut ways = Self {
            pinned: !allowed(Way::Copy),
            cow: None,
            fresh: None,
            paused: Paused::default(),
            fat: None,
            memory_since: None,
            choice: Choice::new(&[], limits),
            fallbacks: Vec::new(),
            later: Later::default(),
            capacity: None,
            only_write: only_write(fd),
        };
        // The one that is set up soonest comes first.
        let better = [Way::Fresh, Way::Cow, Way::Fat];
        let better: Vec<Way> = better.into_iter().filter(|&w| allowed(w)).collect();
        let refused = ways.only_write.clone();
        if !keep_capacity && !matches!(refused, Some(Reason::NotAPipe | Reason::NotWritable)) {
            let _ = capacity::largest(fd); // what was granted is read back below
        }
        ways.capacity = capacity::get(fd).ok();
        if let Some(reason) = refused {
            for way in better {
                ways.refuse(way, reason.clone(), false);
            }
            return ways;
        }
        let copy = Some(Way::Copy).filter(|&w| allowed(w));
        let all: Vec<Way> = better.into_iter().chain(copy).collect();
        ways.choice = Choice::new(&all, limits);
        ways
    }

    /// Sets a way up, with its trial, where that was not done yet. Returns whether it was done now.
    ///
    /// # Errors
    /// It is refused.
    pub(super) fn set_up(&mut self, way: Way) -> Result<bool> {
        if self.is_ready(way) {
            return Ok(false);
        }
        self.make_ready(way)?;
        Ok(true)
    }

    /// Every way that can be chosen.
    pub(super) fn candidates(&self) -> Vec<Way> {
        self.choice.ways()
    }

    /// Gives the memory and the descriptors of all ways back. They are set up again when they are taken. Nothing may wait, and no
    /// block may be open.
    pub(super) fn release(&mut self) {
        self.release_fresh();
        self.cow = None;
        self.fat = None;
        self.memory_since = None;
    }

    /// Gives the memory back, unless it waits until the reader lets go of its pages: it is still needed then, to look whether
    /// that has happened.
    fn release_fresh(&mut self) {
        if let Some(fresh) = &mut self.fresh
            && let Some(paused) = fresh.pause()
        {
            self.paused = paused;
            self.fresh = None;
        }
    }

    /// Bytes of memory that is lent.
    pub(super) fn memory(&mut self) -> usize {
        let lent = |lender: Option<&mut dyn Lender>| lender.map_or(0, |l| l.pages().bytes());
        lent(self.lender(Way::Fresh)) + lent(self.lender(Way::Cow))
    }

    /// The way to take next.
    pub(super) fn current(&self) -> Way {
        self.choice.current().way
    }

    /// Whether a way can be taken.
    pub(super) fn is_ready(&mut self, way: Way) -> bool {
        match way {
            Way::Fat => self.fat.is_some(),
            Way::Copy => true,
            Way::Fresh | Way::Cow => self.lender(way).is_some(),
        }
    }

    /// The way by which bytes wait, and how many do.
    pub(super) fn queued(&mut self) -> Option<(Way, usize)> {
        let lent = |lender: Option<&mut dyn Lender>| lender.map_or(0, |l| l.pages().queued());
        let queued = [
            (Way::Cow, lent(self.lender(Way::Cow))),
            (Way::Fresh, lent(self.lender(Way::Fresh))),
            (Way::Fat, self.fat.as_mut().map_or(0, Fat::queued)),
        ];
        queued.into_iter().find(|(_, bytes)| *bytes > 0)
    }

    /// The memory of a way that lends, where it is in use.
    pub(super) fn lender(&mut self, way: Way) -> Option<&mut dyn Lender> {
        match way {
            Way::Cow => self.cow.as_mut().map(|c| c as _),
            Way::Fresh => self.fresh.as_mut().map(|f| f as _),
            Way::Fat | Way::Copy => None,
        }
    }

    /// Gives a way up, for good or until it is asked for again. Nothing of what is being written has been taken by it, and
    /// nothing waits there.
    pub(super) fn refuse(&mut self, way: Way, reason: Reason, may_pass: bool) {
        match way {
            Way::Fresh => self.release_fresh(),
            Way::Cow => self.cow = None,
            Way::Fat => self.fat = None,
            Way::Copy => {}
        }
        self.choice.remove(way);
        self.forget_refusal(way);
        self.fallbacks.push((way.route(), reason));
        if may_pass {
            self.later.put_off(way, Instant::now());
        }
    }

    /// Asks for a way that was refused for a reason that may have passed, when it is time for that.
    pub(super) fn ask_again(&mut self) {
        if self.later.is_empty() {
            return;
        }
        let Some(way) = self.later.take_due(Instant::now()) else {
            return;
        };
        match self.make_ready(way) {
            Ok(()) => {
                self.forget_refusal(way);
                self.choice.add(way);
            }
            Err(e) => self.refuse(way, Reason::from(&e), e.is_passing()),
        }
    }

    fn forget_refusal(&mut self, way: Way) {
        self.fallbacks.retain(|(route, _)| *route != way.route());
    }

    fn make_ready(&mut self, way: Way) -> Result<()> {
        self.get_ready(way)?;
        if way.lends() {
            self.memory_since.get_or_insert_with(Instant::now);
        }
        Ok(())
    }

    fn get_ready(&mut self, way: Way) -> Result<()> {
        match way {
            Way::Fresh => match &mut self.fresh {
                Some(fresh) => fresh.resume(),
                None => {
                    let fresh = self.fresh.insert(probe::make_fresh()?);
                    fresh.go_on_after(std::mem::take(&mut self.paused));
                    Ok(())
                }
            },
            Way::Cow => {
                if !self.pinned {
                    crate::pages::check_footprint()?;
                }
                possible(probe::cow_refusal())?;
                self.cow = Some(Cow::new()?);
                Ok(())
            }
            Way::Fat => {
                possible(probe::fat_refusal())?;
                self.fat = Some(Fat::new()?);
                Ok(())
            }
            Way::Copy => Ok(()),
        }
    }
}

fn possible(refusal: Option<Error>) -> Result<()> {
    refusal.map_or(Ok(()), Err)
}

/// Why nothing but `write(2)` can be taken here, whatever the kernel allows.
fn only_write(fd: BorrowedFd<'_>) -> Option<Reason> {
    if !calls::is_pipe(fd) {
        return Some(Reason::NotAPipe);
    }
    let flags = rustix::fs::fcntl_getfl(fd).ok()?;
    // At a read end vmsplice takes bytes out of the pipe; write(2) knows what is wrong.
    if flags & OFlags::ACCMODE == OFlags::RDONLY {
        return Some(Reason::NotWritable);
    }
    // Only write(2) makes packets: what is lent or spliced becomes a stream.
    flags.contains(OFlags::DIRECT).then_some(Reason::Packets)
}
