//! The ladder as data: one entry per rung.

use std::borrow::Cow;

use fullbore_sys::capacity;
use fullbore_sys::pages::PageKind;
use fullbore_sys::wait::Wait;

use serde::{Deserialize, Serialize};

use crate::worker::config::{Config, POOL, ReadWith, WriteWith};
use crate::worker::sizes::{BufSize, PipeSize};

/// Where the two sides run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Each on a CPU of its own.
    TwoCpus,
    /// Both on the writer's CPU.
    OneCpu,
}

/// A part of the ladder: its rungs answer one question, and are compared with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Series {
    /// The article, from write and read to busy looping.
    Article,
    /// What goes beyond it by the same means.
    Beyond,
    /// New data to a reader that copies.
    NewData,
    /// Both sides on one CPU.
    OneCpu,
}

impl std::fmt::Display for Series {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Article => "the article",
            Self::Beyond => "beyond the article",
            Self::NewData => "new data, read by copying",
            Self::OneCpu => "both sides on one CPU",
        })
    }
}

/// One configuration of the ladder.
#[derive(Clone, Debug)]
pub struct Rung {
    /// Name, as in `--rungs`.
    pub id: Cow<'static, str>,
    /// The part of the ladder that it belongs to.
    pub series: Series,
    /// The rung that it changes.
    pub baseline: Option<Cow<'static, str>>,
    /// What it changes, and why that helps, in one line.
    pub explanation: &'static str,
    /// What the pair does.
    pub config: Config,
    /// Where the sides run.
    pub place: Placement,
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
            series: Series::Article,
            baseline: None,
            explanation,
            place: Placement::TwoCpus,
            sound: config.write_with.is_sound(),
            by_default: true,
            pairs: 1,
            config,
        }
    }

    /// It changes this one.
    fn against(self, baseline: &'static str) -> Self {
        Self {
            baseline: Some(baseline.into()),
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
    pub fn with_pairs(&self, pairs: usize) -> Self {
        Self {
            id: format!("{} ×{pairs}", self.id).into(),
            baseline: Some(self.id.clone()),
            pairs,
            ..self.clone()
        }
    }

    /// Whether the reader's CPU touches the data. Where it does not, GiB/s is a rate of references.
    pub fn touches_data(&self) -> bool {
        self.config.read_with.touches_data()
    }

    /// Which of these rungs it is compared with: its baseline, or where that is not among them, the baseline of that, and so
    /// on.
    pub fn baseline_among(&self, rungs: &[Self]) -> Option<usize> {
        let all = ladder();
        let mut id = self.baseline.clone()?;
        loop {
            if let Some(found) = rungs.iter().position(|r| r.id == id) {
                return Some(found);
            }
            id = all.iter().find(|r| r.id == id)?.baseline.clone()?;
        }
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
        buf_size: BufSize::for_lent_capacity(capacity),
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

/// Every rung, series by series, lowest first.
pub fn ladder() -> Vec<Rung> {
    let of = |series, rungs: Vec<Rung>| rungs.into_iter().map(move |r| Rung { series, ..r });
    let one_cpu = one_cpu().into_iter().map(|r| Rung {
        place: Placement::OneCpu,
        ..r
    });
    of(Series::Article, article())
        .chain(of(Series::Beyond, beyond()))
        .chain(of(Series::NewData, copied_new_data()))
        .chain(of(Series::OneCpu, one_cpu.collect()))
        .collect()
}

fn article() -> Vec<Rung> {
    use PageKind::{Huge, Small};
    use ReadWith::{Read, Splice};
    use Wait::{Block, Spin};
    use WriteWith::{Vmsplice, Write};
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
        .against("write-read")
        .not_by_default(),
        Rung::new(
            "vmsplice-read",
            "vmsplice(2) lends the writer's pages to the pipe: one copy and the allocations are gone",
            pair(Vmsplice, Read, Small, Block),
        )
        .against("write-read"),
        Rung::new(
            "vmsplice-read-huge",
            "huge pages: looking up the pages to lend becomes cheaper",
            pair(Vmsplice, Read, Huge, Block),
        )
        .against("vmsplice-read"),
        Rung::new(
            "vmsplice-splice",
            "the reader splices to /dev/null: the second copy is gone, and nobody touches the data any more",
            pair(Vmsplice, Splice, Small, Block),
        )
        .against("vmsplice-read")
        .not_by_default(),
        Rung::new(
            "vmsplice-splice-huge",
            "huge pages, and the reader splices to /dev/null: nobody touches the data, and the page lookup that dominates is cheap",
            pair(Vmsplice, Splice, Huge, Block),
        )
        .against("vmsplice-read-huge"),
        Rung::new(
            "busy-loop",
            "neither side ever sleeps: no wake-ups, at the price of two whole CPUs; the article's top",
            pair(Vmsplice, Splice, Huge, Spin),
        )
        .against("vmsplice-splice-huge"),
    ]
}

fn beyond() -> Vec<Rung> {
    use ReadWith::{Relay, Splice};
    use Wait::{Adaptive, Spin};
    use WriteWith::Tee;
    vec![
        Rung::new(
            "large-pipe",
            "the pipe as large as this user may have it, the buffers twice that: the sides trade the mutex less often",
            large(Splice, Spin),
        )
        .against("busy-loop"),
        Rung::new(
            "relay",
            "the reader moves whole slots to a private pipe and drops them there: releasing pages leaves the shared mutex",
            large(Relay, Spin),
        )
        .against("large-pipe"),
        Rung::new(
            "adaptive",
            "spin only while it pays, then sleep: the same speed, and no CPU is burnt when there is nothing to do",
            large(Relay, Adaptive),
        )
        .against("relay"),
        Rung::new(
            "fat-constant",
            "constant data in slots of 32 KiB instead of 4 KiB, tee'd from a master pipe: an eighth of the slots to handle",
            Config {
                read_with: Relay,
                ..new_data(Tee, Spin)
            },
        )
        .against("relay"),
    ]
}

fn copied_new_data() -> Vec<Rung> {
    use PageKind::Huge;
    use ReadWith::Read;
    use Wait::Spin;
    use WriteWith::{Auto, Cow as CopyOnWrite, Fat, Fresh, Reuse, Tee, Vmsplice, Write};
    vec![
        Rung::new(
            "copy-tuned",
            "new data by write(2), tuned: a 1 MiB pipe and no sleeping; what remains is a page allocation per 4 KiB and two copies",
            new_data(Write, Spin),
        ),
        Rung::new(
            "vmsplice-read-huge-busy",
            "the article's vmsplice with a reader that copies, spinning, 2 MiB buffers and a 1 MiB pipe: what re-used pages can do",
            Config {
                buf_size: BufSize::for_lent_capacity(MIB),
                ..pair(Vmsplice, Read, Huge, Spin)
            },
        )
        .against("copy-tuned"),
        Rung::new(
            "vmsplice-read-huge-new",
            "vmsplice-read-huge-busy with new data, copied into a pool of 64 MiB that is lent and written again without asking: right only for readers that copy",
            new_data(Reuse, Spin),
        )
        .against("copy-tuned")
        .not_by_default(),
        Rung::new(
            "vmsplice-read-huge-ahead",
            "vmsplice-read-huge-new, filled 4 MiB ahead of what is lent: what cow-read-ahead is compared with",
            ahead(Reuse),
        )
        .against("vmsplice-read-huge-new")
        .not_by_default(),
        Rung::new(
            "fat-read",
            "new data copied into a socket and spliced from there: the kernel allocates and passes on 32 KiB at a time",
            new_data(Fat, Spin),
        )
        .against("copy-tuned")
        .not_by_default(),
        Rung::new(
            "fat-read-ahead",
            "new data copied into a socket, up to 4 MiB ahead, and spliced from there: the kernel allocates and passes on 32 KiB at a time",
            ahead(Fat),
        )
        .against("fat-read"),
        Rung::new(
            "fresh-read",
            "new data copied into huge pages that are lent, then abandoned: one allocation per 2 MiB, and sound for every reader",
            new_data(Fresh, Spin),
        )
        .against("copy-tuned")
        .not_by_default(),
        Rung::new(
            "fresh-read-ahead",
            "new data copied into huge pages that are lent, then abandoned, filled up to 4 MiB ahead: one allocation per 2 MiB, and sound for every reader",
            ahead(Fresh),
        )
        .against("fresh-read"),
        Rung::new(
            "cow-read",
            "new data copied into huge pages that are lent and then made copy-on-write: the same pages again and again, and sound for every reader",
            new_data(CopyOnWrite, Spin),
        )
        .against("copy-tuned"),
        Rung::new(
            "cow-read-ahead",
            "cow-read, filled up to 4 MiB ahead of what is lent: when the reader takes it, it has left the writer's own cache for the shared one",
            ahead(CopyOnWrite),
        )
        .against("cow-read"),
        Rung::new(
            "auto-read",
            "the library's own choice among its ways for new data, and of how far ahead it fills, found by trying; it spins as those above do",
            new_data(Auto, Spin),
        )
        .against("copy-tuned"),
        Rung::new(
            "copy-tuned-4m",
            "copy-tuned from a source of 4 MiB: it no longer fits the writer's own cache, so that copying in is dearer, too",
            large_source(new_data(Write, Spin)),
        )
        .against("copy-tuned")
        .not_by_default(),
        Rung::new(
            "fat-read-ahead-4m",
            "fat-read-ahead from a source of 4 MiB, which no longer fits the writer's own cache",
            large_source(ahead(Fat)),
        )
        .against("copy-tuned-4m")
        .not_by_default(),
        Rung::new(
            "fresh-read-ahead-4m",
            "fresh-read-ahead from a source of 4 MiB, which no longer fits the writer's own cache",
            large_source(ahead(Fresh)),
        )
        .against("copy-tuned-4m")
        .not_by_default(),
        Rung::new(
            "cow-read-ahead-4m",
            "cow-read-ahead from a source of 4 MiB, which no longer fits the writer's own cache",
            large_source(ahead(CopyOnWrite)),
        )
        .against("copy-tuned-4m")
        .not_by_default(),
        Rung::new(
            "fat-constant-read",
            "constant data by tee from a master pipe of fat slots: nothing is copied in, so the reader's copy is the limit",
            new_data(Tee, Spin),
        )
        .against("copy-tuned")
        .not_by_default(),
        Rung::new(
            "shared-memory",
            "no pipe and no kernel: 128 KiB blocks through a ring in shared memory, copied in and out; the reference for new data",
            Config {
                write_with: WriteWith::SharedMemory,
                read_with: ReadWith::SharedMemory,
                ..pair(Write, Read, Huge, Spin)
            },
        )
        .against("copy-tuned"),
    ]
}

fn one_cpu() -> Vec<Rung> {
    use ReadWith::Splice;
    use Wait::Block;
    use WriteWith::{Auto, Cow as CopyOnWrite, Fat, Fresh, Write};
    vec![
        Rung::new(
            "one-core",
            "both sides on one CPU, blocking, large pipe: no cache line travels and nobody spins, at half the CPU time",
            large(Splice, Block),
        ),
        Rung::new(
            "copy-one-core",
            "copy-tuned with both sides on one CPU, blocking: nothing travels between CPUs",
            new_data(Write, Block),
        ),
        Rung::new(
            "fat-read-one-core",
            "fat-read with both sides on one CPU, blocking",
            new_data(Fat, Block),
        )
        .against("copy-one-core")
        .not_by_default(),
        Rung::new(
            "fresh-read-one-core",
            "fresh-read with both sides on one CPU, blocking: half the CPU time, and steady when CPUs are far apart",
            new_data(Fresh, Block),
        )
        .against("copy-one-core")
        .not_by_default(),
        Rung::new(
            "cow-read-one-core",
            "cow-read with both sides on one CPU, blocking",
            new_data(CopyOnWrite, Block),
        )
        .against("copy-one-core"),
        Rung::new(
            "auto-read-one-core",
            "auto-read with both sides on one CPU, blocking",
            new_data(Auto, Block),
        )
        .against("copy-one-core"),
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
    fn baselines_stand_below_and_in_the_same_series_but_for_its_first() {
        let rungs = ladder();
        for (i, rung) in rungs.iter().enumerate() {
            let first = i == 0 || rungs[i - 1].series != rung.series;
            match rung.baseline_among(&rungs) {
                None => assert!(rung.series == Series::OneCpu || first, "{}", rung.id),
                Some(baseline) => {
                    assert!(baseline < i, "{}", rung.id);
                    assert!(
                        first || rungs[baseline].series == rung.series,
                        "{}",
                        rung.id
                    );
                }
            }
        }
    }

    #[test]
    fn baseline_that_is_not_climbed_gives_way_to_its_own() {
        let of = |ids: &[&str]| {
            let mut rungs = ladder();
            rungs.retain(|r| ids.contains(&&*r.id));
            rungs.last().unwrap().baseline_among(&rungs)
        };
        assert_eq!(of(&["write-read", "busy-loop"]), Some(0));
        assert_eq!(of(&["copy-tuned", "cow-read", "cow-read-ahead"]), Some(1));
        assert_eq!(of(&["write-read", "cow-read"]), None, "another series");
        let both = ["write-read", "busy-loop"].map(|id| {
            let rung = ladder().into_iter().find(|r| r.id == id).unwrap();
            [rung.clone(), rung.with_pairs(2)]
        });
        let both = both.concat();
        let found: Vec<_> = both.iter().map(|r| r.baseline_among(&both)).collect();
        assert_eq!(found, [None, Some(0), Some(0), Some(2)]);
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
