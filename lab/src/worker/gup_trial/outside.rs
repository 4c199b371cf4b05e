//! An estimate from the outside, for kernels without gup_test: what vmsplice costs beyond tee, and beyond splice, of the
//! same slots.
//!
//! All three fill an empty pipe, 16 slots a call. vmsplice has to find each page by its address and takes a reference; tee
//! finds it in a slot of the source pipe, and takes a reference; splice moves the slot with the reference in it. There is
//! one source pipe for each 16 slots, as tee always begins at the head. Every pass ends in the same way: the slots are
//! moved on by splice, which is timed apart, and dropped, which is not.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use fullbore_sys::calls::{self, SpliceFlags};
use fullbore_sys::pages::PageKind;
use fullbore_sys::read::discard::Discard;
use fullbore_sys::{Error, Result, capacity, probe};

use super::super::outcome::Costs;
use super::{PAGES_PER_CALL, map};
use crate::stats::median;
use crate::sys::gup_pages::{Lent, PipeEnds};

/// Passes of each kind that a trial has at least.
const PASSES: usize = 5;

/// Why nothing can be estimated here, if that is so.
fn refusal() -> Result<()> {
    match probe::vmsplice_is_by_reference() {
        Ok(true) => Ok(()),
        Ok(false) => Err(Error::new(
            "the cost of get_user_pages cannot be estimated",
            "vmsplice copies on this kernel, so it takes no references",
            "use a kernel with gup_test",
        )),
        Err(e) => Err(Error::system(
            "vmsplice refused",
            e,
            "a sandbox may forbid it (docker run --security-opt seccomp=unconfined)",
        )),
    }
}

/// The pipes that every case is measured with.
pub(super) struct Rig {
    /// Bytes of one call.
    chunk: usize,
    /// Calls that fill a pipe.
    calls: usize,
    target: PipeEnds,
    /// Where the slots are moved on to.
    behind: PipeEnds,
    discard: Discard,
}

impl Rig {
    pub(super) fn new() -> Result<Self> {
        let target = PipeEnds::new()?;
        refusal()?;
        let chunk = PAGES_PER_CALL * rustix::param::page_size();
        let granted = capacity::largest(&target.write)?.granted;
        let calls = granted / chunk;
        if calls == 0 {
            return Err(Error::new(
                "the pipe is too small",
                format!("it has fewer than {PAGES_PER_CALL} slots"),
                "close other pipes, or raise fs.pipe-user-pages-soft with sysctl",
            ));
        }
        let rig = Self {
            chunk,
            calls,
            behind: PipeEnds::with_capacity(granted)?,
            target,
            discard: Discard::new()?,
        };
        rig.try_calls()?;
        Ok(rig)
    }

    /// A call that is refused is named here, and not by what goes wrong after it.
    fn try_calls(&self) -> Result<()> {
        let (target, behind) = (&self.target, &self.behind);
        let flags = SpliceFlags::NONBLOCK;
        whole("write", calls::write(&target.write, b"X"), 1)?;
        whole("tee", calls::tee(&target.read, &behind.write, 1, flags), 1)?;
        whole(
            "splice",
            calls::splice(&target.read, &behind.write, 1, flags),
            1,
        )?;
        self.clear();
        Ok(())
    }

    /// Drops what an error may have left behind. Where that fails, the next call will say so.
    fn clear(&self) {
        for pipe in [&self.target, &self.behind] {
            let flags = SpliceFlags::NONBLOCK;
            while matches!(self.discard.discard(&pipe.read, self.len(), flags), Ok(n) if n > 0) {}
        }
    }

    /// Bytes of one pass.
    fn len(&self) -> usize {
        self.calls * self.chunk
    }

    fn drain(&self, passes: &mut Passes) -> Result<()> {
        let flags = SpliceFlags::NONBLOCK;
        let start = Instant::now();
        for _ in 0..self.calls {
            let moved = calls::splice(&self.target.read, &self.behind.write, self.chunk, flags);
            whole("splice", moved, self.chunk)?;
        }
        passes.splice.push(ns_since(start));
        let mut left = self.len();
        while left > 0 {
            match self.discard.discard(&self.behind.read, left, flags) {
                Ok(0) => break,
                Ok(n) => left -= n.min(left),
                Err(e) => return Err(refused("splice", e)),
            }
        }
        Ok(())
    }
}

