//! Linux pipes at full bore: write new data into a pipe several times faster than `write(2)`, and *soundly*.
//!
//! ```
//! use std::io::Write;
//!
//! // In place of BufWriter::new(std::io::stdout().lock()):
//! let mut out = fullbore::stdout();
//! for i in 0..3 {
//!     writeln!(out, "line {i}")?;
//! }
//! out.flush()?;
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # Where to begin
//!
//! | to | use |
//! | --- | --- |
//! | write new data | [`stdout`], [`PipeWriter`] (`std::io::Write`, buffered) |
//! | generate data in place, without any copy | [`PipeWriter::block`], [`Block`] |
//! | send a large buffer of one's own, without any copy | [`PipeWriter::lend`] |
//! | write the same bytes for ever | [`Constant`] |
//! | read lines, or skip data | [`PipeReader`] (`std::io::BufRead`) |
//! | move everything from one descriptor to another, or to many | [`copy`], [`fanout`] |
//! | the same, and the input may change as soon as that is done | [`copy_by_value`] |
//! | the same step by step, or see what is moved (count lines, say) | [`moving`] |
//! | the same without blocking | `tokio` (feature) |
//! | know how bytes moved, and why not better | [`Route`], [`Reason`] |
//!
//! # What is sound here, and why
//!
//! `write(2)` copies into pages that the kernel allocates 4 KiB at a time. `vmsplice(2)` puts references to *your* pages
//! into the pipe instead, which is far faster. But when may you write those pages again? Not when the pipe is empty: a
//! reader may have spliced or tee'd the slots onwards (GNU `cat`, Rust's `io::copy` and many others do), and then whoever
//! reads them last sees your new bytes in place of those you sent. Nothing tells you. That is why `vmsplice` is `unsafe` in
//! every binding, and why programs that reused their buffers have corrupted data.
//!
//! This library never lets a byte change after it was sent:
//!
//! | method | the bytes lie in | why nobody sees them change |
//! | --- | --- | --- |
//! | `fresh` | a huge page of this process, lent to the pipe | before its addresses are used again the *page* is abandoned (`MADV_DONTNEED`); whoever holds it keeps it, and the kernel supplies another one |
//! | `cow`, where [`PipeWriter::copy_on_write`] allows it | a huge page of this process, lent to the pipe | before it is written again it is made copy-on-write (a `clone(2)` whose child leaves at once); while anybody holds the page the kernel copies what is written to, and they keep theirs |
//! | [`PipeWriter::lend`], with the same permission | huge pages of the *caller's*, lent to the pipe | before anything goes into the pipe they are made copy-on-write, which is looked up for each page |
//! | `fat` | kernel pages of 32 KiB, filled through a socket | nobody has them mapped |
//! | [`Constant`] | kernel pages, filled once, tee'd for ever | nobody has them mapped |
//! | `write(2)` | kernel pages | the same |
//! | `fullbore_sys::write::recycle` | two buffers, written again and again | nothing: its constructors are `unsafe`, and say what you must know of every reader |
//!
//! Why `cow` is sound: a reference that a pipe or a socket holds counts like one of a process, however far the slot has
//! travelled, and at a write to a copy-on-write page the kernel looks at that count (`wp_can_reuse_anon_folio`,
//! `do_huge_pmd_wp_page`; since Linux 5.18). Unless it is 1 the writer gets a copy. Older kernels look at mappings only and
//! change what a pipe holds; so it is tried once in each process, with a page that a second pipe holds, and refused where that
//! page changes. A page is made copy-on-write after the last of its bytes was lent, not before: a page that is swapped out
//! and in again while nobody but the writer has it is not copied on write any more (`do_swap_page`).
//!
//! [`PipeWriter`] chooses among the sound methods by trying them: huge pages may be unavailable, a sandbox may refuse a
//! system call, the output may not be a pipe. Then the next best method is taken, no byte is lost or sent twice, and
//! [`PipeWriter::fallbacks`] says what was refused and why.
//!
//! Whatever moves bytes says how, as a [`Route`] (`route()`), and which better routes it has left, each with a [`Reason`]
//! (`fallbacks()`). Both can be printed and matched. An [`Error`] says what failed, why, and what to do, in one sentence or part by
//! part.
//!
//! # What remains, and what does not
//!
//! | | after `Ok`, may the bytes still change? | held meanwhile | fork | error, exit, panic, kill |
//! | --- | --- | --- | --- | --- |
//! | [`PipeWriter`] | no, whatever the reader does with them | memory as told there; with `fat` 2 descriptors | both sides may go on, each with memory and sockets of its own; what is buffered at the fork is sent by the parent | as told there: what is buffered is sent by drop, also while a panic unwinds, and lost at exit and kill; a block that was not committed is gone |
//! | [`Constant`] | no | 5 descriptors, 2 MiB of kernel memory or the length of the pattern | both sides may go on with the pattern, each with pipes of its own | as above |
//! | [`PipeReader`] | what was read is a copy | 1 descriptor, 3 more and a private pipe once [`discard`](PipeReader::discard) was called; the buffer, where there is one | both sides have what the buffer held, and share what comes | what is in the buffer is lost |
//! | [`copy`], [`Pump`](moving::Pump) | from a file into a pipe or socket, **yes**: by reference to the page cache, until it was read at the other end, a change of the file shows. From a pipe: as whoever wrote into that promises. Into a file: no. [`copy_by_value`]: no | up to 2 pipes, 1 MiB of slots in each | a `Pump` is for one of the two sides: both have the same private pipe | what was taken and not delivered is lost: up to a private pipe, or a buffer, of it. After `Ok` of `copy` that is nothing |
//! | [`fanout`](fn@fanout), [`Fanout`](moving::Fanout) | as `copy`, for each output | a pipe for each output | as `Pump` | as `Pump`: up to a private pipe of each output; after `Ok` of `fanout` nothing |
//! | [`Inspect`](moving::Inspect) | what is shown is a copy, and stays. What is delivered is not that copy: as `copy`. So a file that is changed meanwhile may arrive otherwise than it was shown | 2 pipes, a buffer of 256 KiB | as `Pump` | as `Pump` |
//!
//! Descriptors are closed on exec. Pipes that were handed to us are made larger, up to 1 MiB, which can be seen by all who
//! share them; [`PipeWriter::keep_capacity`] and [`PipeReader::keep_capacity`] leave that.
//!
//! Every system call may be interrupted, short, refused, or not ready: that is dealt with here. `O_NONBLOCK` is never set
//! on a descriptor that was handed to us, since others share it.
//!
//! Facts about the kernel stand where they are used, and were checked on Linux 5.10 to 6.18 (`docs/kernels.md`).
#![warn(missing_docs)]

