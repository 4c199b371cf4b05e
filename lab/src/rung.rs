//! The ladder as data: one entry per rung.

use std::borrow::Cow;

use fullbore::capacity;
use fullbore::pages::PageKind;
use fullbore::wait::Wait;

use crate::config::{Config, PipeSize, ReadWith, WriteWith};

/// Where the two sides run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Each on a CPU of its own.
    TwoCpus,
    /// Both on the writer's CPU.
    OneCpu,
}

/// One configuration of the ladder.
#[derive(Clone, Debug)]
pub struct Rung {
    /// Name, as in `--rungs`.
    pub id: Cow<'static, str>,
    /// What changes against the rung before, and why that helps, in one line.
    pub explanation: &'static str,
    /// What the pair does.
    pub config: Config,
    /// Where the sides run.
    pub place: Place,
    /// Whether no reader, whatever it does with the data, ever sees a byte change.
    pub sound: bool,
    /// Pairs that run at once.
    pub pairs: usize,
}

impl Rung {
    /// The same rung with several pairs at once, each on CPUs of its own.
    #[must_use]
    pub fn with_pairs(&self, pairs: usize) -> Self {
        Self {
            id: format!("{} ×{pairs}", self.id).into(),
            pairs,
            ..self.clone()
        }
    }

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

const MIB: u64 = 1 << 20;

/// vmsplice of huge pages into the largest pipe that is taken unasked, whose capacity half a buffer covers.
fn large(read_with: ReadWith, wait: Wait) -> Config {
    let capacity = capacity::limit().map_or(MIB, |l| (l as u64).clamp(64 << 10, MIB));
    Config {
        buf_size: 2 * capacity,
        pipe_size: PipeSize::Largest,
        ..pair(WriteWith::Vmsplice, read_with, PageKind::Huge, wait)
    }
}

/// New data from a source of 256 KiB that stays in cache, through a 1 MiB pipe, to a reader that copies.
fn new_data(write_with: WriteWith, wait: Wait) -> Config {
    Config {
        pipe_size: PipeSize::Exactly(MIB),
        ..pair(write_with, ReadWith::Read, PageKind::Huge, wait)
    }
}

/// Every rung, lowest first.
#[must_use]
pub fn ladder() -> Vec<Rung> {
    use PageKind::{Huge, Small};
    use ReadWith::{Read, Relay, Splice};
    use Wait::{Adaptive, Block, Spin};
    use WriteWith::{Fat, Fresh, Tee, Vmsplice, Write};
    vec![
        Rung {
            id: "write-read".into(),
            explanation: "write(2) copies into fresh kernel pages, read(2) copies out: two copies, an allocation per page, and a wake-up per pipeful",
            config: pair(Write, Read, Small, Block),
            place: Place::TwoCpus,
            sound: true,
            pairs: 1,
        },
        Rung {
            id: "write-read-huge".into(),
            explanation: "the user buffers in huge pages: nothing to gain, since the copies and the kernel's own pages stay as they are",
            config: pair(Write, Read, Huge, Block),
            place: Place::TwoCpus,
            sound: true,
            pairs: 1,
        },
        Rung {
            id: "vmsplice-read".into(),
            explanation: "vmsplice(2) lends the writer's pages to the pipe: one copy and the allocations are gone",
            config: pair(Vmsplice, Read, Small, Block),
            place: Place::TwoCpus,
            sound: false,
            pairs: 1,
        },
        Rung {
            id: "vmsplice-read-huge".into(),
            explanation: "huge pages: looking up the pages to lend becomes cheaper",
            config: pair(Vmsplice, Read, Huge, Block),
            place: Place::TwoCpus,
            sound: false,
            pairs: 1,
        },
        Rung {
            id: "vmsplice-splice".into(),
            explanation: "the reader splices to /dev/null: the second copy is gone, and nobody touches the data any more",
            config: pair(Vmsplice, Splice, Small, Block),
            place: Place::TwoCpus,
            sound: false,
            pairs: 1,
        },
        Rung {
            id: "vmsplice-splice-huge".into(),
            explanation: "huge pages: the page lookup that now dominates becomes cheaper",
            config: pair(Vmsplice, Splice, Huge, Block),
            place: Place::TwoCpus,
            sound: false,
            pairs: 1,
        },
        Rung {
            id: "busy-loop".into(),
            explanation: "neither side ever sleeps: no wake-ups, at the price of two whole CPUs; the article's top",
            config: pair(Vmsplice, Splice, Huge, Spin),
            place: Place::TwoCpus,
            sound: false,
            pairs: 1,
        },
        Rung {
            id: "large-pipe".into(),
            explanation: "the pipe as large as this user may have it, the buffers twice that: the sides trade the mutex less often",
            config: large(Splice, Spin),
            place: Place::TwoCpus,
            sound: false,
            pairs: 1,
        },
        Rung {
            id: "relay".into(),
            explanation: "the reader moves whole slots to a private pipe and drops them there: releasing pages leaves the shared mutex",
            config: large(Relay, Spin),
            place: Place::TwoCpus,
            sound: false,
            pairs: 1,
        },
        Rung {
            id: "adaptive".into(),
            explanation: "spin only while it pays, then sleep: the same speed, and no CPU is burnt when there is nothing to do",
            config: large(Relay, Adaptive),
            place: Place::TwoCpus,
            sound: false,
            pairs: 1,
        },
        Rung {
            id: "one-core".into(),
            explanation: "both sides on one CPU, blocking, large pipe: no cache line travels and nobody spins, at half the CPU time",
            config: large(Splice, Block),
            place: Place::OneCpu,
            sound: false,
            pairs: 1,
        },
        Rung {
            id: "fat-constant".into(),
            explanation: "constant data in slots of 32 KiB instead of 4 KiB, tee'd from a master pipe: an eighth of the slots to handle",
            config: Config {
                read_with: Relay,
                ..new_data(Tee, Spin)
            },
            place: Place::TwoCpus,
            sound: true,
            pairs: 1,
        },
        Rung {
            id: "vmsplice-read-huge-busy".into(),
            explanation: "the article's vmsplice with a reader that copies, spinning, 2 MiB buffers and a 1 MiB pipe: what re-used pages can do",
            config: Config {
                buf_size: 2 * MIB,
                ..pair(Vmsplice, Read, Huge, Spin)
            },
            place: Place::TwoCpus,
            sound: false,
            pairs: 1,
        },
        Rung {
            id: "copy-tuned".into(),
            explanation: "new data by write(2), tuned: a 1 MiB pipe and no sleeping; what remains is a page allocation per 4 KiB and two copies",
            config: new_data(Write, Spin),
            place: Place::TwoCpus,
            sound: true,
            pairs: 1,
        },
        Rung {
            id: "fat-read".into(),
            explanation: "new data copied into a socket and spliced from there: the kernel allocates and passes on 32 KiB at a time",
            config: new_data(Fat, Spin),
            place: Place::TwoCpus,
            sound: true,
            pairs: 1,
        },
        Rung {
            id: "fresh-read".into(),
            explanation: "new data copied into huge pages that are lent, then abandoned: one allocation per 2 MiB, and sound for every reader",
            config: new_data(Fresh, Spin),
            place: Place::TwoCpus,
            sound: true,
            pairs: 1,
        },
        Rung {
            id: "fat-constant-read".into(),
            explanation: "constant data by tee from a master pipe of fat slots: nothing is copied in, so the reader's copy is the limit",
            config: new_data(Tee, Spin),
            place: Place::TwoCpus,
            sound: true,
            pairs: 1,
        },
        Rung {
            id: "shared-memory".into(),
            explanation: "no pipe and no kernel: 128 KiB blocks through a ring in shared memory, copied in and out; the reference for new data",
            config: Config {
                write_with: WriteWith::SharedMemory,
                read_with: ReadWith::SharedMemory,
                ..pair(Write, Read, Huge, Spin)
            },
            place: Place::TwoCpus,
            sound: true,
            pairs: 1,
        },
        Rung {
            id: "copy-one-core".into(),
            explanation: "copy-tuned with both sides on one CPU, blocking: nothing travels between CPUs",
            config: new_data(Write, Block),
            place: Place::OneCpu,
            sound: true,
            pairs: 1,
        },
        Rung {
            id: "fresh-read-one-core".into(),
            explanation: "fresh-read with both sides on one CPU, blocking: half the CPU time, and steady when CPUs are far apart",
            config: new_data(Fresh, Block),
            place: Place::OneCpu,
            sound: true,
            pairs: 1,
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
