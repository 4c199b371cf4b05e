//! What the Linux kernel offers to move bytes through pipes, wrapped: system calls, pages, waiting, probes, and the ways into
//! and out of a pipe.
//!
//! **This crate makes no promise of stability**: any release may change anything in it. It is the parts of which
//! [`fullbore`](https://docs.rs/fullbore) is made, and what its laboratory measures; use that crate instead.
//!
//! | module | what it has |
//! | --- | --- |
//! | [`calls`] | system calls, each repeated when interrupted, and refused at random in tests |
//! | [`capacity`] | how much a pipe holds |
//! | [`pages`] | memory, page by page: mapped, proven huge, lent, abandoned, made copy-on-write |
//! | [`mod@write`] | ways into a pipe: `fresh`, `cow`, `fat`, `recycle` |
//! | [`read`] | ways out of it: to /dev/null, through a second pipe |
//! | [`writer`] | the ways for new data, behind one writer without a buffer that finds the fastest one by trying |
//! | [`wait`] | sleeping, polling and spinning |
//! | [`probe`] | what this kernel and this sandbox allow, tried out once a process |
//! | [`private`] | a pipe of our own |
//! | [`route`], [`reason`] | how bytes move, and why not in a better way |
//! | [`error`], [`size`] | one error, sizes as text |
#![warn(missing_docs)]

#[cfg(not(target_os = "linux"))]
compile_error!(
    "Fullbore works on Linux only: splice, vmsplice, tee and the pipe's ring exist on no other system."
);

pub mod calls;
pub mod capacity;
pub mod error;
pub mod pages;
pub mod private;
pub mod probe;
pub mod read;
pub mod reason;
pub mod route;
pub mod size;
pub mod wait;
pub mod write;
pub mod writer;

pub use error::{Error, Result};
pub use reason::Reason;
pub use route::Route;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeIsCompiled;

#[cfg(test)]
#[allow(dead_code, reason = "the tests of the library use the rest")]
mod testing {
    //! What the tests of this crate share with those of the library: links to its files, of which a package has copies.
    use crate::calls;
    use crate::writer::{LARGE, Unbuffered};

    pub mod feed;
    pub mod sequence;
    pub mod watch;
}