mod constant;
mod fanout;
mod inspect;
mod pump;
mod reader;
#[cfg(feature = "tokio")]
pub mod tokio;
mod writer;

pub use constant::Constant;
pub use fanout::fanout;
pub use fullbore_sys::{Error, Reason, Route};
pub use pump::{copy, copy_by_value};
pub use reader::PipeReader;
pub use writer::{Block, PipeWriter, Unsent, stdout};

pub mod moving {
    //! Descriptor to descriptor step by step, and what [`copy`](crate::copy) and [`fanout`](crate::fanout()) say that they have
    //! done.
    pub use crate::fanout::{Failed, FannedOut, Fanout, Step};
    pub use crate::inspect::Inspect;
    pub use crate::pump::{Copied, Pump, Side};
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeIsCompiled;

// Links to the documents of the repository, of which a package has copies.
#[cfg(doctest)]
#[doc = include_str!("../docs/library.md")]
struct LibraryPageIsCompiled;

#[cfg(doctest)]
#[doc = include_str!("../docs/compare.md")]
struct ComparisonIsCompiled;

#[cfg(test)]
#[allow(dead_code, reason = "the tests in tests/ use the rest")]
#[path = "../tests/soundness"]
mod testing {
    //! What the tests of this crate share with those in `tests/`.
    use fullbore_sys::calls;
    use fullbore_sys::writer::{LARGE, Unbuffered};

    use crate::PipeWriter;

    pub mod drive;
    pub mod feed;
    pub mod sequence;
    pub mod watch;
}