/// One case, ready to be measured again and again.
pub(super) struct Outside {
    rig: Rig,
    kind: PageKind,
    touched: bool,
    /// The read ends are enough: what is in a pipe stays there, and is only ever tee'd.
    sources: Vec<OwnedFd>,
    lent: Lent,
}

impl Outside {
    pub(super) fn new(rig: Rig, kind: PageKind, touched: bool) -> Result<Self> {
        let mut lent = map(kind, touched, rig.len())?;
        if touched && kind != PageKind::Small {
            lent.prove_huge()?;
        }
        let mut sources = Vec::new();
        for call in 0..rig.calls {
            let source = PipeEnds::with_capacity(rig.chunk)?;
            let filled = lent.lend(call * rig.chunk, rig.chunk, &source);
            whole("vmsplice", filled, rig.chunk)?;
            sources.push(source.read);
        }
        Ok(Self {
            rig,
            kind,
            touched,
            sources,
            lent,
        })
    }

    /// Measures for so long, passes of both kinds in turn.
    pub(super) fn trial(&mut self, time: Duration) -> Result<Costs<f64>> {
        self.rig.clear();
        let mut passes = Passes::default();
        // The first two are not counted.
        self.by_vmsplice(&mut Passes::default())?;
        self.by_tee(&mut Passes::default())?;
        let start = Instant::now();
        while start.elapsed() < time || passes.tee.len() < PASSES {
            // Neither always follows the other.
            if passes.tee.len().is_multiple_of(2) {
                self.by_vmsplice(&mut passes)?;
                self.by_tee(&mut passes)?;
            } else {
                self.by_tee(&mut passes)?;
                self.by_vmsplice(&mut passes)?;
            }
        }
        let pages = (self.rig.len() / rustix::param::page_size()) as f64;
        let per_page = |ns: &[f64]| median(ns).unwrap_or_default() / pages;
        let vmsplice = per_page(&passes.vmsplice);
        let (tee, splice) = (per_page(&passes.tee), per_page(&passes.splice));
        Ok(Costs {
            ns_per_page: Some(vmsplice - splice),
            beyond_tee_ns_per_page: Some(vmsplice - tee),
            vmsplice_ns_per_page: Some(vmsplice),
            tee_ns_per_page: Some(tee),
            splice_ns_per_page: Some(splice),
            ..Costs::default()
        })
    }

    fn by_vmsplice(&mut self, passes: &mut Passes) -> Result<()> {
        if !self.touched {
            // Pages of addresses that were never used, and page tables that are not there yet.
            self.lent = map(self.kind, false, self.rig.len())?;
        }
        let (rig, chunk) = (&self.rig, self.rig.chunk);
        let start = Instant::now();
        for call in 0..rig.calls {
            let lent = self.lent.lend(call * chunk, chunk, &rig.target);
            whole("vmsplice", lent, chunk)?;
        }
        passes.vmsplice.push(ns_since(start));
        rig.drain(passes)
    }

    fn by_tee(&mut self, passes: &mut Passes) -> Result<()> {
        let (rig, flags) = (&self.rig, SpliceFlags::NONBLOCK);
        let start = Instant::now();
        for source in &self.sources {
            let teed = calls::tee(source, &rig.target.write, rig.chunk, flags);
            whole("tee", teed, rig.chunk)?;
        }
        passes.tee.push(ns_since(start));
        rig.drain(passes)
    }
}

/// Nanoseconds of each pass.
#[derive(Default)]
struct Passes {
    vmsplice: Vec<f64>,
    tee: Vec<f64>,
    splice: Vec<f64>,
}

fn ns_since(start: Instant) -> f64 {
    start.elapsed().as_nanos() as f64
}

fn whole(call: &str, moved: std::io::Result<usize>, len: usize) -> Result<()> {
    match moved {
        Ok(n) if n == len => Ok(()),
        Ok(n) => Err(Error::new(
            format!("{call} fell short"),
            format!("an empty pipe took {n} of {len} bytes"),
            "",
        )),
        Err(e) => Err(refused(call, e)),
    }
}

fn refused(call: &str, e: std::io::Error) -> Error {
    Error::system(format!("{call} refused"), e, "a sandbox may forbid it")
}
