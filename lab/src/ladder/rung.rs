//! The ladder as data: one entry per rung.

use std::borrow::Cow;

use fullbore_sys::capacity;
use fullbore_sys::pages::PageKind;
use fullbore_sys::wait::Wait;

use crate::worker::config::{Config, POOL, PipeSize, ReadWith, WriteWith};

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
    /// Whether it is climbed where no rung is named. The others are there to compare with.
    pub by_default: bool,
    /// Pairs that run at once.
    pub pairs: usize,
}

impl Rung {
    /// One pair on two CPUs, climbed by default.
    fn new(id: &'static str, explanation: &'static str, config: Config) -> Self {
        Self {
            id: id.into(),
            explanation,
            place: Place::TwoCpus,
            sound: config.write_with.is_sound(),
            by_default: true,
            pairs: 1,
            config,
        }
    }

    fn on_one_cpu(self) -> Self {
        Self {
            place: Place::OneCpu,
            ..self
        }
    }

    /// Climbed only where it is named, or all are.
    fn not_by_default(self) -> Self {
        Self {
            by_default: false,
            ..self
        }
    }

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

/// New data from a source of 256 KiB that stays in cache, through a 1 MiB pipe, to a reader that copies. What is lent comes from
/// one pool, so that ways differ in nothing but what they do with it.
fn new_data(write_with: WriteWith, wait: Wait) -> Config {
    Config {
        pipe_size: PipeSize::Exactly(MIB),
        pool: match write_with {
            WriteWith::Cow | WriteWith::Reuse => POOL,
            _ => 0,
        },
        ..pair(write_with, ReadWith::Read, PageKind::Huge, wait)
    }
}

/// Bytes that are filled before they are lent: about twice a private cache (0.5 to 2 MiB), so that their lines have left it.
const AHEAD: u64 = 4 * MIB;

/// The same, spinning, filled ahead.
fn ahead(write_with: WriteWith) -> Config {
    Config {
        ahead: AHEAD,
        ..new_data(write_with, Wait::Spin)
    }
}

/// The same from a source that no private cache holds.
fn large_source(config: Config) -> Config {
    Config {
        source: 4 * MIB,
        ..config
    }
}

/// Every rung, lowest first.
#[must_use]
pub fn ladder() -> Vec<Rung> {
    use PageKind::{Huge, Small};
    use ReadWith::{Read, Relay, Splice};
    use Wait::{Adaptive, Block, Spin};
    use WriteWith::{Auto, Cow as CopyOnWrite, Fat, Fresh, Reuse, Tee, Vmsplice, Write};
    vec![
        Rung::new(
            "write-read",
            "write(2) copies into fresh kernel pages, read(2) copies out: two copies, an allocation per page, and a wake-up per pipeful",
            pair(Write, Read, Small, Block),
        ),
        Rung::new(
            "write-read-huge",
            "the user buffers in huge pages: nothing to gain, since the copies and the kernel's own pages stay as they are",
            pair(Write, Read, Huge, Block),
        )
        .not_by_default(),
        Rung::new(
            "vmsplice-read",
            "vmsplice(2) lends the writer's pages to the pipe: one copy and the allocations are gone",
            pair(Vmsplice, Read, Small, Block),
        ),
        Rung::new(
            "vmsplice-read-huge",
            "huge pages: looking up the pages to lend becomes cheaper",
            pair(Vmsplice, Read, Huge, Block),
        ),
        Rung::new(
            "vmsplice-splice",
            "the reader splices to /dev/null: the second copy is gone, and nobody touches the data any more",
            pair(Vmsplice, Splice, Small, Block),
        )
        .not_by_default(),
        Rung::new(
            "vmsplice-splice-huge",
            "huge pages, and the reader splices to /dev/null: nobody touches the data, and the page lookup that dominates is cheap",
            pair(Vmsplice, Splice, Huge, Block),
        ),
        Rung::new(
            "busy-loop",
            "neither side ever sleeps: no wake-ups, at the price of two whole CPUs; the article's top",
            pair(Vmsplice, Splice, Huge, Spin),
        ),
        Rung::new(
            "large-pipe",
            "the pipe as large as this user may have it, the buffers twice that: the sides trade the mutex less often",
            large(Splice, Spin),
        ),
        Rung::new(
            "relay",
            "the reader moves whole slots to a private pipe and drops them there: releasing pages leaves the shared mutex",
            large(Relay, Spin),
        ),
        Rung::new(
            "adaptive",
            "spin only while it pays, then sleep: the same speed, and no CPU is burnt when there is nothing to do",
            large(Relay, Adaptive),
        ),
        Rung::new(
            "one-core",
            "both sides on one CPU, blocking, large pipe: no cache line travels and nobody spins, at half the CPU time",
            large(Splice, Block),
        )
        .on_one_cpu(),
        Rung::new(
            "fat-constant",
            "constant data in slots of 32 KiB instead of 4 KiB, tee'd from a master pipe: an eighth of the slots to handle",
            Config {
                read_with: Relay,
                ..new_data(Tee, Spin)
            },
        ),
        Rung::new(
            "vmsplice-read-huge-busy",
            "the article's vmsplice with a reader that copies, spinning, 2 MiB buffers and a 1 MiB pipe: what re-used pages can do",
            Config {
                buf_size: 2 * MIB,
                ..pair(Vmsplice, Read, Huge, Spin)
            },
        ),
        Rung::new(
            "vmsplice-read-huge-new",
            "vmsplice-read-huge-busy with new data, copied into a pool of 64 MiB that is lent and written again without asking: right only for readers that copy",
            new_data(Reuse, Spin),
        )
        .not_by_default(),
        Rung::new(
            "vmsplice-read-huge-ahead",
            "vmsplice-read-huge-new, filled 4 MiB ahead of what is lent: what cow-read-ahead is compared with",
            ahead(Reuse),
        )
        .not_by_default(),
        Rung::new(
            "copy-tuned",
            "new data by write(2), tuned: a 1 MiB pipe and no sleeping; what remains is a page allocation per 4 KiB and two copies",
            new_data(Write, Spin),
        ),
        Rung::new(
            "fat-read",
            "new data copied into a socket and spliced from there: the kernel allocates and passes on 32 KiB at a time",
            new_data(Fat, Spin),
        )
        .not_by_default(),
        Rung::new(
            "fat-read-ahead",
            "new data copied into a socket, up to 4 MiB ahead, and spliced from there: the kernel allocates and passes on 32 KiB at a time",
            ahead(Fat),
        ),
        Rung::new(
            "fresh-read",
            "new data copied into huge pages that are lent, then abandoned: one allocation per 2 MiB, and sound for every reader",
            new_data(Fresh, Spin),
        )
        .not_by_default(),
        Rung::new(
            "fresh-read-ahead",
            "new data copied into huge pages that are lent, then abandoned, filled up to 4 MiB ahead: one allocation per 2 MiB, and sound for every reader",
            ahead(Fresh),
        ),
        Rung::new(
            "cow-read",
            "new data copied into huge pages that are lent and then made copy-on-write: the same pages again and again, and sound for every reader",
            new_data(CopyOnWrite, Spin),
        ),
        Rung::new(
            "cow-read-ahead",
            "cow-read, filled up to 4 MiB ahead of what is lent: when the reader takes it, it has left the writer's own cache for the shared one",
            ahead(CopyOnWrite),
        ),
        Rung::new(
            "auto-read",
            "the library's own choice among its ways for new data, and of how far ahead it fills, found by trying; it spins as those above do",
            new_data(Auto, Spin),
        ),
        Rung::new(
            "copy-tuned-4m",
            "copy-tuned from a source of 4 MiB: it no longer fits the writer's own cache, so that copying in is dearer, too",
            large_source(new_data(Write, Spin)),
        )
        .not_by_default(),
        Rung::new(
            "fat-read-ahead-4m",
            "fat-read-ahead from a source of 4 MiB, which no longer fits the writer's own cache",
            large_source(ahead(Fat)),
        )
        .not_by_default(),
        Rung::new(
            "fresh-read-ahead-4m",
            "fresh-read-ahead from a source of 4 MiB, which no longer fits the writer's own cache",
            large_source(ahead(Fresh)),
        )
        .not_by_default(),
        Rung::new(
            "cow-read-ahead-4m",
            "cow-read-ahead from a source of 4 MiB, which no longer fits the writer's own cache",
            large_source(ahead(CopyOnWrite)),
        )
        .not_by_default(),
        Rung::new(
            "fat-constant-read",
            "constant data by tee from a master pipe of fat slots: nothing is copied in, so the reader's copy is the limit",
            new_data(Tee, Spin),
        )
        .not_by_default(),
        Rung::new(
            "shared-memory",
            "no pipe and no kernel: 128 KiB blocks through a ring in shared memory, copied in and out; the reference for new data",
            Config {
                write_with: WriteWith::SharedMemory,
                read_with: ReadWith::SharedMemory,
                ..pair(Write, Read, Huge, Spin)
            },
        ),
        Rung::new(
            "copy-one-core",
            "copy-tuned with both sides on one CPU, blocking: nothing travels between CPUs",
            new_data(Write, Block),
        )
        .on_one_cpu(),
        Rung::new(
            "fat-read-one-core",
            "fat-read with both sides on one CPU, blocking",
            new_data(Fat, Block),
        )
        .on_one_cpu()
        .not_by_default(),
        Rung::new(
            "fresh-read-one-core",
            "fresh-read with both sides on one CPU, blocking: half the CPU time, and steady when CPUs are far apart",
            new_data(Fresh, Block),
        )
        .on_one_cpu()
        .not_by_default(),
        Rung::new(
            "cow-read-one-core",
            "cow-read with both sides on one CPU, blocking",
            new_data(CopyOnWrite, Block),
        )
        .on_one_cpu(),
        Rung::new(
            "auto-read-one-core",
            "auto-read with both sides on one CPU, blocking",
            new_data(Auto, Block),
        )
        .on_one_cpu(),
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

    #[test]
    fn by_default_some_twenty_are_climbed_and_each_step_makes_sense() {
        let rungs = ladder();
        let default: Vec<_> = rungs.iter().filter(|r| r.by_default).collect();
        assert!((15..25).contains(&default.len()), "{}", default.len());
        assert_eq!(default[0].id, "write-read", "what all are compared with");
        for rung in rungs {
            let Config { ahead, source, .. } = rung.config;
            assert_eq!(rung.id.contains("-ahead"), ahead > 0, "{}", rung.id);
            assert_eq!(rung.id.ends_with("-4m"), source > 0, "{}", rung.id);
        }
    }

    #[test]
    fn ways_that_are_compared_differ_in_nothing_else() {
        let rungs = ladder();
        let of = |id: &str| {
            let rung = rungs.iter().find(|r| r.id == id).unwrap();
            (rung.place, rung.config.clone())
        };
        let same_but = |one: &str, other: &str, change: &dyn Fn(&mut Config)| {
            let (mut a, b) = (of(one), of(other));
            change(&mut a.1);
            assert_eq!(a, b, "{one}, {other}");
        };
        same_but("vmsplice-read-huge-ahead", "cow-read-ahead", &|c| {
            c.write_with = WriteWith::Cow;
        });
        for way in ["fat-read", "fresh-read", "cow-read", "vmsplice-read-huge"] {
            let ahead = format!("{way}-ahead");
            let plain = match way {
                "vmsplice-read-huge" => "vmsplice-read-huge-new",
                way => way,
            };
            same_but(plain, &ahead, &|c| c.ahead = AHEAD);
            if plain == way {
                same_but(&ahead, &format!("{ahead}-4m"), &|c| c.source = 4 * MIB);
            }
        }
    }
}
