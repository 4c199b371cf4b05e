//! The ladder as data: one entry per rung.

use fullbore::pages::PageKind;
use fullbore::wait::Wait;

use crate::config::{Config, ReadWith, WriteWith};

/// Where the two sides run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Each on a CPU of its own.
    TwoCpus,
}

/// One configuration of the ladder.
#[derive(Clone, Debug)]
pub struct Rung {
    /// Name, as in `--rungs`.
    pub id: &'static str,
    /// What changes against the rung before, and why that helps, in one line.
    pub explanation: &'static str,
    /// What the pair does.
    pub config: Config,
    /// Where the sides run.
    pub place: Place,
    /// Whether no reader, whatever it does with the data, ever sees a byte change.
    pub sound: bool,
}

impl Rung {
    /// Whether the reader's CPU touches the data. Where it does not, GiB/s is a rate of references.
    #[must_use]
    pub fn touches_data(&self) -> bool {
        self.config.read_with.touches_data()
    }
}

fn pair(write_with: WriteWith, read_with: ReadWith, pages: PageKind, wait: Wait) -> Config {
    Config {
        write_with,
        read_with,
        pages,
        wait,
        ..Config::default()
    }
}

/// Every rung, lowest first.
#[must_use]
pub fn ladder() -> Vec<Rung> {
    use PageKind::{Huge, Small};
    use ReadWith::{Read, Splice};
    use Wait::{Block, Spin};
    use WriteWith::{Vmsplice, Write};
    vec![
        Rung {
            id: "write-read",
            explanation: "write(2) copies into fresh kernel pages, read(2) copies out: two copies, an allocation per page, and a wake-up per pipeful",
            config: pair(Write, Read, Small, Block),
            place: Place::TwoCpus,
            sound: true,
        },
        Rung {
            id: "write-read-huge",
            explanation: "the user buffers in huge pages: nothing to gain, since the copies and the kernel's own pages stay as they are",
            config: pair(Write, Read, Huge, Block),
            place: Place::TwoCpus,
            sound: true,
        },
        Rung {
            id: "vmsplice-read",
            explanation: "vmsplice(2) lends the writer's pages to the pipe: one copy and the allocations are gone",
            config: pair(Vmsplice, Read, Small, Block),
            place: Place::TwoCpus,
            sound: false,
        },
        Rung {
            id: "vmsplice-read-huge",
            explanation: "huge pages: looking up the pages to lend becomes cheaper",
            config: pair(Vmsplice, Read, Huge, Block),
            place: Place::TwoCpus,
            sound: false,
        },
        Rung {
            id: "vmsplice-splice",
            explanation: "the reader splices to /dev/null: the second copy is gone, and nobody touches the data any more",
            config: pair(Vmsplice, Splice, Small, Block),
            place: Place::TwoCpus,
            sound: false,
        },
        Rung {
            id: "vmsplice-splice-huge",
            explanation: "huge pages: the page lookup that now dominates becomes cheaper",
            config: pair(Vmsplice, Splice, Huge, Block),
            place: Place::TwoCpus,
            sound: false,
        },
        Rung {
            id: "busy-loop",
            explanation: "neither side ever sleeps: no wake-ups, at the price of two whole CPUs; the article's top",
            config: pair(Vmsplice, Splice, Huge, Spin),
            place: Place::TwoCpus,
            sound: false,
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_unique_and_configurations_hold_together() {
        let rungs = ladder();
        for (i, rung) in rungs.iter().enumerate() {
            assert!(rungs[..i].iter().all(|r| r.id != rung.id), "{}", rung.id);
            for page in [4096, 65536] {
                // 64 KiB pages make a 256 KiB buffer a pipe of two slots: small, but possible.
                rung.config.check(page).unwrap();
            }
            assert!(!rung.explanation.is_empty());
        }
    }
}
